// Variables of launchers: the first launcher that has set any of its own counts.
#include "src/api/communicator/launch_environment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "src/api/quantizer/spec_items.h"
#include "src/support/log.h"
#include "src/support/shown.h"

namespace gq {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_size;  ///< ranks on this machine; null: the launcher gives an address
  const char* job;         ///< equal on all ranks, another for each job; null: there is none
};

// torchrun and mpirun run inside of what Slurm has started, and not the other way round.
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", nullptr, "TORCHELASTIC_RUN_ID"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     nullptr},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", nullptr},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", nullptr, "SLURM_JOB_ID"},
};
constexpr size_t kSlurm = 3;
constexpr const char* kNodeLists[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
                                      "SLURM_NODELIST"};

constexpr int64_t kPortDefault = 29600;
// torchrun's own store may be at MASTER_PORT.
constexpr int64_t kPortOffset = 100;
constexpr int64_t kSlurmFirstPort = 20000;
constexpr int64_t kSlurmPorts = 10000;

/** Null for a variable that is not set, or empty. */
const char* variable(const char* name) {
  const char* value = name == nullptr ? nullptr : secure_getenv(name);
  return value == nullptr || value[0] == '\0' ? nullptr : value;
}

Status read_number(const char* name, int64_t least, int64_t most, int64_t* out) {
  const char* value = variable(name);
  if (parse_signed(value, out) && *out >= least && *out <= most) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "the environment has %s=%s, which is no number from %" PRId64 " to %" PRId64, name,
              Shown(value).text(), least, most);
}

Status find_launcher(const Launcher** out) {
  for (const Launcher& launcher : kLaunchers) {
    const bool has_rank = variable(launcher.rank) != nullptr;
    const bool has_size = variable(launcher.size) != nullptr;
    if (!has_rank && !has_size) continue;
    *out = &launcher;
    if (has_rank && has_size) return Status();
    return fail(GQSGD_INVALID_ARGUMENT,
                "the environment has %s and not %s: both are needed, of one launcher",
                has_rank ? launcher.rank : launcher.size, has_rank ? launcher.size : launcher.rank);
  }
  return fail(GQSGD_INVALID_ARGUMENT,
              "the environment has none of RANK, OMPI_COMM_WORLD_RANK, PMI_RANK and SLURM_PROCID: "
              "start the ranks with torchrun, mpirun, mpiexec or srun, or set RANK, WORLD_SIZE and "
              "MASTER_ADDR");
}

Status read_rank(const Launcher& launcher, LaunchedGroup* group) {
  int64_t rank = 0, size = 0;
  GQ_TRY(read_number(launcher.size, 1, INT32_MAX, &size));
  GQ_TRY(read_number(launcher.rank, 0, INT32_MAX, &rank));
  if (rank >= size) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "the environment has %s=%" PRId64 " and %s=%" PRId64 ": ranks are 0 to %" PRId64,
                launcher.rank, rank, launcher.size, size, size - 1);
  }
  group->rank = static_cast<uint32_t>(rank);
  group->size = static_cast<uint32_t>(size);
  return Status();
}

/** "node[007-009,12],other" is node007, and "rack[1-2]n[3,5]" is rack1n3. */
std::string first_host(const char* node_list) {
  std::string host;
  for (const char* next = node_list; *next != '\0' && *next != ','; ++next) {
    if (*next != '[') {
      host += *next;
      continue;
    }
    for (++next; *next != '\0' && strchr("-,]", *next) == nullptr; ++next) host += *next;
    while (*next != '\0' && *next != ']') ++next;
    if (*next == '\0') break;
  }
  return host;
}

bool is_on_one_machine(const Launcher& launcher, const LaunchedGroup& group) {
  int64_t local = 0;
  const char* value = variable(launcher.local_size);
  return value != nullptr && parse_signed(value, &local) && local == group.size;
}

Status read_root(const Launcher& launcher, LaunchedGroup* group) {
  for (const char* name : {"GQSGD_ADDRESS", "MASTER_ADDR"}) {
    if (variable(name) == nullptr) continue;
    group->root = variable(name);
    group->root_meaning = name;
    return Status();
  }
  for (const char* name : kNodeLists) {
    if (&launcher != &kLaunchers[kSlurm] || variable(name) == nullptr) continue;
    group->root = first_host(variable(name));
    group->root_meaning = name;
    return Status();
  }
  if (group->size == 1 || is_on_one_machine(launcher, *group)) {
    group->root = "127.0.0.1";
    group->root_meaning = launcher.name;
    return Status();
  }
  return fail(GQSGD_INVALID_ARGUMENT,
              "the environment has %s of %s and no address of rank 0: set MASTER_ADDR or "
              "GQSGD_ADDRESS to a name or address of the machine of rank 0, equal on all ranks",
              launcher.rank, launcher.name);
}

Status read_port(const Launcher& launcher, LaunchedGroup* group) {
  int64_t port = kPortDefault;
  if (variable("GQSGD_PORT") != nullptr) {
    GQ_TRY(read_number("GQSGD_PORT", 1, UINT16_MAX, &port));
  } else if (variable("MASTER_PORT") != nullptr) {
    GQ_TRY(read_number("MASTER_PORT", 1, UINT16_MAX, &port));
    port += port + kPortOffset <= UINT16_MAX ? kPortOffset : -kPortOffset;
  } else if (&launcher == &kLaunchers[kSlurm] && variable(launcher.job) != nullptr) {
    GQ_TRY(read_number(launcher.job, 0, INT64_MAX, &port));
    port = kSlurmFirstPort + port % kSlurmPorts;
  }
  group->port = static_cast<uint16_t>(port);
  return Status();
}

Status read_group(LaunchedGroup* group) {
  const Launcher* launcher = nullptr;
  GQ_TRY(find_launcher(&launcher));
  GQ_TRY(read_rank(*launcher, group));
  GQ_TRY(read_root(*launcher, group));
  GQ_TRY(read_port(*launcher, group));
  if (const char* secret = variable("GQSGD_SECRET")) group->secret = secret;
  if (const char* job = variable(launcher->job)) group->job = job;
  log_line(GQSGD_LOG_INFO, "rank %u of %u by %s; rank 0 at %s port %u by %s", group->rank,
           group->size, launcher->name, Shown(group->root).text(), group->port,
           group->root_meaning.c_str());
  return Status();
}

}  // namespace

Status read_launch_environment(LaunchedGroup* group) {
  try {
    return read_group(group);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for what the environment says of a group");
  }
}

}  // namespace gq
