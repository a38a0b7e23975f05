// Allreduces with one norm for a call, or one for each tensor of a list.
#ifndef GQ_KERNELS_CUDA_FUSED_FUSED_ONE_NORM_CUH
#define GQ_KERNELS_CUDA_FUSED_FUSED_ONE_NORM_CUH

#include "kernels/cuda/fused/fused_stages.cuh"

namespace gq::cuda {

/** With one norm, which the words of the first barrier are the parts of, or one for each tensor of
 *  a list. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedOneNorm : FusedCodes<Levels, Sum, Decoder> {
  using FusedCodes<Levels, Sum, Decoder>::FusedCodes;

  GQ_DEVICE void run(FusedShared& shared) const {
    if (!this->begin(shared)) return;
    const bool is_list = this->tensor_norms.count > 0;
    const uint32_t call = shared.barrier.call;
    if (is_list) raise_tensor_norms(call);
    if (!is_list) {
      uint32_t largest = 0;  // of the values that this thread will quantize
      this->each_value([&](const FusedPlace&, const float (&value)[kThreadValues]) {
        keep_largest_of(value, largest);
      });
      raise_together(&shared.peak, largest);
      __syncthreads();
    }
    if (!this->barrier.wait(shared.barrier, BarrierOf::norms, shared.peak)) return;
    const float norm = float_from_bits(shared.barrier.largest);
    const auto scale_of = [&](float of) {
      return this->quantize.encoder.levels.scale_for_norm(of);
    };
    const auto step_by = [&](float of) { return step_of(this->dequantize.decoder, of); };
    this->run_quantize(of_tensor(call, norm, scale_of));
    this->finish(shared, of_tensor(call, norm, step_by));
  }

 private:
  static constexpr uint32_t kNoTensor = ~0u;

  GQ_DEVICE float norm_of(uint32_t call, uint32_t tensor) const {
    return this->tensor_norms.norm_of(this->barrier, call, tensor);
  }

  /** What make(norm) gives for a place: of its tensor, where the call is a list, else of `norm`. It
   *  is made once for places of one tensor that follow each other. */
  template <typename Make>
  GQ_DEVICE auto of_tensor(uint32_t call, float norm, Make make) const {
    return [=, this, made = make(norm), last = kNoTensor](const FusedPlace& place) mutable {
      const bool is_other = this->tensor_norms.count > 0 && place.tensor != last;
      if (is_other) made = make(norm_of(call, place.tensor));
      last = place.tensor;
      return made;
    };
  }

  /** A warp whose values are of one tensor raises its word when it comes to another one. */
  GQ_DEVICE void raise_tensor_norms(uint32_t call) const {
    uint32_t largest = 0, tensor = kNoTensor;  // of the whole warp
    const auto raise = [&] {
      const uint32_t peak = __reduce_max_sync(~0u, largest);
      if (tensor == kNoTensor || threadIdx.x % kWarpThreads != 0) return;
      this->tensor_norms.raise(this->barrier, call, tensor, peak);
    };
    this->each_place_of_all(0, [&](const FusedPlace& place) {
      float value[kThreadValues];
      this->load(place, value);
      uint32_t here = 0;
      keep_largest_of(value, here);
      const auto all_are = [&](uint32_t number) {
        return __ballot_sync(~0u, place.tensor == number || place.code_count == 0) == ~0u;
      };
      if (!all_are(tensor)) {
        raise();
        const uint32_t first = __shfl_sync(~0u, place.tensor, 0);
        const bool is_one = all_are(first);
        if (!is_one) this->tensor_norms.raise(this->barrier, call, place.tensor, here);
        tensor = is_one ? first : kNoTensor;
        largest = 0;
        if (!is_one) return;
      }
      largest = max(largest, here);
    });
    raise();
  }
};

}  // namespace gq::cuda

#endif
