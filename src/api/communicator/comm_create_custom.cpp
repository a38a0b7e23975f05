// Making communicators over a caller's transport: what a table may hold, and what its makers need.
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include <algorithm>

#include "include/gqsgd_transport.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/communicator/communicator.h"
#include "src/transport/custom/custom.h"

namespace gq {
namespace {

// Of the first tables, which have no name.
constexpr size_t kNamelessBytes = offsetof(gqsgd_transport, name);

/** A caller built with a later header may hand a longer table, if it uses nothing of the rest. */
Status check_table_size(const gqsgd_transport& table) {
  const size_t size_bytes = table.struct_size_bytes;
  if (size_bytes < sizeof table && size_bytes != kNamelessBytes) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "gqsgd_transport: struct_size_bytes is %zu; it must be sizeof(gqsgd_transport), "
                "which is %zu in this version",
                size_bytes, sizeof table);
  }
  constexpr size_t kLongestBytes = 4096;
  if (size_bytes > kLongestBytes) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_transport: struct_size_bytes is %zu; at most %zu",
                size_bytes, kLongestBytes);
  }
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&table);
  for (size_t k = sizeof table; k < size_bytes; ++k) {
    if (bytes[k] == 0) continue;
    return fail(
        GQSGD_UNSUPPORTED,
        "gqsgd_transport: byte %zu is not 0 and belongs to a field that this version, whose "
        "table has %zu bytes, does not know",
        k, sizeof table);
  }
  return Status();
}

Status check_table(const gqsgd_transport& table) {
  const struct {
    const char* name;
    bool is_null;
  } functions[] = {{"send", table.send == nullptr},
                   {"receive", table.receive == nullptr},
                   {"test", table.test == nullptr},
                   {"progress", table.progress == nullptr},
                   {"close", table.close == nullptr}};
  for (const auto& function : functions) {
    if (!function.is_null) continue;
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_transport: %s is NULL", function.name);
  }
  GQ_TRY(check_size(table.size));
  if (table.rank >= 0 && table.rank < table.size) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "gqsgd_transport: rank is %" PRId32 "; with size %" PRId32 " it is 0 to %" PRId32,
              table.rank, table.size, table.size - 1);
}

Status create(const gqsgd_transport* table, const char* text, gqsgd_comm* comm) {
  if (comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_custom: comm is NULL");
  }
  *comm = nullptr;
  if (table == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_custom: transport is NULL");
  }
  GQ_TRY(check_table_size(*table));
  gqsgd_transport known = {};  // what the caller's table is too short for is 0
  memcpy(&known, table, std::min(table->struct_size_bytes, sizeof known));
  GQ_TRY(check_table(known));
  CommOptions options;
  GQ_TRY(parse_options(text, &options));
  std::unique_ptr<HostTransport> transport;
  CustomTransport* made = nullptr;
  GQ_TRY(create_custom(known, &transport, &made));
  const char* const name = known.name != nullptr ? known.name : "custom";
  GQ_TRY(add_communicator(std::move(transport), name, options, comm));
  adopt_table(made);
  return Status();
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_comm_create_custom(const gqsgd_transport* transport, const char* options,
                                      gqsgd_comm* comm) {
  return gq::in_call_scope([&] { return gq::create(transport, options, comm); });
}

gqsgd_status gqsgd_fail(gqsgd_status status, const char* sentence) {
  return gq::to_caller(status, sentence == nullptr ? "" : sentence);
}
