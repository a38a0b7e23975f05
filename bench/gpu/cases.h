// What gpu_perf measures: one stage of one format on device memory; no clock here.
#ifndef GQ_BENCH_GPU_CASES_H
#define GQ_BENCH_GPU_CASES_H

#include <cuda_runtime_api.h>
#include <gqsgd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gq::bench {

/** One thing to time. `run(set, stream)` enqueues it on buffer set `set`; callers rotate them, so
 *  that what is measured comes from memory and not from a cache. */
struct GpuCase {
  std::string stage;
  std::string format;
  double bytes_per_value;  ///< read and written
  double target;           ///< least share of the copy's bytes per second; 0: none was set
  std::function<void(size_t set, cudaStream_t stream)> run;

  /** No stage, but what others are compared with. */
  bool is_yardstick() const { return stage == "copy" || stage == "fill"; }
};

/** Ends the program with CUDA's words, or the library's. */
void cuda_done(cudaError_t error, const char* what);
void library_done(gqsgd_status status, const char* what);

/** A quantizer for as long as a case lives. */
using Quantizer = std::shared_ptr<gqsgd_quantizer_s>;

Quantizer quantizer_of(const std::string& spec);

/** Device memory of all cases in `set_count` copies: floats, results and codes. */
class GpuBuffers {
 public:
  GpuBuffers(size_t value_count, size_t set_count);
  ~GpuBuffers();
  GpuBuffers(const GpuBuffers&) = delete;
  GpuBuffers& operator=(const GpuBuffers&) = delete;

  size_t value_count() const { return value_count_; }
  size_t set_count() const { return values_.size(); }
  float* values(size_t set) const { return values_[set % set_count()]; }
  float* results(size_t set) const { return results_[set % set_count()]; }
  /** Codes of up to 32 bits, of which a set has two; neighbouring sets serve as operands. */
  uint32_t* codes(size_t set) const { return codes_[set % set_count()]; }
  uint32_t* own_codes(size_t set) const { return own_codes_[set % set_count()]; }
  float* norms() const { return norms_; }    ///< one for each of the shortest blocks
  float* scales() const { return scales_; }  ///< as many, to be written
  void* workspace() const { return workspace_; }
  size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  float* floats(size_t count);

  size_t value_count_, workspace_bytes_;
  std::vector<void*> memory_;
  std::vector<float*> values_, results_;
  std::vector<uint32_t*> codes_, own_codes_;
  float *norms_ = nullptr, *scales_ = nullptr;
  void* workspace_ = nullptr;
};

/** The yardstick, cudaMemcpyAsync from device to device, first; then every stage. */
std::vector<GpuCase> gpu_cases(GpuBuffers& buffers);

}  // namespace gq::bench

#endif
