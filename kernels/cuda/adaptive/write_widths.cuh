// Widths of the blocks of groups, as the C ABI shows them.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_WRITE_WIDTHS_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_WRITE_WIDTHS_CUH

#include "kernels/cuda/adaptive/group_stage.cuh"
#include "kernels/numbers.h"

namespace gq::cuda {

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

}  // namespace gq::cuda

#endif
