// Sizes and growth of the arena.
#include "src/gpu/enqueue/memory/stream_workspace.h"

#include <algorithm>
#include <new>

#include "kernels/codec/norm.h"
#include "kernels/sparse_workspace.h"

namespace gq {
namespace {

size_t in_lines(size_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

/** Codes are selected before entries are added: both use one workspace. */
size_t sparse_bytes(const Plan& plan) {
  if (plan.schedule == nullptr || !plan.schedule->sends_sparse_entries) return 0;
  const Shape& shape = plan.shape;
  const AddSparseWorkspace add(shape.ranks, plan.layout.sparse_entries_max(), shape.value_count);
  return std::max(select_workspace_bytes(shape.value_count), add.size_bytes());
}

/** A norm stage on a device needs one double for each group of values. */
size_t norm_sums_bytes(const Plan& plan) {
  const uint64_t codes = code_count(plan.coding.rotated, plan.shape.value_count);
  return static_cast<size_t>(norm_group_count(0, codes)) * sizeof(double);
}

}  // namespace

Status StreamWorkspace::reserve(const Plan& plan) {
  const size_t size_bytes =
      in_lines(plan.layout.arena_bytes()) + in_lines(sparse_bytes(plan)) + norm_sums_bytes(plan);
  if (size_bytes <= arena_.size_bytes()) return Status();
  GQ_TRY(group_.wait_for_last_call());
  if (in_graphs_) GQ_TRY(keep_arena());
  const Status grown = group_.transport().memory().reserve(group_.device(), &arena_, size_bytes);
  if (!grown.ok() && in_graphs_) {
    arena_.swap(earlier_arenas_.back());
    earlier_arenas_.pop_back();
  }
  GQ_TRY(grown);
  group_.endpoint().workspace_bytes.raise_to(size_bytes);
  return Status();
}

Status StreamWorkspace::keep_arena() {
  try {
    earlier_arenas_.push_back(std::move(arena_));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory to keep what graphs use");
  }
  return Status();
}

void* StreamWorkspace::norm_sums(const Plan& plan) const {
  return arena_.data() + arena_.size_bytes() - norm_sums_bytes(plan);
}

void* StreamWorkspace::sparse(const Plan& plan) const {
  return arena_.data() + in_lines(plan.layout.arena_bytes());
}

void StreamWorkspace::forget() {
  arena_.forget();
  for (DeviceBuffer& arena : earlier_arenas_) arena.forget();
}

}  // namespace gq
