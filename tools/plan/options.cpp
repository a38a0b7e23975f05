// The command line of gqsgd-plan.
#include "tools/plan/options.h"

#include <getopt.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "include/gqsgd.h"
#include "kernels/codec/formats.h"
#include "src/support/names.h"

namespace gq::tools {
namespace {

constexpr char kHelp[] =
    R"(gqsgd-plan: what an allreduce would do and cost, without running it.

      --format SPEC     a quantizer such as paper-ge8 (the default format)
      --schedule NAME   auto, ring, tree, butterfly, direct, hierarchical or native (auto: the
                        cheapest)
      --nodes A:B:..    of each rank, for the hierarchical schedule (all on one node)
      --ranks N         (4)
      --count N         values; K, M, G are powers of 1000 (1M)
      --datatype TYPE   float32, float16, bfloat16 or float64 (float32)
      --chunk N         values per message (57344, half with more than 4 ranks and a quarter with
                        more than 8; 65536 in shared memory, 4194304 over NCCL)
      --shared-memory   ranks are threads or processes of one machine (messages travel, as over MPI)
      --nccl            ranks have a GPU each, and exchange messages over NCCL: schedules direct and
                        native; no GPU has confirmed these times
      --costs FILE      constants of the machine, as gqsgd-calibrate writes them, or the string of
                        Python's comm.costs (built in: a processor with AVX2 for each rank, whatever
                        this machine and GQSGD_FORCE_ISA are)
      --rate RATE       of the link out of a rank, in bits per second with a unit: 200mbit, 1gbit,
                        1Gbit/s, 10G; k, M, G and T are powers of 1000. In place of the constants'
                        own (10 Gbit/s built in); what native takes is not known then
      --advise          which preset a training step of --count weights should take, if any; what
                        it assumes because it was not given stands in its first lines
      --compute MS      of --advise: milliseconds of a step without its allreduces (0)
      --moves           prints every move of one rank, and nothing else
      --rank R          which rank (0)
      --timeline        prints when every move of every rank happens on an idealised machine, and
                        nothing else: what tools/draw_schedules.py draws
  -h, --help

Without --advise, --moves and --timeline: what each rank sends and reduces, the time predicted for
each schedule that goes with the format and for no compression at all (docs/COST.md), the bound on
the error (gqsgd_variance_bound), and a picture of the moves for up to 16 ranks.
)";

constexpr char kRates[] =
    "a rate is a number and a unit, in bits per second: 200mbit, 1gbit, 1Gbit/s or 10G, from 1kbit "
    "to 1000tbit";

enum LongOnly {
  kFormat = 256,
  kSchedule,
  kNodes,
  kRanks,
  kCount,
  kDtype,
  kChunk,
  kSharedMemory,
  kNccl,
  kCosts,
  kRate,
  kAdvise,
  kCompute,
  kMoves,
  kRank,
  kTimeline
};
constexpr option kLongOptions[] = {{"format", required_argument, nullptr, kFormat},
                                   {"schedule", required_argument, nullptr, kSchedule},
                                   {"nodes", required_argument, nullptr, kNodes},
                                   {"ranks", required_argument, nullptr, kRanks},
                                   {"count", required_argument, nullptr, kCount},
                                   {"datatype", required_argument, nullptr, kDtype},
                                   {"chunk", required_argument, nullptr, kChunk},
                                   {"shared-memory", no_argument, nullptr, kSharedMemory},
                                   {"nccl", no_argument, nullptr, kNccl},
                                   {"costs", required_argument, nullptr, kCosts},
                                   {"rate", required_argument, nullptr, kRate},
                                   {"advise", no_argument, nullptr, kAdvise},
                                   {"compute", required_argument, nullptr, kCompute},
                                   {"moves", no_argument, nullptr, kMoves},
                                   {"rank", required_argument, nullptr, kRank},
                                   {"timeline", no_argument, nullptr, kTimeline},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};

bool read_number(const char* text, uint64_t least, uint64_t most, uint64_t* number) {
  char* end = nullptr;
  uint64_t read = std::strtoull(text, &end, 10);
  const std::string suffix = end;
  const uint64_t factor = suffix == "K" || suffix == "k" ? 1000
                          : suffix == "M" ? 1000000
                          : suffix == "G" ? 1000000000
                                          : 1;
  if (end == text || text[0] == '-' || (!suffix.empty() && factor == 1)) return false;
  if (read > most / factor) return false;
  *number = read * factor;
  return *number >= least && *number <= most;
}

/** Bits per second as tc and iperf have them. A number without a unit is refused: it could mean
 *  anything; so is "Gbps", which is bytes to tc and bits to others. */
bool read_rate(std::string_view text, double* bits_per_s) {
  const auto [end, error] = std::from_chars(text.begin(), text.end(), *bits_per_s);
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0])) || error != std::errc()) {
    return false;
  }
  std::string unit(end, text.end());
  for (char& letter : unit) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  const size_t prefix = unit.empty() ? std::string::npos : std::string_view("kmgt").find(unit[0]);
  if (prefix != std::string::npos) {
    *bits_per_s *= std::pow(1000.0, static_cast<double>(prefix) + 1);
    unit.erase(0, 1);
  }
  const bool is_known = unit == "bit" || unit == "bit/s" || unit == "bits/s" ||
                        (unit.empty() && prefix != std::string::npos);
  return is_known && *bits_per_s >= 1e3 && *bits_per_s <= 1e15;
}

bool read_milliseconds(std::string_view text, double* milliseconds) {
  const auto [end, error] = std::from_chars(text.begin(), text.end(), *milliseconds);
  return error == std::errc() && end == text.end() && *milliseconds >= 0 && *milliseconds <= 1e9;
}

bool choose(Names names, const std::string& word, int32_t* number) {
  for (size_t i = 0; i < names.count; ++i) {
    if (word == names.list[i]) return *number = static_cast<int32_t>(i), true;
  }
  return false;
}

/** False if the option's value is not one. */
bool set_option(int option, const char* value, PlanOptions* options) {
  uint64_t number = 0;
  switch (option) {
    case kFormat:
      return options->format = value, true;
    case kSchedule:
      return choose(names_of(kScheduleList), value, &options->schedule);
    case kNodes:
      return options->nodes = value, true;
    case kRanks:
      return read_number(value, 1, kRanksMax, &number) &&
             (options->ranks = static_cast<uint32_t>(number), options->ranks_given = true);
    case kCount:
      options->value_count_given = true;
      return read_number(value, 0, UINT64_C(1) << 44, &options->value_count);
    case kDtype:
      return choose(names_of(kDtypeList), value, &options->dtype);
    case kChunk:
      return read_number(value, 1, 1u << 30, &options->chunk_value_count);
    case kSharedMemory:
      return options->reads_in_place = true, true;
    case kNccl:
      return options->on_device = true, true;
    case kCosts:
      return options->costs_path = value, true;
    case kRate:
      return read_rate(value, &options->bits_per_s);
    case kAdvise:
      return options->show = Show::advice, true;
    case kCompute:
      options->compute_given = true;
      return read_milliseconds(value, &options->compute_ms);
    case kMoves:
      return options->show = Show::moves, true;
    case kTimeline:
      return options->show = Show::timeline, true;
    case kRank:
      return read_number(value, 0, kRanksMax - 1, &number) &&
             (options->rank = static_cast<uint32_t>(number), true);
    default:
      return false;
  }
}

/** Why these options do not go together; nullptr if they do. */
const char* contradiction_of(const PlanOptions& options) {
  if (options.on_device && options.reads_in_place) {
    return "--nccl and --shared-memory are different groups";
  }
  const bool advises = options.show == Show::advice;
  if (advises && !options.format.empty()) {
    return "--advise compares presets of its own: leave --format out, or --advise";
  }
  if (advises && options.schedule != 0) {
    return "--advise takes the cheapest schedule of each preset: leave --schedule out, or --advise";
  }
  if (!advises && options.compute_given) {
    return "--compute is of a training step, so of --advise";
  }
  return nullptr;
}

}  // namespace

Parsed parse_options(int argc, char** argv, PlanOptions* options) {
  *options = PlanOptions();
  int index = 0;
  for (int option; (option = getopt_long(argc, argv, "h", kLongOptions, &index)) != -1;) {
    if (option == 'h') return std::fputs(kHelp, stdout), Parsed::stop;
    if (option == '?') return Parsed::refused;
    if (set_option(option, optarg, options)) continue;
    const char* expected = option == kRate ? kRates : "see --help";
    std::fprintf(stderr, "gqsgd-plan: \"%s\" is not a value of --%s; %s\n", optarg,
                 kLongOptions[index].name, expected);
    return Parsed::refused;
  }
  if (optind < argc) {
    std::fprintf(stderr, "gqsgd-plan: \"%s\" is not an option; see --help\n", argv[optind]);
    return Parsed::refused;
  }
  if (const char* contradiction = contradiction_of(*options)) {
    std::fprintf(stderr, "gqsgd-plan: %s\n", contradiction);
    return Parsed::refused;
  }
  if (options->rank < options->ranks) return Parsed::run;
  std::fprintf(stderr, "gqsgd-plan: there is no rank %u among %u ranks\n", options->rank,
               options->ranks);
  return Parsed::refused;
}

}  // namespace gq::tools
