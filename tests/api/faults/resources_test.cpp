// Limits of the process: descriptors, address space, file size.
#include <sys/resource.h>
#include <unistd.h>

#include <memory>

#include "tests/api/faults/support/call.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

void limit(int resource, rlim_t value) {
  const rlimit both{value, value};
  setrlimit(static_cast<__rlimit_resource_t>(resource), &both);
}

/** Both ranks of a group of processes; `prepare` runs in rank 1 before it joins. */
std::pair<std::string, std::string> join_two(const std::function<void()>& prepare) {
  gqsgd_unique_id id;
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  const auto take_part = [id](int rank) {
    gqsgd_comm comm = nullptr;
    const Outcome made =
        outcome_of(gqsgd_comm_create_process(&id, rank, 2, "timeout_ms=5000", &comm));
    if (made.status != GQSGD_OK) return made.text();
    const Outcome called = Call(rank).make(comm);
    gqsgd_comm_destroy(comm);
    return called.text();
  };
  Child rank0([&] { return take_part(0); });
  Child rank1([&] {
    prepare();
    return take_part(1);
  });
  std::string second = rank1.line();
  return {rank0.line(), second};
}

TEST(Resources, TooFewDescriptors_Counted) {
  const auto [rank0, rank1] = join_two([] { limit(RLIMIT_NOFILE, 14); });
  EXPECT_TRUE(found(rank1, "^NO_RESOURCE: needs [1-9] more descriptors, limit 14: 12 for a group"));
  EXPECT_TRUE(found(rank0, "^REMOTE_ERROR: rank 1 could not join: NO_RESOURCE"));
}

TEST(Resources, SmallFileSizeLimit_NoSignal) {
  const auto [rank0, rank1] = join_two([] { limit(RLIMIT_FSIZE, 4096); });
  EXPECT_TRUE(found(rank1, "^NO_RESOURCE: shared memory of [0-9]+ bytes, where at most 4096"));
  EXPECT_TRUE(found(rank0, "^REMOTE_ERROR: rank 1 could not join: NO_RESOURCE"));
}

/** A call of more values than rank 1 has memory to send; both outcomes. */
TEST(Resources, ArenaDoesNotFit_BreaksTheGroupOnAllRanks) {
  constexpr size_t kMany = 16 << 20;
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  const auto take_part = [&](int rank) {
    gqsgd_comm comm = nullptr;
    const Outcome made =
        outcome_of(gqsgd_comm_create_process(&id, rank, 2, "timeout_ms=20000", &comm));
    if (made.status != GQSGD_OK) return made.text();
    const std::unique_ptr<float[]> values(new float[kMany]());
    if (rank == 1) {
      size_t pages = 0;
      FILE* file = fopen("/proc/self/statm", "r");
      if (file == nullptr || fscanf(file, "%zu", &pages) != 1) return std::string("no statm");
      fclose(file);
      limit(RLIMIT_AS, pages * 4096 + (1 << 20));
    }
    Call call(rank);
    call.send = values.get();
    call.recv = values.get();
    call.value_count = kMany;
    const std::string first = call.make(comm).text(), second = call.make(comm).text();
    return first + " | " + second;
  };
  Child rank0([&] { return take_part(0); }), rank1([&] { return take_part(1); });
  EXPECT_TRUE(found(rank1.line(),
                    "^NO_MEMORY: .* bytes.* ulimit -v allows this process [0-9]+ MiB.* "
                    "\\| NO_MEMORY"));
  EXPECT_TRUE(found(rank0.line(), "^REMOTE_ERROR: rank 1 broke off with NO_MEMORY"));
}

TEST(Resources, ReserveDoesNotFit_CommunicatorUsable) {
  gqsgd_comm comms[1];
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_process(&id, 0, 1, "", comms))));
  Call call(0);
  call.use("none");  // 4 bytes for each value and memory for nothing else
  EXPECT_TRUE(
      is(outcome_of(gqsgd_comm_reserve(comms[0], call.quantizer, size_t{1} << 37, GQSGD_FLOAT32)),
         GQSGD_NO_MEMORY, "committing 549755813888 bytes of shared memory.* memory are free"));
  EXPECT_TRUE(
      is(outcome_of(gqsgd_comm_reserve(comms[0], call.quantizer, size_t{1} << 40, GQSGD_FLOAT32)),
         GQSGD_NO_RESOURCE, "shared memory of 4398046511104 bytes, where at most"));
  EXPECT_TRUE(is_ok(call.make(comms[0])));
  EXPECT_EQ(gqsgd_comm_destroy(comms[0]), GQSGD_OK);
}

}  // namespace
}  // namespace gq::test
