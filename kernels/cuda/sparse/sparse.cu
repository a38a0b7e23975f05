// The stages of sparse entries on a stream: the kernels of the bodies in select.cuh and
// add_sparse.cuh.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/sparse/add_sparse.cuh"
#include "kernels/cuda/sparse/select.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError count_entries(const CountEntriesArgs& args) {
  return count_entries_on(DeviceLauncher(args.stream), args);
}

StageError select(const SelectArgs& args) { return select_on(DeviceLauncher(args.stream), args); }

StageError add_sparse(const AddSparseArgs& args) {
  return add_sparse_on(DeviceLauncher(args.stream, args.gate), args);
}

}  // namespace gq::cuda
