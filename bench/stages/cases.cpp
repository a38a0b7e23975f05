// The stages of the paper's formats as timed cases, through the C ABI like any caller.
#include "bench/stages/cases.h"

#include <string.h>

namespace gq::bench {
namespace {

constexpr uint64_t kOperands = 4;  // of a wide sum
constexpr float kNorm = 1;

/** Values in -1..1 of many sizes; an integer hash, since quality does not matter here. */
float value_at(uint64_t place) {
  uint64_t x = (place + 1) * 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  const float unit = static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
  return place % 3 == 0 ? unit : unit * unit * unit;
}

class Quantizer {
 public:
  explicit Quantizer(const std::string& text) { gqsgd_quantizer_create(text.c_str(), &handle_); }
  ~Quantizer() { gqsgd_quantizer_destroy(handle_); }
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;
  gqsgd_quantizer handle() const { return handle_; }

 private:
  gqsgd_quantizer handle_ = nullptr;
};

/** Cases of one format. Each holds the quantizer alive and the buffers by reference. */
class FormatCases {
 public:
  FormatCases(const std::string& text, double bytes_per_code, Buffers& buffers)
      : text_(text),
        bytes_per_code_(bytes_per_code),
        buffers_(buffers),
        quantizer_(std::make_shared<Quantizer>(text)) {}

  bool is_available() const { return handle() != nullptr; }

  Case norm() const {
    return make("norm", 4, [](FormatCases& f, size_t set) {
      const gqsgd_site site = f.site(1, 0);
      float norm;
      return gqsgd_norm(f.handle(), &site, f.buffers_.values(set), f.count(), GQSGD_FLOAT32, &norm,
                        nullptr, 0, nullptr);
    });
  }

  Case quantize() const {
    return make("quantize", 4 + bytes_per_code_, [](FormatCases& f, size_t set) {
      const gqsgd_site site = f.site(2, 1);
      return gqsgd_quantize(f.handle(), &site, f.buffers_.values(set), f.count(), GQSGD_FLOAT32,
                            &kNorm, f.buffers_.codes(set), nullptr, 0, nullptr);
    });
  }

  /** Both operands hold codes of a run of quantize; b grows from call to call as sums do. */
  Case reduce(uint64_t weight_a) const {
    const std::string name = weight_a == 1 ? "reduce" : "reduce weights 3:1";
    return make(name, 3 * bytes_per_code_, [weight_a](FormatCases& f, size_t set) {
      gqsgd_site site = f.site(2, 1);
      site.hop = 1;
      site.weight_a = weight_a;
      site.weight_b = 1;
      return gqsgd_reduce(f.handle(), &site, f.buffers_.codes(set), f.buffers_.own_codes(set),
                          f.count(), nullptr);
    });
  }

  Case reduce_many() const {
    const double bytes = (kOperands + 1) * bytes_per_code_;
    return make("reduce_many of 4", bytes, [](FormatCases& f, size_t set) {
      gqsgd_site site = f.site(kOperands, 0);
      site.hop = 1;
      const uint32_t* a = f.buffers_.codes(set);
      const uint32_t* b = f.buffers_.own_codes(set);
      const uint32_t* const operands[kOperands] = {a, b, a + 1024, b + 1024};
      float scale;
      const size_t count = f.count() - 4096;
      return gqsgd_reduce_many(f.handle(), &site, operands, count, &kNorm,
                               reinterpret_cast<uint32_t*>(f.buffers_.results(set)), &scale,
                               nullptr, 0, nullptr);
    });
  }

  Case dequantize() const {
    return make("dequantize", 4 + bytes_per_code_, [](FormatCases& f, size_t set) {
      const gqsgd_site site = f.site(2, 1);
      return gqsgd_dequantize(f.handle(), &site, f.buffers_.codes(set), &kNorm, f.count(),
                              GQSGD_FLOAT32, GQSGD_MEAN, f.buffers_.results(set), nullptr);
    });
  }

 private:
  template <typename Work>
  Case make(const std::string& stage, double bytes, Work work) const {
    FormatCases self = *this;
    return {stage, text_, bytes,
            [self, work](size_t set) mutable { return work(self, set) == GQSGD_OK; }};
  }

  gqsgd_quantizer handle() const { return quantizer_->handle(); }
  size_t count() const { return buffers_.value_count(); }
  static gqsgd_site site(uint64_t size, uint64_t combines) {
    gqsgd_site site = {};
    site.size = size;
    site.combines = combines;
    return site;
  }

  std::string text_;
  double bytes_per_code_;
  Buffers& buffers_;
  std::shared_ptr<Quantizer> quantizer_;
};

}  // namespace

Buffers::Buffers(size_t value_count, size_t set_count) : value_count_(value_count) {
  for (size_t set = 0; set < set_count; ++set) {
    values_.emplace_back(value_count);
    for (size_t e = 0; e < value_count; ++e) values_.back()[e] = value_at(set * value_count + e);
    values_.back()[0] = kNorm;
    results_.emplace_back(value_count);
    codes_.emplace_back(value_count);
    own_codes_.emplace_back(value_count);
  }
}

std::vector<Case> yardsticks(Buffers& buffers) {
  const auto copy = [&buffers](size_t set) {
    memcpy(buffers.results(set), buffers.values(set), buffers.value_count() * sizeof(float));
    return true;
  };
  const auto add = [&buffers](size_t set) {
    const float* a = buffers.values(set);
    float* b = buffers.results(set);
    for (size_t e = 0; e < buffers.value_count(); ++e) b[e] += a[e];
    return true;
  };
  return {{"memcpy", "float32", 8, copy}, {"add", "float32", 12, add}};
}

std::vector<Case> stage_cases(Buffers& buffers, std::vector<std::string>* refused) {
  std::vector<Case> cases;
  const struct {
    const char* text;
    double bytes_per_code;
    bool has_norm, has_codec, averages;
  } formats[] = {{"paper-gl8", 1, true, true, false},
                 {"paper-ge8", 1, false, true, false},
                 {"paper-gl4", 0.5, false, true, true},
                 {"paper-ge4", 0.5, false, true, true},
                 {"none", 4, false, true, false},
                 {"paper-gl8,combine=average", 1, false, false, true},
                 {"paper-gl8,norm=2:2", 1, true, false, false}};
  for (const auto& format : formats) {
    const FormatCases make(format.text, format.bytes_per_code, buffers);
    if (!make.is_available()) {
      refused->push_back(gqsgd_last_error());
      continue;
    }
    if (format.has_norm) cases.push_back(make.norm());
    if (format.has_codec) {
      cases.push_back(make.quantize());
      cases.push_back(make.reduce_many());
      cases.push_back(make.dequantize());
    }
    if (format.has_codec || format.averages) cases.push_back(make.reduce(1));
    if (format.averages) cases.push_back(make.reduce(3));
  }
  return cases;
}

}  // namespace gq::bench
