// The stages of sparse entries without a device.
// clang-format off
#include "tests/unit/kernels/cuda/emulated.h"
// clang-format on

#include <algorithm>
#include <vector>

#include "kernels/cuda/sparse/add_sparse.cuh"
#include "kernels/cuda/sparse/select.cuh"

namespace gq::test {
namespace {

/** Workspace that the caller did not pass, as long as it has to be. */
class RankBuffers {
 public:
  RankBuffers(void* given, size_t size_bytes) : own_(size_bytes / 8, 0xCACACACACACACACAu) {
    data_ = given != nullptr ? given : own_.data();
  }
  void* data() { return data_; }

 private:
  std::vector<uint64_t> own_;
  void* data_;
};

}  // namespace

StageError emulated_count_entries(const CountEntriesArgs& args) {
  RankBuffers buffers(args.workspace, select_workspace_bytes(args.range.value_count));
  CountEntriesArgs with_workspace = args;
  with_workspace.workspace = buffers.data();
  return cuda::count_entries_on(EmulatedLauncher(), with_workspace);
}
StageError emulated_select(const SelectArgs& args) {
  RankBuffers buffers(args.workspace, select_workspace_bytes(args.range.value_count));
  SelectArgs with_workspace = args;
  with_workspace.workspace = buffers.data();
  return cuda::select_on(EmulatedLauncher(), with_workspace);
}
StageError emulated_add_sparse(const AddSparseArgs& args) {
  AddSparseArgs with_workspace = args;
  for (uint32_t rank = 0; rank < args.coding.ranks && args.workspace == nullptr; ++rank) {
    with_workspace.entries_max =
        std::max(with_workspace.entries_max, args.rank_entries[rank].entry_count);
  }
  const AddSparseWorkspace needed(args.coding.ranks, with_workspace.entries_max,
                                  args.range.value_count);
  RankBuffers buffers(args.workspace, needed.size_bytes());
  with_workspace.workspace = buffers.data();
  return cuda::add_sparse_on(EmulatedLauncher(), with_workspace);
}

}  // namespace gq::test
