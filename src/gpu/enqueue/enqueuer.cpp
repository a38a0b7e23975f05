// One launch for each batch of stages of an execution plan. src/execute/executor.cpp makes stages
// one after the other, on host memory.
#include "src/gpu/enqueue/enqueuer.h"

#include <algorithm>
#include <type_traits>

#include "kernels/codec/global_norm.h"
#include "src/execute/messages.h"
#include "src/transport/control_message.h"

namespace gq {

Status Enqueuer::moves(bool encoded) const {
  const Status made = make_moves(encoded);
  if (!made.ok()) (void)places_.side_stream->rejoin(call_.stream).ok();
  return made;
}

Status Enqueuer::make_moves(bool encoded) const {
  if (gathers_segment_norms()) {
    GQ_TRY(take_segment_norms());
    GQ_TRY(gather_segment_norms());
    GQ_TRY(Status(transport_.device().agreement->merge_rank_norms(merged_segment_norms())));
  }
  if (grouped_.segments != nullptr) GQ_TRY(write_segments());
  const std::vector<ExecutionStep>& steps = cached_.execution_plan.steps();
  for (size_t first = 0, end = 0; first < steps.size(); first = end) {
    end = batch_end(steps, first);
    const ExecutionStep& step = steps[first];
    const bool is_stage = step.kind == ExecutionStep::Kind::stage;
    if (encoded && is_stage && step.move.kind == MoveKind::quantize) continue;
    GQ_TRY(is_stage ? make_batch(&step, end - first) : make(step));
  }
  return Status();
}

Status Enqueuer::results() const {
  const std::vector<ExecutionStep>& steps = cached_.execution_plan.results();
  for (size_t first = 0, end = 0; first < steps.size(); first = end) {
    end = batch_end(steps, first);
    GQ_TRY(make_batch(&steps[first], end - first));
  }
  return Status();
}

Status Enqueuer::messages() const {
  if (gathers_segment_norms()) GQ_TRY(gather_segment_norms());
  for (const ExecutionStep& step : cached_.execution_plan.steps()) {
    if (step.kind == ExecutionStep::Kind::exchange) GQ_TRY(exchange(step, call_.stream));
    if (step.kind == ExecutionStep::Kind::sum) GQ_TRY(sum(step));
  }
  return Status();
}

Status Enqueuer::make(const ExecutionStep& step) const {
  switch (step.kind) {
    case ExecutionStep::Kind::exchange:
      return step.on_side_stream ? exchange_on_side_stream(step) : exchange(step, call_.stream);
    case ExecutionStep::Kind::join:
      return places_.side_stream->join(call_.stream);
    case ExecutionStep::Kind::sum:
      return sum(step);
    case ExecutionStep::Kind::copy:
      return transport_.device().copy(places_.arena + step.to_bytes,
                                      places_.arena + step.from_bytes, step.size_bytes,
                                      call_.stream);
    case ExecutionStep::Kind::stage:
      return make_batch(&step, 1);
  }
  return Status();
}

Status Enqueuer::exchange(const ExecutionStep& step, StreamHandle stream) const {
  const Transfer* const first = cached_.execution_plan.transfers().data() + step.first;
  if (step.size_bytes == 0) return transport_.exchange(places_.arena, first, step.count, stream);
  return transport_.share(places_.arena, first, step.count,
                          {step.from_bytes, step.to_bytes, step.size_bytes}, stream);
}

Status Enqueuer::exchange_on_side_stream(const ExecutionStep& step) const {
  GQ_TRY(places_.side_stream->fork(call_.stream));
  GQ_TRY(exchange(step, places_.side_stream->get()));
  return places_.side_stream->mark();
}

/** Two words are one integer; after an odd number of them one word is free. */
Status Enqueuer::sum(const ExecutionStep& step) const {
  const bool floats = plan_.coding.levels == Levels::none;
  const Addend addend = floats ? Addend::float32 : Addend::uint64;
  const size_t unit_bytes = addend_bytes(addend);
  const size_t addend_count = (step.size_bytes + unit_bytes - 1) / unit_bytes;
  const size_t rest_bytes = addend_count * unit_bytes - step.size_bytes;
  unsigned char* const words = places_.arena + step.to_bytes;
  if (rest_bytes > 0) {
    GQ_TRY(transport_.device().clear(words + step.size_bytes, rest_bytes, call_.stream));
  }
  return transport_.sums()->sum(addend, words, addend_count, step.value_count, call_.stream);
}

Status Enqueuer::take_segment_norms() const {
  const size_t segment_count = cached_.execution_plan.segments()->size();
  std::vector<NormArgs>& all = places_.batches->begin<NormArgs>();
  for (size_t k = 0; k < segment_count; ++k) {
    unsigned char* const norms = places_.segment_norms.own;
    all.push_back(arguments_.segment_norm(k, norms + k * sizeof(NormWords)));
    all.back().workspace = places_.norm_sums;
    all.back().is_cleared = places_.segment_norms.with_control;
  }
  for (size_t first = 0; first < segment_count; first += kBatchMax) {
    const size_t count = std::min(segment_count - first, kBatchMax);
    GQ_TRY(Status(batches().norm(all.data() + first, count, places_.batches->next_table(count))));
  }
  return Status();
}

Status Enqueuer::gather_segment_norms() const {
  const SegmentNormPlaces& norms = places_.segment_norms;
  return transport_.gather(norms.own, norms.all, norms.stride_bytes, call_.stream);
}

MergeRankNormsArgs Enqueuer::merged_segment_norms() const {
  MergeRankNormsArgs args{};
  args.norms = places_.segment_norms.all;
  args.stride_bytes = places_.segment_norms.stride_bytes;
  args.ranks = endpoint_.size();
  args.segment_count = cached_.execution_plan.segments()->size();
  args.q = call_.format.q;
  args.p = call_.format.p;
  args.global = reinterpret_cast<float*>(places_.arena + plan_.layout.global_norms_bytes());
  args.stream = call_.stream;
  return args;
}

/** Tensors share groups, so that stages have to find the tensor of each block of values. */
GroupedValues Enqueuer::groups_of_call() const {
  GroupedValues grouped{plan_.groups};
  const std::vector<Part>* const segments = cached_.execution_plan.segments();
  if (!plan_.groups.interleaved || segments == nullptr) return grouped;
  grouped.segments =
      reinterpret_cast<const SegmentPlace*>(places_.arena + plan_.layout.scratch_bytes());
  grouped.segment_count = static_cast<uint32_t>(segments->size());
  return grouped;
}

/** The caller's buffers may be others in each call. */
Status Enqueuer::write_segments() const {
  std::vector<SegmentPlace>& all = places_.batches->begin<SegmentPlace>();
  for (size_t k = 0; k < call_.segments->parts.size(); ++k) {
    const Part& part = call_.segments->parts[k];
    const Place& place = call_.places->of[k];
    all.push_back({part.first_value, part.value_count, place.send, place.recv});
  }
  return Status(batches().write_segments({all.data(), all.size(),
                                          const_cast<SegmentPlace*>(grouped_.segments),
                                          call_.stream}));
}

/** Where there are groups a stage takes whole ones, of an allreduce from the call's first value on.
 *  Rice codes become values of the caller at once. */
template <typename Args>
Args Enqueuer::in_groups(Args args) const {
  if constexpr (requires { args.range; }) {
    if constexpr (std::is_same_v<Args, DequantizeArgs>) {
      if (plan_.coding.levels == Levels::rice && !plan_.adds_values) {
        const uint32_t ranks = args.coding.ranks;
        args.coding = plan_.coding;
        args.coding.ranks = ranks;
      }
    }
    bool grouped = plan_.coding.grouped();
    if constexpr (requires { args.coding; }) grouped = args.coding.grouped();
    if (!grouped) return args;
    args.range.grouped = &grouped_;
    if constexpr (std::is_same_v<Args, NormArgs> || std::is_same_v<Args, QuantizeArgs>) {
      if (plan_.groups.interleaved) args.values = call_.segments == nullptr ? call_.send : nullptr;
    } else if constexpr (std::is_same_v<Args, DequantizeArgs>) {
      if (plan_.groups.interleaved) args.values = call_.segments == nullptr ? call_.recv : nullptr;
    }
  }
  return args;
}

/** The steps are one batch. */
template <typename Args, typename ArgsOf, typename Stage>
Status Enqueuer::enqueue(const ExecutionStep* steps, size_t count, ArgsOf args_of,
                         Stage stage) const {
  std::vector<Args>& all = places_.batches->begin<Args>();
  for (size_t k = 0; k < count; ++k) all.push_back(in_groups(args_of(steps[k])));
  return Status(stage(all.data(), count, places_.batches->next_table(count)));
}

Status Enqueuer::make_batch(const ExecutionStep* steps, size_t count) const {
  using Step = ExecutionStep;
  switch (steps->move.kind) {
    case MoveKind::norm:
      return enqueue<NormArgs>(
          steps, count,
          [&](const Step& step) { return arguments_.block_norms(step.move, step.piece); },
          batches().norm);
    case MoveKind::merge_norms:
      return enqueue<MergeNormsArgs>(
          steps, count,
          [&](const Step& step) {
            const unsigned char* const received = places_.arena + step.from_bytes;
            return arguments_.merge_norms(step.move, reinterpret_cast<const uint16_t*>(received));
          },
          [&](const MergeNormsArgs* args, size_t merges, const BatchTable&) {
            return batches().merge_norms(args, merges);
          });
    case MoveKind::quantize:
      return enqueue<QuantizeArgs>(
          steps, count,
          [&](const Step& step) { return arguments_.quantize(step.move, step.piece); },
          batches().quantize);
    case MoveKind::reduce_many:
      if (!plan_.adds_values) {
        return enqueue<ReduceManyArgs>(
            steps, count,
            [&](const Step& step) { return reduce_many(step); },
            batches().reduce_many);
      }
      if (plan_.coding.levels == Levels::rice) {
        return enqueue<ReduceManyArgs>(
            steps, count, [&](const Step& step) { return add_rice_values(step); },
            batches().reduce_many);
      }
      for (size_t k = 0; k < count; ++k) GQ_TRY(add_values(steps[k]));
      return Status();
    case MoveKind::reduce:
      return reduce(*steps);
    case MoveKind::dequantize:
      return enqueue<DequantizeArgs>(
          steps, count, [&](const Step& step) { return dequantize(step); }, batches().dequantize);
    default:
      return fail(GQSGD_INTERNAL, "an execution plan has a stage of kind %d",
                  static_cast<int>(steps->move.kind));
  }
}

Status Enqueuer::reduce(const ExecutionStep& step) const {
  const uint32_t* const operand = words_at(step.from_bytes);
  return Status(stages().reduce(arguments_.reduce(step.move, step.piece, operand)));
}

/** Exponential levels and means with scales have weights: the plan has the operands of other linear
 *  codes as often as they count, and the rest are sums. */
ReduceManyArgs Enqueuer::reduce_many(const ExecutionStep& step) const {
  ReduceManyArgs args =
      arguments_.reduce_many(step.move, step.piece, operands_at(step.first));
  if (args.coding.levels == Levels::exponential || args.operand_scales_bytes != 0) {
    if (args.weights != nullptr) args.device_weights = device_weights();
  } else {
    if (args.weights != nullptr && !has_norm(args.coding.levels)) args.coding.ranks = step.count;
    args.weights = nullptr;
    args.weight_count = 0;
  }
  args.operands = host_operands_at(step.first);
  if (args.coding.levels == Levels::rice) {
    args.sums = reinterpret_cast<float*>(places_.arena + plan_.float_sums_bytes) +
                args.range.first_value % plan_.float_sums_count;
  }
  return args;
}

/** All ranks' at once, in the place of the sums. */
ReduceManyArgs Enqueuer::add_rice_values(const ExecutionStep& step) const {
  ReduceManyArgs args =
      arguments_.add_values(step.move, step.piece, operands_at(step.first));
  args.coding = plan_.coding;
  args.coding.ranks = step.count;
  args.sums = reinterpret_cast<float*>(args.out_words);
  args.out_words = nullptr;
  return args;
}

/** One for each segment, in the arena, or the one of the call. */
const float* Enqueuer::global_norms() const {
  if (cached_.execution_plan.segments() == nullptr) return places_.norm;
  return reinterpret_cast<const float*>(places_.arena + plan_.layout.global_norms_bytes());
}

/** Values of the codes of one rank after the other, added in rank order. */
Status Enqueuer::add_values(const ExecutionStep& step) const {
  float* const scratch = reinterpret_cast<float*>(places_.arena + plan_.layout.scratch_bytes());
  DequantizeArgs decode = in_groups(arguments_.operand_values(step.move, step.piece));
  ReduceManyArgs add =
      arguments_.add_values(step.move, step.piece, operands_at(step.first + step.count));
  add.operands = host_operands_at(step.first + step.count);
  for (uint32_t k = 0; k < step.count; ++k) {
    decode.words = words_at(cached_.execution_plan.operands()[step.first + k]);
    decode.values = k == 0 ? static_cast<void*>(add.out_words) : scratch;
    GQ_TRY(Status(stages().dequantize(decode)));
    if (k > 0) GQ_TRY(Status(stages().reduce_many(add)));
  }
  return Status();
}

DequantizeArgs Enqueuer::dequantize(const ExecutionStep& step) const {
  const Layout& layout = plan_.layout;
  const Move& move = step.move;
  const size_t chunk_bytes = move.origin == endpoint_.rank()
                                 ? layout.offset_bytes(move.content, move.first_value)
                                 : layout.result_bytes(move.content, move.first_value);
  DequantizeArgs args = arguments_.dequantize(move, step.piece, places_.arena + chunk_bytes);
  args.gate = places_.gate;
  return args;
}

}  // namespace gq
