// Columns, ratios and the JSON of gqsgd-perf.
#include "bench/perf/report.h"

#include <gqsgd.h>

#include <cinttypes>
#include <cstdio>

#include "bench/machine.h"

namespace gq::bench {
namespace {

/** GB/s of uncompressed bytes. */
double algbw(const Row& row, const Timing& timing) {
  return timing.time_us > 0 ? static_cast<double>(row.size_bytes) / timing.time_us * 1e-3 : 0;
}

/** What the links of a ring would carry: independent of the number of ranks. */
double busbw(const Options& options, const Row& row, const Timing& timing) {
  return algbw(row, timing) * 2 * (options.rank_count - 1) / options.rank_count;
}

/** The row of `none` with the same size and schedule. */
const Row& baseline_of(const std::vector<Row>& rows, const Row& row) {
  for (const Row& other : rows) {
    const bool is_peer = other.size_bytes == row.size_bytes && other.schedule == row.schedule;
    if (is_peer && other.format == "none") return other;
  }
  return row;
}

double ratio_of(const std::vector<Row>& rows, const Row& row) {
  const double wire = static_cast<double>(row.wire_bytes);
  return wire > 0 ? static_cast<double>(baseline_of(rows, row).wire_bytes) / wire : 1;
}

void print_timing(const Options& options, const Row& row, const Timing& timing) {
  std::printf(" %10.1f %7.2f %7.2f ", timing.time_us, algbw(row, timing),
              busbw(options, row, timing));
  if (options.check) {
    std::printf("%6" PRIu64, timing.wrong_count);
  } else {
    std::printf("%6s", "N/A");
  }
}

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return json + "\"";
}

void write_timing(FILE* file, const Options& options, const Row& row, const Timing& timing) {
  std::fprintf(file,
               "{\"time_us\": %.3f, \"algbw\": %.4f, \"busbw\": %.4f, \"wrong\": ", timing.time_us,
               algbw(row, timing), busbw(options, row, timing));
  if (options.check) {
    std::fprintf(file, "%" PRIu64, timing.wrong_count);
  } else {
    std::fputs("null", file);
  }
  const char* before = ",\n      \"runs_us\": [";
  for (const double run_us : timing.runs_us) {
    std::fprintf(file, "%s%.3f", before, run_us);
    before = ", ";
  }
  std::fputs("]}", file);
}

void write_row(FILE* file, const Options& options, const std::vector<Row>& rows, const Row& row) {
  std::fprintf(file, "    {\"size\": %zu, \"count\": %zu, \"format\": %s, \"schedule\": %s,\n",
               row.size_bytes, row.value_count, quoted(row.format).c_str(),
               quoted(row.schedule).c_str());
  std::fputs("     \"out_of_place\": ", file);
  write_timing(file, options, row, row.out_of_place);
  std::fputs(",\n     \"in_place\": ", file);
  write_timing(file, options, row, row.in_place);
  std::fprintf(file, ",\n     \"wire\": %" PRIu64 ", \"ratio\": %.4f, \"nmse\": ", row.wire_bytes,
               ratio_of(rows, row));
  if (options.check) {
    std::fprintf(file, "%.6e}", row.nmse);
  } else {
    std::fputs("null}", file);
  }
}

}  // namespace

void print_head(const Options& options, const std::string& command) {
  std::printf("# %s\n# machine: %s\n# library: %s\n", command.c_str(), machine().c_str(),
              gqsgd_build_info());
  std::printf("# ranks: %d, transport %s; medians of %d runs after %d, formats in turns%s%s%s\n#\n",
              options.rank_count, options.transport.c_str(), options.run_count,
              options.warmup_count, options.comm_options.empty() ? "" : "; ",
              options.comm_options.c_str(), options.bind ? "; ranks bound to processors" : "");
  std::printf("# %-67s %-34s %-34s\n", "", "out-of-place", "in-place");
  std::printf("# %10s %12s %9s %6s %14s %9s", "size", "count", "type", "redop", "format",
              "schedule");
  for (int place = 0; place < 2; ++place) {
    std::printf(" %10s %7s %7s %6s", "time", "algbw", "busbw", "#wrong");
  }
  std::printf(" %10s %6s %8s\n", "wire", "ratio", "nmse");
  std::printf("# %10s %12s %9s %6s %14s %9s", "(B)", "(elements)", "", "", "", "");
  for (int place = 0; place < 2; ++place) {
    std::printf(" %10s %7s %7s %6s", "(us)", "(GB/s)", "(GB/s)", "");
  }
  std::printf(" %10s\n", "(B)");
  std::fflush(stdout);
}

void print_rows(const Options& options, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    std::printf("  %10zu %12zu %9s %6s %14s %9s", row.size_bytes, row.value_count,
                options.dtype.name.c_str(), options.op.name.c_str(), row.format.c_str(),
                row.schedule.c_str());
    print_timing(options, row, row.out_of_place);
    print_timing(options, row, row.in_place);
    std::printf(" %10" PRIu64 " %6.2f", row.wire_bytes, ratio_of(rows, row));
    if (options.check) {
      std::printf(" %8.1e\n", row.nmse);
    } else {
      std::printf(" %8s\n", "N/A");
    }
  }
  std::fflush(stdout);
}

void print_foot(const Options& options, const std::vector<Row>& rows) {
  double sum = 0;
  for (const Row& row : rows) {
    sum += busbw(options, row, row.out_of_place) + busbw(options, row, row.in_place);
  }
  const uint64_t wrong = wrong_count(rows);
  std::printf("# Out of bounds values : %" PRIu64 " %s\n", wrong,
              !options.check ? "NOT CHECKED"
              : wrong == 0   ? "OK"
                             : "FAILED");
  std::printf("# Avg bus bandwidth    : %.4f\n",
              rows.empty() ? 0 : sum / (2 * static_cast<double>(rows.size())));
  std::fflush(stdout);
}

bool write_json(const Options& options, const std::string& command, const std::vector<Row>& rows) {
  FILE* file = std::fopen(options.json_path.c_str(), "w");
  if (file == nullptr) return false;
  std::fprintf(file, "{\n  \"command\": %s,\n  \"machine\": %s,\n  \"library\": %s,\n",
               quoted(command).c_str(), quoted(machine()).c_str(),
               quoted(gqsgd_build_info()).c_str());
  std::fprintf(
      file,
      "  \"ranks\": %d, \"transport\": \"%s\", \"runs\": %d, \"warmups\": %d,\n"
      "  \"type\": %s, \"redop\": %s, \"comm_options\": %s, \"bind\": %s,\n  \"rows\": [\n",
      options.rank_count, options.transport.c_str(), options.run_count, options.warmup_count,
      quoted(options.dtype.name).c_str(), quoted(options.op.name).c_str(),
      quoted(options.comm_options).c_str(), options.bind ? "true" : "false");
  for (size_t i = 0; i < rows.size(); ++i) {
    write_row(file, options, rows, rows[i]);
    std::fputs(i + 1 < rows.size() ? ",\n" : "\n", file);
  }
  std::fputs("  ]\n}\n", file);
  return std::fclose(file) == 0;
}

uint64_t wrong_count(const std::vector<Row>& rows) {
  uint64_t sum = 0;
  for (const Row& row : rows) sum += row.out_of_place.wrong_count + row.in_place.wrong_count;
  return sum;
}

}  // namespace gq::bench
