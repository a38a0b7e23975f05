// Each function fills one struct of kernels/stages.h.
#include "src/execute/stage_arguments.h"

#include "src/schedule/nodes.h"

namespace gq {
namespace {

/** The sum of a node is encoded as the codes it is made of, or as results are. */
Coding node_coding(Coding coding, uint32_t ranks) {
  if (!coding.encodes_nodes_down()) {
    coding.bits_down = coding.bits;
    coding.steps_down = coding.steps;
    coding.group_planes_down = 0;
    coding.rescale = false;
  }
  coding.ranks = ranks;
  coding.rounding_down = RoundingDown::random;
  return coding;
}

/** Operands are sums of nodes. */
Coding nodes_coding(Coding coding) {
  if (coding.encodes_nodes_down()) {
    coding.bits = coding.bits_down;
    coding.steps = coding.steps_down;
  }
  return coding;
}

/** The move that a range of sparse codes would be in schedule direct. */
Move codes_of(Range range) {
  Move move{};
  move.kind = MoveKind::quantize;
  move.content = Content::codes;
  move.first_value = range.first_value;
  move.value_count = range.value_count;
  return move;
}

}  // namespace

const uint32_t* StageArguments::words_in(const unsigned char* chunk, Content content,
                                         const Piece& piece) const {
  return reinterpret_cast<const uint32_t*>(chunk +
                                           plan_->layout.between_bytes(content, piece.skipped));
}

uint32_t* StageArguments::own_words(Content content, const Move& move, const Piece& piece) const {
  unsigned char* const chunk = arena_ + plan_->layout.offset_bytes(content, move.first_value);
  return const_cast<uint32_t*>(words_in(chunk, content, piece));
}

uint16_t* StageArguments::own_norms(uint64_t first_value) const {
  return reinterpret_cast<uint16_t*>(arena_ +
                                     plan_->layout.offset_bytes(Content::norms, first_value));
}

uint16_t* StageArguments::own_norms(const Move& move, const Piece& piece) const {
  return own_norms(move.first_value + piece.skipped);
}

/** Scales follow the words of the whole chunk of sums. */
const uint16_t* StageArguments::scales_in(const unsigned char* chunk, const Move& move,
                                          const Piece& piece) const {
  const Layout& layout = plan_->layout;
  return reinterpret_cast<const uint16_t*>(chunk + layout.scales_offset_bytes(move.value_count) +
                                           layout.between_scales_bytes(piece.skipped));
}

size_t StageArguments::scales_behind_words(const Move& move, const Piece& piece) const {
  const Layout& layout = plan_->layout;
  return layout.scales_offset_bytes(move.value_count) + layout.between_scales_bytes(piece.skipped) -
         layout.between_bytes(Content::sums, piece.skipped);
}

NormView StageArguments::norms_of(const Move& move, const Piece& piece) const {
  return plan_->coding.block == 0 ? NormView{norms_ + piece.segment, nullptr}
                                  : NormView{nullptr, own_norms(move, piece)};
}

NormArgs StageArguments::norm(Range range, const void* values, void* out) const {
  NormArgs args{};
  args.q = call_->format.q;
  args.rotated = plan_->coding.rotated;
  args.random = random(0);
  args.range = range;
  args.values = values;
  args.dtype = call_->dtype;
  args.out = out;
  args.stream = call_->stream;
  return args;
}

NormArgs StageArguments::segment_norm(size_t segment, void* out) const {
  const Part& part = call_->segments->parts[segment];
  const void* const values = call_->send_at(part.first_value, segment);
  const uint64_t value_count = values == nullptr ? 0 : part.value_count;
  return norm({part.first_value, static_cast<size_t>(value_count)}, values, out);
}

NormArgs StageArguments::block_norms(const Move& move, const Piece& piece) const {
  NormArgs args = norm(piece.range, call_->send_at(piece.range.first_value, piece.segment),
                       own_norms(move, piece));
  args.block = plan_->coding.block;
  args.random = random(move.hop);
  return args;
}

/** Norms between segments are merged as well, but never used. */
MergeNormsArgs StageArguments::merge_norms(const Move& move, const uint16_t* received) const {
  MergeNormsArgs args{};
  args.norm_count = norm_count(plan_->coding.block, plan_->coding.rotated, move.value_count);
  args.a = received;
  args.b = own_norms(move.first_value);
  args.stream = call_->stream;
  return args;
}

QuantizeArgs StageArguments::quantize(const Move& move, const Piece& piece) const {
  QuantizeArgs args{};
  args.coding = plan_->coding;
  args.random = random(move.hop);
  args.range = piece.range;
  args.values = call_->send_at(piece.range.first_value, piece.segment);
  args.dtype = call_->dtype;
  args.norms = norms_of(move, piece);
  args.words = own_words(move.content, move, piece);
  args.stream = call_->stream;
  return args;
}

ReduceArgs StageArguments::reduce(const Move& move, const Piece& piece,
                                  const uint32_t* operand) const {
  ReduceArgs args{};
  args.coding = plan_->coding;
  args.random = random(move.hop);
  args.range = piece.range;
  args.weight_a = move.weight_a;
  args.weight_b = move.weight_b;
  args.a = operand;
  args.b = own_words(move.content, move, piece);
  args.stream = call_->stream;
  return args;
}

ReduceManyArgs StageArguments::reduce_many(const Move& move, const Piece& piece,
                                           const uint32_t* const* operands) const {
  const bool of_node = move.addends == Addends::node;
  const bool down = !of_node || plan_->shape.encodes_nodes_down;
  const uint32_t count = operand_count(plan_->shape, endpoint_->rank(), move);
  ReduceManyArgs args{};
  args.coding = of_node ? node_coding(plan_->coding, count) : plan_->coding;
  if (move.addends == Addends::nodes) {
    args.coding = nodes_coding(plan_->coding);
    args.weights = plan_->shape.nodes->sizes();
    args.weight_count = count;
    if (args.coding.rescale && move.content == Content::sums) {
      args.operand_scales_bytes = scales_behind_words(move, piece);
    }
  }
  args.random = random_site(*endpoint_, *call_, move);
  args.range = piece.range;
  args.words = operands;
  args.norms = norms_of(move, piece);
  args.out_words = own_words(down ? Content::sums : Content::codes, move, piece);
  if (args.coding.rescale) {
    const unsigned char* const sums =
        arena_ + plan_->layout.offset_bytes(Content::sums, move.first_value);
    args.out_scales = const_cast<uint16_t*>(scales_in(sums, move, piece));
  }
  args.stream = call_->stream;
  return args;
}

DequantizeArgs StageArguments::operand_values(const Move& move, const Piece& piece) const {
  DequantizeArgs args{};
  args.coding = plan_->one_rank;
  args.random = random(move.hop);
  args.range = piece.range;
  args.norms = args.scales = norms_of(move, piece);
  args.dtype = GQSGD_FLOAT32;
  args.op = GQSGD_SUM;
  args.stream = call_->stream;
  return args;
}

ReduceManyArgs StageArguments::add_values(const Move& move, const Piece& piece,
                                          const uint32_t* const* pair) const {
  ReduceManyArgs args{};
  args.coding = plan_->pair_sum;
  args.range = piece.range;
  args.range.group = {};
  args.words = pair;
  args.out_words = own_words(Content::sums, move, piece);
  args.stream = call_->stream;
  return args;
}

DequantizeArgs StageArguments::dequantize(const Move& move, const Piece& piece,
                                          const unsigned char* chunk) const {
  DequantizeArgs args{};
  args.coding = plan_->decoding;
  args.random = random(move.hop);
  args.range = piece.range;
  args.words = words_in(chunk, move.content, piece);
  if (plan_->adds_values) {  // float32 sums, which have no norms and lie in no group
    args.range.group = {};
  } else {
    args.norms = args.scales = norms_of(move, piece);
  }
  if (args.coding.rescale) args.scales.blocks = scales_in(chunk, move, piece);
  args.dtype = call_->dtype;
  args.op = call_->op;
  args.values = call_->recv_at(piece.range.first_value, piece.segment);
  args.stream = call_->stream;
  args.nontemporal = has_nontemporal_results(call_->value_count, call_->dtype);
  return args;
}

QuantizeArgs StageArguments::quantize(Range range) const {
  return quantize(codes_of(range), Piece{range});
}

CountEntriesArgs StageArguments::count_entries(Range range) const {
  CountEntriesArgs args{};
  args.coding = plan_->coding;
  args.range = range;
  args.words = own_words(Content::codes, codes_of(range), Piece{range});
  args.stream = call_->stream;
  return args;
}

SelectArgs StageArguments::select() const {
  const Range all{0, static_cast<size_t>(call_->value_count)};
  SelectArgs args{};
  args.coding = plan_->coding;
  args.range = all;
  args.words = own_words(Content::codes, codes_of(all), Piece{all});
  args.entries = reinterpret_cast<uint32_t*>(arena_ + plan_->layout.sparse_bytes());
  args.stream = call_->stream;
  return args;
}

AddSparseArgs StageArguments::add_sparse(Range range) const {
  AddSparseArgs args{};
  args.coding = plan_->coding;
  args.random = random(0);
  args.range = range;
  args.dtype = call_->dtype;
  args.op = call_->op;
  args.values = call_->recv_at(range.first_value);
  args.stream = call_->stream;
  return args;
}

}  // namespace gq
