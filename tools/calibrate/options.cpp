// The command line of gqsgd-calibrate.
#include "tools/calibrate/options.h"

#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace gq::tools {
namespace {

constexpr char kHelp[] =
    R"(gqsgd-calibrate: measures what stages and messages cost on this machine, for schedule=auto.

      --transport NAME  process, or local, where ranks are threads (process)
      --ranks LIST      sizes of the groups that are timed, by commas (2,4)
      --maxbytes SIZE   uncompressed size of the longest call that is timed (16M); K, M, G are
                        powers of 1024
  -n, --iters N         runs, of which the least time counts for a stage and the middle one for a
                        call (7)
  -o, --out FILE        where the constants go (standard output)
  -v, --verbose         also says, as comments, what was timed and what the constants make of it
  -h, --help

Stages are timed alone, on as many threads as there are processors, in a cache and from memory.
Constants of messages, and by which factor stages take longer inside calls, are those with which
the cost model comes closest to the times of whole calls (docs/COST.md). Give the file to every
rank: as the option costs=FILE of a communicator, or in the environment variable GQSGD_COSTS.

gqsgd-calibrate-mpi, which mpirun starts, takes the same options but --transport; its groups are 2
ranks and all of them, and it times the MPI's own allreduce of floats as well.
)";

constexpr int kTransport = 256, kRanks = 257, kMaxBytes = 258;
constexpr option kLongOptions[] = {{"transport", required_argument, nullptr, kTransport},
                                   {"ranks", required_argument, nullptr, kRanks},
                                   {"maxbytes", required_argument, nullptr, kMaxBytes},
                                   {"iters", required_argument, nullptr, 'n'},
                                   {"out", required_argument, nullptr, 'o'},
                                   {"verbose", no_argument, nullptr, 'v'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};

bool read_number(const std::string& text, size_t least, size_t most, size_t* number) {
  char* end = nullptr;
  const unsigned long long read = std::strtoull(text.c_str(), &end, 10);
  const std::string suffix = end;
  const int shift = suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : 0;
  if (end == text.c_str() || text[0] == '-' || (!suffix.empty() && shift == 0)) return false;
  *number = static_cast<size_t>(read) << shift;
  return *number >= least && *number <= most && *number >> shift == read;
}

bool read_ranks(const char* text, std::vector<int>* rank_counts) {
  std::istringstream list(text);
  for (std::string word; std::getline(list, word, ',');) {
    size_t number = 0;
    if (!read_number(word, 2, 1024, &number)) return false;
    rank_counts->push_back(static_cast<int>(number));
  }
  return !rank_counts->empty();
}

/** False if the option's value is not one. */
bool set_option(int option, const char* value, CalibrateOptions* options) {
  size_t number = 0;
  switch (option) {
    case kTransport:
      options->ranks_are_processes = std::string(value) == "process";
      return options->ranks_are_processes || std::string(value) == "local";
    case kRanks:
      return read_ranks(value, &options->rank_counts);
    case kMaxBytes:
      return read_number(value, 1024, size_t{1} << 34, &options->most_bytes);
    case 'n':
      return read_number(value, 1, 1000, &number) &&
             (options->run_count = static_cast<int>(number), true);
    case 'o':
      return options->out_path = value, true;
    case 'v':
      return options->verbose = true;
    default:
      return false;
  }
}

}  // namespace

Parsed parse_options(int argc, char** argv, CalibrateOptions* options) {
  *options = CalibrateOptions();
  for (int option; (option = getopt_long(argc, argv, "n:o:vh", kLongOptions, nullptr)) != -1;) {
    if (option == 'h') return std::fputs(kHelp, stdout), Parsed::stop;
    if (option == '?') return Parsed::refused;
    if (set_option(option, optarg, options)) continue;
    std::fprintf(stderr, "gqsgd-calibrate: \"%s\" is not a value for this option; see --help\n",
                 optarg);
    return Parsed::refused;
  }
  if (optind < argc) {
    std::fprintf(stderr, "gqsgd-calibrate: \"%s\" is not an option; see --help\n", argv[optind]);
    return Parsed::refused;
  }
  return Parsed::run;
}

}  // namespace gq::tools
