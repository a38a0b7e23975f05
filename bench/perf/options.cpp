// The command line of gqsgd-perf.
#include "bench/perf/options.h"

#include <getopt.h>
#include <gqsgd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace gq::bench {
namespace {

constexpr char kHelp[] =
    R"(gqsgd-perf: times allreduces of this library; none (float32 words) is always measured beside.

  -b, --minbytes SIZE      smallest uncompressed size (32K); K, M, G are powers of 1024
  -e, --maxbytes SIZE      largest (32M)
  -f, --stepfactor N       each size is N times the last (4)
  -n, --iters N            timed runs per size, format and schedule (20); medians are printed
  -w, --warmup_iters N     runs before (3)
  -c, --check 0|1          compare every rank's result with gqsgd_simulate (1)
  -d, --datatype TYPE      float, half, bfloat16 or double (float)
  -o, --op OP              sum or avg (avg)
      --format SPEC        a quantizer such as blocks-8 or "levels=linear,bits=4"; may be
                           given several times (blocks-8, rotated-4); --preset is the same
      --schedule LIST      of ring, tree, butterfly, direct, hierarchical, native (over MPI), auto,
                           by commas (direct)
      --ranks N            (2; not over MPI)
      --transport NAME     process or local, where ranks are threads (process); mpi, the only one of
                           gqsgd-perf-mpi, which mpirun starts: ranks are those of MPI_COMM_WORLD
      --comm-options OPTS  options of the communicators, such as chunk_value_count=32768
      --bind               keeps rank k on the k-th processor that it may use, counting round and
                           round; threads of the option threads stay free
      --pause-ms N         between one run of all and the next (0): runs then see more of a machine
                           that is faster at one time than at another
      --json FILE          writes the rows there too
  -h, --help

Formats take turns in every run. A run is a barrier and a call; below 8 MiB it is up to 128 calls,
in place 8, one after another for about 100 ms, and each one's share is taken. Its time is that of
the slowest rank. algbw is the uncompressed size by time, busbw that times 2 (n - 1) / n, as in
nccl-tests. wire is what one rank sends, ratio how often that goes into what none sends, nmse the
squared error of the result over the square of the exact one. Over MPI, its own MPI_Allreduce of
float or double sums takes its turns too. The exit status is 1 if any value was wrong.
)";

enum LongOnly { kFormat = 256, kSchedule, kRanks, kTransport, kCommOptions, kBind, kPause, kJson };
constexpr option kLongOptions[] = {{"minbytes", required_argument, nullptr, 'b'},
                                   {"maxbytes", required_argument, nullptr, 'e'},
                                   {"stepfactor", required_argument, nullptr, 'f'},
                                   {"iters", required_argument, nullptr, 'n'},
                                   {"warmup_iters", required_argument, nullptr, 'w'},
                                   {"check", required_argument, nullptr, 'c'},
                                   {"datatype", required_argument, nullptr, 'd'},
                                   {"op", required_argument, nullptr, 'o'},
                                   {"format", required_argument, nullptr, kFormat},
                                   {"preset", required_argument, nullptr, kFormat},
                                   {"schedule", required_argument, nullptr, kSchedule},
                                   {"ranks", required_argument, nullptr, kRanks},
                                   {"transport", required_argument, nullptr, kTransport},
                                   {"comm-options", required_argument, nullptr, kCommOptions},
                                   {"bind", no_argument, nullptr, kBind},
                                   {"pause-ms", required_argument, nullptr, kPause},
                                   {"json", required_argument, nullptr, kJson},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};

const std::vector<Choice> kDtypes = {{"float", GQSGD_FLOAT32},
                                     {"half", GQSGD_FLOAT16},
                                     {"bfloat16", GQSGD_BFLOAT16},
                                     {"double", GQSGD_FLOAT64}};
const std::vector<Choice> kOps = {{"sum", GQSGD_SUM}, {"avg", GQSGD_MEAN}};
const std::vector<Choice> kSchedules = {
    {"auto", GQSGD_SCHEDULE_AUTO},     {"ring", GQSGD_SCHEDULE_RING},
    {"tree", GQSGD_SCHEDULE_TREE},     {"butterfly", GQSGD_SCHEDULE_BUTTERFLY},
    {"direct", GQSGD_SCHEDULE_DIRECT}, {"hierarchical", GQSGD_SCHEDULE_HIERARCHICAL},
    {"native", GQSGD_SCHEDULE_NATIVE}};

bool choose(const std::vector<Choice>& choices, const std::string& name, Choice* chosen) {
  for (const Choice& choice : choices) {
    if (choice.name == name) return *chosen = choice, true;
  }
  return false;
}

bool read_size(const char* text, size_t least, size_t* size) {
  char* end = nullptr;
  const unsigned long long number = std::strtoull(text, &end, 10);
  const std::string suffix = end;
  int shift = 0;
  if (suffix == "K") shift = 10;
  if (suffix == "M") shift = 20;
  if (suffix == "G") shift = 30;
  if (end == text || text[0] == '-' || (!suffix.empty() && shift == 0)) return false;
  *size = static_cast<size_t>(number) << shift;
  return *size >= least && *size >> shift == number;
}

bool read_count(const char* text, size_t least, int* count) {
  size_t size = 0;
  if (!read_size(text, least, &size) || size > 1000000) return false;
  *count = static_cast<int>(size);
  return true;
}

bool read_schedules(const char* text, std::vector<Choice>* schedules) {
  std::istringstream list(text);
  for (std::string name; std::getline(list, name, ',');) {
    Choice choice;
    if (!choose(kSchedules, name, &choice)) return false;
    schedules->push_back(choice);
  }
  return !schedules->empty();
}

bool read_transport(const std::string& name, std::string* transport) {
  *transport = name;
  return name == "process" || name == "local" || name == "mpi";
}

/** False if the option's value is not one. */
bool set_option(int option, const char* value, Options* options) {
  int number = 0;
  switch (option) {
    case 'b':
      return read_size(value, 0, &options->least_bytes);
    case 'e':
      return read_size(value, 0, &options->most_bytes);
    case 'f':
      return read_size(value, 2, &options->factor);
    case 'n':
      return read_count(value, 1, &options->run_count);
    case 'w':
      return read_count(value, 0, &options->warmup_count);
    case 'c':
      return read_count(value, 0, &number) && (options->check = number != 0, true);
    case 'd':
      return choose(kDtypes, value, &options->dtype);
    case 'o':
      return choose(kOps, value, &options->op);
    case kFormat:
      return options->formats.push_back(value), true;
    case kSchedule:
      return read_schedules(value, &options->schedules);
    case kRanks:
      return read_count(value, 1, &options->rank_count);
    case kTransport:
      return read_transport(value, &options->transport);
    case kCommOptions:
      return options->comm_options = value, true;
    case kBind:
      return options->bind = true;
    case kPause:
      return read_count(value, 0, &options->pause_ms);
    case kJson:
      return options->json_path = value, true;
    default:
      return false;
  }
}

/** Fills in defaults; `none` comes first in any case. */
void complete(Options* options) {
  if (options->formats.empty()) options->formats = {"blocks-8", "rotated-4"};
  std::erase(options->formats, "none");
  options->formats.insert(options->formats.begin(), "none");
  if (options->schedules.empty()) options->schedules = {{"direct", GQSGD_SCHEDULE_DIRECT}};
}

}  // namespace

Parsed parse_options(int argc, char** argv, Options* options) {
  *options = Options();
  options->dtype = kDtypes[0];
  options->op = kOps[1];
  int which = 0;
  for (int option;
       (option = getopt_long(argc, argv, "b:e:f:n:w:c:d:o:h", kLongOptions, &which)) != -1;) {
    if (option == 'h') return std::fputs(kHelp, stdout), Parsed::stop;
    if (option == '?') return Parsed::refused;
    if (set_option(option, optarg, options)) continue;
    std::fprintf(stderr, "gqsgd-perf: \"%s\" is not a value for this option; see --help\n", optarg);
    return Parsed::refused;
  }
  if (optind < argc) {
    std::fprintf(stderr, "gqsgd-perf: \"%s\" is not an option; see --help\n", argv[optind]);
    return Parsed::refused;
  }
  if (options->least_bytes > options->most_bytes) {
    std::fprintf(stderr, "gqsgd-perf: --minbytes %zu is more than --maxbytes %zu\n",
                 options->least_bytes, options->most_bytes);
    return Parsed::refused;
  }
  complete(options);
  return Parsed::run;
}

bool check_formats(const Options& options) {
  for (const std::string& format : options.formats) {
    gqsgd_quantizer quantizer = nullptr;
    const gqsgd_status status = gqsgd_quantizer_create(format.c_str(), &quantizer);
    gqsgd_quantizer_destroy(quantizer);
    if (status == GQSGD_OK) continue;
    std::fprintf(stderr, "gqsgd-perf: --format: %s\n", gqsgd_last_error());
    return false;
  }
  return true;
}

std::string command_of(int argc, char** argv) {
  std::string command = argv[0];
  command.erase(0, command.rfind('/') + 1);
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  return command;
}

size_t element_bytes(int32_t dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

std::vector<size_t> sizes_of(const Options& options) {
  const size_t element = element_bytes(options.dtype.number);
  std::vector<size_t> sizes;
  size_t size = options.least_bytes / element * element;
  while (size <= options.most_bytes) {
    sizes.push_back(size);
    if (size > options.most_bytes / options.factor) break;
    size = std::max(size * options.factor, element);
  }
  return sizes;
}

}  // namespace gq::bench
