// The arena of a call behind the words of its plan: workspace of the stages of sparse entries.
#ifndef GQ_GPU_ENQUEUE_SPARSE_ARENA_H
#define GQ_GPU_ENQUEUE_SPARSE_ARENA_H

#include <algorithm>

#include "kernels/sparse_workspace.h"
#include "src/plan/plan.h"

namespace gq {

inline size_t in_lines(size_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

/** Codes are selected before entries are added: both use one workspace. */
inline size_t sparse_workspace_bytes(const Plan& plan) {
  if (plan.schedule == nullptr || !plan.schedule->sends_sparse_entries) return 0;
  const Shape& shape = plan.shape;
  const AddSparseWorkspace list(shape.ranks, plan.layout.sparse_entries_max(), shape.value_count);
  return std::max(select_workspace_bytes(shape.value_count), list.size_bytes());
}

}  // namespace gq

#endif
