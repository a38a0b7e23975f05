// One stage call for each stage of a program; every number that it needs is in the move or in the
// plan, as in src/execute/executor.cpp, which works at once on host memory.
#include "src/enqueue/enqueuer.h"

#include "src/execute/messages.h"

namespace gq {

Status Enqueuer::moves() const {
  for (const ProgramStep& step : known_.program.steps()) {
    GQ_TRY(step.kind == ProgramStep::Kind::stage ? stage(step) : message(step));
  }
  return Status();
}

Status Enqueuer::results() const {
  for (const Move& move : known_.program.results()) GQ_TRY(dequantize(move));
  return Status();
}

Status Enqueuer::messages() const {
  for (const ProgramStep& step : known_.program.steps()) {
    const bool is_message =
        step.kind == ProgramStep::Kind::exchange || step.kind == ProgramStep::Kind::sum;
    if (is_message) GQ_TRY(message(step));
  }
  return Status();
}

Status Enqueuer::message(const ProgramStep& step) const {
  switch (step.kind) {
    case ProgramStep::Kind::exchange:
      return transport_.exchange(places_.arena, known_.program.transfers().data() + step.first,
                                 step.count, call_.stream);
    case ProgramStep::Kind::sum:
      return sum(step);
    case ProgramStep::Kind::copy:
      return transport_.device().copy(places_.arena + step.to_bytes,
                                      places_.arena + step.from_bytes, step.size_bytes,
                                      call_.stream);
    case ProgramStep::Kind::stage:
      break;
  }
  return Status();
}

/** Two words are one integer; after an odd number of them there is room for another. */
Status Enqueuer::sum(const ProgramStep& step) const {
  const bool floats = plan_.coding.levels == Levels::none;
  const Addend addend = floats ? Addend::float32 : Addend::uint64;
  const size_t unit_bytes = addend_bytes(addend);
  const size_t addend_count = (step.size_bytes + unit_bytes - 1) / unit_bytes;
  const size_t rest_bytes = addend_count * unit_bytes - step.size_bytes;
  unsigned char* const words = places_.arena + step.to_bytes;
  if (rest_bytes > 0) {
    GQ_TRY(transport_.device().clear(words + step.size_bytes, rest_bytes, call_.stream));
  }
  return transport_.sum(addend, words, addend_count, call_.stream);
}

Status Enqueuer::stage(const ProgramStep& step) const {
  switch (step.move.kind) {
    case MoveKind::norm:
      return take_norms(step.move);
    case MoveKind::merge_norms:
      return merge_norms(step.move, step.from_bytes);
    case MoveKind::quantize:
      return quantize(step.move);
    case MoveKind::reduce:
      return reduce(step.move, step.from_bytes);
    case MoveKind::reduce_many:
      return reduce_many(step);
    default:
      return fail(GQSGD_INTERNAL, "a program has a stage of kind %d",
                  static_cast<int>(step.move.kind));
  }
}

Status Enqueuer::take_norms(const Move& move) const {
  NormArgs args{};
  args.q = call_.format.q;
  args.block = plan_.coding.block;
  args.rotated = plan_.coding.rotated;
  args.random = site_of(move);
  args.range = range_of(move);
  args.values = call_.send_at(move.first_value);
  args.dtype = call_.dtype;
  args.out = own_norms(move);
  args.stream = call_.stream;
  return Status(stages().norm(args));
}

Status Enqueuer::merge_norms(const Move& move, size_t operand_bytes) const {
  MergeNormsArgs args{};
  args.norm_count = norm_count(plan_.coding.block, plan_.coding.rotated, move.value_count);
  args.a = norms_at(operand_bytes);
  args.b = own_norms(move);
  args.stream = call_.stream;
  return Status(stages().merge_norms(args));
}

Status Enqueuer::quantize(const Move& move) const {
  QuantizeArgs args{};
  args.coding = plan_.coding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.values = call_.send_at(move.first_value);
  args.dtype = call_.dtype;
  args.norms = norms_of(move);
  args.words = own_words(move.content, move);
  args.stream = call_.stream;
  return Status(stages().quantize(args));
}

Status Enqueuer::reduce(const Move& move, size_t operand_bytes) const {
  ReduceArgs args{};
  args.coding = plan_.coding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.weight_a = move.weight_a;
  args.weight_b = move.weight_b;
  args.a = words_at(operand_bytes);
  args.b = own_words(move.content, move);
  args.stream = call_.stream;
  return Status(stages().reduce(args));
}

Status Enqueuer::reduce_many(const ProgramStep& step) const {
  const Layout& layout = plan_.layout;
  ReduceManyArgs args{};
  args.coding = plan_.coding;
  args.random = site_of(step.move);
  args.range = range_of(step.move);
  args.words = known_.lists.as<const uint32_t* const>() + step.first;
  args.norms = norms_of(step.move);
  args.out_words = own_words(Content::sums, step.move);
  if (args.coding.rescale) {
    args.out_scales = norms_at(layout.offset_bytes(Content::sums, step.move.first_value) +
                               layout.scales_offset_bytes(step.move.value_count));
  }
  args.stream = call_.stream;
  return Status(stages().reduce_many(args));
}

Status Enqueuer::dequantize(const Move& move) const {
  const Layout& layout = plan_.layout;
  const size_t result_bytes = move.origin == endpoint_.rank()
                                  ? layout.offset_bytes(move.content, move.first_value)
                                  : layout.result_bytes(move.content, move.first_value);
  DequantizeArgs args{};
  args.coding = plan_.decoding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.words = words_at(result_bytes);
  args.scales = norms_of(move);
  if (args.coding.rescale) {
    args.scales.blocks = norms_at(result_bytes + layout.scales_offset_bytes(move.value_count));
  }
  args.dtype = call_.dtype;
  args.op = call_.op;
  args.values = call_.recv_at(move.first_value);
  args.stream = call_.stream;
  args.gate = places_.gate;
  return Status(stages().dequantize(args));
}

}  // namespace gq
