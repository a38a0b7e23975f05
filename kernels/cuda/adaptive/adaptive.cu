// Stages of adaptive widths on a stream.
#include "kernels/cuda/adaptive/group_values.cuh"
#include "kernels/cuda/adaptive/reduce_groups.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

/** As the C ABI shows them. */
struct WriteWidths : GroupStage {
  using Shared = GroupWidths::Shared;

  explicit WriteWidths(const WriteWidthsArgs& args)
      : GroupStage(*args.range.grouped, args.mean_half_bits, {nullptr, nullptr, args.norms}) {}

  GQ_DEVICE void run(const GroupUnit& unit, Shared& shared) const {
    const GroupWidths widths(shared, code_of_thread(piece.norms, unit), unit.plane_count);
    const uint32_t block = unit.first_block + threadIdx.x;
    if (block >= unit.end_block) return;
    auto* const out = static_cast<uint8_t*>(piece.words);
    out[block_offset(unit, block)] = static_cast<uint8_t>(widths.width(block));
  }
};

StageError norm_of_groups(const NormArgs* args, size_t count, const BatchTable& table) {
  return with_dtypes(args->dtype, [&]<Dtypes kDtypes>() {
    return run_groups<GroupNorms<kDtypes>>(args, count, table);
  });
}
StageError quantize_groups(const QuantizeArgs* args, size_t count, const BatchTable& table) {
  return with_dtypes(args->dtype, [&]<Dtypes kDtypes>() {
    return run_groups<QuantizeGroups<kDtypes>>(args, count, table);
  });
}
StageError reduce_groups(const ReduceManyArgs* args, size_t count, const BatchTable& table) {
  if (args->operand_scales_bytes != 0) {
    return run_groups<ReduceGroups<AddScaledCodes>>(args, count, table);
  }
  if (args->weights != nullptr) {  // As without groups.
    return {"reduce_many", 0, nullptr, "stages of devices weight means with scales alone"};
  }
  return run_groups<ReduceGroups<AddCodes>>(args, count, table);
}
StageError dequantize_groups(const DequantizeArgs* args, size_t count, const BatchTable& table) {
  return with_dtypes(args->dtype, [&]<Dtypes kDtypes>() {
    return run_groups<DequantizeGroups<kDtypes>>(args, count, table, args->gate);
  });
}

StageError write_widths(const WriteWidthsArgs& args) {
  return run_groups<WriteWidths>(&args, 1, {});
}

StageError write_segments(const WriteSegmentsArgs& args) {
  return write_items(Launcher(args.stream), args.count, args.out,
                     [&](size_t k) { return args.segments[k]; });
}

}  // namespace gq::cuda
