// Tensors and slices on streams, over NCCL or among threads, give the bits that ranks on threads
// give for host memory: every kind of format, tensors of any length, in place and not, in any
// chunks.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/gpu/stream_calls/stream_group.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

const Config kAt = config_at(6, 3);
using Counts = std::vector<size_t>;

size_t offset_of(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, size_t{0});
}

enum class Kind { many, scatter, gather };
constexpr Kind kKinds[] = {Kind::many, Kind::scatter, Kind::gather};

struct SegmentCall {
  Kind kind;
  std::string quantizer;
  Counts counts;
  gqsgd_schedule schedule = GQSGD_SCHEDULE_DIRECT;
  gqsgd_op op = GQSGD_MEAN;
  bool in_place = false;
};

std::string describe(const SegmentCall& call) {
  const char* kinds[] = {"allreduce_many ", "reduce_scatter ", "allgather "};
  std::string text = kinds[static_cast<int>(call.kind)];
  text.append(call.quantizer).append(" ").append(schedule_name(call.schedule));
  text.append(call.in_place ? " in place:" : ":");
  for (const size_t count : call.counts) text.append(" ").append(std::to_string(count));
  return text;
}

/** Where values are, and where the result goes: `whole` has all segments, one after the other. */
struct Buffers {
  float* given;   ///< all values of this rank
  float* result;  ///< capacity for as many
};

/** Makes the call on memory of whichever kind. In place is in `given`. */
gqsgd_status make(gqsgd_comm comm, const SegmentCall& call, int rank, const Buffers& buffers,
                  void* stream) {
  const Quantizer quantizer(call.quantizer);
  float* const result = call.in_place ? buffers.given : buffers.result;
  const size_t own = offset_of(call.counts, call.kind == Kind::many ? 0 : rank);
  if (call.kind == Kind::scatter) {
    return gqsgd_reduce_scatter(comm, quantizer.get(), buffers.given, result + own,
                                call.counts.data(), GQSGD_FLOAT32, call.op, kAt, stream);
  }
  if (call.kind == Kind::gather) {
    return gqsgd_allgather(comm, quantizer.get(), buffers.given + own, result, call.counts.data(),
                           GQSGD_FLOAT32, kAt, stream);
  }
  std::vector<const void*> send;
  std::vector<void*> recv;
  for (size_t k = 0; k < call.counts.size(); ++k) {
    const size_t offset = offset_of(call.counts, static_cast<int>(k));
    send.push_back(buffers.given + offset);
    recv.push_back(result + offset);
  }
  return gqsgd_allreduce_many(comm, quantizer.get(), send.data(), recv.data(), call.counts.data(),
                              call.counts.size(), GQSGD_FLOAT32, call.op,
                              config_at(6, 3, call.schedule), stream);
}

/** What of the result belongs to this rank. */
Values part_of(const SegmentCall& call, int rank, const float* result) {
  if (call.kind != Kind::scatter) return Values(result, result + total_of(call.counts));
  const float* own = result + offset_of(call.counts, rank);
  return Values(own, own + call.counts[static_cast<size_t>(rank)]);
}

/** Threads have no allreduce of their own: a tree adds the same integers. */
std::vector<Values> on_host(SegmentCall call, const std::vector<Values>& given) {
  if (call.schedule == GQSGD_SCHEDULE_NATIVE) call.schedule = GQSGD_SCHEDULE_TREE;
  std::vector<Values> results(given.size());
  EXPECT_EQ(run_threads(static_cast<int>(given.size()), "",
                        [&](int rank, gqsgd_comm comm) {
                          const size_t r = static_cast<size_t>(rank);
                          Values send = given[r], recv(given[r].size(), -1.0f);
                          const Buffers buffers{send.data(), recv.data()};
                          const gqsgd_status status = make(comm, call, rank, buffers, nullptr);
                          results[r] =
                              part_of(call, rank, call.in_place ? send.data() : recv.data());
                          return failure_of(status, "the call on host memory");
                        }),
            "");
  return results;
}

/** Every rank makes `calls` on its stream, waits once, and compares. */
std::string compare(const StreamGroup& group, const std::vector<SegmentCall>& calls) {
  std::vector<std::vector<Values>> given, expected;
  for (const SegmentCall& call : calls) {
    given.push_back(gradients(group.size(), total_of(call.counts), 70 + given.size()));
    expected.push_back(on_host(call, given.back()));
  }
  return group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const size_t r = static_cast<size_t>(rank);
    const OwnStream stream;
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    std::vector<Buffers> buffers;
    for (size_t k = 0; k < calls.size(); ++k) {
      const size_t size_bytes = given[k][r].size() * sizeof(float);
      for (int copy = 0; copy < 2; ++copy)
        memory.push_back(std::make_unique<DeviceMemory>(size_bytes));
      buffers.push_back({memory[2 * k]->as<float>(), memory[2 * k + 1]->as<float>()});
      if (size_bytes > 0) std::memcpy(buffers[k].given, given[k][r].data(), size_bytes);
      if (make(comm, calls[k], rank, buffers[k], stream.get()) != GQSGD_OK) {
        return describe(calls[k]) + ": " + gqsgd_last_error();
      }
    }
    if (!stream.synchronize()) return "the stream does not get through";
    for (size_t k = 0; k < calls.size(); ++k) {
      const float* result = calls[k].in_place ? buffers[k].given : buffers[k].result;
      const std::string found = difference(part_of(calls[k], rank, result), expected[k][r]);
      if (!found.empty()) return describe(calls[k]) + ": " + found;
    }
    return "";
  });
}

const char* const kFormats[] = {"paper-gl8",
                                "paper-ge8,norm=2:2",
                                "paper-gl4,norm=1:inf,rotate=hadamard",
                                "none",
                                "blocks-8",
                                "rotated-8",
                                "rotated-4",
                                "rotated-4-8",
                                "relative-8",
                                "adaptive-4",
                                "adaptive-5,rounding=nearest",
                                "rice-4",
                                "rice-3,rounding=nearest",
                                "paper-ge4,block=64,rounding=correlated"};

/** The k-th list of lengths for so many slices; some are empty. */
Counts slices(int ranks, size_t k) {
  constexpr size_t kLengths[3][4] = {{900, 33, 4097, 0}, {0, 1, 0, 130}, {2048, 2048, 2048, 2048}};
  Counts counts;
  for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
    counts.push_back(kLengths[k % 3][rank % 4]);
  }
  return counts;
}

void expect_same_bits(const std::string& options) {
  for (const int ranks : {1, 2, 3, 5}) {
    const StreamGroup group(ranks, options);
    for (const char* format : kFormats) {
      std::vector<SegmentCall> calls;
      for (size_t k = 0; k < 9; ++k) {
        SegmentCall call{kKinds[k % 3], format, slices(ranks, k / 3)};
        if (call.kind == Kind::many) call.counts = {5, 0, 3000, 64, 1000};
        call.in_place = k % 2 == 1;
        call.op = k % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
        calls.push_back(call);
      }
      EXPECT_EQ(compare(group, calls), "") << ranks << " ranks, " << options;
    }
  }
}

TEST(Segments, AllCollectives_BitsOfHostMemory) { expect_same_bits(""); }
TEST(Segments, InChunks_BitsOfHostMemory) { expect_same_bits("chunk_value_count=1024"); }

TEST(Segments, EverySchedule_SameBits) {
  const StreamGroup group(4);
  for (const char* format : {"paper-gl8", "paper-ge8", "paper-gl4,block=32,rotate=hadamard"}) {
    std::vector<SegmentCall> calls;
    for (const gqsgd_schedule schedule : kSchedules) {
      calls.push_back({Kind::many, format, {700, 1, 0, 2500, 31}, schedule});
    }
    EXPECT_EQ(compare(group, calls), "");
  }
  if (kAgreesOnHost) return;  // threads have no allreduce of their own
  EXPECT_EQ(compare(group, {{Kind::many, "paper-gl8", {5, 600, 3}, GQSGD_SCHEDULE_NATIVE}}), "");
}

TEST(Segments, NoSegments_Accepted) {
  const StreamGroup group(2);
  EXPECT_EQ(compare(group, {{Kind::many, "blocks-8", {}},
                            {Kind::many, "paper-gl8", {}},
                            {Kind::many, "paper-gl8", {0, 0}},
                            {Kind::scatter, "paper-gl8", {0, 0}}}),
            "");
}

/** Steps of a training: what follows each call is expected after the first step. */
TEST(Segments, StepsOfATraining_SameBits) {
  const StreamGroup group(3);
  std::vector<SegmentCall> calls;
  for (int step = 0; step < 8; ++step) {
    calls.push_back({Kind::scatter, "blocks-8", {600, 0, 700}});
    calls.push_back({Kind::many, "paper-gl8", {100, 900}});
    calls.push_back({Kind::many, "adaptive-4", {100, 40000, 900, 1}});
    calls.push_back({Kind::many, "rice-4", {100, 40000, 900, 1}});
    calls.push_back({Kind::gather, "paper-gl8", {600, 0, 700}});
  }
  EXPECT_EQ(compare(group, calls), "");
}

/** Lengths that add up to the same are found by their hash, at once or on the device. */
/** Rank 1 makes the other call; `named` is in the sentence on the difference. */
void expect_mismatch(const SegmentCall& usual, const SegmentCall& other, const char* named) {
  const StreamGroup group(3);
  for (const bool expected : {false, true}) {
    if (expected) {
      EXPECT_EQ(compare(group, {usual, usual}), "");
    }
    std::vector<gqsgd_status> said(3), later(3);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      const OwnStream stream;
      const DeviceMemory given(3200), result(3200);
      std::memset(given.as<char>(), 0, 3200);
      std::memset(result.as<char>(), 0x5A, 3200);
      const Buffers buffers{given.as<float>(), result.as<float>()};
      const SegmentCall& call = rank == 1 ? other : usual;
      said[static_cast<size_t>(rank)] = make(comm, call, rank, buffers, stream.get());
      const std::string sentence = gqsgd_last_error();
      if (!stream.synchronize()) return "the stream does not get through";
      later[static_cast<size_t>(rank)] = gqsgd_comm_status(comm);
      if (said[static_cast<size_t>(rank)] == GQSGD_MISMATCH &&
          sentence.find(named) == std::string::npos) {
        return sentence;
      }
      return result.as<char>()[0] == 0x5A ? "" : "something was written";
    }),
              "");
    EXPECT_EQ(said[1], GQSGD_MISMATCH);
    const bool found_later = expected && !kAgreesOnHost;
    for (const size_t rank : {0u, 2u}) {
      EXPECT_EQ(said[rank], found_later ? GQSGD_OK : GQSGD_MISMATCH);
      EXPECT_EQ(later[rank], found_later ? GQSGD_MISMATCH : GQSGD_OK);
    }
  }
}

const SegmentCall kUsual{Kind::many, "paper-gl8", {256, 512, 32}};

TEST(Segments, OtherLengthsOnOneRank_Mismatch) {
  expect_mismatch(kUsual, {Kind::many, "paper-gl8", {512, 256, 32}}, "counts differ");
}

/** Norms of segments travel with the control messages of a call that is expected; the other call
 *  has none. */
TEST(Segments, OtherFormatOnOneRank_Mismatch) {
  expect_mismatch(kUsual, {Kind::many, "blocks-8", {256, 512, 32}}, "rank 1");
  expect_mismatch({Kind::many, "blocks-8", {256, 512, 32}}, kUsual, "rank 1");
}

TEST(Segments, HostMemoryOfAnyTensor_Refused) {
  const StreamGroup group(1);
  const Quantizer quantizer("paper-gl8");
  const DeviceMemory memory(800);
  Values host(100, 1.0f);
  const OwnStream stream;
  const void* send[] = {memory.as<float>(), host.data()};
  void* recv[] = {memory.as<float>(), memory.as<float>() + 100};
  const size_t counts[] = {100, 100};
  EXPECT_EQ(gqsgd_allreduce_many(group.comm(0), quantizer.get(), send, recv, counts, 2,
                                 GQSGD_FLOAT32, GQSGD_SUM, kAt, stream.get()),
            GQSGD_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gqsgd_last_error()).find("memory of the host"), std::string::npos);
}

}  // namespace
}  // namespace gq::test
