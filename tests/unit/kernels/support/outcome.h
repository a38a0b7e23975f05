// What stages write, as bytes: runs one stage on edge-biased data on any instruction set, and
// compares all of them with scalar.
#ifndef GQ_TESTS_UNIT_KERNELS_SUPPORT_OUTCOME_H
#define GQ_TESTS_UNIT_KERNELS_SUPPORT_OUTCOME_H

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/kernels/support/guarded.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {

inline constexpr RandomSite kSite{0x123456789ABCDEFull, 7, 11, 13, 2};
inline constexpr int32_t kDtypes[] = {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64};

/** Where a job runs: how many values, from where in the call, how far from aligned memory. */
struct Place {
  uint64_t first_value;
  size_t value_count;
  size_t offset;
};

std::string place_text(const Place& place);

/** The most values of a place. */
inline constexpr size_t kMostValues = 70000;

/** One stage on one place; appends what it wrote. */
class Outcome {
 public:
  explicit Outcome(const Stages& stages, const RandomSite& site = kSite)
      : stages_(stages), site_(site) {}
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  bool intact() const { return intact_; }

  void norm(NormOrder q, uint32_t block, bool rotated, int32_t dtype, const Place& place);
  /** Twice, through caches and around them. norm: of all values; blocks have norms of all sizes
   *  instead. */
  void quantize(const Coding& coding, int32_t dtype, const Place& place, float norm);
  void reduce(const Coding& coding, const Place& place, uint32_t weight_a, uint32_t weight_b);
  /** weights: of operands that are means; none: one operand for each rank. */
  void reduce_many(const Coding& coding, const Place& place, bool in_place,
                   const std::vector<uint32_t>& weights = {}, bool nontemporal = false);
  /** Sums of means that have scales of their own, behind their words. */
  void scaled_means(const Coding& coding, const Place& place,
                    const std::vector<uint32_t>& weights);
  /** Twice, as quantize. */
  void dequantize(const Coding& coding, int32_t dtype, int32_t op, const Place& place, float scale);

 private:
  template <typename Element>
  void keep(const Guarded<Element>& buffer) {
    intact_ = intact_ && buffer.intact();
    const std::vector<Element> values = buffer.values();
    const auto* first = reinterpret_cast<const uint8_t*>(values.data());
    bytes_.insert(bytes_.end(), first, first + values.size() * sizeof(Element));
  }

  const Stages& stages_;
  RandomSite site_;
  std::vector<uint8_t> bytes_;
  bool intact_ = true;
};

/** Runs a job on scalar and on every other instruction set and compares. */
template <typename Job>
void expect_equal_everywhere(const std::string& what, Job job, const RandomSite& site = kSite) {
  Outcome expected(scalar_stages(), site);
  job(expected);
  EXPECT_TRUE(expected.intact()) << what << ": scalar wrote outside its buffer";
  for (const Stages* stages : stages_here()) {
    Outcome outcome(*stages, site);
    job(outcome);
    EXPECT_TRUE(outcome.intact()) << what << ": " << stages->name << " wrote outside its buffer";
    EXPECT_TRUE(outcome.bytes() == expected.bytes()) << what << " on " << stages->name;
  }
}

/** Whether stages of a device are compared. */
bool has_device_stages();

/** Norms and scales of the middle and of both ends. */
extern const std::vector<float> kOneSize, kAllSizes;

/** Quantize and dequantize of every element type and operation, on every instruction set. */
void expect_equal_codecs(const Coding& coding, const Place& place, const std::vector<float>& sizes);

/** Reduce with several weights, or reduce_many in place and out of place. */
void expect_equal_reductions(const Coding& coding, const Place& place);

/** The same for the sum of node `node` of `nodes`, whose ranks are coding.ranks. */
void expect_equal_node_sums(const Coding& coding, const Place& place, uint32_t node,
                            uint32_t nodes);

}  // namespace gq::test

#endif
