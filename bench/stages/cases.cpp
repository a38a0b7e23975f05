// The stages of the paper's formats and of the extended ones as timed cases, through the C ABI like
// any caller.
#include "bench/stages/cases.h"

#include <gqsgd_stages.h>
#include <string.h>

#include <cmath>

#include "bench/stages/rice_cases.h"

namespace gq::bench {
namespace {

constexpr uint64_t kOperands = 4;  // of a wide sum
constexpr float kNorm = 1;
constexpr size_t kBlockLeast = 32;

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
  explicit Quantizer(const std::string& spec) { gqsgd_quantizer_create(spec.c_str(), &handle_); }
  ~Quantizer() { gqsgd_quantizer_destroy(handle_); }
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;
  gqsgd_quantizer handle() const { return handle_; }

 private:
  gqsgd_quantizer handle_ = nullptr;
};

/** A format, what its codes weigh, and the allreduce that its stages belong to: reduction_depth is
 * 0 where codes are added wide. */
struct FormatRow {
  const char* spec;
  double bytes_up, bytes_down;
  uint64_t ranks, reduction_depth;
  const char* stages;  ///< letters: n norm, q quantize, r reduce, w weighted reduce, m reduce_many,
                       ///< d dequantize

  bool has(char stage) const { return strchr(stages, stage) != nullptr; }
};

/** Cases of one format. Each holds the quantizer alive and the buffers by reference. */
class FormatCases {
 public:
  FormatCases(const FormatRow& row, Buffers& buffers)
      : row_(row), buffers_(buffers), quantizer_(std::make_shared<Quantizer>(row.spec)) {}

  bool is_available() const { return handle() != nullptr; }

  Case norm() const {
    return make("norm", 4, [](FormatCases& f, size_t set) {
      const gqsgd_site site = f.site(1, 0);
      return gqsgd_norm(f.handle(), &site, f.buffers_.values(set), f.count(), GQSGD_FLOAT32,
                        f.buffers_.scales(), nullptr, 0, nullptr);
    });
  }

  Case quantize() const {
    const bool many = row_.ranks > 2;
    const std::string name =
        many ? "quantize, " + std::to_string(row_.ranks) + " ranks" : "quantize";
    return make(name, 4 + row_.bytes_up, [](FormatCases& f, size_t set) {
      const gqsgd_site site = f.site(f.row_.ranks, f.row_.reduction_depth);
      return gqsgd_quantize(f.handle(), &site, f.buffers_.values(set), f.count(), GQSGD_FLOAT32,
                            f.norms(), f.buffers_.codes(set), nullptr, 0, nullptr);
    });
  }

  /** Both operands hold codes of a run of quantize; b grows from call to call as sums do. */
  Case reduce(uint64_t weight_a) const {
    const std::string name = weight_a == 1 ? "reduce" : "reduce weights 3:1";
    return make(name, 3 * row_.bytes_up, [weight_a](FormatCases& f, size_t set) {
      gqsgd_site site = f.site(2, 1);
      site.hop = 1;
      site.weight_a = weight_a;
      site.weight_b = 1;
      return gqsgd_reduce(f.handle(), &site, f.buffers_.codes(set), f.buffers_.own_codes(set),
                          f.count(), nullptr);
    });
  }

  Case reduce_many() const {
    const double bytes = kOperands * row_.bytes_up + row_.bytes_down;
    return make("reduce_many of 4", bytes, [](FormatCases& f, size_t set) {
      gqsgd_site site = f.site(kOperands, 0);
      site.hop = 1;
      const uint32_t* a = f.buffers_.codes(set);
      const uint32_t* b = f.buffers_.own_codes(set);
      const uint32_t* const operands[kOperands] = {a, b, a + 1024, b + 1024};
      const size_t count = f.count() - 4096;
      return gqsgd_reduce_many(f.handle(), &site, operands, count, f.norms(),
                               reinterpret_cast<uint32_t*>(f.buffers_.results(set)),
                               f.buffers_.scales(), nullptr, 0, nullptr);
    });
  }

  Case dequantize() const {
    return make("dequantize", 4 + row_.bytes_down, [](FormatCases& f, size_t set) {
      const gqsgd_site site = f.site(f.row_.ranks, f.row_.reduction_depth);
      float* const results = f.buffers_.results(set);
      if (f.is_adaptive()) {
        return gqsgd_dequantize_adaptive(f.handle(), &site, f.buffers_.codes(set), f.norms(),
                                         f.norms(), f.count(), GQSGD_FLOAT32, GQSGD_MEAN, results,
                                         nullptr);
      }
      return gqsgd_dequantize(f.handle(), &site, f.buffers_.codes(set), f.norms(), f.count(),
                              GQSGD_FLOAT32, GQSGD_MEAN, results, nullptr);
    });
  }

 private:
  template <typename Work>
  Case make(const std::string& stage, double bytes, Work work) const {
    FormatCases self = *this;
    return {stage, row_.spec, bytes,
            [self, work](size_t set) mutable { return work(self, set) == GQSGD_OK; }};
  }

  gqsgd_quantizer handle() const { return quantizer_->handle(); }
  size_t count() const { return buffers_.value_count(); }

  bool is_adaptive() const { return strncmp(row_.spec, "adaptive", 8) == 0; }

  /** Widths follow from norms. */
  const float* norms() const {
    return is_adaptive() ? buffers_.uneven_norms() : buffers_.norms();
  }

  static gqsgd_site site(uint64_t size, uint64_t reduction_depth) {
    gqsgd_site site = {};
    site.size = size;
    site.reduction_depth = reduction_depth;
    return site;
  }

  FormatRow row_;
  Buffers& buffers_;
  std::shared_ptr<Quantizer> quantizer_;
};

}  // namespace

Buffers::Buffers(size_t value_count, size_t set_count)
    : value_count_(value_count),
      norms_(value_count / kBlockLeast + 1, kNorm),
      uneven_norms_(norms_.size()),
      scales_(norms_.size()) {
  for (size_t k = 0; k < norms_.size(); ++k) {
    const int draw = static_cast<int>(64 * std::fabs(value_at(3 * k)));
    uneven_norms_[k] = std::ldexp(kNorm + static_cast<float>(draw % 8) / 8, -draw / 8);
  }
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
  // Correlated thresholds of 16 ranks come from a field, of 17 from a prime.
  const FormatRow rows[] = {
      {"paper-gl8", 1, 1, 2, 1, "nqmdr"},
      {"paper-ge8", 1, 1, 2, 1, "qmdr"},
      {"paper-gl4", 0.5, 0.5, 2, 1, "qmdrw"},
      {"paper-ge4", 0.5, 0.5, 2, 1, "qmdrw"},
      {"none", 4, 4, 2, 1, "qmdr"},
      {"paper-gl8,combine=average", 1, 1, 2, 1, "rw"},
      {"paper-gl8,norm=2:2", 1, 1, 2, 1, "n"},
      {"paper-gl8,block=128", 1, 1, 2, 1, "nqmd"},
      {"paper-gl8,block=128,rescale=true", 1, 1, 2, 0, "m"},
      {"paper-gl8,combine=average,rounding=correlated", 1, 1, 16, 0, "q"},
      {"paper-gl8,combine=average,rounding=correlated", 1, 1, 17, 0, "q"},
      {"paper-gl8,rounding_down=subtractive", 1, 1, 2, 0, "md"},
      {"paper-gl8,rotate=hadamard", 1, 1, 2, 1, "nqd"},
      {"blocks-8", 1, 1, 16, 0, "nqmd"},
      {"rotated-8", 1, 1, 16, 0, "nqmd"},
      {"rotated-4-8", 0.5, 1, 16, 0, "qmd"},
      {"relative-8", 1, 1, 16, 0, "qmd"},
      {"adaptive-6", 0.75, 0.75, 16, 0, "nqmd"},
      {"adaptive-4", 0.5, 0.5, 16, 0, "nqmd"},
  };
  std::vector<Case> cases;
  for (const FormatRow& row : rows) {
    const FormatCases make(row, buffers);
    if (!make.is_available()) {
      refused->push_back(gqsgd_last_error());
      continue;
    }
    if (row.has('n')) cases.push_back(make.norm());
    if (row.has('q')) cases.push_back(make.quantize());
    if (row.has('m')) cases.push_back(make.reduce_many());
    if (row.has('d')) cases.push_back(make.dequantize());
    if (row.has('r')) cases.push_back(make.reduce(1));
    if (row.has('w')) cases.push_back(make.reduce(3));
  }
  for (const Case& rice : rice_cases(buffers)) cases.push_back(rice);
  return cases;
}

}  // namespace gq::bench
