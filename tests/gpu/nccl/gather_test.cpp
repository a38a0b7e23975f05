// Results of all parts are one gather of NCCL's, where parts are one chunk: how many messages and
// gathers that leaves, and what ranks count as sent.
#include <gtest/gtest.h>

#include "tests/gpu/nccl/group.h"

namespace gq::test {
namespace {

constexpr int kRanks = 4;
constexpr int kMessages = kRanks * (kRanks - 1);  // one of every rank for all others

/** What a group enqueues for one call, once it is the one that is expected. */
StandInTraffic traffic_of(const Operation& call, size_t value_count, const std::string& options,
                          uint64_t* sent_bytes = nullptr) {
  const NcclGroup group(kRanks, options);
  const std::vector<Values> inputs = gradients(kRanks, value_count, 3);
  const Values expected = simulate(call, inputs, options);
  const auto make = [&] {
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      StreamCall made(inputs[static_cast<size_t>(rank)]);
      if (made.make(comm, call) != GQSGD_OK || !made.wait()) return gqsgd_last_error();
      return difference(made.result(), expected);
    }),
              "")
        << describe(call) << ' ' << value_count;
  };
  make();
  const StandInTraffic before = traffic();
  make();
  if (sent_bytes != nullptr) {
    EXPECT_EQ(gqsgd_comm_stat(group.comm(1), "payload_bytes_sent", sent_bytes), GQSGD_OK);
  }
  const StandInTraffic after = traffic();
  return {after.sends - before.sends, after.gathers - before.gathers};
}

Operation direct(const char* format) { return {format, GQSGD_SCHEDULE_DIRECT}; }

/** Codes are messages; control messages, merged norms of blocks and sums are gathers, also where
 *  the last part is shorter. */
TEST(Gather, DirectCallOfOneChunk_SumsAndNorms) {
  for (const size_t value_count : {4096, 4099, 1021}) {
    const StandInTraffic plain = traffic_of(direct("paper-ge8"), value_count, "");
    EXPECT_EQ(plain.sends, kMessages) << value_count;
    EXPECT_EQ(plain.gathers, 2 * kRanks) << value_count;
    const StandInTraffic blocks = traffic_of(direct("blocks-8"), value_count, "");
    EXPECT_EQ(blocks.sends, 2 * kMessages) << value_count;
    EXPECT_EQ(blocks.gathers, 3 * kRanks) << value_count;
  }
}

/** Chunks of a part do not follow each other, and other schedules pass results on. */
TEST(Gather, ChunksAndOtherSchedules_Messages) {
  const StandInTraffic chunks = traffic_of(direct("paper-ge8"), 4096, "chunk_value_count=256");
  EXPECT_EQ(chunks.sends, 2 * 4 * kMessages);
  EXPECT_EQ(chunks.gathers, kRanks);
  const StandInTraffic ring = traffic_of({"paper-ge8", GQSGD_SCHEDULE_RING}, 4096, "");
  EXPECT_EQ(ring.gathers, kRanks);
}

/** A rank without a part of its own has nothing to share. */
TEST(Gather, FewerPartsThanRanks_Messages) {
  EXPECT_EQ(traffic_of(direct("paper-ge8"), 40, "").gathers, kRanks);
}

/** As many bytes as by messages: codes of other parts, and the own part's sums for each peer. */
TEST(Gather, DirectCall_SentBytesAreThoseOfMessages) {
  uint64_t sent_bytes = 0;
  traffic_of(direct("paper-ge8"), 4096, "", &sent_bytes);
  EXPECT_EQ(sent_bytes, 2u * 2 * (kRanks - 1) * 4096 / kRanks);  // of two calls
}

}  // namespace
}  // namespace gq::test
