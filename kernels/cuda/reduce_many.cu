// Wide reduce on a stream.
#include "kernels/cuda/reduce_many.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {
namespace {

using Calls = StageCalls<ReduceManyArgs>;

template <typename Stage>
StageError run_stage(const Calls& calls, const Stage& stage) {
  return calls.run(Launcher(calls.first().stream), reduce_many_kernel<Stage>, stage,
                   typename Stage::List(calls.first()));
}

template <typename Add, typename Levels>
StageError run(const Calls& calls, const Add& add, const Levels& levels) {
  const ReduceManyArgs& args = calls.first();
  return args.coding.rescale
             ? run_stage(calls, ReduceManyRescaled<Add, Levels>(args, add, levels))
             : run_stage(calls, ReduceMany<Add, Levels>(args, add, levels));
}

template <uint32_t kBits>
StageError run_linear(const Calls& calls) {
  const Coding& coding = calls.first().coding;
  if (calls.first().operand_scales_bytes != 0) {
    return run_stage(calls, ReduceManyRescaled<AddMeans<kBits>, LinearLevels<kBits>>(
                                calls.first(), AddMeans<kBits>(calls.first()),
                                LinearLevels<kBits>{coding.steps_down}));
  }
  const AddLinear<kBits> add{Operands(calls.first()), coding.steps};
  return coding.bits_down == 8 ? run(calls, add, LinearLevels<8>{coding.steps_down})
                               : run(calls, add, LinearLevels<4>{coding.steps_down});
}

template <typename Add>
StageError run_exponential(const Calls& calls, const Add& add) {
  return calls.first().coding.bits_down == 8 ? run(calls, add, ExponentialLevels<8, 0>{0})
                                             : run(calls, add, ExponentialLevels<4, 0>{0});
}

StageError run_all(const Calls& calls) {
  const ReduceManyArgs& args = calls.first();
  const Coding& coding = args.coding;
  if (coding.levels == Levels::none) return run_stage(calls, ReduceManyNone(args));
  if (coding.levels == Levels::linear) {
    return coding.bits == 8 ? run_linear<8>(calls) : run_linear<4>(calls);
  }
  using Small = AddSmallLevels<WeightedOperandList>;
  const Operands operands(args);
  if (coding.mantissa_bits > 0) {
    return run(calls, AddExponential<8, 2, WeightedOperandList>{operands},
               ExponentialLevels<8, 2>{0});
  }
  if (coding.bits == 8) {
    return run_exponential(calls, AddExponential<8, 0, WeightedOperandList>{operands});
  }
  if (coding.ranks <= Small::kRanksMax) return run_exponential(calls, Small(args));
  return run_exponential(calls, AddExponential<4, 0, WeightedOperandList>{operands});
}

}  // namespace

StageError reduce_many(const ReduceManyArgs* args, size_t count, const BatchTable& table) {
  if (count == 1 && args->range.value_count == 0) return {};  // Then pointers may be null.
  const bool has_weights = args->coding.levels == Levels::exponential ||
                           args->operand_scales_bytes != 0;
  if (args->weights != nullptr && !has_weights) {
    return {"reduce_many", 0, nullptr,
            "stages of devices weight exponential levels and means with scales alone"};
  }
  for (size_t k = 0; k < count; ++k) {
    if (args[k].operand_scales_bytes < kScalesBytesMax) continue;
    return {"reduce_many", 0, nullptr, "scales of an operand lie too far behind its words"};
  }
  for (size_t first = 0, end = 0; first < count; first = end) {
    for (end = first + 1; end < count && share_list(args[first], args[end]);) ++end;
    const StageError error = run_all({args + first, end - first, table, piece_of});
    if (failed(error)) return error;
  }
  return {};
}

}  // namespace gq::cuda
