// One switch over the kinds of moves; every number a stage needs is in the move or in the plan.
#include "src/execute/executor.h"

#include <string.h>

#include <algorithm>

#include "kernels/codec/block_norm.h"
#include "src/execute/messages.h"
#include "src/execute/rice_stages.h"
#include "src/execute/split_stages.h"

namespace gq {
namespace {

/** The values of a message over several origins that `rank` made; may be none. */
Part part_within(const Move& move, uint32_t rank) {
  const uint64_t end = move.first_value + move.value_count;
  const uint64_t first = std::clamp(rank * move.origin_value_count, move.first_value, end);
  const uint64_t last = std::clamp((rank + 1) * move.origin_value_count, move.first_value, end);
  return {first, last - first};
}

}  // namespace

void Executor::begin(Endpoint& endpoint, const Call& call, const Plan& plan, unsigned char* arena,
                     const float* norms, bool quantized) {
  *this = Executor();
  endpoint_ = &endpoint;
  call_ = &call;
  plan_ = &plan;
  arena_ = arena;
  arguments_ = StageArguments(endpoint, call, plan, arena, norms);
  quantized_ = quantized;
  cursor_ = MoveCursor(plan.schedule, plan.shape, endpoint.rank());
  look_ahead_.begin(endpoint, plan);
}

/** False once all moves are made but those that are left to write_result(). */
bool Executor::next_move() {
  while (cursor_.next(&move_)) {
    if (!call_->in_place() || move_.kind != MoveKind::dequantize) return true;
  }
  return false;
}

Status Executor::advance(bool* done) {
  *done = false;
  for (;;) {
    if (!pending_) pending_ = next_move();
    flushing_ = !pending_;
    if (flushing_) break;
    GQ_TRY(look_ahead_.announce());
    bool made = true;
    if (const Stage stage = stage_of(move_.kind)) {
      const bool is_made = quantized_ && move_.kind == MoveKind::quantize;
      if (!is_made && !endpoint_->messages.found()) GQ_TRY(on_pieces(move_, stage));
    } else {
      GQ_TRY(make(move_, &made));
    }
    if (!made) return Status();
    count_merged(move_);
    pending_ = false;
    ++moves_made_;
  }
  bool flushed = false;
  GQ_TRY(endpoint_->host->flushed(&flushed));
  if (!flushed) return Status();
  if (endpoint_->messages.found()) return endpoint_->messages.failure();
  if (call_->in_place()) GQ_TRY(write_result());
  *done = true;
  return Status();
}

/** The second walk of a call in place. */
Status Executor::write_result() {
  cursor_ = MoveCursor(plan_->schedule, plan_->shape, endpoint_->rank());
  while (cursor_.next(&move_)) {
    if (move_.kind != MoveKind::dequantize) continue;
    GQ_TRY(on_pieces(move_, &Executor::dequantize));
    ++moves_made_;
  }
  return Status();
}

Executor::Stage Executor::stage_of(MoveKind kind) const {
  switch (kind) {
    case MoveKind::norm:
      return &Executor::take_norms;
    case MoveKind::quantize:
      return &Executor::quantize;
    case MoveKind::reduce:
      return &Executor::reduce;
    case MoveKind::reduce_many:
      return plan_->adds_values ? &Executor::add_values : &Executor::reduce_many;
    case MoveKind::dequantize:
      return &Executor::dequantize;
    default:
      return nullptr;
  }
}

/** Makes a move that is not one stage's; *made is false while it has to wait. */
Status Executor::make(const Move& move, bool* made) {
  switch (move.kind) {
    case MoveKind::merge_norms:
      return merge_norms(move);
    case MoveKind::send:
      return send(move);
    case MoveKind::receive_operand:
    case MoveKind::receive_result:
      return receive(move, made);
    case MoveKind::add_all:
      return add_all(move);
    case MoveKind::await_sum:
      return endpoint_->host->sums()->end_sum(made);
    default:
      break;
  }
  return fail(GQSGD_INTERNAL, "a schedule asked for a move of kind %d",
              static_cast<int>(move.kind));
}

/** A message that spans the results of several owners is collected where peers' results are put; if
 *  the own shard was collected before, the same bytes are written again. */
Status Executor::send(const Move& move) {
  const Layout& layout = plan_->layout;
  const size_t here_bytes = result_here_bytes(layout, move, endpoint_->rank());
  const bool in_place = endpoint_->host->reads_in_place();
  if (move.origin_value_count != 0 && !in_place) {
    const Part own = part_within(move, endpoint_->rank());
    memcpy(arena_ + layout.result_bytes(move.content, own.first_value),
           arena_ + layout.offset_bytes(move.content, own.first_value),
           layout.size_bytes(move.content, own.value_count));
  }
  const Message message = message_of(*plan_, move, here_bytes);
  return endpoint_->messages.send(message, [&] {
    const bool made_here = move.origin == endpoint_->rank();
    const unsigned char* const elsewhere =
        in_place && !made_here ? endpoint_->host->view(message) : nullptr;
    const size_t own_bytes = in_place ? message.offset_bytes : here_bytes;
    return checksum_of(message, move, elsewhere != nullptr ? elsewhere : arena_ + own_bytes);
  });
}

uint32_t Executor::checksum_of(const Message& message, const Move& move,
                               const unsigned char* words) const {
  if (move.origin_value_count == 0 || !endpoint_->host->reads_in_place()) {
    return crc32c(0, words, message.size_bytes);
  }
  // Each owner has its own words in its arena.
  const Layout& layout = plan_->layout;
  uint32_t checksum = 0;
  for (uint32_t owner = message.origin; owner <= message.last_origin; ++owner) {
    const Part part = part_within(move, owner);
    Message there = message;
    there.origin = there.last_origin = owner;
    there.offset_bytes = layout.offset_bytes(move.content, part.first_value);
    const unsigned char* const made = owner == endpoint_->rank() ? arena_ + there.offset_bytes
                                                                 : endpoint_->host->view(there);
    checksum = crc32c(checksum, made, layout.size_bytes(move.content, part.value_count));
  }
  return checksum;
}

Status Executor::receive(const Move& move, bool* made) {
  const Layout& layout = plan_->layout;
  const size_t here_bytes = layout.result_bytes(move.content, move.first_value);
  const Message message = message_of(*plan_, move, here_bytes);
  const unsigned char* words = nullptr;
  GQ_TRY(endpoint_->messages.receive(
      message, content_of(move, plan_->shape), &words,
      [&](const unsigned char* there) { return checksum_of(message, move, there); }));
  *made = words != nullptr;
  if (!*made) return Status();
  look_ahead_.received(move);
  const bool global_norms = move.content == Content::norms && move.kind == MoveKind::receive_result;
  if (global_norms && words != arena_ + message.offset_bytes) {
    // A range may have norms of several owners: they are collected here, 2 bytes for each block.
    // No rank reads the own ones in their place any more: an owner answers when it has them.
    memcpy(arena_ + message.offset_bytes, words, message.size_bytes);
  }
  return Status();
}

/** Two words are one integer; after an odd number of them one word is free. */
Status Executor::add_all(const Move& move) {
  // No mark travels with a sum: ranks that get none wait, and those that got one would be wrong.
  if (endpoint_->messages.found()) return endpoint_->messages.failure();
  const Layout& layout = plan_->layout;
  const size_t here_bytes = layout.offset_bytes(move.content, move.first_value);
  const size_t size_bytes = layout.size_bytes(move.content, move.value_count);
  const bool floats = plan_->coding.levels == Levels::none;
  const Addend addend = floats ? Addend::float32 : Addend::uint64;
  const size_t unit_bytes = addend_bytes(addend);
  if (floats) endpoint_->native_float_calls += 1;
  const size_t addend_count = (size_bytes + unit_bytes - 1) / unit_bytes;
  memset(arena_ + here_bytes + size_bytes, 0, addend_count * unit_bytes - size_bytes);
  return endpoint_->host->sums()->begin_sum(
      {addend, here_bytes, addend_count, counted_values(*plan_, move)});
}

/** Of a move that has used operands up. */
void Executor::count_merged(const Move& move) {
  if (move.kind == MoveKind::reduce || move.kind == MoveKind::merge_norms) {
    look_ahead_.merged(move.peer);
  }
  if (move.kind != MoveKind::reduce_many || !look_ahead_.counts()) return;
  for (uint32_t k = 0; k < operand_count(plan_->shape, endpoint_->rank(), move); ++k) {
    const uint32_t rank = operand_rank(plan_->shape, endpoint_->rank(), move, k);
    if (rank != endpoint_->rank()) look_ahead_.merged(rank);
  }
}

const unsigned char* Executor::operand(const Move& move, uint32_t peer) const {
  Move received = move;
  received.peer = received.origin = peer;
  return endpoint_->host->view(
      message_of(*plan_, received, look_ahead_.operand_bytes(peer)));
}

/** Where the words of the move's one origin begin. */
const unsigned char* Executor::result(const Move& move) const {
  const Layout& layout = plan_->layout;
  if (move.origin == endpoint_->rank()) {
    return arena_ + layout.offset_bytes(move.content, move.first_value);
  }
  const size_t here_bytes = layout.result_bytes(move.content, move.first_value);
  return endpoint_->host->view(message_of(*plan_, move, here_bytes));
}

/** The stage of a move where codes are those of whole groups. */
Status Executor::on_groups(const Move& move) {
  const RiceStages stages(*endpoint_, *call_, *plan_, arguments_);
  switch (move.kind) {
    case MoveKind::quantize:
      return stages.quantize(move);
    case MoveKind::reduce_many:
      find_operands(move, Piece{});
      return plan_->adds_values ? stages.add_values(move, endpoint_->operands.data())
                                : stages.reduce_many(move, endpoint_->operands.data());
    default:
      return stages.dequantize(move, result(move), endpoint_->result.on ? &digest_ : nullptr);
  }
}

Status Executor::on_pieces(const Move& move, Stage stage) {
  const bool are_floats = plan_->adds_values && move.kind == MoveKind::dequantize;
  if (plan_->coding.levels == Levels::rice && !are_floats) return on_groups(move);
  if (plan_->coding.adaptive()) {
    GroupPieces pieces(move, call_->segments == nullptr ? nullptr : &call_->segments->parts,
                       plan_->groups, plan_->coding.mean_half_bits);
    for (Piece piece; pieces.next(&piece);) GQ_TRY((this->*stage)(move, piece));
    return Status();
  }
  if (call_->segments == nullptr) return (this->*stage)(move, whole_of(move));
  Pieces pieces(move, &call_->segments->parts);
  for (Piece piece; pieces.next(&piece);) GQ_TRY((this->*stage)(move, piece));
  return Status();
}

Status Executor::take_norms(const Move& move, const Piece& piece) {
  return run_stage(*endpoint_, arguments_.block_norms(move, piece));
}

Status Executor::merge_norms(const Move& move) {
  if (endpoint_->messages.found()) return Status();
  const auto* const received = reinterpret_cast<const uint16_t*>(operand(move, move.peer));
  return Status(endpoint_->stages->merge_norms(arguments_.merge_norms(move, received)));
}

/** Every value is quantized once on every rank, so all ranks count each block once. */
void Executor::count_poisoned(const Move& move, const Piece& piece) {
  if (plan_->coding.block == 0) return;
  const uint16_t* norms = arguments_.own_norms(move, piece) + piece.range.group.first_block;
  const uint64_t count =
      norm_count(plan_->coding.block, plan_->coding.rotated, piece.range.value_count);
  endpoint_->nonfinite_blocks +=
      static_cast<uint64_t>(std::count(norms, norms + count, kNormCodeNan));
}

/** Peers that share memory read a stage's words there. Few words are read faster from a cache. */
bool Executor::is_nontemporal(uint32_t bits, const Piece& piece) const {
  const uint64_t least_bytes = endpoint_->nontemporal_bytes;
  return least_bytes > 0 && words_for(bits, piece.range.value_count) * 4 >= least_bytes;
}

Status Executor::quantize(const Move& move, const Piece& piece) {
  QuantizeArgs args = arguments_.quantize(move, piece);
  args.nontemporal = is_nontemporal(args.coding.bits, piece);
  count_poisoned(move, piece);
  return run_stage(*endpoint_, args);
}

Status Executor::reduce(const Move& move, const Piece& piece) {
  const uint32_t* const words = arguments_.words_in(operand(move, move.peer), move.content, piece);
  return run_stage(*endpoint_, arguments_.reduce(move, piece, words));
}

void Executor::find_operands(const Move& move, const Piece& piece) {
  const uint32_t operands = operand_count(plan_->shape, endpoint_->rank(), move);
  for (uint32_t k = 0; k < operands; ++k) {
    const uint32_t rank = operand_rank(plan_->shape, endpoint_->rank(), move, k);
    endpoint_->operands[k] = rank == endpoint_->rank()
                                 ? arguments_.own_words(move.content, move, piece)
                                 : arguments_.words_in(operand(move, rank), move.content, piece);
  }
}

Status Executor::reduce_many(const Move& move, const Piece& piece) {
  find_operands(move, piece);
  ReduceManyArgs args = arguments_.reduce_many(move, piece, endpoint_->operands.data());
  args.nontemporal = is_nontemporal(args.coding.bits_down, piece);
  return run_stage(*endpoint_, args);
}

/** Values of a few codes of all ranks at a time, added in rank order. */
Status Executor::add_values(const Move& move, const Piece& piece) {
  find_operands(move, piece);
  float* scratch = reinterpret_cast<float*>(arena_ + plan_->layout.scratch_bytes());
  const uint64_t tile_count = plan_->sum_tile_value_count;
  for (uint64_t done = 0; done < piece.range.value_count; done += tile_count) {
    Piece tile = piece;
    tile.range.first_value += done;
    tile.range.value_count =
        static_cast<size_t>(std::min(tile_count, piece.range.value_count - done));
    tile.skipped += done;
    const size_t done_words = plan_->layout.between_bytes(move.content, done) / sizeof(uint32_t);
    uint32_t* const sums = arguments_.own_words(Content::sums, move, tile);
    const uint32_t* const pair[] = {sums, reinterpret_cast<const uint32_t*>(scratch)};
    DequantizeArgs decode = arguments_.operand_values(move, tile);
    for (uint32_t rank = 0; rank < endpoint_->size(); ++rank) {
      decode.words = endpoint_->operands[rank] + done_words;
      decode.values = rank == 0 ? static_cast<void*>(sums) : scratch;
      GQ_TRY(Status(endpoint_->stages->dequantize(decode)));
      if (rank == 0) continue;
      GQ_TRY(Status(endpoint_->stages->reduce_many(arguments_.add_values(move, tile, pair))));
    }
  }
  return Status();
}

Status Executor::dequantize(const Move& move, const Piece& piece) {
  // A virtual rank may have no output buffer.
  if (call_->recv_at(piece.range.first_value, piece.segment) == nullptr) return Status();
  const DequantizeArgs args = arguments_.dequantize(move, piece, result(move));
  if (!endpoint_->result.on) return run_stage(*endpoint_, args);
  return run_stage(*endpoint_, args, &digest_);
}

}  // namespace gq
