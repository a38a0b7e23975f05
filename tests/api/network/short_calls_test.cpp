// Short calls over a network: one message to each peer, and the bits of threads.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/api/network/network_ranks.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr size_t kPacketBytes = 1024;  // of values to a peer, at most
constexpr size_t kAllBytes = 4096;     // to all of them together

/** The most bytes of a short call. */
size_t most_bytes(int ranks) {
  const size_t each = kAllBytes / static_cast<size_t>(ranks - 1);
  return each < kPacketBytes ? each : kPacketBytes;
}

struct Traffic {
  uint64_t messages = 0, bytes = 0;
};

Traffic traffic_of(gqsgd_comm comm) {
  return {counter_of(comm, "messages_sent"), counter_of(comm, "payload_bytes_sent")};
}

class ShortCalls : public testing::TestWithParam<int> {};

/** By the counters: the longest short call, and one value more. */
TEST_P(ShortCalls, OneMessageToEachPeer) {
  GQ_SKIP_WITHOUT_NETWORK();
  const size_t most = most_bytes(GetParam()) / sizeof(float);
  const auto inputs = gradients(GetParam(), most + 1, 3);
  const auto peers = static_cast<uint64_t>(GetParam() - 1);
  const RankBody body = [&](int rank, gqsgd_comm comm) -> std::string {
    for (const char* format : {"blocks-8", "none", "adaptive-4", "rice-4", "paper-gl8"}) {
      for (const size_t count : {most, most + 1}) {
        Values input = inputs[static_cast<size_t>(rank)], result;
        input.resize(count);
        const Traffic before = traffic_of(comm);
        const std::string failure =
            allreduce(comm, {format, GQSGD_SCHEDULE_DIRECT}, input, &result);
        if (!failure.empty()) return failure;
        const Traffic after = traffic_of(comm);
        const uint64_t messages = after.messages - before.messages;
        const uint64_t bytes = after.bytes - before.bytes;
        const bool is_short = messages == peers && bytes == peers * count * sizeof(float);
        if (is_short != (count == most)) {
          return std::string(format) + ", " + std::to_string(count) + " values: " +
                 std::to_string(messages) + " messages, " + std::to_string(bytes) + " bytes";
        }
      }
    }
    return "";
  };
  RankProcesses ranks(GetParam(), "timeout_ms=60000", body, network_maker());
  EXPECT_EQ(ranks.wait(), "");
}

/** With constants, AUTO knows that such a call of floats is one exchange: otherwise few messages,
 *  which take long by these, would be best. Without constants it has codes. */
TEST(ShortCallsOfAuto, OneMessageToEachPeer_FloatsWithConstants) {
  GQ_SKIP_WITHOUT_NETWORK();
  constexpr int kRanks = 4;
  const auto inputs = gradients(kRanks, 256, 3);
  for (const bool has_costs : {false, true}) {
    const std::string costs = has_costs ? ",costs=message_ns=1000000;latency_ns=20000" : "";
    const std::string options = "timeout_ms=60000" + costs;
    const RankBody body = [&](int rank, gqsgd_comm comm) -> std::string {
      const Values& input = inputs[static_cast<size_t>(rank)];
      const char* const same = has_costs ? "none" : "blocks-8";
      Values result, expected;
      const Traffic before = traffic_of(comm);
      std::string failure = allreduce(comm, {"blocks-8", GQSGD_SCHEDULE_AUTO}, input, &result);
      const uint64_t messages = traffic_of(comm).messages - before.messages;
      if (failure.empty()) {
        failure = allreduce(comm, {same, GQSGD_SCHEDULE_DIRECT}, input, &expected);
      }
      if (!failure.empty()) return failure;
      if (messages != kRanks - 1) return std::to_string(messages) + " messages";
      return result == expected ? "" : "other values than those of " + std::string(same);
    };
    RankProcesses ranks(kRanks, options.c_str(), body, network_maker());
    EXPECT_EQ(ranks.wait(), "") << options;
  }
}

struct List {
  const char* quantizer;
  gqsgd_dtype dtype;
  bool in_place;
  std::vector<size_t> counts;
};

std::vector<List> lists() {
  std::vector<List> all;
  for (const char* format :
       {"none", "blocks-8", "paper-gl8", "rotated-4-8", "adaptive-4", "rice-4"}) {
    for (const gqsgd_dtype dtype :
         {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64}) {
      for (const bool in_place : {false, true}) {
        all.push_back({format, dtype, in_place, {5, 0, 33, 7, 1, 0}});
        all.push_back({format, dtype, in_place, {64}});
      }
    }
  }
  return all;
}

/** Adds the results of one call of allreduce_many to `bytes`. */
std::string reduce_list(int rank, gqsgd_comm comm, const List& list,
                        std::vector<unsigned char>* bytes) {
  const Quantizer quantizer(list.quantizer);
  const size_t element_bytes = list.dtype == GQSGD_FLOAT64   ? 8
                               : list.dtype == GQSGD_FLOAT32 ? 4
                                                             : 2;
  std::vector<std::vector<uint64_t>> given, results;
  std::vector<const void*> send;
  std::vector<void*> recv;
  for (const size_t count : list.counts) {
    std::vector<uint64_t> words(count + 1);
    auto* const first = reinterpret_cast<unsigned char*>(words.data());
    for (size_t e = 0; e < count; ++e) {
      // Finite in every type: the highest exponent bits are not all set.
      const uint64_t word = mix(e + 7919 * static_cast<uint64_t>(rank)) & 0xbfffbfffbfffbfffu;
      std::memcpy(first + e * element_bytes, &word, element_bytes);
    }
    given.push_back(words);
    results.push_back(list.in_place ? words : std::vector<uint64_t>(count + 1, 7));
  }
  for (size_t k = 0; k < given.size(); ++k) {
    recv.push_back(results[k].data());
    send.push_back(list.in_place ? recv[k] : given[k].data());
  }
  const gqsgd_status status = gqsgd_allreduce_many(
      comm, quantizer.get(), send.data(), recv.data(), list.counts.data(), list.counts.size(),
      list.dtype, GQSGD_MEAN, config_at(5, 2, GQSGD_SCHEDULE_DIRECT), nullptr);
  if (status != GQSGD_OK) return failure_of(status, list.quantizer);
  for (const auto& result : results) {
    const auto* const first = reinterpret_cast<const unsigned char*>(result.data());
    bytes->insert(bytes->end(), first, first + result.size() * sizeof result[0]);
  }
  return "";
}

std::string reduce_lists(int rank, gqsgd_comm comm, std::vector<unsigned char>* bytes) {
  for (const List& list : lists()) {
    const std::string failure = reduce_list(rank, comm, list, bytes);
    if (!failure.empty()) return failure;
  }
  return "";
}

TEST_P(ShortCalls, ListsOfAllElementTypes_BitsOfThreads) {
  GQ_SKIP_WITHOUT_NETWORK();
  std::vector<std::vector<unsigned char>> expected(static_cast<size_t>(GetParam()));
  ASSERT_EQ(run_threads(GetParam(), "",
                        [&](int rank, gqsgd_comm comm) {
                          return reduce_lists(rank, comm, &expected[static_cast<size_t>(rank)]);
                        }),
            "");
  const RankBody body = [&](int rank, gqsgd_comm comm) -> std::string {
    std::vector<unsigned char> bytes;
    const std::string failure = reduce_lists(rank, comm, &bytes);
    if (!failure.empty()) return failure;
    return bytes == expected[static_cast<size_t>(rank)] ? "" : "other bits";
  };
  RankProcesses ranks(GetParam(), "timeout_ms=60000", body, network_maker());
  EXPECT_EQ(ranks.wait(), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShortCalls, testing::Values(2, 3, 5, 8));

/** Ranks that ask for different calls find out, whether they sent values or not. */
TEST(ShortCallsMismatch, OtherLength_NamedOnBothRanks) {
  GQ_SKIP_WITHOUT_NETWORK();
  const auto inputs = gradients(2, 5000, 3);
  const RankBody body = [&](int rank, gqsgd_comm comm) -> std::string {
    for (const size_t other : {size_t{7}, size_t{5000}}) {
      Values input = inputs[static_cast<size_t>(rank)], result(other);
      const size_t count = rank == 0 ? 100 : other;
      const gqsgd_status status =
          gqsgd_allreduce(comm, Quantizer("blocks-8").get(), input.data(), input.data(), count,
                          GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
      if (status != GQSGD_MISMATCH) return failure_of(status, "not a mismatch");
      // The communicator goes on.
      const std::string failure = allreduce(
          comm, {"blocks-8", GQSGD_SCHEDULE_DIRECT}, inputs[static_cast<size_t>(rank)], &result);
      if (!failure.empty()) return failure;
    }
    return "";
  };
  RankProcesses ranks(2, "timeout_ms=60000", body, network_maker());
  EXPECT_EQ(ranks.wait(), "");
}

}  // namespace
}  // namespace gq::test
