#include "bench/stages/rice_cases.h"

#include <algorithm>

#include "kernels/stages.h"

namespace gq::bench {
namespace {

constexpr uint32_t kRanks = 16;
constexpr size_t kOperands = 4;  // of a wide sum
constexpr size_t kGroupValues = kGroupBlocks * kAdaptiveBlock;

const Stages& stages() {
  const char* refused = nullptr;
  return *cpu_stages(&refused);
}

/** Groups of one mean, and buffers for their codes. */
class RiceGroups {
 public:
  RiceGroups(uint32_t mean_bits, Buffers& buffers)
      : buffers_(buffers),
        group_values_(std::min<size_t>(kGroupValues, buffers.value_count())),
        group_count_(buffers.value_count() / group_values_),
        planes_up_(planes(mean_bits, false)),
        planes_down_(planes(mean_bits, true)),
        up_(group_count_ * planes_up_ * kPlaneWords),
        down_(group_count_ * planes_down_ * kPlaneWords) {}

  double bytes_up() const { return bytes_of(up_); }
  double bytes_down() const { return bytes_of(down_); }

  bool encode(size_t set) {
    const float* const values = buffers_.values(set);
    for (size_t g = 0; g < group_count_; ++g) encode_group(g, false, values + g * group_values_);
    return true;
  }

  /** Operands of a group: its own codes and the next ones'. */
  bool add_and_encode(size_t set) {
    make_codes(set);
    for (size_t g = 0; g < group_count_; ++g) {
      for (size_t k = 0; k < kOperands; ++k) {
        const size_t other = (g + k) % group_count_;
        decode_group(up_.data() + other * planes_up_ * kPlaneWords, planes_up_, k > 0, sums_);
      }
      encode_group(g, true, sums_);
    }
    has_sums_ = true;
    return true;
  }

  bool decode(size_t set) {
    if (!has_sums_) add_and_encode(set);
    float* const values = buffers_.results(set);
    for (size_t g = 0; g < group_count_; ++g) {
      decode_group(down_.data() + g * planes_down_ * kPlaneWords, planes_down_, false,
                   values + g * group_values_);
    }
    return true;
  }

 private:
  uint32_t planes(uint32_t mean_bits, bool is_sum) const {
    const uint64_t blocks = (group_values_ + kAdaptiveBlock - 1) / kAdaptiveBlock;
    return rice_planes(2 * mean_bits, blocks, 1, static_cast<uint32_t>(group_values_), is_sum);
  }

  double bytes_of(const std::vector<uint32_t>& words) const {
    const double values = static_cast<double>(group_count_ * group_values_);
    return static_cast<double>(words.size() * sizeof words[0]) / values;
  }

  void make_codes(size_t set) {
    if (!has_codes_) encode(set);
    has_codes_ = true;
  }

  void encode_group(size_t g, bool is_sum, const float* values) {
    EncodeRiceArgs args{};
    args.coding.rounding = Rounding::correlated;
    args.coding.ranks = kRanks;
    args.random.rank = 1;
    args.is_sum = is_sum;
    args.first_value = g * group_values_;
    args.stride_values = kGranuleValues;
    args.value_count = static_cast<uint32_t>(group_values_);
    args.plane_count = is_sum ? planes_down_ : planes_up_;
    args.values = values;
    args.words = (is_sum ? down_ : up_).data() + g * args.plane_count * kPlaneWords;
    stages().encode_rice(args);
  }

  void decode_group(const uint32_t* words, uint32_t planes, bool add, float* values) const {
    stages().decode_rice({static_cast<uint32_t>(group_values_), planes, words, values, add});
  }

  Buffers& buffers_;
  size_t group_values_, group_count_;
  uint32_t planes_up_, planes_down_;
  std::vector<uint32_t> up_, down_;
  bool has_codes_ = false, has_sums_ = false;
  alignas(64) float sums_[kGroupValues];
};

}  // namespace

std::vector<Case> rice_cases(Buffers& buffers) {
  std::vector<Case> cases;
  for (const uint32_t mean_bits : {3u, 4u, 6u}) {
    const auto groups = std::make_shared<RiceGroups>(mean_bits, buffers);
    const std::string format = "rice-" + std::to_string(mean_bits);
    cases.push_back({"quantize, 16 ranks", format, 4 + groups->bytes_up(),
                     [groups](size_t set) { return groups->encode(set); }});
    cases.push_back({"reduce_many of 4", format,
                     kOperands * groups->bytes_up() + groups->bytes_down(),
                     [groups](size_t set) { return groups->add_and_encode(set); }});
    cases.push_back({"dequantize", format, 4 + groups->bytes_down(),
                     [groups](size_t set) { return groups->decode(set); }});
  }
  return cases;
}

}  // namespace gq::bench
