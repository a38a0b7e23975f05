// Making the communicator that continues another one, with other ranks.
#include <new>

#include "include/gqsgd_elastic.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/communicator/communicator.h"
#include "src/api/communicator/network_options.h"
#include "src/api/communicator/successor.h"
#include "src/call/continuation.h"
#include "src/transport/shared_memory/local.h"
#include "src/transport/shared_memory/local_join.h"

namespace gq {
namespace {

struct NewGroup {
  const gqsgd_unique_id* id;
  const int32_t* members;
  int32_t rank;
  int32_t size;
};

Status check_members(const NewGroup& group) {
  bool survives = false;
  for (int32_t k = 0; k < group.size; ++k) {
    const int32_t member = group.members[k];
    if (member < kNewcomer || member >= static_cast<int32_t>(kLocalRanksMax)) {
      return fail(GQSGD_INVALID_ARGUMENT,
                  "members[%d] is %d; it is the rank of a survivor in the old group, or -1 for a "
                  "newcomer",
                  k, member);
    }
    survives = survives || member != kNewcomer;
  }
  if (survives) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "none of the %d members is a rank of an old group, so that there is nothing to "
              "continue; hint: gqsgd_comm_create_* makes a group of new ranks",
              group.size);
}

Status check_new_group(const NewGroup& group) {
  if (group.id == nullptr || group.members == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_reconfigure: %s is NULL",
                group.id == nullptr ? "unique_id" : "members");
  }
  GQ_TRY(check_size(group.size));
  GQ_TRY(check_rank(group.rank, group.size));
  return check_members(group);
}

/** What an old communicator says of its successor. */
Status read_old(gqsgd_comm comm, Continuation* own, CommOptions* defaults) {
  ExclusiveAccess access;
  GQ_TRY(access.enter(comm));
  const Endpoint& endpoint = access->endpoint;
  GQ_TRY(check_can_be_followed(*access, "reconfigured"));
  access->requests.drain();  // which may measure costs
  own->old_rank = static_cast<int32_t>(endpoint.rank());
  own->old_tag = endpoint.transport->tag();
  own->stream_id = endpoint.stream_id;
  own->step = counter_of(*access);
  try {
    own->choice = endpoint.choice.options();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the options of rank %u", endpoint.rank());
  }
  return read_successor_options(*access, defaults);
}

Status reconfigure(gqsgd_comm comm, const NewGroup& group, const char* text, gqsgd_comm* new_comm) {
  if (new_comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_reconfigure: new_comm is NULL");
  }
  *new_comm = nullptr;
  GQ_TRY(check_new_group(group));
  Continuation own;
  own.members = group.members;
  CommOptions options;
  if (comm == nullptr) {
    GQ_TRY(parse_options(nullptr, &options));
  } else {
    GQ_TRY(read_old(comm, &own, &options));
  }
  Status own_options = add_options(text, &options);
  if (own_options.ok()) own_options = check_not_given(options);
  if (own_options.ok()) own_options = read_network_environment(&options);
  const char* name = nullptr;
  std::unique_ptr<HostTransport> transport;
  const NewRank place{group.id, static_cast<uint32_t>(group.rank),
                      static_cast<uint32_t>(group.size)};
  const Status joined = join_group(place, options, {}, own_options, &name, &transport);
  GQ_TRY(own_options);  // which the others have been told
  GQ_TRY(joined);
  return add_communicator(std::move(transport), name, options, &own, new_comm);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_local_id_create(gqsgd_unique_id* unique_id) {
  if (unique_id == nullptr) {
    return gq::to_caller(
        gq::fail(GQSGD_INVALID_ARGUMENT, "gqsgd_local_id_create: unique_id is NULL"));
  }
  return gq::in_call_scope([&] { return gq::make_local_id(unique_id); });
}

gqsgd_status gqsgd_comm_reconfigure(gqsgd_comm comm, const gqsgd_unique_id* unique_id,
                                    const int32_t* members, int32_t rank, int32_t size,
                                    const char* options, gqsgd_comm* new_comm) {
  const gq::NewGroup group{unique_id, members, rank, size};
  return gq::in_call_scope([&] { return gq::reconfigure(comm, group, options, new_comm); });
}
