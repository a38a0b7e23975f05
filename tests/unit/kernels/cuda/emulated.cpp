// The stages of kernels/cuda without a device.

// clang-format off
#include "tests/unit/kernels/cuda/emulated.h"
// clang-format on

#include <vector>

#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/reduce_many.cuh"
#include "tests/unit/kernels/cuda/stages_under_test.h"

namespace gq::test {
namespace {

StageError norm(const NormArgs& args) {
  const uint64_t codes = code_count(args.rotated, args.range.value_count);
  std::vector<double> sums(norm_group_count(args.range.first_value, codes));
  NormArgs with_workspace = args;
  if (args.workspace == nullptr) with_workspace.workspace = sums.data();
  return cuda::norm_on(EmulatedLauncher(), with_workspace);
}

StageError merge_norms(const MergeNormsArgs& args) {
  return cuda::merge_norms_on(EmulatedLauncher(), args);
}
StageError quantize(const QuantizeArgs& args) {
  return cuda::quantize_on(EmulatedLauncher(), args);
}
StageError reduce(const ReduceArgs& args) { return cuda::reduce_on(EmulatedLauncher(), args); }
StageError reduce_many(const ReduceManyArgs& args) {
  return cuda::reduce_many_on(EmulatedLauncher(), args);
}
StageError dequantize(const DequantizeArgs& args) {
  return cuda::dequantize_on(EmulatedLauncher(), args);
}

StageError write_list(const WriteListArgs& args) {
  return cuda::write_list_on(EmulatedLauncher(), args);
}
StageError write_numbers(const WriteNumbersArgs& args) {
  return cuda::write_numbers_on(EmulatedLauncher(), args);
}

}  // namespace

const Stages stages_under_test = {
    "emulated cuda", norm,
    merge_norms,     quantize,
    reduce,          reduce_many,
    dequantize,      emulated_count_entries,
    emulated_select, emulated_add_sparse,
};

const NumberStages numbers_under_test = {write_list, write_numbers};

}  // namespace gq::test
