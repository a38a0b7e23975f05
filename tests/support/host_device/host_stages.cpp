// The work of a stage is pushed on its stream; its arguments are copied, as those of a kernel.
#include "tests/support/host_device/host_stages.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "tests/support/host_device/host_agreement.h"
#include "tests/support/host_device/host_device.h"
#include "tests/support/host_device/host_groups.h"
#include "tests/support/host_device/host_streams.h"

namespace gq::test {
namespace {

thread_local int stage_time_ms = 0;

const Stages& cpu() { return *cpu_stages_named("scalar"); }

/** A stage of the CPU reads no step and index from memory. */
template <typename Args>
Args with_step(Args args) {
  if constexpr (requires { args.random.step_at; }) {
    const uint32_t* const at = args.random.step_at;
    if (at != nullptr) args.random.step = at[0], args.random.index = at[1];
  }
  return args;
}

StageError check_stage(StreamHandle stream) {
  if (stream_of(stream).ordinal == current_ordinal) return {};
  return {"a stage", 1, "hostErrorStream", "the stream is another device's"};
}

/** Makes a CPU stage when the stream comes to it. */
template <auto kStage, typename Args>
StageError enqueue(const Args& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args, grouped = grouped_of(args), time_ms = stage_time_ms] {
    sleep_ms(time_ms);
    run_stage<kStage>(cpu(), with_step(args), grouped);
  });
  return {};
}

/** Decides where no stage has. */
bool is_open(const Gate& gate) {
  if (gate.word == nullptr) return true;
  if (*gate.word == kGateUndecided) {
    *gate.word = __atomic_load_n(gate.broken, __ATOMIC_SEQ_CST) != 0 ? kGateClosed : kGateOpen;
  }
  return *gate.word == kGateOpen;
}

/** By the weights that a device has, when the stream comes to it. */
StageError reduce_many(const ReduceManyArgs& args) {
  if (args.device_weights == nullptr) return enqueue<&Stages::reduce_many>(args);
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args, grouped = grouped_of(args)] {
    const uint64_t* const from = args.device_weights;
    const std::vector<uint32_t> weights(from, from + args.weight_count);
    ReduceManyArgs made = with_step(args);
    made.weights = weights.data();
    run_stage<&Stages::reduce_many>(cpu(), made, grouped);
  });
  return {};
}

StageError dequantize(const DequantizeArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args, grouped = grouped_of(args)] {
    if (is_open(args.gate)) run_stage<&Stages::dequantize>(cpu(), with_step(args), grouped);
  });
  return {};
}

/** One after the other; nothing of the array is read later. */
template <auto kEnqueue, typename Args>
StageError enqueue_all(const Args* args, size_t count, const BatchTable&) {
  for (size_t k = 0; k < count; ++k) {
    if (const StageError error = kEnqueue(args[k]); failed(error)) return error;
  }
  return {};
}
/** Stages of one launch run concurrently on a device: each has memory of its own for float sums. */
StageError reduce_many_all(const ReduceManyArgs* args, size_t count, const BatchTable& table) {
  for (size_t k = 0; k < count; ++k) {
    for (size_t other = 0; other < k && args[k].sums != nullptr; ++other) {
      const ReduceManyArgs &a = args[other], &b = args[k];
      const bool is_apart = a.sums + a.range.value_count <= b.sums ||
                            b.sums + b.range.value_count <= a.sums;
      if (is_apart) continue;
      return {"reduce_many", 1, "hostErrorSums", "two stages of a launch share sums"};
    }
  }
  return enqueue_all<reduce_many, ReduceManyArgs>(args, count, table);
}
StageError merge_all(const MergeNormsArgs* args, size_t count) {
  return enqueue_all<enqueue<&Stages::merge_norms, MergeNormsArgs>>(args, count, {});
}

std::atomic<uint32_t> segment_lists{0};

/** As an argument of a kernel, of which the caller's copy is not read later. */
StageError write_segments(const WriteSegmentsArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  ++segment_lists;
  const std::vector<SegmentPlace> all(args.segments, args.segments + args.count);
  stream_of(args.stream).run([all, out = args.out] { std::copy(all.begin(), all.end(), out); });
  return {};
}

/** What select needs that comes later: where the entries of this range begin. */
StageError count_entries(const CountEntriesArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args] {
    if (args.range.value_count == 0) return;
    const uint64_t before[2] = {*args.skipped, *args.entry_count};
    std::memcpy(args.workspace, before, sizeof before);
    (void)cpu().count_entries(args);
  });
  return {};
}
StageError select(const SelectArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args] {
    if (args.range.value_count == 0) return;
    SelectArgs made = args;
    uint64_t before[2];
    if (args.counted) {
      std::memcpy(before, args.workspace, sizeof before);
      made.skipped = &before[0];
      made.entry_count = &before[1];
    }
    (void)cpu().select(made);
  });
  return {};
}
StageError add_sparse(const AddSparseArgs& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args] {
    if (is_open(args.gate)) (void)cpu().add_sparse(with_step(args));
  });
  return {};
}

/** Runs what threads of a device would. */
template <auto kRun, typename Args>
StageError enqueue_run(const Args& args) {
  if (const StageError error = check_stage(args.stream); failed(error)) return error;
  stream_of(args.stream).run([args] { kRun(args); });
  return {};
}

constexpr Stages kStages = {
    "host double",
    enqueue<&Stages::norm, NormArgs>,
    enqueue<&Stages::merge_norms, MergeNormsArgs>,
    enqueue<&Stages::quantize, QuantizeArgs>,
    enqueue<&Stages::reduce, ReduceArgs>,
    reduce_many,
    dequantize,
    count_entries,
    select,
    add_sparse,
};

constexpr BatchStages kBatches = {
    enqueue_all<enqueue<&Stages::norm, NormArgs>, NormArgs>,
    merge_all,
    enqueue_all<enqueue<&Stages::quantize, QuantizeArgs>, QuantizeArgs>,
    reduce_many_all,
    enqueue_all<dequantize, DequantizeArgs>,
    write_segments,
};

constexpr AgreementStages kAgreement = {
    enqueue_run<take_step, TakeStepArgs>,
    enqueue_run<write_header, WriteHeaderArgs>,
    enqueue_run<agree, AgreeArgs>,
    enqueue_run<merge_rank_norms, MergeRankNormsArgs>,
};

}  // namespace

const Stages& host_stages() { return kStages; }
const BatchStages& host_batch_stages() { return kBatches; }
const AgreementStages& host_agreement_stages() { return kAgreement; }

uint32_t segment_lists_enqueued() { return segment_lists; }

void slow_down_stages(int time_ms) { stage_time_ms = time_ms; }

}  // namespace gq::test
