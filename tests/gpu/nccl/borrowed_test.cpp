// Groups on communicators that the caller made: used, never aborted or destroyed.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "src/transport/nccl/nccl_types.h"
#include "tests/gpu/nccl/faults.h"

namespace gq::test {
namespace {

TEST(BorrowedNccl, Communicator_UsedAndLeftAlone) {
  const UseHostDevice device;
  const auto* library = nccl_of_tests();
  nccl::Id id;
  ASSERT_EQ(library->get_unique_id(&id), nccl::kSuccess);
  const int comms_before = made_comms(), aborts_before = aborted_comms();
  const std::vector<Values> inputs = gradients(2, 900, 6);
  const Values expected = simulate(usual(), inputs);
  std::vector<std::thread> ranks;
  std::string said[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      nccl::Config config;
      nccl::Comm theirs = nullptr;
      (void)library->init(&theirs, 2, id, rank, &config);
      gqsgd_comm comm = nullptr;
      std::string& line = said[rank];
      if (gqsgd_comm_create_from_nccl(theirs, stand_in_options().c_str(), &comm) != GQSGD_OK) {
        line = gqsgd_last_error();
        return;
      }
      int32_t got_rank = -1, got_size = -1;
      gqsgd_comm_rank(comm, &got_rank);
      gqsgd_comm_size(comm, &got_size);
      if (got_rank != rank || got_size != 2) line = "another rank or size";
      StreamCall made(inputs[static_cast<size_t>(rank)]);
      if (made.make(comm, usual()) != GQSGD_OK || !made.wait()) line = gqsgd_last_error();
      line += difference(made.result(), expected);
      gqsgd_comm_abort(comm);
      gqsgd_comm_destroy(comm);
      (void)library->destroy(theirs);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(said[0] + said[1], "");
  EXPECT_EQ(made_comms(), comms_before);
  EXPECT_EQ(aborted_comms(), aborts_before);
}

std::set<int32_t> pinned_on;

/** CUDA makes a context on the device where memory is first pinned. */
TEST(BorrowedNccl, ThreadIsOnAnotherDevice_NothingPinnedThere) {
  Device watched = host_device();
  watched.allocate_pinned = [](size_t size_bytes, void** memory) {
    int32_t here = -1;
    (void)host_device().current(&here).ok();
    pinned_on.insert(here);
    return host_device().allocate_pinned(size_bytes, memory);
  };
  const UseHostDevice device(watched);
  const auto* library = nccl_of_tests();
  nccl::Id id;
  nccl::Config config;
  nccl::Comm theirs = nullptr;
  ASSERT_EQ(library->get_unique_id(&id), nccl::kSuccess);
  ASSERT_EQ(library->init(&theirs, 1, id, 0, &config), nccl::kInProgress);
  gqsgd_comm comm = nullptr;
  (void)host_device().set_current(1).ok();
  EXPECT_EQ(gqsgd_comm_create_from_nccl(theirs, stand_in_options().c_str(), &comm), GQSGD_OK)
      << gqsgd_last_error();
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
  (void)host_device().set_current(0).ok();
  EXPECT_EQ(pinned_on, std::set<int32_t>{0});
  (void)library->destroy(theirs);
}

/** Communicators of two ranks that the test owns. */
struct BorrowedPair {
  const NcclLibrary* const library = nccl_of_tests();
  nccl::Comm comms[2] = {};

  BorrowedPair() {
    nccl::Id id;
    (void)library->get_unique_id(&id);
    for (int rank = 0; rank < 2; ++rank) {
      nccl::Config config;
      (void)library->init(&comms[rank], 2, id, rank, &config);
    }
  }
};

/** CUDA frees nothing while a kernel runs, and NCCL's kernel waits until its owner aborts. */
TEST(BorrowedNccl, MissingRank_MemoryInUseKept) {
  const UseHostDevice device;
  const BorrowedPair pair;
  const size_t memory_before = allocations_in_use();
  std::thread owner([&] {  // The end of a stream waits here, as CUDA's does not.
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    (void)pair.library->abort(pair.comms[0]);
  });
  gqsgd_comm comm = nullptr;
  EXPECT_TRUE(says(gqsgd_comm_create_from_nccl(
                       pair.comms[0], stand_in_options("timeout_ms=300").c_str(), &comm),
                   GQSGD_TIMEOUT, "waited 300 ms for a first word"));
  owner.join();
  EXPECT_EQ(comm, nullptr);
  constexpr size_t kBrokenHostsAndWords = 3;
  EXPECT_EQ(allocations_in_use(), memory_before + kBrokenHostsAndWords);
  (void)pair.library->destroy(pair.comms[1]);
}

TEST(BorrowedNccl, RankDoesNotCall_DestroyedWithoutWaitingAndMemoryInUseKept) {
  const UseHostDevice device;
  const BorrowedPair pair;
  gqsgd_comm comms[2] = {};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::string options = stand_in_options("timeout_ms=300");
      (void)gqsgd_comm_create_from_nccl(pair.comms[rank], options.c_str(), &comms[rank]);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  StreamCall made(some_values());
  EXPECT_TRUE(says(made.make(comms[0], usual()), GQSGD_TIMEOUT, "waited 300 ms"));
  const size_t memory_before = allocations_in_use();
  const auto begun = Clock::now();
  EXPECT_EQ(gqsgd_comm_destroy(comms[0]), GQSGD_OK);
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
  EXPECT_EQ(allocations_in_use(), memory_before);
  (void)pair.library->abort(pair.comms[0]);
  EXPECT_TRUE(made.wait(5000));
  gqsgd_comm_destroy(comms[1]);
  (void)pair.library->destroy(pair.comms[1]);
}

}  // namespace
}  // namespace gq::test
