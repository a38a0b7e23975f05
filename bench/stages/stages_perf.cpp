// stages_perf: how fast each stage is on one core, per instruction set and format, against memcpy
// and a float32 add measured in the same rounds.
#include <gqsgd_stages.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "bench/machine.h"
#include "bench/stages/cases.h"

namespace gq::bench {
namespace {

constexpr char kUsage[] =
    "usage: stages_perf [--values N] [--sets N] [--rounds N] [--isa NAME] [--stage NAME]\n"
    "                   [--format NAME]\n"
    "  --values   values per call, default 6553600 (25 MiB of float32)\n"
    "  --sets     copies of all buffers, each call on the next one, so that data come from\n"
    "             memory: by default as many as make the values fill the largest cache, 6 at\n"
    "             least; 1 with few values measures from cache\n"
    "  --rounds   timed rounds over all cases, default 11; the table shows medians\n"
    "  --isa      only this instruction set, default all of this machine\n"
    "  --stage, --format  only names that contain this\n"
    "GB/s counts bytes read and written, per second of processor time. A refused name ends the "
    "program with status 2.\n";

struct Options {
  size_t value_count = 6553600;
  size_t set_count = 0;  ///< 0: default_set_count()
  size_t round_count = 11;
  std::string isa, stage, format;
};

bool parse_count(const char* text, size_t* count) {
  char* end = nullptr;
  const unsigned long long value = strtoull(text, &end, 10);
  *count = static_cast<size_t>(value);
  return *text >= '0' && *text <= '9' && *end == 0 && value > 0 && value < (1ull << 32);
}

bool parse(int argc, char** argv, Options* options) {
  for (int k = 1; k + 1 < argc; k += 2) {
    const std::string name = argv[k];
    const char* value = argv[k + 1];
    bool good = true;
    if (name == "--values") {
      good = parse_count(value, &options->value_count) && options->value_count >= 8192;
    } else if (name == "--sets") {
      good = parse_count(value, &options->set_count);
    } else if (name == "--rounds") {
      good = parse_count(value, &options->round_count);
    } else if (name == "--isa") {
      options->isa = value;
    } else if (name == "--stage") {
      options->stage = value;
    } else if (name == "--format") {
      options->format = value;
    } else {
      good = false;
    }
    if (!good) return false;
  }
  return argc % 2 == 1;
}

/** So many sets that what one held has left the caches before its turn comes again. */
size_t default_set_count(size_t value_count) {
  const long cache_bytes = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L);
  return std::max<size_t>(6, static_cast<size_t>(cache_bytes) / (value_count * sizeof(float)) + 1);
}

/** A case on one instruction set, and the times of its rounds in nanoseconds per call. */
struct Measured {
  std::string isa;
  Case work;
  std::vector<double> times_ns;
};

bool runs_here(const std::string& isa) {
  setenv("GQSGD_FORCE_ISA", isa.c_str(), 1);
  gqsgd_quantizer quantizer = nullptr;
  if (gqsgd_quantizer_create("none", &quantizer) != GQSGD_OK) return false;
  gqsgd_site site = {};
  site.size = 1;
  const bool runs = gqsgd_quantize(quantizer, &site, nullptr, 0, GQSGD_FLOAT32, nullptr, nullptr,
                                   nullptr, 0, nullptr) != GQSGD_UNSUPPORTED;
  gqsgd_quantizer_destroy(quantizer);
  return runs;
}

std::vector<Measured> cases_to_run(const Options& options, Buffers& buffers,
                                   std::vector<std::string>* refused) {
  std::vector<Measured> all;
  for (const Case& work : yardsticks(buffers)) all.push_back({"-", work, {}});
  for (const char* isa : {"scalar", "avx2", "avx512", "avx512vbmi", "neon"}) {
    if ((!options.isa.empty() && options.isa != isa) || !runs_here(isa)) continue;
    refused->clear();
    for (const Case& work : stage_cases(buffers, refused)) {
      const bool wanted = work.stage.find(options.stage) != std::string::npos &&
                          work.format.find(options.format) != std::string::npos;
      if (wanted) all.push_back({isa, work, {}});
    }
  }
  return all;
}

/** Processor time of this thread: stages wait for no other thread, and other load should not
 *  count. */
int64_t thread_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/** Times one call, repeated for at least 200 microseconds, each on the next buffer set. */
double time_ns(const Measured& measured, size_t set_count, size_t* next_set) {
  size_t calls = 0;
  const int64_t start = thread_ns();
  int64_t elapsed = 0;
  do {
    const size_t set = (*next_set)++ % set_count;
    if (!measured.work.run(set)) {
      fprintf(stderr, "%s %s on %s: %s\n", measured.work.stage.c_str(),
              measured.work.format.c_str(), measured.isa.c_str(), gqsgd_last_error());
      exit(1);
    }
    ++calls;
    elapsed = thread_ns() - start;
  } while (elapsed < 200000);
  return static_cast<double>(elapsed) / static_cast<double>(calls);
}

/** Cases follow each other on different sets: stores into what the case before left in a cache are
 *  twice as fast as into memory, and those past the caches half as fast. */
void measure(std::vector<Measured>& all, const Options& options) {
  size_t next_set = 0;
  for (size_t round = 0; round <= options.round_count; ++round) {
    for (Measured& measured : all) {
      if (measured.isa != "-") setenv("GQSGD_FORCE_ISA", measured.isa.c_str(), 1);
      const double elapsed_ns = time_ns(measured, options.set_count, &next_set);
      if (round > 0) measured.times_ns.push_back(elapsed_ns);  // The first only warms up.
    }
  }
}

void report(const std::vector<Measured>& all, const Options& options) {
  const double values = static_cast<double>(options.value_count);
  const auto bytes_per_ns = [&](const Measured& m) {
    return m.work.bytes_per_value * values / median(m.times_ns);
  };
  const auto values_per_ns = [&](const Measured& m) { return values / median(m.times_ns); };
  printf("# %s; one core; %zu values per call, %zu buffer sets, %zu rounds, medians\n",
         machine().c_str(), options.value_count, options.set_count, options.round_count);
  printf("# %s\n", gqsgd_build_info());
  printf("%-7s %-19s %-46s %9s %11s %9s %7s\n", "isa", "stage", "format", "GB/s", "Gvalues/s",
         "of memcpy", "of add");
  for (const Measured& m : all) {
    printf("%-7s %-19s %-46s %9.2f %11.3f %8.0f%% %6.2fx\n", m.isa.c_str(), m.work.stage.c_str(),
           m.work.format.c_str(), bytes_per_ns(m), values_per_ns(m),
           100 * bytes_per_ns(m) / bytes_per_ns(all[0]), values_per_ns(m) / values_per_ns(all[1]));
  }
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    fputs(kUsage, stderr);
    return 2;
  }
  if (options.set_count == 0) options.set_count = default_set_count(options.value_count);
  Buffers buffers(options.value_count, options.set_count);
  if (!options.isa.empty() && !runs_here(options.isa)) {
    fprintf(stderr, "instruction set %s: %s\n", options.isa.c_str(), gqsgd_last_error());
    return 2;
  }
  std::vector<std::string> refused;
  std::vector<Measured> all = cases_to_run(options, buffers, &refused);
  for (const std::string& sentence : refused) printf("# not measured: %s\n", sentence.c_str());
  measure(all, options);
  report(all, options);
  return 0;
}

}  // namespace
}  // namespace gq::bench

int main(int argc, char** argv) { return gq::bench::run(argc, argv); }
