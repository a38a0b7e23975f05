// Runs of granules one after the other, in the order of groups.
#include "tests/support/host_device/host_groups.h"

#include <type_traits>
#include <vector>

#include "src/execute/pieces.h"

namespace gq::test {
namespace {

/** A run of granules: its values, and the words and blocks of the range before its group. */
struct Run {
  Piece piece;
  uint64_t words, blocks;
};

/** Calls each(&here, run) for each run of granules, with the arguments of the run in place of those
 *  of the range, but for its memory. */
template <typename Args, typename Each>
void for_each_run(const Args& args, uint32_t mean_half_bits, Each each) {
  const GroupedValues& grouped = *args.range.grouped;
  std::vector<Part> segments;
  for (uint32_t k = 0; k < grouped.segment_count; ++k) {
    segments.push_back({grouped.segments[k].first_value, grouped.segments[k].value_count});
  }
  Move move{};
  move.first_value = args.range.first_value;
  move.value_count = args.range.value_count;
  GroupPieces pieces(move, segments.empty() ? nullptr : &segments, grouped.groups, mean_half_bits);
  for (Piece piece; pieces.next(&piece);) {
    const uint64_t groups = piece.skipped / grouped.groups.group_values;
    Args here = args;
    here.range = piece.range;
    each(&here, Run{piece, groups * grouped.groups.group_planes * kPlaneWords,
                    piece.skipped / kAdaptiveBlock});
  }
}

/** A run's first value in the caller's memory, which `memory` has of segments. */
template <typename Args, typename Memory>
Memory* place_of(const Args& args, Memory* SegmentPlace::*memory, const Piece& piece) {
  using Byte = std::conditional_t<std::is_const_v<Memory>, const unsigned char, unsigned char>;
  const GroupedValues& grouped = *args.range.grouped;
  uint64_t first = grouped.groups.interleaved ? 0 : args.range.first_value;
  Memory* base = args.values;
  if (grouped.segments != nullptr) {
    base = grouped.segments[piece.segment].*memory;
    first = grouped.segments[piece.segment].first_value;
  }
  return static_cast<Byte*>(base) +
         (piece.range.first_value - first) * dtype_size_bytes(args.dtype);
}

NormView after(const NormView& view, uint64_t blocks) {
  return {nullptr, view.blocks == nullptr ? nullptr : view.blocks + blocks};
}

}  // namespace

void run_groups(const Stages& stages, const NormArgs& args) {
  for_each_run(args, kMeanHalfBitsMax, [&](NormArgs* here, const Run& run) {
    here->values = place_of(args, &SegmentPlace::send, run.piece);
    here->out = static_cast<uint16_t*>(args.out) + run.blocks;
    stages.norm(*here);
  });
}

void run_groups(const Stages& stages, const QuantizeArgs& args) {
  for_each_run(args, args.coding.mean_half_bits, [&](QuantizeArgs* here, const Run& run) {
    here->values = place_of(args, &SegmentPlace::send, run.piece);
    here->norms = after(args.norms, run.blocks);
    here->words += run.words;
    stages.quantize(*here);
  });
}

void run_groups(const Stages& stages, const ReduceManyArgs& args) {
  for_each_run(args, args.coding.mean_half_bits, [&](ReduceManyArgs* here, const Run& run) {
    const uint32_t count = args.weights != nullptr ? args.weight_count : args.coding.ranks;
    std::vector<const uint32_t*> operands(args.words, args.words + count);
    for (const uint32_t*& operand : operands) operand += run.words;
    here->words = operands.data();
    if (args.operand_scales_bytes != 0) {
      here->operand_scales_bytes += run.blocks * sizeof(uint16_t) - run.words * sizeof(uint32_t);
    }
    here->norms = after(args.norms, run.blocks);
    here->out_words += run.words;
    if (here->out_scales != nullptr) here->out_scales += run.blocks;
    stages.reduce_many(*here);
  });
}

void run_groups(const Stages& stages, const DequantizeArgs& args) {
  for_each_run(args, args.coding.mean_half_bits, [&](DequantizeArgs* here, const Run& run) {
    here->words += run.words;
    here->scales = after(args.scales, run.blocks);
    here->norms = after(args.norms, run.blocks);
    here->values = place_of(args, &SegmentPlace::recv, run.piece);
    stages.dequantize(*here);
  });
}

}  // namespace gq::test
