// Lists of tensors over NCCL where only some ranks have captured a graph: their calls outside of it
// go on, and calls that differ are MISMATCH by name. All ranks gather as much in every call.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/gpu/stream_calls/counted_call.h"

namespace gq::test {
namespace {

using Counts = std::vector<size_t>;

/** Buffers of one list on one rank, whose step is counted. */
class ListCall {
 public:
  explicit ListCall(const Counts& counts)
      : quantizer_("paper-gl8"),
        counts_(counts),
        value_count_(std::accumulate(counts.begin(), counts.end(), size_t{0})),
        send_(value_count_ * sizeof(float)),
        recv_(value_count_ * sizeof(float)) {
    for (size_t k = 0, offset = 0; k < counts_.size(); offset += counts_[k++]) {
      send_places_.push_back(send_.as<float>() + offset);
      recv_places_.push_back(recv_.as<float>() + offset);
    }
  }

  gqsgd_status make(gqsgd_comm comm, int rank, const OwnStream& stream) {
    const Values values = gradients(rank + 1, value_count_, 60).back();
    std::memcpy(send_.as<float>(), values.data(), value_count_ * sizeof(float));
    std::memset(recv_.as<char>(), 0x5A, value_count_ * sizeof(float));
    return gqsgd_allreduce_many(comm, quantizer_.get(), send_places_.data(), recv_places_.data(),
                                counts_.data(), counts_.size(), GQSGD_FLOAT32, GQSGD_MEAN, nullptr,
                                stream.get());
  }
  std::string capture(gqsgd_comm comm, int rank, const OwnStream& stream, HostGraph* graph) {
    graph->begin_capture(stream.get());
    const gqsgd_status status = make(comm, rank, stream);
    const bool whole = graph->end_capture(stream.get());
    if (status != GQSGD_OK) return gqsgd_last_error();
    return whole ? "" : "the capture has work that the stream does not come after";
  }
  Values result() const { return Values(recv_.as<float>(), recv_.as<float>() + value_count_); }
  bool untouched() const { return recv_.as<char>()[0] == 0x5A; }

 private:
  Quantizer quantizer_;
  Counts counts_;
  size_t value_count_;
  DeviceMemory send_, recv_;
  std::vector<const void*> send_places_;
  std::vector<void*> recv_places_;
};

/** A list whose norms travel with the control messages, and one whose norms do not fit there. */
const Counts kLists[] = {{5, 300, 64}, Counts(300, 3)};

/** Results of rank 0 of four calls, before the last two of which `capturing` rank, if there is one,
 *  captures the same call. */
std::vector<Values> results_of(const Counts& counts, int capturing) {
  constexpr int kRanks = 3;
  const NcclGroup group(kRanks);
  std::vector<Values> results;
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    ListCall call(counts);
    HostGraph graph;
    const OwnStream stream;
    for (int step = 0; step < 4; ++step) {
      if (step == 2 && rank == capturing) {
        const std::string failure = call.capture(comm, rank, stream, &graph);
        if (!failure.empty()) return failure;
      }
      if (call.make(comm, rank, stream) != GQSGD_OK) return gqsgd_last_error();
      if (!stream.synchronize()) return "the stream does not get through";
      if (rank == 0) results.push_back(call.result());
    }
    return gqsgd_comm_status(comm) == GQSGD_OK ? "" : gqsgd_last_error();
  }),
            "");
  return results;
}

TEST(GraphsOfLists, OneRankHasCaptured_CallsOfAllGoOn) {
  for (const Counts& counts : kLists) {
    const std::vector<Values> expected = results_of(counts, -1);
    for (const int capturing : {0, 1}) EXPECT_EQ(results_of(counts, capturing), expected);
  }
}

/** Rank 1 replays its graph; the others, which have none, make another call. */
std::string make_beside_a_replay(gqsgd_comm comm, int rank, const Counts& counts,
                                 const Counts& other_counts) {
  ListCall call(counts), other(other_counts);
  HostGraph graph;
  const OwnStream stream;
  for (int step = 0; step < 2; ++step) {
    if (call.make(comm, rank, stream) != GQSGD_OK) return gqsgd_last_error();
    if (!stream.synchronize()) return "the stream does not get through";
  }
  if (rank != 1) {
    if (other.make(comm, rank, stream) != GQSGD_MISMATCH) return "no difference was found";
    const std::string sentence = gqsgd_last_error();
    if (sentence.find("counts differ: ") == std::string::npos) return sentence;
  } else {
    const std::string failure = call.capture(comm, rank, stream, &graph);
    if (!failure.empty()) return failure;
    graph.replay(stream.get());
  }
  if (!stream.synchronize()) return "the stream does not get through";
  if (!(rank == 1 ? call : other).untouched()) return "something was written";
  if (rank == 1 && gqsgd_comm_status(comm) != GQSGD_MISMATCH) return "nothing was found";
  return "";
}

TEST(GraphsOfLists, OneRankReplays_OtherCallIsMismatchByName) {
  for (const Counts& counts : kLists) {
    Counts other = counts;
    std::swap(other.front(), other.back());
    other.front() += 1;
    other.back() -= 1;
    const NcclGroup group(3);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
      return make_beside_a_replay(comm, rank, counts, other);
    }),
              "");
  }
}

}  // namespace
}  // namespace gq::test
