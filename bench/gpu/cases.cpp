// The cases of gpu_perf and their memory.
#include "bench/gpu/cases.h"

#include <gqsgd_stages.h>
#include <stdio.h>
#include <stdlib.h>

#include <array>

#include "bench/gpu/group_cases.h"

namespace gq::bench {

Quantizer quantizer_of(const std::string& spec) {
  gqsgd_quantizer made = nullptr;
  library_done(gqsgd_quantizer_create(spec.c_str(), &made), spec.c_str());
  return {made, gqsgd_quantizer_destroy};
}

namespace {

constexpr size_t kShortestBlock = 128;
constexpr uint32_t kOwnedRanks = 8;  // operands of reduce_many

gqsgd_site site_of(uint32_t ranks, uint32_t reduction_depth) {
  gqsgd_site site = {};
  site.size = ranks;
  site.reduction_depth = reduction_depth;
  site.step = 1;
  site.weight_a = site.weight_b = 1;
  return site;
}

struct Format {
  const char* name;
  uint32_t bits;
  double quantize, reduce, reduce_many, dequantize;  ///< targets; 0: none
};

// The targets are shares of the copy's bytes per second; docs/CUDA.md has them as a table.
constexpr Format kFormats[] = {
    {"paper-gl8", 8, 0.90, 0.93, 0.85, 0.90}, {"paper-ge8", 8, 0.88, 0.80, 0.85, 0.90},
    {"paper-gl4", 4, 0.88, 0.88, 0.85, 0.90}, {"paper-ge4", 4, 0.85, 0.80, 0.85, 0.90},
    {"blocks-8", 8, 0.50, 0, 0, 0.70},        {"rotated-8", 8, 0.50, 0, 0, 0.70},
    {"rotated-4", 4, 0.50, 0, 0, 0.70},       {"relative-8", 8, 0.50, 0, 0, 0},
};

/** Collects cases, which outlive it. */
class Cases {
 public:
  explicit Cases(GpuBuffers& buffers) : buffers_(buffers) {}

  std::vector<GpuCase> all() {
    add_copy();
    add_fill();
    add_norm("paper-gl8", 0.92);
    add_norm("paper-gl8,norm=2:2", 0);
    add_norm("blocks-8", 0);
    add_norm("rotated-8", 0);
    add_reduce("none", 32, 0);
    for (const Format& format : kFormats) {
      add_quantize(format);
      if (format.reduce > 0) add_reduce(format.name, format.bits, format.reduce);
      add_reduce_many(format);
      add_dequantize(format);
    }
    return std::move(cases_);
  }

 private:
  void add_copy() {
    add("copy", "cudaMemcpyAsync", 8, 1, [&buffers = buffers_](size_t set, cudaStream_t stream) {
      cuda_done(cudaMemcpyAsync(buffers.results(set), buffers.values(set),
                                4 * buffers.value_count(), cudaMemcpyDeviceToDevice, stream),
                "cudaMemcpyAsync");
    });
  }

  /** How fast memory is written, which bounds a stage that writes more than it reads. */
  void add_fill() {
    add("fill", "cudaMemsetAsync", 4, 0, [&buffers = buffers_](size_t set, cudaStream_t stream) {
      cuda_done(cudaMemsetAsync(buffers.results(set), 0x3e, 4 * buffers.value_count(), stream),
                "cudaMemsetAsync");
    });
  }

  void add_norm(const char* format, double target) {
    const Quantizer quantizer = quantizer_of(format);
    add("norm", format, 4, target,
        [&buffers = buffers_, quantizer](size_t set, cudaStream_t stream) {
          const gqsgd_site site = site_of(kOwnedRanks, 0);
          library_done(gqsgd_norm(quantizer.get(), &site, buffers.values(set),
                                  buffers.value_count(), GQSGD_FLOAT32, buffers.scales(),
                                  buffers.workspace(), buffers.workspace_bytes(), stream),
                       "gqsgd_norm");
        });
  }

  void add_quantize(const Format& format) {
    const Quantizer quantizer = quantizer_of(format.name);
    const double bytes = 4 + format.bits / 8.0;
    add("quantize", format.name, bytes, format.quantize,
        [&buffers = buffers_, quantizer](size_t set, cudaStream_t stream) {
          const gqsgd_site site = site_of(kOwnedRanks, 0);
          library_done(gqsgd_quantize(quantizer.get(), &site, buffers.values(set),
                                      buffers.value_count(), GQSGD_FLOAT32, buffers.norms(),
                                      buffers.codes(set), nullptr, 0, stream),
                       "gqsgd_quantize");
        });
  }

  void add_reduce(const char* format, uint32_t bits, double target) {
    const Quantizer quantizer = quantizer_of(format);
    add("reduce", format, 3 * bits / 8.0, target,
        [&buffers = buffers_, quantizer](size_t set, cudaStream_t stream) {
          const gqsgd_site site = site_of(2, 1);
          library_done(gqsgd_reduce(quantizer.get(), &site, buffers.codes(set),
                                    buffers.own_codes(set), buffers.value_count(), stream),
                       "gqsgd_reduce");
        });
  }

  void add_reduce_many(const Format& format) {
    const Quantizer quantizer = quantizer_of(format.name);
    add("reduce_many n=8", format.name, (kOwnedRanks + 1) * format.bits / 8.0, format.reduce_many,
        [&buffers = buffers_, quantizer](size_t set, cudaStream_t stream) {
          const gqsgd_site site = site_of(kOwnedRanks, 0);
          // Of the call before none: of 25 MiB a set's operands would be in the cache.
          std::array<const uint32_t*, kOwnedRanks> operands;
          for (uint32_t k = 0; k < kOwnedRanks; ++k) {
            operands[k] = buffers.codes(kOwnedRanks * set + k);
          }
          library_done(
              gqsgd_reduce_many(quantizer.get(), &site, operands.data(), buffers.value_count(),
                                buffers.norms(), buffers.own_codes(set), buffers.scales(),
                                buffers.workspace(), buffers.workspace_bytes(), stream),
              "gqsgd_reduce_many");
        });
  }

  void add_dequantize(const Format& format) {
    const Quantizer quantizer = quantizer_of(format.name);
    const double bytes = 4 + format.bits / 8.0;
    add("dequantize", format.name, bytes, format.dequantize,
        [&buffers = buffers_, quantizer](size_t set, cudaStream_t stream) {
          const gqsgd_site site = site_of(kOwnedRanks, 0);
          library_done(gqsgd_dequantize(quantizer.get(), &site, buffers.codes(set), buffers.norms(),
                                        buffers.value_count(), GQSGD_FLOAT32, GQSGD_MEAN,
                                        buffers.results(set), stream),
                       "gqsgd_dequantize");
        });
  }

  void add(const char* stage, const char* format, double bytes_per_value, double target,
           std::function<void(size_t, cudaStream_t)> run) {
    cases_.push_back({stage, format, bytes_per_value, target, std::move(run)});
  }

  GpuBuffers& buffers_;
  std::vector<GpuCase> cases_;
};

/** Normally distributed, with a few values 2^-20 of the rest, as gradients have. */
std::vector<float> wakeup_values(size_t count) {
  std::vector<float> values(count);
  uint64_t state = 1;
  for (float& value : values) {
    float sum = -2;
    for (int term = 0; term < 4; ++term) {
      state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      sum += static_cast<float>(state >> 40) * 0x1p-24f;
    }
    value = (state >> 34) % 32 == 5 ? sum * 0x1p-20f : sum;
  }
  return values;
}

/** Codes of any format; times do not depend on which. */
std::vector<uint32_t> random_words(size_t count) {
  std::vector<uint32_t> words(count);
  uint64_t state = 2;
  for (uint32_t& word : words) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    word = static_cast<uint32_t>(state >> 32);
  }
  return words;
}

/** `count` words from either side to the device. */
void copy(void* to, const void* from, size_t count) {
  cuda_done(cudaMemcpy(to, from, 4 * count, cudaMemcpyDefault), "cudaMemcpy");
}

}  // namespace

void cuda_done(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

void library_done(gqsgd_status status, const char* what) {
  if (status == GQSGD_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, gqsgd_status_name(status), gqsgd_last_error());
  exit(1);
}

float* GpuBuffers::floats(size_t count) {
  void* memory = nullptr;
  cuda_done(cudaMalloc(&memory, 4 * count), "cudaMalloc");
  memory_.push_back(memory);
  return static_cast<float*>(memory);
}

GpuBuffers::GpuBuffers(size_t value_count, size_t set_count) : value_count_(value_count) {
  const std::vector<float> input = wakeup_values(value_count);
  const std::vector<uint32_t> codes = random_words(value_count);
  const std::vector<float> norms(value_count / kShortestBlock + 1, 2.0f);
  for (size_t set = 0; set < set_count; ++set) {
    values_.push_back(floats(value_count));
    results_.push_back(floats(value_count));
    codes_.push_back(reinterpret_cast<uint32_t*>(floats(value_count)));
    own_codes_.push_back(reinterpret_cast<uint32_t*>(floats(value_count)));
    copy(values_[set], set == 0 ? input.data() : values_[0], value_count);
    copy(codes_[set], set == 0 ? codes.data() : codes_[0], value_count);
    copy(own_codes_[set], codes_[0], value_count);
  }
  norms_ = floats(norms.size());
  scales_ = floats(norms.size());
  copy(norms_, norms.data(), norms.size());
  workspace_bytes_ = 16384 + value_count / 16;
  workspace_ = floats(workspace_bytes_ / 4 + 1);
}

GpuBuffers::~GpuBuffers() {
  for (void* memory : memory_) (void)cudaFree(memory);
}

std::vector<GpuCase> gpu_cases(GpuBuffers& buffers) {
  std::vector<GpuCase> all = Cases(buffers).all();
  for (const auto& some : {adaptive_cases(buffers), rice_cases(buffers)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace gq::bench
