// One switch over the kinds of moves; every number a stage needs is in the move or in the plan.
#include "src/execute/executor.h"

#include <string.h>

#include <algorithm>

#include "kernels/codec/block_norm.h"

namespace gq {
namespace {

Range range_of(const Move& move) {
  return {move.first_value, static_cast<size_t>(move.value_count)};
}

}  // namespace

void Executor::begin(Endpoint& endpoint, const Call& call, const Plan& plan, unsigned char* arena,
                     float norm, bool quantized) {
  *this = Executor();
  endpoint_ = &endpoint;
  call_ = &call;
  plan_ = &plan;
  arena_ = arena;
  norm_ = norm;
  quantized_ = quantized;
  cursor_ = MoveCursor(plan.schedule, plan.shape, endpoint.rank());
}

bool Executor::next_move() {
  while (cursor_.next(&move_)) {
    const bool writes_values = move_.kind == MoveKind::dequantize;
    if (!call_->in_place() || writes_values == committing_) return true;
  }
  if (!call_->in_place() || committing_) return false;
  committing_ = true;
  cursor_ = MoveCursor(plan_->schedule, plan_->shape, endpoint_->rank());
  return next_move();
}

Status Executor::advance(bool* done) {
  *done = false;
  for (;;) {
    if (!pending_) pending_ = next_move();
    if (!pending_) return endpoint_->transport->flushed(done);
    bool made = false;
    GQ_TRY(make(move_, &made));
    if (!made) return Status();
    pending_ = false;
    ++moves_made_;
  }
}

Status Executor::make(const Move& move, bool* made) {
  *made = true;
  switch (move.kind) {
    case MoveKind::norm:
      return take_norms(move);
    case MoveKind::merge_norms:
      return merge_norms(move);
    case MoveKind::quantize:
      return quantized_ ? Status() : quantize(move);
    case MoveKind::send:
      return endpoint_->transport->send(message_of(move));
    case MoveKind::receive_operand:
    case MoveKind::receive_result:
      return receive(move, made);
    case MoveKind::reduce:
      return reduce(move);
    case MoveKind::reduce_many:
      return reduce_many(move);
    case MoveKind::dequantize:
      return dequantize(move);
  }
  return fail(GQSGD_INTERNAL, "a schedule asked for a move of kind %d",
              static_cast<int>(move.kind));
}

Status Executor::receive(const Move& move, bool* made) {
  const Message message = message_of(move);
  const unsigned char* words = nullptr;
  GQ_TRY(endpoint_->transport->receive(message, &words));
  *made = words != nullptr;
  const bool global_norms = move.content == Content::norms && move.kind == MoveKind::receive_result;
  if (*made && global_norms && words != arena_ + message.offset_bytes) {
    // A range may have norms of several owners: they are collected here, 2 bytes for each block.
    // Nobody reads the own ones in their place any more, since the owner has merged them.
    memcpy(arena_ + message.offset_bytes, words, message.size_bytes);
  }
  return Status();
}

Message Executor::message_of(const Move& move) const {
  const Layout& layout = plan_->layout;
  const size_t offset_bytes = layout.offset_bytes(move.content, move.first_value);
  // An operand lands beside the own words it is to be reduced into, a result in their place.
  const bool result = move.kind == MoveKind::receive_result || move.kind == MoveKind::dequantize;
  const uint64_t last_value = move.first_value + move.value_count - 1;
  const uint32_t last_origin = move.origin_value_count == 0
                                   ? move.origin
                                   : static_cast<uint32_t>(last_value / move.origin_value_count);
  return Message{move.peer,
                 move.origin,
                 last_origin,
                 offset_bytes,
                 layout.size_bytes(move.content, move.value_count),
                 result ? offset_bytes : layout.landing_bytes(move.peer)};
}

RandomSite Executor::site_of(const Move& move) const {
  return random_site(*endpoint_, *call_, move.hop);
}

unsigned char* Executor::own(Content content, const Move& move) const {
  return arena_ + plan_->layout.offset_bytes(content, move.first_value);
}

uint32_t* Executor::own_words(const Move& move) const {
  return reinterpret_cast<uint32_t*>(own(move.content, move));
}

uint16_t* Executor::own_norms(const Move& move) const {
  return reinterpret_cast<uint16_t*>(own(Content::norms, move));
}

NormView Executor::norms_of(const Move& move) const {
  return plan_->coding.block == 0 ? NormView{&norm_, nullptr} : NormView{nullptr, own_norms(move)};
}

Status Executor::take_norms(const Move& move) {
  NormArgs args{};
  args.q = call_->format.q;
  args.block = plan_->coding.block;
  args.rotated = plan_->coding.rotated;
  args.random = site_of(move);
  args.range = range_of(move);
  args.values = call_->send_at(move.first_value);
  args.dtype = call_->dtype;
  args.out = own_norms(move);
  return Status(endpoint_->stages->norm(args));
}

Status Executor::merge_norms(const Move& move) {
  MergeNormsArgs args{};
  args.norm_count = norm_count(plan_->coding.block, plan_->coding.rotated, move.value_count);
  args.a = reinterpret_cast<const uint16_t*>(endpoint_->transport->view(message_of(move)));
  args.b = own_norms(move);
  return Status(endpoint_->stages->merge_norms(args));
}

/** Every value is quantized once on every rank, so all ranks count each block once. */
void Executor::count_poisoned(const Move& move) {
  if (plan_->coding.block == 0) return;
  const uint16_t* norms = own_norms(move);
  const uint64_t count = norm_count(plan_->coding.block, plan_->coding.rotated, move.value_count);
  endpoint_->nonfinite_blocks +=
      static_cast<uint64_t>(std::count(norms, norms + count, kNormCodeNan));
}

Status Executor::quantize(const Move& move) {
  QuantizeArgs args{};
  args.coding = plan_->coding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.values = call_->send_at(move.first_value);
  args.dtype = call_->dtype;
  args.norms = norms_of(move);
  args.words = own_words(move);
  count_poisoned(move);
  return Status(endpoint_->stages->quantize(args));
}

Status Executor::reduce(const Move& move) {
  ReduceArgs args{};
  args.coding = plan_->coding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.weight_a = move.weight_a;
  args.weight_b = move.weight_b;
  args.a = reinterpret_cast<const uint32_t*>(endpoint_->transport->view(message_of(move)));
  args.b = own_words(move);
  return Status(endpoint_->stages->reduce(args));
}

Status Executor::reduce_many(const Move& move) {
  Move operand = move;
  for (uint32_t rank = 0; rank < endpoint_->size(); ++rank) {
    operand.peer = operand.origin = rank;
    endpoint_->operands[rank] =
        rank == endpoint_->rank()
            ? own_words(move)
            : reinterpret_cast<const uint32_t*>(endpoint_->transport->view(message_of(operand)));
  }
  ReduceManyArgs args{};
  args.coding = plan_->coding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.words = endpoint_->operands.data();
  args.norms = norms_of(move);
  unsigned char* sums = own(Content::sums, move);
  args.out_words = reinterpret_cast<uint32_t*>(sums);
  if (args.coding.rescale) {
    args.out_scales =
        reinterpret_cast<uint16_t*>(sums + plan_->layout.scales_offset_bytes(move.value_count));
  }
  return Status(endpoint_->stages->reduce_many(args));
}

Status Executor::dequantize(const Move& move) {
  if (call_->recv == nullptr) return Status();  // a virtual rank whose result nobody wants
  const bool made_here = move.origin == endpoint_->rank();
  const unsigned char* words =
      made_here ? own(move.content, move) : endpoint_->transport->view(message_of(move));
  DequantizeArgs args{};
  args.coding = plan_->coding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.words = reinterpret_cast<const uint32_t*>(words);
  args.scales = norms_of(move);
  if (args.coding.rescale) {
    args.scales.blocks = reinterpret_cast<const uint16_t*>(
        words + plan_->layout.scales_offset_bytes(move.value_count));
  }
  args.dtype = call_->dtype;
  args.op = call_->op;
  args.values = call_->recv_at(move.first_value);
  return Status(endpoint_->stages->dequantize(args));
}

}  // namespace gq
