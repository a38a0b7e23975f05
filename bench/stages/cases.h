// What stages_perf measures: one stage of one format on buffers of its own; no clock here.
#ifndef GQ_BENCH_STAGES_CASES_H
#define GQ_BENCH_STAGES_CASES_H

#include <gqsgd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/line_allocator.h"

namespace gq::bench {

/** One thing to time. `run(set)` works on buffer set `set`: callers rotate them, so that what is
 *  measured comes from memory and not from a cache that an earlier call filled. */
struct Case {
  std::string stage;
  std::string format;
  double bytes_per_value;  ///< read and written
  std::function<bool(size_t set)> run;
};

/** Buffers of all cases: floats, codes and results, each in `set_count` copies. */
class Buffers {
 public:
  Buffers(size_t value_count, size_t set_count);
  size_t value_count() const { return value_count_; }
  float* values(size_t set) { return values_[set].data(); }
  float* results(size_t set) { return results_[set].data(); }
  uint32_t* codes(size_t set) { return codes_[set].data(); }
  uint32_t* own_codes(size_t set) { return own_codes_[set].data(); }
  const float* norms() const { return norms_.data(); }  ///< one for each of the shortest blocks
  /** The same of sizes over eight octaves. */
  const float* uneven_norms() const { return uneven_norms_.data(); }
  float* scales() { return scales_.data(); }            ///< as many, to be written

 private:
  size_t value_count_;
  std::vector<float> norms_, uneven_norms_, scales_;
  std::vector<LineVector<float>> values_, results_;
  std::vector<LineVector<uint32_t>> codes_, own_codes_;
};

/** The yardsticks of the same run: memcpy, and the float32 add that codes replace. */
std::vector<Case> yardsticks(Buffers& buffers);

/** Every stage of every paper preset, of `none`, of each extension and of the presets made of them;
 *  instruction set as GQSGD_FORCE_ISA says when a case runs. Formats that this build refuses are
 *  named in `refused`. */
std::vector<Case> stage_cases(Buffers& buffers, std::vector<std::string>* refused);

}  // namespace gq::bench

#endif
