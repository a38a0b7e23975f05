// The stages of kernels/cuda without a device.

// clang-format off
#include "tests/unit/kernels/cuda/emulated.h"
// clang-format on

#include <vector>

#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/merge_norms.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/reduce_many.cuh"
#include "tests/unit/kernels/cuda/batch_pieces.h"
#include "tests/unit/kernels/cuda/stages_under_test.h"

namespace gq::test {
namespace {

/** For the pieces of a batch, or none. */
class Table {
 public:
  explicit Table(size_t piece_count) : pieces_(piece_count) {}
  void* data() { return batch_mode.has_table ? pieces_.data() : nullptr; }

 private:
  std::vector<cuda::Piece> pieces_;
};

StageError norm(const NormArgs& args) {
  const uint64_t codes = code_count(args.rotated, args.range.value_count);
  std::vector<double> sums(norm_group_count(args.range.first_value, codes));
  NormArgs with_workspace = args;
  if (args.workspace == nullptr) with_workspace.workspace = sums.data();
  const bool is_one = args.block == 0 && args.q == NormOrder::inf;
  if (args.block == 0 && !is_one) {
    return cuda::norm_on(EmulatedLauncher(), &with_workspace, 1, nullptr);
  }
  uint32_t running[2] = {0, 0};
  if (is_one && batch_mode.running_norm) with_workspace.running = running;
  std::vector<uint32_t> outs(batch_mode.piece_count, 0xCACACACA);
  const auto pieces = cut(with_workspace, outs.data());
  Table table(pieces.size());
  const StageError error =
      cuda::norm_on(EmulatedLauncher(), pieces.data(), pieces.size(), table.data());
  if (failed(error) || !is_one) return error;
  outs.resize(pieces.size());
  *static_cast<uint32_t*>(args.out) = *std::max_element(outs.begin(), outs.end());
  return running[0] + running[1] == 0 ? error : StageError{"running words are left", 1, "", ""};
}

StageError merge_norms(const MergeNormsArgs& args) {
  const auto operands = merge_operands(args);
  std::vector<MergeNormsArgs> merges(operands.size(), args);
  for (size_t k = 0; k < operands.size() && operands.size() > 1; ++k) {
    merges[k].a = operands[k].data();
  }
  return cuda::merge_norms_on(EmulatedLauncher(), merges.data(), merges.size());
}
StageError quantize(const QuantizeArgs& args) {
  const auto pieces = cut(args);
  Table table(pieces.size());
  return cuda::quantize_on(EmulatedLauncher(), pieces.data(), pieces.size(), table.data());
}
StageError reduce(const ReduceArgs& args) { return cuda::reduce_on(EmulatedLauncher(), args); }
StageError reduce_many(const ReduceManyArgs& args) {
  const auto lists = operand_lists(args);
  const auto pieces = cut(args, lists.data());
  Table table(pieces.size());
  return cuda::reduce_many_on(EmulatedLauncher(), pieces.data(), pieces.size(), table.data());
}
StageError dequantize(const DequantizeArgs& args) {
  const auto pieces = cut(args);
  Table table(pieces.size());
  return cuda::dequantize_on(EmulatedLauncher(), pieces.data(), pieces.size(), table.data());
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
