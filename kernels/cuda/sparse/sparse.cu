// The stages of sparse entries on a stream.
#include "kernels/cuda/sparse/add_sparse.cuh"
#include "kernels/cuda/sparse/select.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError count_entries(const CountEntriesArgs& args) {
  const Launcher launcher(args.stream);
  if (args.range.value_count == 0) return {};  // Then pointers may be null.
  return args.coding.bits == 8 ? count_tiles<8>(launcher, args) : count_tiles<4>(launcher, args);
}

StageError select(const SelectArgs& args) {
  const Launcher launcher(args.stream);
  if (args.range.value_count == 0) return {};
  return args.coding.bits == 8 ? select_entries<8>(launcher, args)
                               : select_entries<4>(launcher, args);
}

StageError add_sparse(const AddSparseArgs& args) {
  const Launcher launcher(args.stream, args.gate);
  if (args.range.value_count == 0) return {};
  const bool byte_codes = args.coding.bits == 8;
  if (args.coding.levels == Levels::linear) {
    return byte_codes ? add_entries<LinearSums<8>>(launcher, args)
                      : add_entries<LinearSums<4>>(launcher, args);
  }
  return byte_codes ? add_entries<ExponentialSums<8>>(launcher, args)
                    : add_entries<ExponentialSums<4>>(launcher, args);
}

}  // namespace gq::cuda
