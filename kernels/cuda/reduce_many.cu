// Wide reduce on a stream.
#include "kernels/cuda/reduce_many.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {
namespace {

using Calls = StageCalls<ReduceManyArgs>;

template <typename Stage>
StageError run(const Calls& calls, const Stage& stage) {
  return calls.run<reduce_many_kernel<Stage>>(Launcher(calls.first().stream), stage,
                                              typename Stage::List(calls.first()));
}

template <typename Add, typename Levels>
StageError encode(const Calls& calls, const Add& add, const Levels& levels) {
  const ReduceManyArgs& args = calls.first();
  return args.coding.rescale ? run(calls, ReduceMany<Add, Levels, true>(args, add, levels))
                             : run(calls, ReduceMany<Add, Levels, false>(args, add, levels));
}

template <uint32_t kBits>
StageError linear(const Calls& calls) {
  const Coding& coding = calls.first().coding;
  const AddLinear<kBits> add{Operands(calls.first()), coding.steps};
  return coding.bits_down == 8 ? encode(calls, add, LinearLevels<8>{coding.steps_down})
                               : encode(calls, add, LinearLevels<4>{coding.steps_down});
}

template <typename Add>
StageError exponential(const Calls& calls, const Add& add) {
  return calls.first().coding.bits_down == 8 ? encode(calls, add, ExponentialLevels<8, 0>{0})
                                             : encode(calls, add, ExponentialLevels<4, 0>{0});
}

template <uint32_t kBits>
StageError means(const Calls& calls) {
  const ReduceManyArgs& args = calls.first();
  using Levels = LinearLevels<kBits>;
  return run(calls, ReduceMany<AddMeans<kBits>, Levels, true>(args, AddMeans<kBits>(args),
                                                              Levels{args.coding.steps_down}));
}

StageError run_all(const Calls& calls) {
  const ReduceManyArgs& args = calls.first();
  const Coding& coding = args.coding;
  const bool byte_codes = coding.bits == 8;
  if (coding.levels == Levels::none) return run(calls, ReduceManyNone(args));
  if (args.operand_scales_bytes != 0) return byte_codes ? means<8>(calls) : means<4>(calls);
  if (coding.levels == Levels::linear) return byte_codes ? linear<8>(calls) : linear<4>(calls);
  const Operands operands(args);
  if (coding.mantissa_bits > 0) {
    return encode(calls, AddExponential<8, 2, RankWeights>{operands}, ExponentialLevels<8, 2>{0});
  }
  if (byte_codes) return exponential(calls, AddExponential<8, 0, RankWeights>{operands});
  if (coding.ranks <= AddSmallLevels::kRanksMax) return exponential(calls, AddSmallLevels(args));
  return exponential(calls, AddExponential<4, 0, RankWeights>{operands});
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
  for (size_t first = 0, end = 0; first < count; first = end) {
    for (end = first + 1; end < count && share_list(args[first], args[end]);) ++end;
    const StageError error = run_all({args + first, end - first, table});
    if (failed(error)) return error;
  }
  return {};
}

}  // namespace gq::cuda
