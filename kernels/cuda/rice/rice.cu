// Stages of Rice codes on a stream.
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/rice/read_words.cuh"
#include "kernels/cuda/rice/write_words.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {
namespace {

GQ_DEVICE float float_at(const void* values, int32_t dtype, uint64_t offset) {
  if (dtype == GQSGD_FLOAT32) return static_cast<const float*>(values)[offset];
  if (dtype == GQSGD_BFLOAT16) return widened(static_cast<const Bfloat*>(values)[offset]);
  if (dtype == GQSGD_FLOAT16) return widened(static_cast<const Half*>(values)[offset]);
  return widened(static_cast<const double*>(values)[offset]);
}

/** The caller's values. */
struct LoadValue {
  const RiceStage& stage;
  const RiceGroup& group;
  int32_t dtype;

  GQ_DEVICE float operator()(uint32_t cell) const {
    const LaneValue here = stage.lane_value(group, cell, &SegmentPlace::send);
    return here.is_there ? float_at(here.buffer, dtype, here.offset) : 0;
  }
};

struct QuantizeRice : RiceStage {
  using Shared = GroupEncoderOfRice::Shared<LoadValue>;
  GroupEncoderOfRice encoder;
  int32_t dtype;
  uint32_t* words = nullptr;

  explicit QuantizeRice(const QuantizeArgs& args)
      : RiceStage(*args.range.grouped),
        encoder{{Thresholds(args)}, args.coding.packing(),
                rice_margin(strata_of_quantize(args.coding, args.random)),
                args.coding.rounding == Rounding::nearest},
        dtype(args.dtype) {}

  GQ_HD void set(const Piece& piece) {
    GroupedRange::set(piece);
    words = static_cast<uint32_t*>(piece.words);
  }

  GQ_DEVICE void run(const RiceGroup& group, Shared& shared) const {
    encoder.encode(group, words_of(group, encoder.packing, words), LoadValue{*this, group, dtype},
                   shared);
  }
};

/** Sums of a group. */
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
  const uint32_t* const* operands = nullptr;
  uint32_t* words = nullptr;
  float* sums = nullptr;

  explicit ReduceRice(const ReduceManyArgs& args)
      : RiceStage(*args.range.grouped),
        encoder{{Thresholds(args)}, args.coding.packing_down(),
                rice_margin(strata_of_sum(args.coding, args.random)),
                args.coding.rounding == Rounding::nearest},
        operand_packing(args.coding.packing()),
        ranks(args.coding.ranks) {}

  GQ_HD void set(const Piece& piece) {
    GroupedRange::set(piece);
    operands = static_cast<const uint32_t* const*>(piece.values);
    words = static_cast<uint32_t*>(piece.words);
    sums = static_cast<float*>(piece.scales);
  }

  /** Words of the sum may take the place of an operand's: these have been read by then. */
  GQ_DEVICE void run(const RiceGroup& group, Shared& shared) const {
    float* const here = sums + uint64_t{group.number} * groups.group_values;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const RiceWords from =
          words_of(group, operand_packing, const_cast<uint32_t*>(kept(operands[rank])));
      add(group, GroupReader(shared.reader, group, from), rank == 0, here);
    }
    if (words == nullptr) return;  // for all threads
    __syncthreads();
    encoder.encode(group, words_of(group, encoder.packing, words), LoadSum{here, group},
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
  int32_t dtype;
  bool nearest;
  KeyedStream output;  ///< how values are rounded that are narrower
  float divisor;
  const uint32_t* words = nullptr;

  explicit DequantizeRice(const DequantizeArgs& args)
      : RiceStage(*args.range.grouped),
        packing(args.coding.packing_down()),
        dtype(args.dtype),
        nearest(args.coding.rounding == Rounding::nearest),
        output(shared_stream(args.random, Draw::output)),
        divisor(args.op == GQSGD_MEAN ? static_cast<float>(args.coding.ranks) : 1.0f) {}

  GQ_HD void set(const Piece& piece) {
    GroupedRange::set(piece);
    words = static_cast<const uint32_t*>(piece.words);
  }

  GQ_DEVICE void run(const RiceGroup& group, Shared& shared) const {
    const GroupReader reader(shared.reader, group,
                             words_of(group, packing, const_cast<uint32_t*>(words)));
    RunWords& random = shared.random[warp_here()];
    const bool draws = !nearest && (dtype == GQSGD_FLOAT16 || dtype == GQSGD_BFLOAT16);
    const StreamStart start = start_of(output);
    for (uint32_t tile = 0; tile < group.cells; tile += kTileCells) {
      const uint32_t first = tile + warp_here() * kRunCells;
      if (first >= group.cells) break;
      __syncwarp();  // lanes may still read the words of the last run
      if (draws) random.draw(output, start, group.value_of(first));
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
    void* const buffer = const_cast<void*>(to.buffer);
    if (dtype == GQSGD_FLOAT32) {
      static_cast<float*>(buffer)[to.offset] = value;
    } else if (dtype == GQSGD_FLOAT64) {
      static_cast<double*>(buffer)[to.offset] = as_double(value);
    } else if (dtype == GQSGD_FLOAT16) {
      static_cast<Half*>(buffer)[to.offset] = {nearest ? float_to_half<true>(value, 0)
                                                       : float_to_half<false>(value, bits)};
    } else {
      static_cast<Bfloat*>(buffer)[to.offset] = {nearest ? float_to_bfloat<true>(value, 0)
                                                         : float_to_bfloat<false>(value, bits)};
    }
  }
};

template <typename Stage, typename Args>
StageError run(const Args* args, size_t count, const BatchTable& table, const Gate& gate = {}) {
  const StageCalls<Args> calls{args, count, table};
  return calls.template run<groups_kernel<Stage>>(Launcher(args->stream, gate), Stage(*args), gate);
}

}  // namespace

StageError quantize_rice(const QuantizeArgs* args, size_t count, const BatchTable& table) {
  return run<QuantizeRice>(args, count, table);
}
StageError reduce_rice(const ReduceManyArgs* args, size_t count, const BatchTable& table) {
  return run<ReduceRice>(args, count, table);
}
StageError dequantize_rice(const DequantizeArgs* args, size_t count, const BatchTable& table) {
  return run<DequantizeRice>(args, count, table, args->gate);
}

}  // namespace gq::cuda
