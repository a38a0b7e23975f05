// Stages of adaptive widths on a stream.
#include "kernels/cuda/adaptive/dequantize_groups.cuh"
#include "kernels/cuda/adaptive/quantize_groups.cuh"
#include "kernels/cuda/adaptive/reduce_groups.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

namespace {

/** As the C ABI shows them. */
struct WriteWidths : GroupStage {
  using Shared = GroupWidths::Shared;
  const void* norms = nullptr;
  uint8_t* out = nullptr;

  WriteWidths(const WriteWidthsArgs& args, uint64_t values_in_all)
      : GroupStage(*args.range.grouped, args.mean_half_bits, {nullptr, nullptr, args.norms},
                   values_in_all) {}

  GQ_HD void set(const Piece& piece) {
    GroupStage::set(piece);
    norms = piece.norms;
    out = static_cast<uint8_t*>(piece.words);
  }

  GQ_DEVICE void run(const GroupUnit& unit, Shared& shared) const {
    const GroupWidths widths(shared, code_of_thread(norms, unit), unit.plane_count);
    const uint32_t block = unit.first_block + threadIdx.x;
    if (block >= unit.end_block) return;
    out[block_offset(unit, block)] = static_cast<uint8_t>(widths.width(block));
  }
};

template <typename Stage, typename Args>
StageError run(const Args* args, size_t count, const BatchTable& table, const Gate& gate = {}) {
  uint64_t values_in_all = 0;
  for (size_t k = 0; k < count; ++k) values_in_all += args[k].range.value_count;
  const StageCalls<Args> calls{args, count, table};
  return calls.template run<groups_kernel<Stage>>(Launcher(args->stream, gate),
                                                  Stage(*args, values_in_all), gate);
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
  return write_items(Launcher(args.stream), args.count, args.out,
                     [&](size_t k) { return args.segments[k]; });
}

}  // namespace gq::cuda
