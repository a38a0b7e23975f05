// Every function of the library that computes or waits, called by one rank with right arguments.
#ifndef GQ_TESTS_API_FAULTS_SUPPORT_EVERY_CALL_H
#define GQ_TESTS_API_FAULTS_SUPPORT_EVERY_CALL_H

#include <gqsgd_stages.h>

#include <functional>
#include <vector>

#include "tests/api/faults/support/call.h"

namespace gq::test {

/** A call, whose status is GQSGD_OK. */
struct Use {
  const char* name;
  std::function<gqsgd_status()> call;
};

/** A quantizer, and which schedules take it beside those that add decoded values. */
struct QuantizerKind {
  const char* spec;
  bool in_chains;  ///< ring, tree, butterfly
  bool in_sparse;  ///< sparse
};
inline constexpr QuantizerKind kQuantizerKinds[] = {{"", false, false},
                                                    {"paper-ge8", true, true},
                                                    {"paper-gl4,norm=2:2", true, true},
                                                    {"rotated-4-8", false, false},
                                                    {"none", true, false}};

/** One rank, alone, that calls each function of the library; what the calls need is made before. */
class EveryCall {
 public:
  explicit EveryCall(const QuantizerKind& kind);
  ~EveryCall() { gqsgd_quantizer_destroy(quantizer_); }
  EveryCall(const EveryCall&) = delete;
  EveryCall& operator=(const EveryCall&) = delete;

  const std::vector<Use>& uses() const { return uses_; }

 private:
  void add(const std::vector<Use>& uses) { uses_.insert(uses_.end(), uses.begin(), uses.end()); }
  void add_theory();
  void add_calls();
  void add_schedules(const QuantizerKind& kind);
  gqsgd_comm comm() const { return group_.comm(0); }
  gqsgd_status request();
  gqsgd_status stages();

  Group group_;
  gqsgd_quantizer quantizer_ = nullptr;
  std::vector<Use> uses_;
  gqsgd_site site_{};
  double number_ = 0;
  size_t count_ = kCallValues;
  float values_[kCallValues] = {}, result_[kCallValues] = {};
  float norms_[kCallValues] = {}, scales_[kCallValues] = {};
  uint32_t words_[kCallValues] = {}, sums_[kCallValues] = {};
  const void* sends_[3] = {values_, values_, values_};
  void* receives_[3] = {result_, nullptr, nullptr};
};

}  // namespace gq::test

#endif
