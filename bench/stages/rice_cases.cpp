#include "bench/stages/rice_cases.h"

#include <gqsgd_stages.h>

namespace gq::bench {
namespace {

constexpr uint64_t kRanks = 16;
constexpr uint64_t kOperands = 4;  // of a wide sum
constexpr size_t kWordBytes = sizeof(uint32_t);

/** Codes and sums of a call over so many ranks. */
struct Sizes {
  size_t group_count = 0, codes_bytes = 0, sums_bytes = 0;

  size_t code_words() const { return group_count * codes_bytes / kWordBytes; }
  size_t sum_words() const { return group_count * sums_bytes / kWordBytes; }
};

gqsgd_site site_of(uint64_t ranks, uint64_t rank, uint64_t hop) {
  gqsgd_site site = {};
  site.size = ranks;
  site.rank = rank;
  site.hop = hop;
  return site;
}

/** Whole calls of one mean, and buffers for their codes. Only codes of as many ranks have the same
 *  groups, so that what is summed up has been encoded for it. */
class RiceCalls {
 public:
  RiceCalls(const std::string& format, Buffers& buffers)
      : buffers_(buffers), count_(buffers.value_count()) {
    if (gqsgd_quantizer_create(format.c_str(), &quantizer_) != GQSGD_OK) return;
    codes_.resize(sizes_of(kRanks).code_words());
    for (std::vector<uint32_t>& operand : operands_) {
      operand.resize(sizes_of(kOperands).code_words());
    }
    sums_.resize(sizes_of(kOperands).sum_words());
  }
  ~RiceCalls() { gqsgd_quantizer_destroy(quantizer_); }
  RiceCalls(const RiceCalls&) = delete;
  RiceCalls& operator=(const RiceCalls&) = delete;

  double bytes_up() const { return bytes_of(operands_[0]); }
  double bytes_down() const { return bytes_of(sums_); }

  bool quantize(size_t set) { return quantize(set, kRanks, 1, codes_.data()); }

  bool reduce_many() {
    for (uint64_t rank = 0; rank < kOperands && !has_operands_; ++rank) {
      if (!quantize(0, kOperands, rank, operands_[rank].data())) return false;
    }
    has_operands_ = true;
    const uint32_t* const list[kOperands] = {operands_[0].data(), operands_[1].data(),
                                             operands_[2].data(), operands_[3].data()};
    const gqsgd_site site = site_of(kOperands, 1, 1);
    const float norm = 0;
    float scale;
    has_sums_ = gqsgd_reduce_many(quantizer_, &site, list, count_, &norm, sums_.data(), &scale,
                                  nullptr, 0, nullptr) == GQSGD_OK;
    return has_sums_;
  }

  bool dequantize(size_t set) {
    if (!has_sums_ && !reduce_many()) return false;
    const gqsgd_site site = site_of(kOperands, 0, 0);
    const float scale = 0;
    return gqsgd_dequantize(quantizer_, &site, sums_.data(), &scale, count_, GQSGD_FLOAT32,
                            GQSGD_MEAN, buffers_.results(set), nullptr) == GQSGD_OK;
  }

 private:
  Sizes sizes_of(uint64_t ranks) const {
    const gqsgd_site site = site_of(ranks, 0, 0);
    Sizes sizes;
    gqsgd_rice_groups(quantizer_, &site, count_, &sizes.group_count, &sizes.codes_bytes,
                      &sizes.sums_bytes);
    return sizes;
  }

  bool quantize(size_t set, uint64_t ranks, uint64_t rank, uint32_t* words) {
    const gqsgd_site site = site_of(ranks, rank, 0);
    const float norm = 0;
    return gqsgd_quantize(quantizer_, &site, buffers_.values(set), count_, GQSGD_FLOAT32, &norm,
                          words, nullptr, 0, nullptr) == GQSGD_OK;
  }

  double bytes_of(const std::vector<uint32_t>& words) const {
    return static_cast<double>(words.size() * kWordBytes) / static_cast<double>(count_);
  }

  Buffers& buffers_;
  size_t count_;
  gqsgd_quantizer quantizer_ = nullptr;
  std::vector<uint32_t> codes_, operands_[kOperands], sums_;
  bool has_operands_ = false, has_sums_ = false;
};

}  // namespace

std::vector<Case> rice_cases(Buffers& buffers) {
  std::vector<Case> cases;
  for (const char* format : {"rice-3", "rice-4", "rice-6"}) {
    const auto calls = std::make_shared<RiceCalls>(format, buffers);
    cases.push_back({"quantize, 16 ranks", format, 4 + calls->bytes_up(),
                     [calls](size_t set) { return calls->quantize(set); }});
    cases.push_back({"reduce_many of 4", format,
                     static_cast<double>(kOperands) * calls->bytes_up() + calls->bytes_down(),
                     [calls](size_t) { return calls->reduce_many(); }});
    cases.push_back({"dequantize", format, 4 + calls->bytes_down(),
                     [calls](size_t set) { return calls->dequantize(set); }});
  }
  return cases;
}

}  // namespace gq::bench
