// gqsgd-info: what this build of the library is, what this machine has, and what the environment
// changes. Takes no options but --help.
#include <gqsgd.h>
#include <gqsgd_log.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/machine.h"
#include "kernels/stages.h"
#include "src/api/communicator/options_string.h"
#include "src/gpu/device/device.h"
#include "src/support/shown.h"
#include "src/transport/nccl/nccl_library.h"
#include "src/transport/network/hmac.h"
#include "src/transport/ucx/ucx_library.h"

namespace gq::tools {
namespace {

constexpr char kHelp[] =
    R"(gqsgd-info: version, build, instruction sets, transports, environment, constants in use.

  -h, --help

Constants are those that a communicator made in this environment would have for schedule=auto; with
GQSGD_COSTS=builtin they are the built-in ones, by which gqsgd-plan predicts.
)";

struct Variable {
  const char* name;
  const char* meaning;
  bool is_secret = false;  ///< its value is not printed
};
/** All that the library reads of its own (docs/TOOLS.md). */
constexpr Variable kVariables[] = {
    {"GQSGD_ADDRESS", "of rank 0 of a group between machines"},
    {"GQSGD_COSTS", "file with the constants of schedule=auto"},
    {"GQSGD_CRYPTO_LIBRARY", "libcrypto to open, for groups between machines"},
    {"GQSGD_FORCE_ISA", "instruction set of the CPU stages"},
    {"GQSGD_HOST_ID", "name of this node, for groups between machines"},
    {"GQSGD_INTERFACE", "interface that groups between machines use"},
    {"GQSGD_LOG", "level of lines on standard error"},
    {"GQSGD_NCCL_LIBRARY", "NCCL to open where the process has none"},
    {"GQSGD_PORT", "of rank 0 of a group between machines"},
    {"GQSGD_SECRET", "of a group between machines", true},
    {"GQSGD_TIMEOUT_MS", "default timeout of communicators"},
    {"GQSGD_UCX_LIBRARY", "UCX to open where the process has none"},
};

void print_log(void*, gqsgd_log_level, const char* line) {
  std::printf("warning          %s\n", line);
}

void print_device(void*, const char* text) { std::printf("device           %s\n", text); }

void print_isas() {
  const char* refused = nullptr;
  const Stages* used = cpu_stages(&refused);
  std::printf("cpu stages       %s; runnable here:", used != nullptr ? used->name : "none");
  for (size_t i = 0; const Stages* here = cpu_stages_here(i); ++i) std::printf(" %s", here->name);
  std::printf("\n");
}

void print_environment() {
  for (const Variable& variable : kVariables) {
    const char* value = std::getenv(variable.name);
    if (value != nullptr && variable.is_secret) value = "set";
    std::printf("%-20s %s (%s)\n", variable.name,
                value != nullptr ? Shown(value, Shown::kPathBytes).text() : "not set",
                variable.meaning);
  }
}

void print_costs(const CommOptions& options) {
  if (options.choice.measures) {
    std::printf("schedule=auto    the cheapest by constants that the ranks of a group measure\n");
    return;
  }
  if (!options.choice.costs) {
    std::printf("schedule=auto    direct: no constants are given; gqsgd-calibrate measures them\n");
    return;
  }
  const CostConstants& constants = *options.choice.costs;
  std::string text(describe_costs(constants, nullptr, 0), '\0');
  describe_costs(constants, text.data(), text.size() + 1);
  std::printf(
      "schedule=auto    the cheapest by constants of the environment\n\n"
      "constants in use:\n%s",
      text.c_str());
}

void print_nccl() {
  const NcclLibrary* library = nullptr;
  const Status opened = open_nccl("", NcclSearch::any, &library);
  if (opened.ok()) {
    std::printf("nccl             %s, version number %d\n", library->path, library->version);
  } else {
    std::printf("nccl             none: %s\n", opened.sentence());
  }
}

/** The transport between machines; the sentence of what it lacks says how to install that. */
void print_network() {
  const UcxLibrary* ucx = nullptr;
  Hmac hmac;
  Status opened = open_ucx("", &ucx);
  if (opened.ok()) opened = Hmac::open(&hmac);
  if (opened.ok()) {
    std::printf("network          UCX %u.%u.%u (%s)\n", ucx->major, ucx->minor, ucx->release,
                ucx->path);
  } else {
    std::printf("network          none: %s\n", opened.sentence());
  }
}

int run() {
  std::printf("library          %s\n", gqsgd_build_info());
  std::printf("machine          %s\n", bench::machine().c_str());
  print_isas();
  describe_devices(print_device, nullptr);
  std::printf("transports       local (threads), process (shared memory), network, custom\n");
  print_network();
  print_nccl();
  print_environment();
  gqsgd_set_log(GQSGD_LOG_WARN, print_log, nullptr);
  CommOptions options;
  const Status parsed = parse_options("", &options);
  if (!parsed.ok()) return std::fprintf(stderr, "%s\n", parsed.sentence()), 1;
  print_costs(options);
  return 0;
}

}  // namespace
}  // namespace gq::tools

int main(int argc, char** argv) {
  if (argc == 1) return gq::tools::run();
  const bool help = std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0;
  if (help) return std::fputs(gq::tools::kHelp, stdout), 0;
  std::fprintf(stderr, "gqsgd-info: \"%s\" is not an option; see --help\n",
               gq::Shown(argv[1]).text());
  return 2;
}
