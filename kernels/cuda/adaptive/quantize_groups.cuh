// Quantize, where widths are adaptive.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_QUANTIZE_GROUPS_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_QUANTIZE_GROUPS_CUH

#include "kernels/cuda/adaptive/group_codes.cuh"

namespace gq::cuda {

struct QuantizeGroups : GroupStage {
  using Shared = EncodedUnit;
  ValueSource source;
  GroupEncoder encoder;
  const void* norms = nullptr;
  uint32_t* words = nullptr;

  QuantizeGroups(const QuantizeArgs& args, uint64_t values_in_all)
      : GroupStage(*args.range.grouped, args.coding.mean_half_bits, args.norms, values_in_all),
        source(args.values, args.dtype),
        encoder{Thresholds(args), args.coding.rounding == Rounding::nearest} {}

  GQ_HD void set(const Piece& piece) {
    GroupStage::set(piece);
    norms = piece.norms;
    words = static_cast<uint32_t*>(piece.words);
  }

  GQ_DEVICE void run(const GroupUnit& unit, Shared& shared) const {
    const GroupWidths widths(shared.widths, code_of_thread(norms, unit), unit.plane_count);
    const Thresholds::Start start = encoder.thresholds.start();
    write_unit(unit, widths, shared.planes, words + word_offset(unit),
               [&](uint32_t block, LaneWords& lanes) {
                 const ThreadPlace place = place_of(unit, block, &SegmentPlace::send);
                 ValueSource from = source;
                 from.set(place.values);
                 float value[kThreadValues];
                 from.load(place.in_buffer, value);
                 const uint32_t width = widths.width(block);
                 const float norm = widths.norm(block);
                 if (width == 0) return;
                 // The value's number is found last: it would hold registers that nvcc 12 lacks.
                 encoder.encode(start, kept(value_of(unit, block)), norm, width,
                                place.in_buffer.value_count, value, lanes);
               });
  }
};

}  // namespace gq::cuda

#endif
