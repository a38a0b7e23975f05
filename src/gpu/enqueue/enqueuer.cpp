// One stage call for each stage of an execution plan; every number that it needs is in the move or
// in the plan, as in src/execute/executor.cpp, which works at once on host memory.
#include "src/gpu/enqueue/enqueuer.h"

#include "kernels/codec/global_norm.h"
#include "src/execute/messages.h"

namespace gq {

Status Enqueuer::moves(bool encoded) const {
  const Status made = make_moves(encoded);
  if (!made.ok()) (void)places_.aside->rejoin(call_.stream).ok();
  return made;
}

Status Enqueuer::make_moves(bool encoded) const {
  if (has_segment_norms()) {
    GQ_TRY(take_segment_norms());
    GQ_TRY(gather_segment_norms());
    GQ_TRY(merge_segment_norms());
  }
  for (const ExecutionStep& step : known_.execution_plan.steps()) {
    const bool encodes =
        step.kind == ExecutionStep::Kind::stage && step.move.kind == MoveKind::quantize;
    if (!encoded || !encodes) GQ_TRY(make(step));
  }
  return Status();
}

Status Enqueuer::results() const {
  for (const ExecutionStep& step : known_.execution_plan.results()) GQ_TRY(dequantize(step));
  return Status();
}

Status Enqueuer::messages() const {
  if (has_segment_norms()) GQ_TRY(gather_segment_norms());
  for (const ExecutionStep& step : known_.execution_plan.steps()) {
    if (step.kind == ExecutionStep::Kind::exchange) GQ_TRY(exchange(step, call_.stream));
    if (step.kind == ExecutionStep::Kind::sum) GQ_TRY(sum(step));
  }
  return Status();
}

Status Enqueuer::make(const ExecutionStep& step) const {
  switch (step.kind) {
    case ExecutionStep::Kind::exchange:
      return step.aside ? exchange_aside(step) : exchange(step, call_.stream);
    case ExecutionStep::Kind::join:
      return places_.aside->join(call_.stream);
    case ExecutionStep::Kind::sum:
      return sum(step);
    case ExecutionStep::Kind::copy:
      return transport_.device().copy(places_.arena + step.to_bytes,
                                      places_.arena + step.from_bytes, step.size_bytes,
                                      call_.stream);
    case ExecutionStep::Kind::stage:
      return stage(step);
  }
  return Status();
}

Status Enqueuer::exchange(const ExecutionStep& step, StreamHandle stream) const {
  const Transfer* const first = known_.execution_plan.transfers().data() + step.first;
  return transport_.exchange(places_.arena, first, step.count, stream);
}

Status Enqueuer::exchange_aside(const ExecutionStep& step) const {
  GQ_TRY(places_.aside->fork(call_.stream));
  GQ_TRY(exchange(step, places_.aside->get()));
  return places_.aside->mark();
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
  return transport_.sum(addend, words, addend_count, step.value_count, call_.stream);
}

/** Formats with one norm have one for each segment, which do not fit into a header. */
bool Enqueuer::has_segment_norms() const {
  const std::vector<Part>* segments = known_.execution_plan.segments();
  const bool one_each = plan_.coding.block == 0 && plan_.coding.levels != Levels::none;
  return one_each && segments != nullptr && !segments->empty();
}

/** Of segments that this rank has no values of: those of no values. */
Status Enqueuer::take_segment_norms() const {
  const std::vector<Part>& segments = *known_.execution_plan.segments();
  for (size_t k = 0; k < segments.size(); ++k) {
    NormArgs args{};
    args.q = call_.format.q;
    args.rotated = plan_.coding.rotated;
    args.random = random_site(endpoint_, call_, 0);
    args.range.first_value = segments[k].first_value;
    args.values = call_.send_at(segments[k].first_value, k);
    if (args.values != nullptr) {
      args.range.value_count = static_cast<size_t>(segments[k].value_count);
    }
    args.dtype = call_.dtype;
    args.out = places_.arena + plan_.layout.segment_norms_bytes() + k * sizeof(NormWords);
    args.stream = call_.stream;
    args.workspace = places_.norm_sums;
    GQ_TRY(Status(stages().norm(args)));
  }
  return Status();
}

Status Enqueuer::gather_segment_norms() const {
  const Layout& layout = plan_.layout;
  return transport_.gather(places_.arena + layout.segment_norms_bytes(),
                           places_.arena + layout.segment_norms_landing_bytes(0),
                           layout.segment_norms_workspace_bytes(), call_.stream);
}

Status Enqueuer::merge_segment_norms() const {
  const Layout& layout = plan_.layout;
  MergeRankNormsArgs args{};
  args.norms = places_.arena + layout.segment_norms_landing_bytes(0);
  args.stride_bytes = layout.segment_norms_workspace_bytes();
  args.ranks = endpoint_.size();
  args.segment_count = known_.execution_plan.segments()->size();
  args.q = call_.format.q;
  args.p = call_.format.p;
  args.global = reinterpret_cast<float*>(places_.arena + layout.global_norms_bytes());
  args.stream = call_.stream;
  return Status(transport_.device().agreement->merge_rank_norms(args));
}

Status Enqueuer::stage(const ExecutionStep& step) const {
  switch (step.move.kind) {
    case MoveKind::norm:
      return take_norms(step);
    case MoveKind::merge_norms:
      return merge_norms(step);
    case MoveKind::quantize:
      return quantize(step);
    case MoveKind::reduce:
      return reduce(step);
    case MoveKind::reduce_many:
      return plan_.adds_values ? add_values(step) : reduce_many(step);
    default:
      return fail(GQSGD_INTERNAL, "a program has a stage of kind %d",
                  static_cast<int>(step.move.kind));
  }
}

uint32_t* Enqueuer::own_words(Content content, const ExecutionStep& step) const {
  const Layout& layout = plan_.layout;
  return words_at(layout.offset_bytes(content, step.move.first_value) +
                  layout.between_bytes(content, step.piece.skipped));
}

uint16_t* Enqueuer::scales_in(size_t sums_bytes, const ExecutionStep& step) const {
  const Layout& layout = plan_.layout;
  return norms_at(sums_bytes + layout.scales_offset_bytes(step.move.value_count) +
                  layout.between_scales_bytes(step.piece.skipped));
}

NormView Enqueuer::norms_of(const Piece& piece) const {
  if (plan_.coding.block != 0) return {nullptr, own_norms(piece)};
  if (known_.execution_plan.segments() == nullptr) return {places_.norm, nullptr};
  const unsigned char* global = places_.arena + plan_.layout.global_norms_bytes();
  return {reinterpret_cast<const float*>(global) + piece.segment, nullptr};
}

Status Enqueuer::take_norms(const ExecutionStep& step) const {
  NormArgs args{};
  args.q = call_.format.q;
  args.block = plan_.coding.block;
  args.rotated = plan_.coding.rotated;
  args.random = site_of(step);
  args.range = step.piece.range;
  args.values = send_of(step.piece);
  args.dtype = call_.dtype;
  args.out = own_norms(step.piece);
  args.stream = call_.stream;
  return Status(stages().norm(args));
}

/** Norms between segments are merged as well, but never used. */
Status Enqueuer::merge_norms(const ExecutionStep& step) const {
  MergeNormsArgs args{};
  args.norm_count = norm_count(plan_.coding.block, plan_.coding.rotated, step.move.value_count);
  args.a = norms_at(step.from_bytes);
  args.b = own_norms(step.piece);
  args.stream = call_.stream;
  return Status(stages().merge_norms(args));
}

Status Enqueuer::quantize(const ExecutionStep& step) const {
  QuantizeArgs args{};
  args.coding = plan_.coding;
  args.random = site_of(step);
  args.range = step.piece.range;
  args.values = send_of(step.piece);
  args.dtype = call_.dtype;
  args.norms = norms_of(step.piece);
  args.words = own_words(step.move.content, step);
  args.stream = call_.stream;
  return Status(stages().quantize(args));
}

Status Enqueuer::reduce(const ExecutionStep& step) const {
  ReduceArgs args{};
  args.coding = plan_.coding;
  args.random = site_of(step);
  args.range = step.piece.range;
  args.weight_a = step.move.weight_a;
  args.weight_b = step.move.weight_b;
  args.a = words_at(step.from_bytes);
  args.b = own_words(step.move.content, step);
  args.stream = call_.stream;
  return Status(stages().reduce(args));
}

Status Enqueuer::reduce_many(const ExecutionStep& step) const {
  ReduceManyArgs args{};
  args.coding = plan_.coding;
  args.random = site_of(step);
  args.range = step.piece.range;
  args.words = list_at(step.first);
  args.norms = norms_of(step.piece);
  args.out_words = own_words(Content::sums, step);
  if (args.coding.rescale) {
    const size_t sums_bytes = plan_.layout.offset_bytes(Content::sums, step.move.first_value);
    args.out_scales = scales_in(sums_bytes, step);
  }
  args.stream = call_.stream;
  return Status(stages().reduce_many(args));
}

/** Values of the codes of one rank after the other, added in rank order. */
Status Enqueuer::add_values(const ExecutionStep& step) const {
  uint32_t* const sums = own_words(Content::sums, step);
  float* const scratch = reinterpret_cast<float*>(places_.arena + plan_.layout.scratch_bytes());
  DequantizeArgs decode{};
  decode.coding = plan_.one_rank;
  decode.random = site_of(step);
  decode.range = step.piece.range;
  decode.scales = norms_of(step.piece);
  decode.dtype = GQSGD_FLOAT32;
  decode.op = GQSGD_SUM;
  decode.stream = call_.stream;
  ReduceManyArgs add{};
  add.coding = plan_.pair_sum;
  add.range = step.piece.range;
  add.words = list_at(step.first + step.count);
  add.out_words = sums;
  add.stream = call_.stream;
  for (uint32_t k = 0; k < step.count; ++k) {
    decode.words = words_at(known_.execution_plan.operands()[step.first + k]);
    decode.values = k == 0 ? static_cast<void*>(sums) : scratch;
    GQ_TRY(Status(stages().dequantize(decode)));
    if (k > 0) GQ_TRY(Status(stages().reduce_many(add)));
  }
  return Status();
}

Status Enqueuer::dequantize(const ExecutionStep& step) const {
  const Layout& layout = plan_.layout;
  const Move& move = step.move;
  const size_t chunk_bytes = move.origin == endpoint_.rank()
                                 ? layout.offset_bytes(move.content, move.first_value)
                                 : layout.result_bytes(move.content, move.first_value);
  DequantizeArgs args{};
  args.coding = plan_.decoding;
  args.random = site_of(step);
  args.range = step.piece.range;
  args.words = words_at(chunk_bytes + layout.between_bytes(move.content, step.piece.skipped));
  args.scales = norms_of(step.piece);
  if (args.coding.rescale) args.scales.blocks = scales_in(chunk_bytes, step);
  args.dtype = call_.dtype;
  args.op = call_.op;
  args.values = call_.recv_at(step.piece.range.first_value, step.piece.segment);
  args.stream = call_.stream;
  args.gate = places_.gate;
  return Status(stages().dequantize(args));
}

}  // namespace gq
