// What the kernels of a call get, and whether all ranks have the bits of virtual ranks.
#include "tests/gpu/fused/fused_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "kernels/codec/random.h"
#include "src/api/quantizer/quantizer_spec.h"
#include "src/schedule/move.h"

namespace gq::test {

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

FusedArgs FusedRanks::args(const Operation& call, uint32_t rank, const Values& input,
                           Values* result) {
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

void FusedRanks::place_segments(const Operation& call, uint64_t alignment, uint32_t rank,
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

Delay disorder_of(uint64_t seed) {
  return [seed](uint32_t block, uint32_t stage) {
    const uint64_t rest = mix(mix(seed) + 4 * block + stage) % 1000;
    std::this_thread::sleep_for(std::chrono::microseconds(rest));
  };
}

std::string make_calls(FusedRanks* ranks, const std::vector<Operation>& calls,
                       const std::vector<size_t>& value_counts, bool disorder,
                       const std::vector<float>& factors) {
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

}  // namespace gq::test
