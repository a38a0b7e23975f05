// Quantize on a stream.
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {

StageError quantize(const QuantizeArgs* args, size_t count, const BatchTable& table) {
  const Launcher launcher(args->stream);
  const StageCalls<QuantizeArgs> calls{args, count, table};
  if (count == 1 && args->range.value_count == 0) return {};  // Then pointers may be null.
  return with_dtypes(args->dtype, [&]<Dtypes kDtypes>() {
    if (args->coding.levels == Levels::none) {
      return run_value_stage<false>(launcher, calls, QuantizeNone<kDtypes>(*args));
    }
    return with_levels(args->coding, [&]<typename Kind>(const Kind& levels) {
      return run_value_stage<false>(launcher, calls, Quantize<Kind, kDtypes>(*args, levels));
    });
  });
}

}  // namespace gq::cuda
