// Fused allreduces without a device: the kernels of all ranks run at once, a thread for each block,
// and meet as on a device. They must have the bits of virtual ranks, and never wait without end.
#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "kernels/codec/random.h"
#include "src/api/quantizer/quantizer_spec.h"
#include "src/schedule/move.h"
#include "tests/support/host_device/host_fused.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;

struct RankBuffers {
  RankBuffers() {
    memset(static_cast<void*>(memory.get()), 0xEE, sizeof(FusedBuffers));  // its contents are
                                                                           // unspecified
    memset(static_cast<void*>(&memory->control), 0, sizeof(FusedControl));
  }
  FusedControl& control() { return memory->control; }

  std::unique_ptr<FusedBuffers> memory{new FusedBuffers};
  uint64_t leave = 0;
  uint32_t step_at[2] = {};  ///< of calls whose step is in memory of the device
  Disagreement found = {};
};

constexpr uint32_t kStatusWord = 1, kStepWord = 10, kIndexWord = 11;

FusedRequest request_of(const Operation& call, size_t value_count, Disagreement* found) {
  FusedRequest request{};
  request.words[3] = static_cast<uint32_t>(value_count);
  request.words[kStepWord] = static_cast<uint32_t>(call.step);
  request.words[kIndexWord] = static_cast<uint32_t>(call.index) & kIndexMax;
  request.compared = 1u << 3 | 1u << kStepWord | 1u << kIndexWord;
  request.step_word = kStepWord;
  request.index_word = kIndexWord;
  request.status_word = kStatusWord;
  request.digest = static_cast<uint32_t>(mix(value_count));
  request.disagreement = found;
  return request;
}

/** Ranks that keep their memory from call to call, as those of a group do. */
class FusedRanks {
 public:
  FusedRanks(uint32_t ranks, uint32_t block_count, uint32_t calls_before = 0)
      : buffers_(ranks), block_count_(block_count) {
    for (RankBuffers& buffers : buffers_) buffers.control().calls = calls_before;
  }

  uint32_t size() const { return static_cast<uint32_t>(buffers_.size()); }
  RankBuffers& buffers(uint32_t rank) { return buffers_[rank]; }
  void wait_for(uint64_t timeout_ns) { timeout_ns_ = timeout_ns; }

  FusedArgs args(const Operation& call, uint32_t rank, const Values& input, Values* result) {
    Format format;
    EXPECT_TRUE(parse_quantizer(call.quantizer.c_str(), &format).ok());
    FusedArgs args{};
    args.coding = coding_of(format, size(), 0);
    EXPECT_TRUE(has_fused_kernel(format, args.coding)) << call.quantizer;
    args.random = {random_key(format.seed, 0), static_cast<uint32_t>(call.step),
                   static_cast<uint32_t>(call.index), rank};
    args.ranks = size();
    args.dtype = GQSGD_FLOAT32;
    args.op = call.op;
    Shape shape;
    shape.ranks = size();
    shape.value_alignment = value_alignment(args.coding.block, args.coding.rotated);
    place_segments(call, shape.value_alignment, rank, input, result, &args);
    shape.value_count = args.value_count;
    for (uint32_t peer = 0; peer < size(); ++peer) {
      const Part shard = part_of(shape, size(), peer);
      args.shards[peer] = {shard.first_value, shard.value_count};
      args.buffers[peer] = buffers_[peer].memory.get();
      args.leave[peer] = &buffers_[peer].leave;
    }
    args.request = request_of(call, input.size(), &buffers_[rank].found);
    if (call.at_device) {
      args.random.step = args.random.index = 0;
      args.random.step_at = buffers_[rank].step_at;
      buffers_[rank].step_at[0] = static_cast<uint32_t>(call.step);
      buffers_[rank].step_at[1] = static_cast<uint32_t>(call.index);
    }
    args.block_count = block_count_;
    args.timeout_ns = timeout_ns_;
    return args;
  }

 private:
  /** As a host does: each tensor begins where values are aligned. */
  void place_segments(const Operation& call, uint64_t alignment, uint32_t rank,
                      const Values& input, Values* result, FusedArgs* args) {
    std::vector<size_t> counts = call.counts;
    if (counts.empty()) counts = {input.size()};
    uint64_t first_value = 0, done = 0;
    SegmentPlace* places = args->segments;
    if (counts.size() > kFusedArgumentSegments) places = buffers_[rank].memory->segments;
    for (const size_t count : counts) {
      *places++ = fused_segment({first_value, count, input.data() + done, result->data() + done},
                                args->dtype);
      args->value_count = first_value + count;
      first_value += (count + alignment - 1) / alignment * alignment;
      done += count;
    }
    args->segment_count = static_cast<uint32_t>(counts.size());
  }

  std::vector<RankBuffers> buffers_;
  uint32_t block_count_;
  uint64_t timeout_ns_ = UINT64_MAX;
};

/** Rests of up to a millisecond, others for each seed, block and stage. */
Delay disorder_of(uint64_t seed) {
  return [seed](uint32_t block, uint32_t stage) {
    const uint64_t rest = mix(mix(seed) + 4 * block + stage) % 1000;
    std::this_thread::sleep_for(std::chrono::microseconds(rest));
  };
}

/** One call after the other, without anything between them but what kernels wait for. */
std::string make_calls(FusedRanks* ranks, const std::vector<Operation>& calls,
                       const std::vector<size_t>& value_counts, bool disorder,
                       const std::vector<float>& factors = {}) {
  std::vector<std::vector<Values>> inputs, results;
  std::vector<Values> expected;
  for (size_t k = 0; k < calls.size(); ++k) {
    const size_t value_count = calls[k].counts.empty() ? value_counts[k % value_counts.size()]
                                                       : total_of(calls[k].counts);
    inputs.push_back(gradients(static_cast<int>(ranks->size()), value_count, 60 + k));
    for (Values& values : inputs[k]) {
      for (float& value : values) value *= factors.empty() ? 1 : factors[k];
    }
    expected.push_back(simulate(calls[k], inputs[k]));
    results.push_back(calls[k].in_place ? inputs[k]
                                        : std::vector<Values>(ranks->size(), Values(value_count)));
  }
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
    threads.emplace_back([&, rank] {
      for (size_t k = 0; k < calls.size(); ++k) {
        const Values& input = calls[k].in_place ? results[k][rank] : inputs[k][rank];
        run_fused_on_threads(ranks->args(calls[k], rank, input, &results[k][rank]),
                             disorder ? disorder_of(rank * 1000 + k) : nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < calls.size(); ++k) {
    for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
      const std::string found = difference(results[k][rank], expected[k]);
      if (!found.empty()) {
        return describe(calls[k]) + ", call " + std::to_string(k) + ", rank " +
               std::to_string(rank) + ": " + found;
      }
    }
  }
  return "";
}

std::vector<Operation> calls_of(const std::vector<std::string>& formats, size_t count) {
  std::vector<Operation> calls;
  for (size_t k = 0; k < count; ++k) {
    Operation call;
    call.quantizer = formats[k % formats.size()];
    call.schedule = GQSGD_SCHEDULE_DIRECT;
    call.op = k % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
    call.in_place = k % 3 == 1;
    call.step = 5 + k;
    call.index = k % 7;
    call.at_device = k % 4 == 3;
    calls.push_back(call);
  }
  return calls;
}

const std::vector<std::string> kFormats = {"paper-gl8",
                                           "paper-ge8",
                                           "paper-gl4",
                                           "paper-ge4",
                                           "relative-8",
                                           "paper-gl8,rounding=nearest",
                                           "paper-ge4,rounding=correlated",
                                           "paper-gl4,combine=average",
                                           "blocks-8",
                                           "levels=linear,bits=4,block=32,rescale=true",
                                           "paper-gl8,block=8192,rescale=true"};

TEST(Fused, VirtualRanks_SameBits) {
  for (uint32_t ranks = 1; ranks <= 8; ++ranks) {
    for (const uint32_t blocks : {1, 3}) {
      FusedRanks group(ranks, blocks);
      EXPECT_EQ(make_calls(&group, calls_of(kFormats, 16), {1, 33, 4099, 1000, 20001}, false), "")
          << ranks << " ranks, " << blocks << " blocks";
    }
  }
}

/** Lists of tensors: shorter than a block of norms, without values, across tiles and shards, of the
 *  length of a tile; more than are arguments of a kernel. */
std::vector<std::vector<size_t>> lists() {
  std::vector<size_t> many;
  for (size_t k = 0; k < 300; ++k) many.push_back(k * k % 71);
  return {{1000, 5000},
          {1},
          {0, 0, 1, 0},
          {1, 1, 1, 33, 31, 32},
          {4096, 4096, 4097, 0, 4095, 0},
          {128, 10000, 0, 3, 257, 12001, 1},
          many};
}

std::vector<Operation> list_calls(const std::vector<std::string>& formats) {
  std::vector<Operation> calls = calls_of(formats, formats.size() * lists().size());
  for (size_t k = 0; k < calls.size(); ++k) calls[k].counts = lists()[k / formats.size()];
  return calls;
}

const std::vector<std::string> kListFormats = {"paper-gl8",
                                               "paper-ge4,rounding=correlated",
                                               "blocks-8",
                                               "relative-8",
                                               "levels=linear,bits=4,block=32,rescale=true",
                                               "paper-gl8,block=8192,rescale=true"};

TEST(Fused, ListOfTensors_SameBits) {
  for (const uint32_t ranks : {1, 2, 3, 5}) {
    FusedRanks group(ranks, 3);
    EXPECT_EQ(make_calls(&group, list_calls(kListFormats), {0}, true), "") << ranks << " ranks";
  }
}

/** Norms of each call are smaller than those of the one before, whose words it must not find. */
TEST(Fused, SmallerNorms_SameBits) {
  FusedRanks group(3, 2, UINT32_MAX - 4);
  std::vector<Operation> calls = calls_of({"paper-gl8", "paper-gl8", "paper-gl8", "blocks-8"}, 12);
  std::vector<float> factors;
  for (size_t k = 0; k < calls.size(); ++k) {
    factors.push_back(std::ldexp(1.0f, -static_cast<int>(k)));
    if (k % 7 != 5) calls[k].counts = std::vector<size_t>(12 - k, 700);
  }
  EXPECT_EQ(make_calls(&group, calls, {500}, true, factors), "");
}

/** A rank that does not wait reads what is not there yet, or is no longer. */
TEST(Fused, AnyBlockOrder_SameBits) {
  for (const uint32_t ranks : {2, 5}) {
    FusedRanks group(ranks, 2);
    EXPECT_EQ(make_calls(&group, calls_of(kFormats, 60), {9000, 300, 5001}, true), "");
  }
}

TEST(Fused, CallNumbersWrapAround_SameBits) {
  FusedRanks group(3, 2, UINT32_MAX - 4);
  EXPECT_EQ(make_calls(&group, calls_of({"paper-gl8", "paper-ge4"}, 12), {6000, 700}, true), "");
}

/** Two ranks make a call of 20,001 values, by three blocks each; `held` is what blocks of rank 1 do
 *  before their stages. */
std::vector<Values> make_held(FusedRanks* ranks, const Operation& call, const Delay& held) {
  const auto inputs = gradients(2, 20001, 3);
  std::vector<Values> results(2, Values(20001, 77.0f));
  std::thread peer(
      [&] { run_fused_on_threads(ranks->args(call, 1, inputs[1], &results[1]), held); });
  run_fused_on_threads(ranks->args(call, 0, inputs[0], &results[0]));
  peer.join();
  return results;
}

/** True once `condition` is; false after some seconds. */
bool comes(const std::function<bool()>& condition) {
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/** Blocks of other numbers than that of a late one get to the last barrier without it. */
TEST(Fused, LateBlock_OnlyItsNumberWaits) {
  const auto expect_others_go_on = [](const char* format, uint32_t late_stage) {
    FusedRanks group(2, 3);
    const Operation call = calls_of({format}, 1)[0];
    const auto is_there = [&](uint32_t block) {
      const auto& flags = group.buffers(1).control().flags[static_cast<int>(BarrierOf::sums)][0];
      return __atomic_load_n(&flags[block], __ATOMIC_ACQUIRE) >> 32 == 1;
    };
    bool others = false, same = true;
    const auto results = make_held(&group, call, [&](uint32_t block, uint32_t stage) {
      if (block != 2 || stage != late_stage) return;
      others = comes([&] { return is_there(0) && is_there(1); });
      same = is_there(2);
    });
    EXPECT_TRUE(others) << format;
    EXPECT_FALSE(same) << format;
    const Values expected = simulate(call, gradients(2, 20001, 3));
    for (const Values& result : results) EXPECT_EQ(difference(result, expected), "") << format;
  };
  expect_others_go_on("paper-gl8", 1);
  expect_others_go_on("blocks-8", 0);
}

struct Left {
  bool in_time;
  bool untouched;
};

/** Makes the first call of all ranks but `missing`; `meanwhile` runs beside them. Those that do not
 *  end by themselves get the exit flag. */
Left make_without(FusedRanks* ranks, uint32_t missing, const std::function<void()>& meanwhile) {
  const Operation call = calls_of({"paper-gl8"}, 1)[0];
  const auto inputs = gradients(static_cast<int>(ranks->size()), 9000, 3);
  std::vector<Values> results(ranks->size(), Values(9000, 77.0f));
  std::atomic<uint32_t> under_way{ranks->size() - 1};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
    if (rank == missing) continue;
    threads.emplace_back([&, rank] {
      run_fused_on_threads(ranks->args(call, rank, inputs[rank], &results[rank]));
      --under_way;
    });
  }
  meanwhile();
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (under_way > 0 && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Left left = {under_way == 0, true};
  for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
    __atomic_store_n(&ranks->buffers(rank).leave, kLeaveForHost, __ATOMIC_RELEASE);
    // What a kernel without an ear for that would wait for.
    for (auto& kind : ranks->buffers(rank).control().flags) {
      for (uint64_t& place : kind[missing]) {
        if (!left.in_time) __atomic_store_n(&place, uint64_t{1} << 32, __ATOMIC_RELEASE);
      }
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const Values& result : results) left.untouched &= result == Values(9000, 77.0f);
  return left;
}

TEST(FusedExit, HostsAbort_KernelsExit) {
  FusedRanks group(3, 2);
  const Left left = make_without(&group, 1, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (uint32_t rank = 0; rank < 3; ++rank) {
      __atomic_store_n(&group.buffers(rank).leave, kLeaveForHost, __ATOMIC_RELEASE);
    }
  });
  EXPECT_TRUE(left.in_time);
  EXPECT_TRUE(left.untouched);
}

/** Every rank learns for which rank the first one gave up. */
TEST(FusedExit, Deadline_KernelsExit) {
  FusedRanks group(3, 2);
  group.wait_for(100000000);
  const Left left = make_without(&group, 1, [] {});
  EXPECT_TRUE(left.in_time);
  EXPECT_TRUE(left.untouched);
}

TEST(FusedExit, Deadline_AwaitedRankNamed) {
  for (uint32_t kind = 0; kind < kBarrierKinds; ++kind) {
    FusedRanks group(3, 2);
    group.wait_for(100000000);
    const Operation call = calls_of({"paper-gl8"}, 1)[0];
    const uint32_t digest =
        digest_with(request_of(call, 9000, nullptr).digest, static_cast<uint32_t>(call.step), 0);
    for (uint32_t rank = 0; rank < 3; ++rank) {  // what rank 1 has come to
      for (uint32_t before = 0; before < kind; ++before) {
        const bool for_codes = before == static_cast<uint32_t>(BarrierOf::codes);
        for (uint64_t& place : group.buffers(rank).control().flags[before][1]) {
          place = uint64_t{1} << 32 | (for_codes ? digest : 0);
        }
      }
    }
    uint64_t words[3] = {};
    const Left left = make_without(&group, 1, [&] {
      for (int k = 0; k < 3000 && words[0] * words[1] * words[2] == 0; ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (uint32_t rank = 0; rank < 3; ++rank) {
          words[rank] = __atomic_load_n(&group.buffers(rank).leave, __ATOMIC_ACQUIRE);
        }
      }
    });
    EXPECT_TRUE(left.in_time);
    EXPECT_TRUE(left.untouched);
    for (const uint64_t word : words) {
      TooLate late{};
      ASSERT_TRUE(is_too_late(word, &late)) << word;
      EXPECT_EQ(late.peer, 1u);
      EXPECT_NE(late.waiter, 1u);
      EXPECT_EQ(static_cast<uint32_t>(late.kind), kind);
    }
  }
}

/** A block of the rank has given up at the last barrier, others have not: no value is written. */
TEST(FusedExit, AnyExit_AllBlocksOfARankOrNone) {
  FusedRanks group(2, 3);
  group.buffers(1).control().decision = uint64_t{1} << 1 | 1;
  const Operation call = calls_of({"paper-gl8"}, 1)[0];
  const auto inputs = gradients(2, 9000, 3);
  std::vector<Values> results(2, Values(9000, 77.0f));
  std::thread peer([&] { run_fused_on_threads(group.args(call, 1, inputs[1], &results[1])); });
  run_fused_on_threads(group.args(call, 0, inputs[0], &results[0]));
  peer.join();
  EXPECT_EQ(difference(results[0], simulate(call, inputs)), "");
  EXPECT_EQ(results[1], Values(9000, 77.0f));
}

/** Ranks give up because of one block, which goes on when both have: those whose peers have come
 *  write nothing, either. */
TEST(FusedExit, StuckBlock_NoBlockWrites) {
  FusedRanks group(2, 3);
  group.wait_for(100000000);
  const Operation call = calls_of({"paper-gl8"}, 1)[0];
  const auto results = make_held(&group, call, [&](uint32_t block, uint32_t stage) {
    if (block != 2 || stage != 2) return;
    for (const uint32_t rank : {0u, 1u}) {
      const uint64_t* const left = &group.buffers(rank).control().left;
      EXPECT_TRUE(comes([&] { return __atomic_load_n(left, __ATOMIC_ACQUIRE) != 0; }));
    }
  });
  for (const Values& result : results) EXPECT_EQ(result, Values(20001, 77.0f));
}

/** A kernel of the rank has left: the next one has the same number, and must not be taken for it.
 */
TEST(FusedExit, AfterAnExit_LaterCallsExit) {
  FusedRanks group(1, 2);
  const Operation call = calls_of({"paper-gl8"}, 1)[0];
  const auto inputs = gradients(1, 9000, 3);
  Values result(9000, 77.0f);
  group.buffers(0).control().left = 1;
  run_fused_on_threads(group.args(call, 0, inputs[0], &result));
  EXPECT_EQ(result, Values(9000, 77.0f));
  EXPECT_EQ(group.buffers(0).control().flags[0][0][0], 0u);
  group.buffers(0).control().left = 0;
  run_fused_on_threads(group.args(call, 0, inputs[0], &result));
  EXPECT_EQ(difference(result, simulate(call, inputs)), "");
}

TEST(FusedExit, Leaving_IsRecorded) {
  FusedRanks group(3, 2);
  group.wait_for(100000000);
  EXPECT_TRUE(make_without(&group, 1, [] {}).in_time);
  for (const uint32_t rank : {0, 2}) EXPECT_EQ(group.buffers(rank).control().left, 1u);
}

/** One call of each rank at the same time. */
std::vector<Values> make_each(FusedRanks* ranks, const std::vector<Operation>& calls,
                              const std::vector<Values>& inputs) {
  std::vector<Values> results(ranks->size(), Values(inputs[0].size(), 77.0f));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
    threads.emplace_back([&, rank] {
      run_fused_on_threads(ranks->args(calls[rank], rank, inputs[rank], &results[rank]),
                           disorder_of(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

/** Rank 1's call is another one: every rank finds it, none writes, and the next call is made. */
TEST(FusedDifference, Difference_FoundByAllRanks) {
  for (const char* format : {"paper-gl8", "blocks-8"}) {
    const Operation usual = calls_of({format}, 1)[0];
    Operation later = usual, elsewhere = usual, refused = usual;
    later.step += 1;
    elsewhere.index += 1;
    elsewhere.at_device = true;
    refused.index = 0x10000 + usual.index;
    refused.at_device = true;
    for (const Operation& other : {later, elsewhere, refused}) {
      FusedRanks group(3, 2);
      const auto inputs = gradients(3, 9000, 3);
      for (int iteration = 0; iteration < 2; ++iteration) {
        const auto results = make_each(&group, {usual, other, usual}, inputs);
        for (uint32_t rank = 0; rank < 3; ++rank) {
          EXPECT_EQ(results[rank], Values(9000, 77.0f));
          Disagreement& found = group.buffers(rank).found;
          ASSERT_EQ(found.found, 1u);
          EXPECT_EQ(found.rank, 1u);
          EXPECT_EQ(found.reference[kStepWord], usual.step);
          EXPECT_EQ(found.differing[kStepWord], other.step);
          EXPECT_EQ(found.differing[kIndexWord], other.index & kIndexMax);
          EXPECT_EQ(found.differing[kStatusWord] != 0, other.index > kIndexMax);
          found.found = 0;
        }
        const Values expected = simulate(usual, inputs);
        for (const Values& result : make_each(&group, {usual, usual, usual}, inputs)) {
          EXPECT_EQ(difference(result, expected), "");
        }
        for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(group.buffers(rank).found.found, 0u);
      }
    }
  }
}

/** A call that all ranks refuse is one that none makes. */
TEST(FusedDifference, Refusal_FoundByAllRanks) {
  Operation refused = calls_of({"paper-gl8"}, 1)[0];
  refused.index = 0x10000;
  refused.at_device = true;
  FusedRanks group(2, 2);
  const auto inputs = gradients(2, 9000, 3);
  for (const Values& result : make_each(&group, {refused, refused}, inputs)) {
    EXPECT_EQ(result, Values(9000, 77.0f));
  }
  EXPECT_EQ(group.buffers(1).found.rank, 0u);
  EXPECT_NE(group.buffers(1).found.differing[kStatusWord], 0u);
}

}  // namespace
}  // namespace gq::test
