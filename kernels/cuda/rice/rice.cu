// Stages of Rice codes on a stream.
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/rice/read_words.cuh"
#include "kernels/cuda/rice/write_words.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

struct LoadValue {
  const RiceStage& stage;
  const RiceGroup& group;
  int32_t dtype;

  GQ_DEVICE float operator()(uint32_t cell) const {
    const LaneValue here = stage.lane_value(group, cell, &SegmentPlace::send);
    if (!here.is_there) return 0;
    return with_element(dtype, [&]<typename Element>(Element) {
      return widened(static_cast<const Element*>(here.buffer)[here.offset]);
    });
  }
};

struct QuantizeRice : RiceStage {
  using Shared = GroupEncoderOfRice::Shared<LoadValue>;
  GroupEncoderOfRice encoder;
  int32_t dtype;

  explicit QuantizeRice(const QuantizeArgs& args)
      : RiceStage(*args.range.grouped),
        encoder{{Thresholds(args)}, args.coding.packing(),
                rice_margin(strata_of_quantize(args.coding, args.random)),
                args.coding.rounding == Rounding::nearest},
        dtype(args.dtype) {}

  GQ_DEVICE void run(const RiceGroup& group, Shared& shared) const {
    encoder.encode(group, words_of(group, encoder.packing, piece.words),
                   LoadValue{*this, group, dtype}, shared);
  }
};

struct LoadSum {
  const float* sums;
  const RiceGroup& group;

  GQ_DEVICE float operator()(uint32_t cell) const {
    return group.has_lane(cell) ? sums[cell * kRiceCell + lane_here()] : 0;
  }
};

struct ReduceRice : RiceStage {
  union Shared {
    GroupEncoderOfRice::Shared<LoadSum> encoder;
    GroupReader::Shared reader;
  };
  GroupEncoderOfRice encoder;
  Packing operand_packing;
  uint32_t ranks;

  explicit ReduceRice(const ReduceManyArgs& args)
      : RiceStage(*args.range.grouped),
        encoder{{Thresholds(args)}, args.coding.packing_down(),
                rice_margin(strata_of_sum(args.coding, args.random)),
                args.coding.rounding == Rounding::nearest},
        operand_packing(args.coding.packing()),
        ranks(args.coding.ranks) {}

  /** Words of the sum may take the place of an operand's: these have been read by then. */
  GQ_DEVICE void run(const RiceGroup& group, Shared& shared) const {
    const auto* const operands = static_cast<const uint32_t* const*>(piece.values);
    float* const here =
        static_cast<float*>(piece.scales) + uint64_t{group.number} * groups.group_values;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const RiceWords from = words_of(group, operand_packing, kept(operands[rank]));
      add(group, GroupReader(shared.reader, group, from), rank == 0, here);
    }
    if (piece.words == nullptr) return;  // for all threads
    __syncthreads();
    encoder.encode(group, words_of(group, encoder.packing, piece.words), LoadSum{here, group},
                   shared.encoder);
  }

 private:
  GQ_DEVICE static void add(const RiceGroup& group, const GroupReader& reader, bool is_first,
                            float* sums) {
    for (uint32_t cell = warp_here(); cell < group.cells; cell += kBlockWarps) {
      float* const place = sums + cell * kRiceCell + lane_here();
      const bool is_there = group.has_lane(cell);
      const float before = is_first || !is_there ? 0 : *place;
      const float sum = reader.add_to(before, is_first, cell);
      if (is_there) *place = sum;
    }
  }
};

struct DequantizeRice : RiceStage {
  struct Shared {
    GroupReader::Shared reader;
    RunWords random[kBlockWarps];
  };
  Packing packing;
  ValueTarget<> target;
  float divisor;

  explicit DequantizeRice(const DequantizeArgs& args)
      : RiceStage(*args.range.grouped),
        packing(args.coding.packing_down()),
        target(args),
        divisor(result_divisor(args.op, args.coding.ranks)) {}

  GQ_DEVICE void run(const RiceGroup& group, Shared& shared) const {
    const GroupReader reader(shared.reader, group, words_of(group, packing, piece.words));
    RunWords& random = shared.random[warp_here()];
    const bool draws =
        !target.nearest && (target.dtype == GQSGD_FLOAT16 || target.dtype == GQSGD_BFLOAT16);
    const StreamStart start = start_of(target.stream);
    for (uint32_t tile = 0; tile < group.cells; tile += kTileCells) {
      const uint32_t first = tile + warp_here() * kRunCells;
      if (first >= group.cells) break;
      __syncwarp();  // lanes may still read the words of the last run
      if (draws) random.draw(target.stream, start, group.value_of(first));
      __syncwarp();
      const uint32_t count = min(kRunCells, group.cells - first);
      for (uint32_t k = 0; k < count; ++k) {
        const float value = canonical(reader.add_to(0, true, first + k) / divisor);
        const LaneValue to = lane_value(group, first + k, &SegmentPlace::recv);
        const uint32_t bits = draws ? random.bits(k) : 0;
        if (to.is_there) store(to, value, bits);
      }
    }
  }

 private:
  GQ_DEVICE void store(const LaneValue& to, float value, uint32_t bits) const {
    with_element(target.dtype, [&]<typename Element>(Element) {
      auto* const buffer = static_cast<Element*>(const_cast<void*>(to.buffer));
      buffer[to.offset] = target.nearest ? rounded_to<Element, true>(value, 0)
                                         : rounded_to<Element, false>(value, bits);
    });
  }
};

StageError quantize_rice(const QuantizeArgs* args, size_t count, const BatchTable& table) {
  return run_groups<QuantizeRice>(args, count, table);
}
StageError reduce_rice(const ReduceManyArgs* args, size_t count, const BatchTable& table) {
  return run_groups<ReduceRice>(args, count, table);
}
StageError dequantize_rice(const DequantizeArgs* args, size_t count, const BatchTable& table) {
  return run_groups<DequantizeRice>(args, count, table, args->gate);
}

}  // namespace gq::cuda
