#include "tests/support/host_device/host_groups.h"

#include "src/execute/pieces.h"

namespace gq::test {
namespace {

/** Calls each(piece, words, blocks) for each run of granules, with the words and the blocks before
 *  its group. */
template <typename Each>
void for_each_run(const Range& range, uint32_t mean_half_bits, Each each) {
  const GroupedValues& grouped = *range.grouped;
  std::vector<Part> segments;
  for (uint32_t k = 0; k < grouped.segment_count; ++k) {
    segments.push_back({grouped.segments[k].first_value, grouped.segments[k].value_count});
  }
  Move move{};
  move.first_value = range.first_value;
  move.value_count = range.value_count;
  GroupPieces pieces(move, segments.empty() ? nullptr : &segments, grouped.groups, mean_half_bits);
  for (Piece piece; pieces.next(&piece);) {
    const uint64_t groups = piece.skipped / grouped.groups.group_values;
    each(piece, groups * grouped.groups.group_planes * kPlaneWords,
         piece.skipped / kAdaptiveBlock);
  }
}

/** A run's first value in the caller's memory. */
template <typename Byte, typename Memory>
Byte* place_of(Memory* values, Memory* SegmentPlace::*memory, const Range& range,
               const Piece& piece, int32_t dtype) {
  const GroupedValues& grouped = *range.grouped;
  uint64_t first = grouped.groups.interleaved ? 0 : range.first_value;
  Memory* base = values;
  if (grouped.segments != nullptr) {
    base = grouped.segments[piece.segment].*memory;
    first = grouped.segments[piece.segment].first_value;
  }
  return static_cast<Byte*>(base) +
         (piece.range.first_value - first) * dtype_size_bytes(dtype);
}

NormView after(const NormView& view, uint64_t blocks) {
  return {nullptr, view.blocks == nullptr ? nullptr : view.blocks + blocks};
}

}  // namespace

void run_groups(const Stages& stages, const NormArgs& args) {
  for_each_run(args.range, kMeanHalfBitsMax, [&](const Piece& piece, uint64_t, uint64_t blocks) {
    NormArgs here = args;
    here.range = piece.range;
    here.values = place_of<const unsigned char>(args.values, &SegmentPlace::send, args.range,
                                                piece, args.dtype);
    here.out = static_cast<uint16_t*>(args.out) + blocks;
    stages.norm(here);
  });
}

void run_groups(const Stages& stages, const QuantizeArgs& args) {
  for_each_run(args.range, args.coding.mean_half_bits,
               [&](const Piece& piece, uint64_t words, uint64_t blocks) {
                 QuantizeArgs here = args;
                 here.range = piece.range;
                 here.values = place_of<const unsigned char>(args.values, &SegmentPlace::send,
                                                             args.range, piece, args.dtype);
                 here.norms = after(args.norms, blocks);
                 here.words = args.words + words;
                 stages.quantize(here);
               });
}

void run_groups(const Stages& stages, const ReduceManyArgs& args) {
  for_each_run(args.range, args.coding.mean_half_bits,
               [&](const Piece& piece, uint64_t words, uint64_t blocks) {
                 ReduceManyArgs here = args;
                 std::vector<const uint32_t*> operands(args.words,
                                                       args.words + args.coding.ranks);
                 for (const uint32_t*& operand : operands) operand += words;
                 here.range = piece.range;
                 here.words = operands.data();
                 here.norms = after(args.norms, blocks);
                 here.out_words = args.out_words + words;
                 if (args.out_scales != nullptr) here.out_scales = args.out_scales + blocks;
                 stages.reduce_many(here);
               });
}

void run_groups(const Stages& stages, const DequantizeArgs& args) {
  for_each_run(args.range, args.coding.mean_half_bits,
               [&](const Piece& piece, uint64_t words, uint64_t blocks) {
                 DequantizeArgs here = args;
                 here.range = piece.range;
                 here.words = args.words + words;
                 here.scales = after(args.scales, blocks);
                 here.norms = after(args.norms, blocks);
                 here.values = place_of<unsigned char>(args.values, &SegmentPlace::recv,
                                                       args.range, piece, args.dtype);
                 stages.dequantize(here);
               });
}

}  // namespace gq::test
