// Reduce on a stream.
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {
namespace {

template <typename Merge>
StageError run(const ReduceArgs& args, const Merge& merge) {
  const Reduce<Merge> stage(args, merge);
  return Launcher(args.stream).run<reduce_kernel<Merge>>(stage.iterations(), stage);
}

template <uint32_t kBits>
StageError run_average(const ReduceArgs& args) {
  return args.weight_a == args.weight_b ? run(args, AverageEqual<kBits>(args))
                                        : run(args, AverageWeighted<kBits>(args));
}

}  // namespace

StageError reduce(const ReduceArgs& args) {
  const Coding& coding = args.coding;
  const bool linear = coding.levels == Levels::linear;
  const bool exponential = coding.levels == Levels::exponential;
  if (args.range.value_count == 0) return {};  // Then pointers may be null.
  if (coding.levels == Levels::none) return run(args, AddFloats{});
  if (linear && coding.combine == Combine::exact) return run(args, AddWords{});
  if (linear && coding.combine == Combine::average) {
    return coding.bits == 8 ? run_average<8>(args) : run_average<4>(args);
  }
  if (exponential && coding.bits == 8 && coding.combine == Combine::sum) {
    return run(args, SumExponentials(args));
  }
  if (exponential && coding.bits == 4 && coding.combine == Combine::average) {
    return average_is_short(args.weight_a, args.weight_b)
               ? run(args, AverageExponentials<true>(args))
               : run(args, AverageExponentials<false>(args));
  }
  return {"reduce", 0, nullptr, "no stage adds such codes"};  // The caller lets none through.
}

}  // namespace gq::cuda
