// Making communicators between machines.
#include <stdlib.h>

#include <new>

#include "include/gqsgd_network.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/communicator/communicator.h"
#include "src/api/communicator/launch_environment.h"
#include "src/api/communicator/network_options.h"
#include "src/support/clock.h"
#include "src/support/log.h"
#include "src/transport/network/network.h"
#include "src/transport/process/process.h"

namespace gq {
namespace {

/** An option that is not given has its variable's value. */
Status read_default(const char* variable, std::string* option) {
  const char* value = secure_getenv(variable);
  if (value == nullptr || !option->empty()) return Status();
  try {
    *option = value;
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the value of %s", variable);
  }
  return Status();
}

}  // namespace

Status read_network_environment(CommOptions* options) {
  // An address that the caller has given is not to lose against an interface of the environment.
  if (options->network.address.empty()) {
    GQ_TRY(read_default("GQSGD_INTERFACE", &options->network.interface));
  }
  return read_default("GQSGD_HOST_ID", &options->network.host_id);
}

namespace {

Status read_network_options(const char* text, CommOptions* options) {
  GQ_TRY(parse_options(text, options));
  return read_network_environment(options);
}

Status create_id(const char* text, gqsgd_unique_id* unique_id) {
  if (unique_id == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_network_id_create: unique_id is NULL");
  }
  CommOptions options;
  GQ_TRY(read_network_options(text, &options));
  if (options.network.interface.empty()) {
    GQ_TRY(read_default("GQSGD_ADDRESS", &options.network.address));
  }
  return create_network_id(options.network, unique_id);
}

Status create(const gqsgd_unique_id* unique_id, int32_t rank, int32_t size, const char* text,
              gqsgd_comm* comm) {
  if (comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_network: comm is NULL");
  }
  *comm = nullptr;
  if (unique_id == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_network: unique_id is NULL");
  }
  GQ_TRY(check_size(size));
  GQ_TRY(check_rank(rank, size));
  CommOptions options;
  const Status read = read_network_options(text, &options);
  std::unique_ptr<HostTransport> transport;
  GQ_TRY(create_network(*unique_id, static_cast<uint32_t>(rank), static_cast<uint32_t>(size),
                        options.network, options.timeout_ms, &transport, read));
  return add_communicator(std::move(transport), "network", options, comm);
}

/** What is left of the time for the second of two ways to a group. */
int64_t left_ms(int64_t timeout_ms, uint64_t deadline_us) {
  const uint64_t now_us = monotonic_us();
  if (timeout_ms < 0) return timeout_ms;
  return deadline_us <= now_us ? 0 : static_cast<int64_t>((deadline_us - now_us) / 1000);
}

Status create_by_environment(const char* text, gqsgd_comm* comm) {
  if (comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_env: comm is NULL");
  }
  *comm = nullptr;
  CommOptions options;
  const Status read = read_network_options(text, &options);
  LaunchedGroup group;
  const Status launched = read_launch_environment(&group);
  if (!launched.ok()) return read.ok() ? launched : read;
  if (options.network.port != 0) group.port = static_cast<uint16_t>(options.network.port);
  if (group.rank == 0 && group.size > 1 && group.secret.empty()) {
    log_line(GQSGD_LOG_WARN,
             "GQSGD_SECRET is not set: every process that reaches port %u of rank 0 can join this "
             "group",
             group.port);
  }
  const uint64_t deadline_us = deadline_after_ms(options.timeout_ms);
  gqsgd_unique_id process_id;
  std::unique_ptr<HostTransport> transport;
  GQ_TRY(
      create_launched(group, options.network, options.timeout_ms, read, &process_id, &transport));
  if (transport) return add_communicator(std::move(transport), "network", options, comm);
  GQ_TRY(create_process(process_id, group.rank, group.size,
                        left_ms(options.timeout_ms, deadline_us), &transport));
  return add_communicator(std::move(transport), "processes", options, comm);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_network_id_create(const char* options, gqsgd_unique_id* unique_id) {
  return gq::in_call_scope([&] { return gq::create_id(options, unique_id); });
}

gqsgd_status gqsgd_comm_create_network(const gqsgd_unique_id* unique_id, int32_t rank, int32_t size,
                                       const char* options, gqsgd_comm* comm) {
  return gq::in_call_scope([&] { return gq::create(unique_id, rank, size, options, comm); });
}

gqsgd_status gqsgd_comm_create_env(const char* options, gqsgd_comm* comm) {
  return gq::in_call_scope([&] { return gq::create_by_environment(options, comm); });
}
