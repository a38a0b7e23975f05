// What the kernels of a call get, and whether all ranks have the bits of virtual ranks.
#include "tests/gpu/ptx/fused/fused_ranks.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels/codec/random.h"
#include "src/api/quantizer/quantizer_spec.h"
#include "src/schedule/move.h"
#include "tests/gpu/ptx/finding.h"
#include "tests/gpu/ptx/runtime/runtime.h"

namespace gq::test {
namespace {

/** Values of all ranks, which their kernels reach. */
class ReachableValues {
 public:
  explicit ReachableValues(const std::vector<Values>& of_ranks) {
    for (const Values& values : of_ranks) {
      areas_.emplace_back(values.data(), values.size() * sizeof(float), ptx::Use::device);
      ptx::write_span(values.data(), values.size() * sizeof(float), {});
    }
  }

 private:
  std::deque<Reachable> areas_;
};

struct MadeCall {
  MadeCall(const Operation& operation, const std::vector<Values>& given)
      : operation(operation),
        inputs(given),
        results(operation.in_place
                    ? given
                    : std::vector<Values>(given.size(), Values(given[0].size(), kUntouched))) {}

  RankCall of_rank(uint32_t rank) {
    return {operation, operation.in_place ? &results[rank] : &inputs[rank], &results[rank]};
  }

  Operation operation;
  std::vector<Values> inputs, results;
  ReachableValues reached_inputs{inputs}, reached_results{results};
};

}  // namespace

Reachable::Reachable(const void* memory, size_t size_bytes, ptx::Use use) : memory_(memory) {
  ptx::add_area(memory, size_bytes, use);
}
Reachable::~Reachable() { ptx::remove_area(memory_); }

RankBuffers::RankBuffers() { ptx::write_span(&control(), sizeof(FusedControl), {}); }

FusedRanks::FusedRanks(uint32_t ranks, uint32_t block_count, uint32_t calls_before)
    : buffers_(ranks), streams_(ranks), block_count_(block_count) {
  for (RankBuffers& buffers : buffers_) buffers.control().calls = calls_before;
}

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

void FusedRanks::run(const std::vector<std::vector<RankCall>>& calls,
                     const ptx::Schedule& schedule) {
  std::vector<size_t> begun(size(), 0);
  const auto next = [&](uint32_t rank) -> std::optional<ptx::Recorded> {
    if (begun[rank] == calls[rank].size()) return {};
    const FusedArgs made = args(calls[rank][begun[rank]++], rank);
    return ptx::recorded([&] { EXPECT_FALSE(failed(cuda_fused_stages().allreduce(made))); });
  };
  ptx::run_concurrently(&streams_, next, schedule);
}

FusedArgs FusedRanks::args(const RankCall& call, uint32_t rank) {
  const Operation& operation = call.operation;
  HostWords& host = buffers_[rank].host();
  Format format;
  EXPECT_TRUE(parse_quantizer(operation.quantizer.c_str(), &format).ok());
  FusedArgs args{};
  args.coding = coding_of(format, size(), 0);
  EXPECT_TRUE(has_fused_kernel(format, args.coding)) << operation.quantizer;
  args.random = {random_key(format.seed, 0), static_cast<uint32_t>(operation.step),
                 static_cast<uint32_t>(operation.index), rank};
  args.ranks = size();
  args.dtype = GQSGD_FLOAT32;
  args.op = operation.op;
  Shape shape;
  shape.ranks = size();
  shape.value_alignment = value_alignment(args.coding.block, args.coding.rotated);
  place_segments(call, shape.value_alignment, rank, &args);
  shape.value_count = args.value_count;
  for (uint32_t peer = 0; peer < size(); ++peer) {
    const Part shard = part_of(shape, size(), peer);
    args.shards[peer] = {shard.first_value, shard.value_count};
    args.buffers[peer] = buffers_[peer].memory();
    args.leave[peer] = &buffers_[peer].host().leave;
  }
  args.request = request_of(operation, call.input->size(), &host.found);
  if (operation.at_device) {
    args.random.step = args.random.index = 0;
    args.random.step_at = host.step_at;
    host.step_at[0] = static_cast<uint32_t>(operation.step);
    host.step_at[1] = static_cast<uint32_t>(operation.index);
  }
  args.block_count = block_count_;
  args.timeout_ns = timeout_ns_;
  return args;
}

void FusedRanks::place_segments(const RankCall& call, uint64_t alignment, uint32_t rank,
                                FusedArgs* args) {
  std::vector<size_t> counts = call.operation.counts;
  if (counts.empty()) counts = {call.input->size()};
  uint64_t first_value = 0, done = 0;
  SegmentPlace* places = args->segments;
  if (counts.size() > kFusedArgumentSegments) {
    places = buffers_[rank].memory()->segments;
    const ptx::Actor host = ptx::begin_operation(streams_[rank]);
    ptx::write_span(places, counts.size() * sizeof *places, host);
    ptx::end_operation(host.stamp, {}, &streams_[rank]);
  }
  for (const size_t count : counts) {
    *places++ = fused_segment(
        {first_value, count, call.input->data() + done, call.result->data() + done}, args->dtype);
    args->value_count = first_value + count;
    first_value += (count + alignment - 1) / alignment * alignment;
    done += count;
  }
  args->segment_count = static_cast<uint32_t>(counts.size());
}

std::vector<Values> make_each(FusedRanks* ranks, const std::vector<Operation>& calls,
                              const std::vector<Values>& inputs, const ptx::Schedule& schedule,
                              uint32_t missing) {
  std::vector<Values> results(inputs.size(), Values(inputs[0].size(), kUntouched));
  const ReachableValues reached_inputs(inputs), reached_results(results);
  std::vector<std::vector<RankCall>> of_ranks(inputs.size());
  for (uint32_t rank = 0; rank < inputs.size(); ++rank) {
    if (rank != missing) of_ranks[rank] = {{calls[rank], &inputs[rank], &results[rank]}};
  }
  ranks->run(of_ranks, schedule);
  return results;
}

std::string make_calls(FusedRanks* ranks, const std::vector<Operation>& calls,
                       const std::vector<size_t>& value_counts, uint64_t seed,
                       const std::vector<float>& factors) {
  std::deque<MadeCall> made;
  std::vector<std::vector<RankCall>> of_ranks(ranks->size());
  for (size_t k = 0; k < calls.size(); ++k) {
    const size_t value_count = calls[k].counts.empty() ? value_counts[k % value_counts.size()]
                                                       : total_of(calls[k].counts);
    auto inputs = gradients(static_cast<int>(ranks->size()), value_count, 60 + k);
    for (Values& values : inputs) {
      for (float& value : values) value *= factors.empty() ? 1 : factors[k];
    }
    made.emplace_back(calls[k], inputs);
    for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
      of_ranks[rank].push_back(made[k].of_rank(rank));
    }
  }
  try {
    ranks->run(of_ranks, {seed});
  } catch (const ptx::Finding& finding) {
    return finding.what();
  }
  for (size_t k = 0; k < calls.size(); ++k) {
    const Values expected = simulate(calls[k], made[k].inputs);
    for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
      const std::string found = difference(made[k].results[rank], expected);
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
