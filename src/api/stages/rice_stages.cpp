// Walks groups of Rice codes: values are gathered as float32 and encoded, codes are decoded to
// float32, and these are added or scattered.
#include "src/api/stages/rice_stages.h"

#include <algorithm>
#include <memory>
#include <new>

#include "src/plan/plan.h"

namespace gq {
namespace {

struct Group {
  uint64_t number;       ///< among those of the stage
  uint64_t first_value;  ///< in the call
  uint32_t value_count;
};

/** Calls work(group, memory for its values) for each group of the stage. */
template <typename Work>
Status for_each_group(const StageCall& call, Work work) {
  const Groups& groups = call.grouped.groups;
  const std::unique_ptr<float[]> values(new (std::nothrow) float[groups.group_values]);
  if (values == nullptr) {
    return fail(GQSGD_NO_MEMORY, "no memory for the %u values of a group of Rice codes",
                groups.group_values);
  }
  for (uint64_t number = 0; number < call.group_count; ++number) {
    const uint64_t group = call.first_group + number;
    GQ_TRY(Status(work(Group{number, groups.first_value(group),
                             groups.value_count_of(group, groups.value_count)},
                       values.get())));
  }
  return Status();
}

/** Calls work(range in the call, its place in the group) for each granule. */
template <typename Work>
StageError for_each_granule(const StageCall& call, const Group& group, Work work) {
  Range range{group.first_value, 0};
  for (uint32_t place = 0; place < group.value_count; place += kGranuleValues) {
    range.value_count = std::min(kGranuleValues, group.value_count - place);
    const StageError error = work(range, place);
    if (failed(error)) return error;
    range.first_value += call.grouped.groups.stride_values();
  }
  return {};
}

StageError gather(const StageCall& call, const Group& group, const void* from, int32_t dtype,
                  float* values) {
  const Coding floats = float_coding(call.format, call.coding.ranks);
  return for_each_granule(call, group, [&](const Range& range, uint32_t place) {
    QuantizeArgs args{};
    args.coding = floats;
    args.range = range;
    args.values =
        static_cast<const unsigned char*>(from) + range.first_value * dtype_size_bytes(dtype);
    args.dtype = dtype;
    args.words = reinterpret_cast<uint32_t*>(values + place);
    return call.stages->quantize(args);
  });
}

StageError scatter(const StageCall& call, const Group& group, const float* values, int32_t dtype,
                   int32_t op, void* to) {
  const Coding floats = float_coding(call.format, call.coding.ranks);
  return for_each_granule(call, group, [&](const Range& range, uint32_t place) {
    DequantizeArgs args{};
    args.coding = floats;
    args.random = call.random;
    args.range = range;
    args.words = reinterpret_cast<const uint32_t*>(values + place);
    args.dtype = dtype;
    args.op = op;
    args.values = static_cast<unsigned char*>(to) + range.first_value * dtype_size_bytes(dtype);
    return call.stages->dequantize(args);
  });
}

/** The values of a group in the caller's buffer, for a stage to prefetch. */
ValuesAhead values_of(const StageCall& call, uint64_t group, const void* values, int32_t dtype) {
  const Groups& groups = call.grouped.groups;
  const uint32_t value_bytes = dtype_size_bytes(dtype);
  return {static_cast<const unsigned char*>(values) + groups.first_value(group) * value_bytes,
          value_bytes, static_cast<size_t>(groups.stride_values()) * value_bytes};
}

uint64_t word_offset(const Group& group, const Packing& packing) {
  return group.number * packing.group_planes * kPlaneWords;
}

StageError encode(const StageCall& call, const Group& group, const float* values, bool is_sum,
                  const ValuesAhead& ahead, uint32_t* words) {
  const Packing packing = is_sum ? call.coding.packing_down() : call.coding.packing();
  EncodeRiceArgs args{};
  args.coding = call.coding;
  args.random = call.random;
  args.is_sum = is_sum;
  args.first_value = group.first_value;
  args.stride_values = call.grouped.groups.stride_values();
  args.value_count = group.value_count;
  args.plane_count = packing.group_planes;
  args.values = values;
  args.words = words + word_offset(group, packing);
  args.ahead = ahead;
  return call.stages->encode_rice(args);
}

/** With what `args` has of values. */
StageError decode(const StageCall& call, const Group& group, const Packing& packing,
                  const uint32_t* words, DecodeRiceArgs args) {
  args.value_count = group.value_count;
  args.plane_count = packing.group_planes;
  args.words = words + word_offset(group, packing);
  return call.stages->decode_rice(args);
}

}  // namespace

Status quantize_rice(const StageCall& call, const void* values, int32_t dtype, uint32_t* words) {
  return for_each_group(call, [&](const Group& group, float* gathered) {
    const StageError error = gather(call, group, values, dtype, gathered);
    if (failed(error)) return error;
    const uint64_t next = group.number + 1;
    const ValuesAhead ahead = next == call.group_count
                                  ? ValuesAhead()
                                  : values_of(call, call.first_group + next, values, dtype);
    return encode(call, group, gathered, false, ahead, words);
  });
}

Status reduce_many_rice(const StageCall& call, const uint32_t* const* words, uint32_t* out_words) {
  return for_each_group(call, [&](const Group& group, float* sums) {
    for (uint32_t rank = 0; rank < call.coding.ranks; ++rank) {
      DecodeRiceArgs args{};
      args.values = sums;
      args.add = rank > 0;
      const StageError error = decode(call, group, call.coding.packing(), words[rank], args);
      if (failed(error)) return error;
    }
    return encode(call, group, sums, true, {}, out_words);
  });
}

Status dequantize_rice(const StageCall& call, const uint32_t* words, int32_t dtype, int32_t op,
                       void* values) {
  return for_each_group(call, [&](const Group& group, float* sums) {
    void* const to =
        static_cast<unsigned char*>(values) + group.first_value * dtype_size_bytes(dtype);
    const DecodeRiceArgs args =
        rice_results(to, dtype, call.grouped.groups.stride_values(),
                     result_divisor(op, call.coding.ranks), sums);
    const StageError error = decode(call, group, call.coding.packing_down(), words, args);
    if (failed(error) || args.values != sums) return error;
    return scatter(call, group, sums, dtype, op, values);
  });
}

}  // namespace gq
