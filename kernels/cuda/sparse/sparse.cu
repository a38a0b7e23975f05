// The stages of lists on a stream: what their bodies (select.cuh, add_sparse.cuh) become kernels
// of.
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/sparse/add_sparse.cuh"
#include "kernels/cuda/sparse/select.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

gqsgd_status count_entries(const CountEntriesArgs& args) {
  return count_entries_on(DeviceLauncher(args.stream), args);
}

gqsgd_status select(const SelectArgs& args) { return select_on(DeviceLauncher(args.stream), args); }

gqsgd_status add_sparse(const AddSparseArgs& args) {
  return add_sparse_on(DeviceLauncher(args.stream, args.gate), args);
}

}  // namespace gq::cuda
