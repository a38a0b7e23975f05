// One switch over the kinds of moves; every number a stage needs is in the move or in the plan.
#include "src/execute/executor.h"

#include "kernels/codec/random.h"

namespace gq {
namespace {

template <typename Pointer>
Pointer at(Pointer buffer, uint64_t first_value, int32_t dtype);

template <>
const void* at(const void* buffer, uint64_t first_value, int32_t dtype) {
  return static_cast<const unsigned char*>(buffer) + first_value * dtype_size_bytes(dtype);
}

template <>
void* at(void* buffer, uint64_t first_value, int32_t dtype) {
  return static_cast<unsigned char*>(buffer) + first_value * dtype_size_bytes(dtype);
}

Range range_of(const Move& move) {
  return {move.first_value, static_cast<size_t>(move.value_count)};
}

}  // namespace

void Executor::begin(Endpoint& endpoint, const Call& call, const Plan& plan, unsigned char* arena,
                     float norm) {
  *this = Executor();
  endpoint_ = &endpoint;
  call_ = &call;
  plan_ = &plan;
  arena_ = arena;
  norm_ = norm;
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
    case MoveKind::quantize:
      return quantize(move);
    case MoveKind::send:
      return endpoint_->transport->send(message_of(move));
    case MoveKind::receive_operand:
    case MoveKind::receive_result: {
      const unsigned char* words = nullptr;
      GQ_TRY(endpoint_->transport->receive(message_of(move), &words));
      *made = words != nullptr;
      return Status();
    }
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

Message Executor::message_of(const Move& move) const {
  const size_t offset_bytes = plan_->offset_bytes(move.first_value);
  // An operand lands beside the own words it is to be reduced into, a result in their place.
  const bool operand = move.kind == MoveKind::receive_operand || move.kind == MoveKind::reduce ||
                       move.kind == MoveKind::reduce_many;
  const size_t landing_bytes =
      operand ? plan_->landing_bytes + move.peer * plan_->landing_slot_bytes : offset_bytes;
  const uint64_t last_value = move.first_value + move.value_count - 1;
  const uint32_t last_origin = move.origin_value_count == 0
                                   ? move.origin
                                   : static_cast<uint32_t>(last_value / move.origin_value_count);
  return Message{
      move.peer,    move.origin, last_origin, offset_bytes, plan_->size_bytes(move.value_count),
      landing_bytes};
}

RandomSite Executor::site_of(const Move& move) const {
  return RandomSite{random_key(call_->format.seed, endpoint_->stream_id),
                    static_cast<uint32_t>(call_->step), static_cast<uint32_t>(call_->index),
                    endpoint_->rank(), move.hop};
}

uint32_t* Executor::own_words(const Move& move) const {
  return reinterpret_cast<uint32_t*>(arena_ + plan_->offset_bytes(move.first_value));
}

Status Executor::quantize(const Move& move) {
  QuantizeArgs args{};
  args.coding = plan_->coding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.values = at(call_->send, move.first_value, call_->dtype);
  args.dtype = call_->dtype;
  args.norms = {&norm_, nullptr};
  args.words = own_words(move);
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
  args.norms = {&norm_, nullptr};
  args.out_words = own_words(move);
  return Status(endpoint_->stages->reduce_many(args));
}

Status Executor::dequantize(const Move& move) {
  if (call_->recv == nullptr) return Status();  // a virtual rank whose result nobody wants
  const bool own = move.origin == endpoint_->rank();
  DequantizeArgs args{};
  args.coding = plan_->coding;
  args.random = site_of(move);
  args.range = range_of(move);
  args.words =
      own ? own_words(move)
          : reinterpret_cast<const uint32_t*>(endpoint_->transport->view(message_of(move)));
  args.scales = {&norm_, nullptr};
  args.dtype = call_->dtype;
  args.op = call_->op;
  args.values = at(call_->recv, move.first_value, call_->dtype);
  return Status(endpoint_->stages->dequantize(args));
}

}  // namespace gq
