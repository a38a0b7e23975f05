// Walks the groups of a whole call with the stages of one group of adaptive widths.
#include "src/api/stages/group_stages.h"

#include <inttypes.h>

#include <algorithm>
#include <vector>

#include "src/api/stages/norm_grid.h"
#include "src/execute/pieces.h"
#include "src/plan/plan.h"

namespace gq {
namespace {

/** One group, and its place in the call. */
struct Group {
  Range range;
  size_t first_word;

  uint32_t block_count() const { return range.group.block_count; }
  /** The number of its block b in the order of values. */
  size_t block(uint32_t b) const {
    const uint64_t granule = b / kGranuleBlocks * range.group.stride_values;
    return static_cast<size_t>((range.first_value + granule) / kAdaptiveBlock) +
           b % kGranuleBlocks;
  }
};

/** Codes of a group's norms or scales, from numbers in the order of values. */
struct GroupCodes {
  uint16_t code[kGroupBlocks];

  GroupCodes(const Group& group, const float* numbers) {
    for (uint32_t b = 0; b < group.block_count(); b += kGranuleBlocks) {
      const size_t count = std::min(kGranuleBlocks, group.block_count() - b);
      codes_from_norms(numbers + group.block(b), count, code + b);
    }
  }
  NormView view() const { return {nullptr, code}; }
};

template <typename Work>
Status for_each_group(const StageCall& call, Work work) {
  const Groups& groups = call.grouped.groups;
  Move all{};
  all.value_count = groups.padded_count();
  GroupPieces pieces(all, nullptr, groups, call.coding.mean_half_bits);
  Group group;
  for (Piece piece; pieces.next(&piece);) {
    group.range = piece.range;
    group.first_word = static_cast<size_t>(words_for(call.coding.packing(), piece.skipped));
    GQ_TRY(work(group));
  }
  return Status();
}

}  // namespace

Status begin_groups(StageCall* call) {
  if (!call->coding.grouped()) return Status();
  if (call->range.first_value != 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: first_value is %" PRIu64
                "; with %s groups have values of the whole call, and stages work on all of it: "
                "first_value must be 0",
                call->range.first_value, wide_only_field(call->format));
  }
  const Groups groups = interleaved_groups(call->range.value_count, call->coding);
  call->coding.group_values = groups.group_values;
  call->coding.group_planes = groups.group_planes;
  call->coding.group_planes_down = groups.group_planes_down;
  call->group_count = groups.group_count;
  call->grouped = GroupedValues{groups};
  return Status();
}

Status quantize_groups(const StageCall& call, const void* values, int32_t dtype,
                       const float* norms, uint32_t* words) {
  return for_each_group(call, [&](const Group& group) {
    const GroupCodes codes(group, norms);
    QuantizeArgs args{};
    args.coding = call.coding;
    args.random = call.random;
    args.range = group.range;
    args.values = static_cast<const unsigned char*>(values) +
                  group.range.first_value * dtype_size_bytes(dtype);
    args.dtype = dtype;
    args.norms = codes.view();
    args.words = words + group.first_word;
    return Status(call.stages->quantize(args));
  });
}

Status reduce_many_groups(const StageCall& call, const uint32_t* const* words, const float* norms,
                          uint32_t* out_words, float* out_scales) {
  std::vector<const uint32_t*> operands;
  try {
    operands.resize(call.coding.ranks);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for %u operands", call.coding.ranks);
  }
  return for_each_group(call, [&](const Group& group) {
    const GroupCodes codes(group, norms);
    for (uint32_t rank = 0; rank < call.coding.ranks; ++rank) {
      operands[rank] = words[rank] + group.first_word;
    }
    uint16_t scales[kGroupBlocks];
    ReduceManyArgs args{};
    args.coding = call.coding;
    args.random = call.random;
    args.range = group.range;
    args.words = operands.data();
    args.norms = codes.view();
    args.out_words = out_words + group.first_word;
    args.out_scales = scales;
    GQ_TRY(Status(call.stages->reduce_many(args)));
    for (uint32_t b = 0; b < group.block_count(); ++b) {
      const uint16_t code = call.coding.rescale ? scales[b] : codes.code[b];
      norms_from_codes(&code, 1, out_scales + group.block(b), CodesAt::kHead);
    }
    return Status();
  });
}

Status dequantize_groups(const StageCall& call, const uint32_t* words, const float* norms,
                         const float* scales, int32_t dtype, int32_t op, void* values) {
  return for_each_group(call, [&](const Group& group) {
    const GroupCodes codes(group, norms), scale_codes(group, scales);
    DequantizeArgs args{};
    args.coding = call.coding;
    args.random = call.random;
    args.range = group.range;
    args.words = words + group.first_word;
    args.norms = codes.view();
    args.scales = scale_codes.view();
    args.dtype = dtype;
    args.op = op;
    args.values = static_cast<unsigned char*>(values) +
                  group.range.first_value * dtype_size_bytes(dtype);
    args.nontemporal = has_nontemporal_results(call.range.value_count, dtype);
    return Status(call.stages->dequantize(args));
  });
}

Status find_group_widths(const StageCall& call, const float* norms, uint8_t* widths) {
  return for_each_group(call, [&](const Group& group) {
    const GroupCodes codes(group, norms);
    uint8_t width[kGroupBlocks];
    const GroupPlace& place = group.range.group;
    GQ_TRY(Status(call.stages->widths({place.block_count, place.plane_count, codes.code, width})));
    for (uint32_t b = 0; b < place.block_count; ++b) widths[group.block(b)] = width[b];
    return Status();
  });
}

}  // namespace gq
