// Stages of adaptive widths on a stream.
#include "kernels/cuda/adaptive/dequantize_groups.cuh"
#include "kernels/cuda/adaptive/quantize_groups.cuh"
#include "kernels/cuda/adaptive/reduce_groups.cuh"
#include "kernels/cuda/adaptive/write_widths.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

/** Places of segments as an argument of a kernel. */
struct SegmentList {
  static constexpr size_t kSegments = 1000;  ///< of 32,764 bytes of arguments
  SegmentPlace segment[kSegments];
  uint32_t count;
  SegmentPlace* out;
};
__global__ void write_segments_kernel(const __grid_constant__ SegmentList list) {
  for (uint32_t k = threadIdx.x; k < list.count; k += blockDim.x) list.out[k] = list.segment[k];
}

namespace {

Piece piece_of_groups(const NormArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, nullptr, args.out};
}
Piece piece_of_groups(const QuantizeArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, place_of(args.norms),
          args.words};
}
Piece piece_of_groups(const ReduceManyArgs& args) {
  return {args.range.first_value,
          args.range.value_count,
          args.words,
          place_of(args.norms),
          args.out_words,
          args.out_scales,
          0,
          static_cast<uint32_t>(args.operand_scales_bytes / sizeof(uint16_t))};
}
Piece piece_of_groups(const DequantizeArgs& args) {
  return {args.range.first_value,
          args.range.value_count,
          args.values,
          place_of(args.norms),
          const_cast<uint32_t*>(args.words),
          const_cast<void*>(place_of(args.scales))};
}
Piece piece_of_groups(const WriteWidthsArgs& args) {
  return {args.range.first_value, args.range.value_count, nullptr, args.norms, args.widths};
}

template <typename Stage, typename Args>
StageError run(const Args* args, size_t count, const BatchTable& table, const Gate& gate = {}) {
  uint64_t values_in_all = 0;
  for (size_t k = 0; k < count; ++k) values_in_all += args[k].range.value_count;
  const StageCalls<Args> calls{args, count, table, piece_of_groups};
  return calls.run(Launcher(args->stream, gate), groups_kernel<Stage>, Stage(*args, values_in_all),
                   gate);
}

}  // namespace

StageError norm_of_groups(const NormArgs* args, size_t count, const BatchTable& table) {
  return run<GroupNorms>(args, count, table);
}
StageError quantize_groups(const QuantizeArgs* args, size_t count, const BatchTable& table) {
  return run<QuantizeGroups>(args, count, table);
}
StageError reduce_groups(const ReduceManyArgs* args, size_t count, const BatchTable& table) {
  if (args->operand_scales_bytes != 0) {
    const StageError error = check_scales_behind(args, count);
    if (failed(error)) return error;
    return run<ReduceGroups<AddScaledCodes>>(args, count, table);
  }
  if (args->weights != nullptr) {  // As without groups.
    return {"reduce_many", 0, nullptr, "stages of devices weight means with scales alone"};
  }
  return run<ReduceGroups<AddCodes>>(args, count, table);
}
StageError dequantize_groups(const DequantizeArgs* args, size_t count, const BatchTable& table) {
  return run<DequantizeGroups>(args, count, table, args->gate);
}

StageError write_widths(const WriteWidthsArgs& args) {
  return run<WriteWidths>(&args, 1, {});
}

StageError write_segments(const WriteSegmentsArgs& args) {
  const Launcher launcher(args.stream);
  SegmentList list;
  for (size_t first = 0; first < args.count; first += list.count) {
    const size_t left = args.count - first;
    list.count = static_cast<uint32_t>(left < SegmentList::kSegments ? left
                                                                     : SegmentList::kSegments);
    for (size_t k = 0; k < list.count; ++k) list.segment[k] = args.segments[first + k];
    list.out = args.out + first;
    const StageError error = launcher.launch(write_segments_kernel, 1, kBlockThreads, list);
    if (failed(error)) return error;
  }
  return {};
}

}  // namespace gq::cuda
