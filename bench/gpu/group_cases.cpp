// Codes of 4 bits on average. Norms of adaptive widths are of eight octaves, so that all widths
// occur.
#include "bench/gpu/group_cases.h"

#include <gqsgd_stages.h>

namespace gq::bench {
namespace {

constexpr uint32_t kRanks = 8;
constexpr uint32_t kBlock = 128;
constexpr double kCodes = 0.5;  // bytes of a value
constexpr double kSums = 4;     // of Rice codes, in memory as float32

gqsgd_site site_of(uint32_t ranks, uint32_t rank) {
  gqsgd_site site = {};
  site.size = ranks;
  site.rank = rank;
  site.step = 1;
  return site;
}

/** Groups of a call, and bytes of each one's codes and sums. */
struct RiceSizes {
  size_t groups, codes_bytes, sums_bytes;
};

/** What all stages of a call share: its quantizer, codes of every rank, norms, scratch. */
class Group {
 public:
  Group(const char* format, uint32_t ranks, GpuBuffers& buffers)
      : ranks_(ranks), buffers_(buffers) {
    library_done(gqsgd_quantizer_create(format, &quantizer_), format);
    size_t codes_bytes = 0;
    library_done(gqsgd_packed_size(quantizer_, count(), &codes_bytes), "gqsgd_packed_size");
    library_done(gqsgd_workspace_size(quantizer_, count(), GQSGD_FLOAT32, &workspace_bytes_),
                 "gqsgd_workspace_size");
    workspace_ = allocate(workspace_bytes_);
    make_norms();
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      uint32_t* const words = static_cast<uint32_t*>(allocate(codes_bytes));
      quantize(rank, words, cudaStreamLegacy);
      codes_.push_back(words);
    }
    cuda_done(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
  }
  ~Group() {
    gqsgd_quantizer_destroy(quantizer_);
    for (void* memory : memory_) (void)cudaFree(memory);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void norm(size_t set, cudaStream_t stream) const {
    const gqsgd_site site = site_of(ranks_, 0);
    library_done(gqsgd_norm(quantizer_, &site, buffers_.values(set), count(), GQSGD_FLOAT32,
                            buffers_.scales(), workspace_, workspace_bytes_, stream),
                 "gqsgd_norm");
  }
  void quantize(uint32_t rank, uint32_t* words, cudaStream_t stream) const {
    const gqsgd_site site = site_of(ranks_, rank);
    library_done(gqsgd_quantize(quantizer_, &site, buffers_.values(rank), count(), GQSGD_FLOAT32,
                                norms_, words, workspace_, workspace_bytes_, stream),
                 "gqsgd_quantize");
  }
  void reduce_many(size_t set, cudaStream_t stream) const {
    const gqsgd_site site = site_of(ranks_, 0);
    library_done(gqsgd_reduce_many(quantizer_, &site, codes_.data(), count(), norms_,
                                   buffers_.own_codes(set), buffers_.scales(), workspace_,
                                   workspace_bytes_, stream),
                 "gqsgd_reduce_many");
  }
  void reduce_rice(size_t set, cudaStream_t stream) const {
    add_rice(buffers_.own_codes(set), stream);
  }
  void dequantize_rice(size_t set, cudaStream_t stream) const {
    const gqsgd_site site = site_of(ranks_, 0);
    library_done(gqsgd_dequantize(quantizer_, &site, sums_[set % sums_.size()], norms_, count(),
                                  GQSGD_FLOAT32, GQSGD_MEAN, buffers_.results(set), stream),
                 "gqsgd_dequantize");
  }
  /** As many as there are ranks, so that they do not stay in a cache; all are the first one. */
  void make_sums() {
    const RiceSizes sizes = rice_sizes();
    const size_t sums_bytes = sizes.groups * sizes.sums_bytes;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      sums_.push_back(static_cast<uint32_t*>(allocate(sums_bytes)));
      if (rank == 0) {
        add_rice(sums_[0], cudaStreamLegacy);
      } else {
        cuda_done(cudaMemcpyAsync(sums_[rank], sums_[0], sums_bytes, cudaMemcpyDeviceToDevice,
                                  cudaStreamLegacy),
                  "cudaMemcpyAsync");
      }
    }
    cuda_done(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
  }
  void dequantize_adaptive(size_t set, cudaStream_t stream) const {
    const gqsgd_site site = site_of(ranks_, 0);
    library_done(gqsgd_dequantize_adaptive(quantizer_, &site, codes_[set % codes_.size()], norms_,
                                           norms_, count(), GQSGD_FLOAT32, GQSGD_MEAN,
                                           buffers_.results(set), stream),
                 "gqsgd_dequantize_adaptive");
  }
  uint32_t* own_codes(size_t set) const { return buffers_.own_codes(set); }

 private:
  size_t count() const { return buffers_.value_count(); }
  RiceSizes rice_sizes() const {
    const gqsgd_site site = site_of(ranks_, 0);
    RiceSizes sizes{};
    library_done(gqsgd_rice_groups(quantizer_, &site, count(), &sizes.groups, &sizes.codes_bytes,
                                   &sizes.sums_bytes),
                 "gqsgd_rice_groups");
    return sizes;
  }
  void add_rice(uint32_t* words, cudaStream_t stream) const {
    const gqsgd_site site = site_of(ranks_, 0);
    library_done(gqsgd_reduce_rice(quantizer_, &site, codes_.data(), count(), 0,
                                   rice_sizes().groups, words, workspace_, workspace_bytes_,
                                   stream),
                 "gqsgd_reduce_rice");
  }
  void* allocate(size_t size_bytes) {
    void* memory = nullptr;
    cuda_done(cudaMalloc(&memory, size_bytes + 16), "cudaMalloc");
    memory_.push_back(memory);
    return memory;
  }
  void make_norms() {
    std::vector<float> norms(count() / kBlock + 1);
    for (size_t block = 0; block < norms.size(); ++block) {
      norms[block] = static_cast<float>(2u << (block * 2654435761u >> 7) % 8);
    }
    norms_ = static_cast<float*>(allocate(norms.size() * sizeof(float)));
    cuda_done(cudaMemcpy(norms_, norms.data(), norms.size() * sizeof(float), cudaMemcpyDefault),
              "cudaMemcpy");
  }

  const uint32_t ranks_;
  GpuBuffers& buffers_;
  gqsgd_quantizer quantizer_ = nullptr;
  size_t workspace_bytes_ = 0;
  void* workspace_ = nullptr;
  std::vector<void*> memory_;
  std::vector<const uint32_t*> codes_;
  std::vector<uint32_t*> sums_;
  float* norms_ = nullptr;
};

using Stage = void (Group::*)(size_t set, cudaStream_t stream) const;

GpuCase make(const char* stage, const char* format, double bytes_per_value,
             const std::shared_ptr<Group>& group, Stage run) {
  return {stage, format, bytes_per_value, 0, [group, run](size_t set, cudaStream_t stream) {
            (group.get()->*run)(set, stream);
          }};
}

GpuCase make_quantize(const char* format, const std::shared_ptr<Group>& group) {
  return {"quantize", format, 4 + kCodes, 0, [group](size_t set, cudaStream_t stream) {
            group->quantize(0, group->own_codes(set), stream);
          }};
}

/** Bytes of sums of Rice codes, which are read and written with each operand behind the first and
 *  then read by what encodes them. */
constexpr double rice_bytes(uint32_t ranks) {
  return ranks * kCodes + (2 * ranks - 1) * kSums + kSums + kCodes;
}

}  // namespace

std::vector<GpuCase> adaptive_cases(GpuBuffers& buffers) {
  constexpr char kFormat[] = "adaptive-4";
  const auto group = std::make_shared<Group>(kFormat, kRanks, buffers);
  const auto pair = std::make_shared<Group>(kFormat, 2, buffers);
  return {make("norm", kFormat, 4, group, &Group::norm), make_quantize(kFormat, group),
          make("reduce_many n=2", kFormat, 3 * kCodes, pair, &Group::reduce_many),
          make("reduce_many n=8", kFormat, (kRanks + 1) * kCodes, group, &Group::reduce_many),
          make("dequantize", kFormat, 4 + kCodes, group, &Group::dequantize_adaptive)};
}

std::vector<GpuCase> rice_cases(GpuBuffers& buffers) {
  constexpr char kFormat[] = "rice-4";
  const auto group = std::make_shared<Group>(kFormat, kRanks, buffers);
  const auto pair = std::make_shared<Group>(kFormat, 2, buffers);
  group->make_sums();
  return {make_quantize(kFormat, group),
          make("reduce_many n=2", kFormat, rice_bytes(2), pair, &Group::reduce_rice),
          make("reduce_many n=8", kFormat, rice_bytes(kRanks), group, &Group::reduce_rice),
          make("dequantize", kFormat, 4 + kCodes, group, &Group::dequantize_rice)};
}

}  // namespace gq::bench
