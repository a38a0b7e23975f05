// Rice codes of whole groups: values are gathered, and scattered, by stages without levels.
#include <algorithm>
#include <vector>

#include "src/execute/pieces.h"
#include "tests/support/host_device/host_groups.h"

namespace gq::test {
namespace {

using Floats = std::vector<float>;

struct Group {
  uint64_t number;  ///< in the range
  uint64_t first_value;
  uint32_t value_count;
  uint32_t values_of_range;  ///< in the order of groups
};

template <typename Args, typename Each>
void for_each_group(const Args& args, Each each) {
  const Groups& groups = args.range.grouped->groups;
  const uint64_t end = args.range.first_value + args.range.value_count;
  for (uint64_t first = args.range.first_value; first < end; first += groups.group_values) {
    const uint64_t index = first / groups.group_values;
    const uint64_t number = (first - args.range.first_value) / groups.group_values;
    const uint64_t count = std::min<uint64_t>(groups.group_values, end - first);
    each(Group{number, groups.first_value(index), groups.value_count_of(index, end),
               static_cast<uint32_t>(count)});
  }
}

uint32_t planes_of(const Groups& groups, const Group& group, const Packing& packing) {
  const bool is_whole = groups.interleaved || group.value_count == groups.group_values;
  return is_whole ? packing.group_planes
                  : static_cast<uint32_t>(gq::planes_of(packing, group.value_count));
}

uint64_t words_before(const Group& group, const Packing& packing) {
  return group.number * packing.group_planes * kPlaneWords;
}

/** Calls each(range, values in the caller's memory, place in the group) for runs of granules. */
template <typename Args, typename Memory, typename Each>
void for_each_granule(const Args& args, const Group& group, Memory* SegmentPlace::*memory,
                      Each each) {
  using Byte = std::conditional_t<std::is_const_v<Memory>, const unsigned char, unsigned char>;
  const GroupedValues& grouped = *args.range.grouped;
  std::vector<Part> segments;
  for (uint32_t k = 0; k < grouped.segment_count; ++k) {
    segments.push_back({grouped.segments[k].first_value, grouped.segments[k].value_count});
  }
  Move move{};
  move.first_value = args.range.first_value + group.number * grouped.groups.group_values;
  move.value_count = group.values_of_range;
  GroupPieces pieces(move, segments.empty() ? nullptr : &segments, grouped.groups,
                     args.coding.mean_half_bits, kValueAlignment);
  for (Piece piece; pieces.next(&piece);) {
    for (size_t done = 0; done < piece.range.value_count; done += kGranuleValues) {
      const uint64_t value =
          piece.range.first_value + done / kGranuleValues * grouped.groups.stride_values();
      Memory* base = args.values;
      uint64_t first = grouped.groups.interleaved ? 0 : args.range.first_value;
      if (grouped.segments != nullptr) {
        base = grouped.segments[piece.segment].*memory;
        first = grouped.segments[piece.segment].first_value;
      }
      const size_t count = std::min<size_t>(kGranuleValues, piece.range.value_count - done);
      each(Range{value, count},
           static_cast<Byte*>(base) + (value - first) * dtype_size_bytes(args.dtype),
           piece.into_group + done);
    }
  }
}

Coding floats_of(const Coding& coding) {
  Format format;
  format.levels = Levels::none;
  format.bits = format.bits_down = 32;
  format.rounding = coding.rounding;
  return coding_of(format, coding.ranks, 0);
}

void encode(const Stages& stages, const Coding& coding, const RandomSite& random, bool is_sum,
            const Groups& groups, const Group& group, const Floats& values, uint32_t* words) {
  const Packing packing = is_sum ? coding.packing_down() : coding.packing();
  EncodeRiceArgs args{};
  args.coding = coding;
  args.random = random;
  args.is_sum = is_sum;
  args.first_value = group.first_value;
  args.stride_values = groups.stride_values();
  args.value_count = group.value_count;
  args.plane_count = planes_of(groups, group, packing);
  args.values = values.data();
  args.words = words + words_before(group, packing);
  (void)stages.encode_rice(args);
}

void decode(const Stages& stages, const Groups& groups, const Group& group, const Packing& packing,
            const uint32_t* words, bool add, Floats* values) {
  (void)stages.decode_rice({group.value_count, planes_of(groups, group, packing),
                            words + words_before(group, packing), values->data(), add});
}

}  // namespace

void run_rice(const Stages& stages, const QuantizeArgs& args) {
  for_each_group(args, [&](const Group& group) {
    Floats values(group.value_count);
    for_each_granule(args, group, &SegmentPlace::send,
                     [&](const Range& range, const void* from, size_t place) {
                       QuantizeArgs gather = args;
                       gather.coding = floats_of(args.coding);
                       gather.range = range;
                       gather.values = from;
                       gather.norms = {};
                       gather.words = reinterpret_cast<uint32_t*>(values.data() + place);
                       (void)stages.quantize(gather);
                     });
    encode(stages, args.coding, args.random, false, args.range.grouped->groups, group, values,
           args.words);
  });
}

void run_rice(const Stages& stages, const ReduceManyArgs& args) {
  const Groups& groups = args.range.grouped->groups;
  for_each_group(args, [&](const Group& group) {
    Floats values(group.value_count);
    for (uint32_t k = 0; k < args.coding.ranks; ++k) {
      decode(stages, groups, group, args.coding.packing(), args.words[k], k > 0, &values);
    }
    std::copy(values.begin(), values.end(), args.sums + group.number * groups.group_values);
    if (args.out_words == nullptr) return;
    encode(stages, args.coding, args.random, true, groups, group, values, args.out_words);
  });
}

void run_rice(const Stages& stages, const DequantizeArgs& args) {
  const Groups& groups = args.range.grouped->groups;
  for_each_group(args, [&](const Group& group) {
    Floats values(group.value_count);
    decode(stages, groups, group, args.coding.packing_down(), args.words, false, &values);
    for_each_granule(args, group, &SegmentPlace::recv,
                     [&](const Range& range, void* to, size_t place) {
                       DequantizeArgs scatter = args;
                       scatter.coding = floats_of(args.coding);
                       scatter.range = range;
                       scatter.words = reinterpret_cast<const uint32_t*>(values.data() + place);
                       scatter.scales = scatter.norms = {};
                       scatter.values = to;
                       (void)stages.dequantize(scatter);
                     });
  });
}

}  // namespace gq::test
