// Wide reduce on a stream.
#include "kernels/cuda/sums/wide_sums.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {
namespace {

template <uint32_t kBits>
StageError run_means(const ReduceManyCalls& calls) {
  const ReduceManyArgs& args = calls.first();
  return run_sums(calls, ReduceManyRescaled<AddMeans<kBits>, LinearLevels<kBits>>(
                             args, AddMeans<kBits>(args),
                             LinearLevels<kBits>{args.coding.steps_down}));
}

StageError run_all(const ReduceManyCalls& calls) {
  const ReduceManyArgs& args = calls.first();
  if (args.coding.levels == Levels::none) return run_sums(calls, ReduceManyNone(args));
  if (args.operand_scales_bytes != 0) {
    return args.coding.bits == 8 ? run_means<8>(calls) : run_means<4>(calls);
  }
  return has_strata(args) ? reduce_many_of_node(calls) : WideSums<OwnThresholds>(calls).run();
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
  if (const StageError error = check_scales_behind(args, count); failed(error)) return error;
  for (size_t first = 0, end = 0; first < count; first = end) {
    for (end = first + 1; end < count && share_list(args[first], args[end]);) ++end;
    const StageError error = run_all({args + first, end - first, table, piece_of});
    if (failed(error)) return error;
  }
  return {};
}

}  // namespace gq::cuda
