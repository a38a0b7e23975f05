// What goes wrong between the two control messages of the sparse schedule, and after the second:
// the last rank is played by the test, message by message.
#include "src/call/sparse.h"

#include <gtest/gtest.h>
#include <string.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/call/agreement.h"
#include "src/call/progress_loop.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/succeeds.h"

namespace gq {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint32_t kPlayed = 2;
constexpr size_t kValues = 1000;

/** How one rank's call ended. */
struct Outcome {
  gqsgd_status status = GQSGD_OK;
  std::string sentence;
  bool broken = false;
};

/** Two ranks that run one call in place, and one that the test plays. */
class Played {
 public:
  explicit Played(int64_t timeout_ms) : values_(kRanks, std::vector<float>(kValues)) {
    std::vector<std::unique_ptr<HostTransport>> transports(kRanks);
    EXPECT_TRUE(test::succeeds(create_local(kRanks, transports.data())));
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      endpoints_[rank].set_transport(std::move(transports[rank]));
      endpoints_[rank].stages = cpu_stages_named("scalar");
      endpoints_[rank].chunk_value_count = 64;
      endpoints_[rank].timeout_ms = timeout_ms;
      for (size_t e = rank; e < kValues; e += 100) values_[rank][e] = 1;
      EXPECT_TRUE(test::succeeds(parse_quantizer("paper-gl8", &calls_[rank].format)));
      calls_[rank].send = calls_[rank].recv = values_[rank].data();
      calls_[rank].value_count = kValues;
      calls_[rank].schedule_id = GQSGD_SCHEDULE_SPARSE;
    }
    given_ = values_;
    for (uint32_t rank = 0; rank < kPlayed; ++rank) {
      threads_.emplace_back([this, rank] { run(rank); });
    }
  }

  /** Sends a right control message, of the call or of its entry count, but for bits of a word. */
  void send_control(uint64_t sequence, uint32_t low, ControlWord word = kControlTag,
                    uint32_t changed_bits = 0) {
    Endpoint& endpoint = endpoints_[kPlayed];
    endpoint.sequence = sequence;
    ControlMessage control =
        Agreement::control_of(endpoint, calls_[kPlayed], GQSGD_SCHEDULE_SPARSE, NormWords{low, 0});
    control.words[word] ^= changed_bits;
    ASSERT_TRUE(test::succeeds(endpoint.host->send_control(sequence, control)));
  }

  /** Sends these entries to both others, from the place of the sparse entries. */
  void send_entries(const std::vector<uint32_t>& entries) {
    Plan plan;
    ASSERT_TRUE(
        make_plan({&calls_[kPlayed].format, GQSGD_SCHEDULE_SPARSE, kRanks, kValues, 64, true},
                  &plan)
            .ok());
    unsigned char* arena = nullptr;
    ASSERT_TRUE(transport().arena(plan.layout.arena_bytes(), &arena).ok());
    memcpy(arena + plan.layout.sparse_bytes(), entries.data(), 4 * entries.size());
    for (uint32_t rank = 0; rank < kPlayed; ++rank) {
      const Message message{rank, kPlayed, kPlayed, plan.layout.sparse_bytes(), 4 * entries.size(),
                            0};
      ASSERT_TRUE(test::succeeds(transport().send(message)));
    }
  }

  void die() { endpoints_[kPlayed].host.reset(); }

  /** Waits until both calls have ended. */
  const Outcome* join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return outcomes_;
  }
  ~Played() { join(); }

  bool untouched(uint32_t rank) const { return values_[rank] == given_[rank]; }
  const std::vector<float>& values(uint32_t rank) const { return values_[rank]; }

 private:
  HostTransport& transport() { return *endpoints_[kPlayed].host; }

  void run(uint32_t rank) {
    Outcome& outcome = outcomes_[rank];
    const Status status = allreduce(endpoints_[rank], calls_[rank], Status());
    outcome.status = status.code();
    outcome.sentence = status.sentence();
    outcome.broken = !endpoints_[rank].failure.get().ok();
  }

  Endpoint endpoints_[kRanks];
  Call calls_[kRanks];
  std::vector<std::vector<float>> values_, given_;
  Outcome outcomes_[kRanks];
  std::vector<std::thread> threads_;
};

constexpr uint32_t kOne = 0x3f800000;  // the norm of every rank

void expect_broken(Played& group, gqsgd_status status, const std::string& sentence) {
  const Outcome* outcomes = group.join();
  bool told = false;
  for (uint32_t rank = 0; rank < kPlayed; ++rank) {
    EXPECT_EQ(outcomes[rank].status, status) << outcomes[rank].sentence;
    EXPECT_TRUE(outcomes[rank].broken);
    told = told || outcomes[rank].sentence.find(sentence) != std::string::npos;
  }
  EXPECT_TRUE(told) << outcomes[0].sentence << " / " << outcomes[1].sentence;
}

TEST(SparseEntries, EntriesOfThreeRanks_Added) {
  Played group(20000);
  group.send_control(1, kOne);
  group.send_control(2, 2);
  group.send_entries({2u << 8 | 254, 99u << 8 | 0});
  const Outcome* outcomes = group.join();
  for (uint32_t rank = 0; rank < kPlayed; ++rank) {
    ASSERT_EQ(outcomes[rank].status, GQSGD_OK) << outcomes[rank].sentence;
    EXPECT_FLOAT_EQ(group.values(rank)[0], 1.0f / 3);
    EXPECT_FLOAT_EQ(group.values(rank)[2], 1.0f / 3);
    EXPECT_FLOAT_EQ(group.values(rank)[102], -1.0f / 3);
  }
}

TEST(SparseEntries, RankDiesBetweenTheControlMessages_Named) {
  Played group(20000);
  group.send_control(1, kOne);
  group.die();
  expect_broken(group, GQSGD_PEER_LOST, "rank 2");
  EXPECT_TRUE(group.untouched(0) && group.untouched(1));
}

TEST(SparseEntries, RankDiesBeforeItsEntries_Named) {
  Played group(20000);
  group.send_control(1, kOne);
  group.send_control(2, 2);
  group.die();
  expect_broken(group, GQSGD_PEER_LOST, "rank 2");
  EXPECT_TRUE(group.untouched(0) && group.untouched(1));
}

TEST(SparseEntries, CountMissing_NamedByTimeout) {
  Played group(200);
  group.send_control(1, kOne);
  expect_broken(group, GQSGD_TIMEOUT, "ms for rank 2 to count codes (schedule sparse)");
  EXPECT_TRUE(group.untouched(0) && group.untouched(1));
}

TEST(SparseEntries, EntriesMissing_NamedByTimeout) {
  Played group(200);
  group.send_control(1, kOne);
  group.send_control(2, 7);
  expect_broken(group, GQSGD_TIMEOUT, "ms for 7 entries from rank 2");
  EXPECT_TRUE(group.untouched(0) && group.untouched(1));
}

TEST(SparseEntries, SecondControlMessageOfAnotherCall_Refused) {
  for (const ControlWord word :
       {kControlTag, kControlDigestLow, kControlDigestHigh, kControlChecksum}) {
    Played group(20000);
    group.send_control(1, kOne);
    group.send_control(2, 2, word, 1);
    expect_broken(group, GQSGD_PROTOCOL,
                  "the entry count of rank 2 comes with the control message of another");
    EXPECT_TRUE(group.untouched(0) && group.untouched(1)) << "word " << word;
  }
}

TEST(SparseEntries, EntriesBeyondTheCall_Refused) {
  Played group(20000);
  group.send_control(1, kOne);
  group.send_control(2, 2);
  group.send_entries({3u << 8 | 254, 4000u << 8 | 254});
  expect_broken(group, GQSGD_PROTOCOL, "entry 1 of 2 from rank 2 lies outside the call's 1000");
  EXPECT_TRUE(group.untouched(0) && group.untouched(1));
}

}  // namespace
}  // namespace gq
