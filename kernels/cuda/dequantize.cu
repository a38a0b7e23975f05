// Dequantize on a stream.
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/tables.h"

namespace gq::cuda {
namespace {

using Calls = StageCalls<DequantizeArgs>;

template <typename Decoder>
StageError run(const Launcher& launcher, const Calls& calls, const Decoder& decoder) {
  return with_dtypes(calls.first().dtype, [&]<Dtypes kDtypes>() {
    return run_value_stage<true>(launcher, calls,
                                 Dequantize<Decoder, kDtypes>(calls.first(), decoder));
  });
}

template <uint32_t kBits>
StageError run_linear(const Launcher& launcher, const Calls& calls) {
  const DequantizeArgs& args = calls.first();
  const LinearDecoder<kBits> decoder = linear_decoder<kBits>(args);
  if (args.coding.wide && args.coding.rounding_down == RoundingDown::subtractive) {
    return run(launcher, calls, SubtractiveDecoder<kBits>{
                                    decoder, shared_stream(args.random, Draw::subtractive)});
  }
  return run(launcher, calls, decoder);
}

}  // namespace

StageError dequantize(const DequantizeArgs* args, size_t count, const BatchTable& table) {
  const Launcher launcher(args->stream, args->gate);
  const Calls calls{args, count, table};
  const Coding& coding = args->coding;
  if (count == 1 && args->range.value_count == 0) return {};  // Then pointers may be null.
  if (coding.levels == Levels::none) {
    return with_dtypes(args->dtype, [&]<Dtypes kDtypes>() {
      return run_value_stage<true>(launcher, calls, DequantizeNone<kDtypes>(*args));
    });
  }
  const bool byte_codes = coding.bits_down == 8;
  if (coding.levels == Levels::linear) {
    return byte_codes ? run_linear<8>(launcher, calls) : run_linear<4>(launcher, calls);
  }
  if (coding.mantissa_bits > 0) return run(launcher, calls, exponential_decoder<8, 2>(*args));
  return byte_codes ? run(launcher, calls, exponential_decoder<8, 0>(*args))
                    : run(launcher, calls, exponential_decoder<4, 0>(*args));
}

}  // namespace gq::cuda
