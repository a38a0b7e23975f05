// Wide sums of levels on a stream: which kernel adds the operands and encodes the sum.
#ifndef GQ_KERNELS_CUDA_SUMS_WIDE_SUMS_CUH
#define GQ_KERNELS_CUDA_SUMS_WIDE_SUMS_CUH

#include "kernels/cuda/reduce_many.cuh"

namespace gq::cuda {

using ReduceManyCalls = StageCalls<ReduceManyArgs>;

template <typename Stage>
StageError run_sums(const ReduceManyCalls& calls, const Stage& stage) {
  return calls.run(Launcher(calls.first().stream), reduce_many_kernel<Stage>, stage,
                   typename Stage::List(calls.first()));
}

/** Thresholds: as of sum_thresholds(). */
template <typename Thresholds>
class WideSums {
 public:
  explicit WideSums(const ReduceManyCalls& calls)
      : calls_(calls), args_(calls.first()), coding_(calls.first().coding) {}

  /** One norm or scale for all operands. */
  StageError run() const {
    if (coding_.levels == Levels::linear) return coding_.bits == 8 ? linear<8>() : linear<4>();
    const Operands operands(args_);
    if (coding_.mantissa_bits > 0) {
      return encode(AddExponential<8, 2, WeightedOperandList>{operands},
                    ExponentialLevels<8, 2>{0});
    }
    if (coding_.bits == 8) return exponential(AddExponential<8, 0, WeightedOperandList>{operands});
    using Small = AddSmallLevels<WeightedOperandList>;
    if (coding_.ranks <= Small::kRanksMax) return exponential(Small(args_));
    return exponential(AddExponential<4, 0, WeightedOperandList>{operands});
  }

 private:
  template <typename Add, typename Levels>
  StageError encode(const Add& add, const Levels& levels) const {
    return coding_.rescale
               ? run_sums(calls_, ReduceManyRescaled<Add, Levels, Thresholds>(args_, add, levels))
               : run_sums(calls_, ReduceMany<Add, Levels, Thresholds>(args_, add, levels));
  }

  template <uint32_t kBits>
  StageError linear() const {
    const AddLinear<kBits> add{Operands(args_), coding_.steps};
    return coding_.bits_down == 8 ? encode(add, LinearLevels<8>{coding_.steps_down})
                                  : encode(add, LinearLevels<4>{coding_.steps_down});
  }

  template <typename Add>
  StageError exponential(const Add& add) const {
    return coding_.bits_down == 8 ? encode(add, ExponentialLevels<8, 0>{0})
                                  : encode(add, ExponentialLevels<4, 0>{0});
  }

  const ReduceManyCalls& calls_;
  const ReduceManyArgs& args_;
  const Coding& coding_;
};

/** Sums of a node that are rounded beside those of others (node_sums.cu). */
StageError reduce_many_of_node(const ReduceManyCalls& calls);

}  // namespace gq::cuda

#endif
