// One allreduce with every argument open to change, and groups of threads that make one each.
#ifndef GQ_TESTS_API_FAULTS_SUPPORT_CALL_H
#define GQ_TESTS_API_FAULTS_SUPPORT_CALL_H

#include <functional>
#include <string>
#include <vector>

#include "tests/api/faults/support/outcome.h"
#include "tests/support/config.h"
#include "tests/support/inputs.h"

namespace gq::test {

inline constexpr size_t kCallValues = 1000;

/** A call that is right until a test changes it. Its buffers hold kCallValues values. */
class Call {
 public:
  explicit Call(int rank);
  ~Call() { gqsgd_quantizer_destroy(quantizer); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void use(const char* quantizer_spec);
  Outcome make(gqsgd_comm comm) { return outcome_of(make_status(comm)); }
  /** The same without allocating anything of the test's own. */
  gqsgd_status make_status(gqsgd_comm comm);
  /** The same call as a request. */
  gqsgd_status start(gqsgd_comm comm);
  /** True if no byte of the result has been written. */
  bool result_untouched() const;
  bool input_untouched() const;
  bool result_is_finite() const;

  Values input, result;
  gqsgd_quantizer quantizer = nullptr;
  const void* send;
  void* recv;
  size_t value_count = kCallValues;
  gqsgd_dtype dtype = GQSGD_FLOAT32;
  gqsgd_op op = GQSGD_MEAN;
  Config config = config_at(7, 0, GQSGD_SCHEDULE_DIRECT);
  void* stream = nullptr;
  gqsgd_request request = nullptr;

 private:
  Values original_;
};

using Change = std::function<void(Call&)>;

/** What each rank of a local group made of one call. */
struct GroupOutcome {
  std::vector<Outcome> ranks;
  bool all_untouched = true;
};

/** Threads of one local group. Calls of one group follow each other; a hung group fails the test.
 */
class Group {
 public:
  explicit Group(int rank_count, const std::string& options = "timeout_ms=20000");
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  gqsgd_comm comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(comms_.size()); }

  /** Every rank makes a right call, except that `culprit` (-1: none) changes its own first. */
  GroupOutcome call(int culprit, const Change& change, const Change& on_all = nullptr);
  /** The group still works: a right call gives all ranks the same finite values. */
  testing::AssertionResult still_works();

 private:
  std::vector<gqsgd_comm> comms_;
};

}  // namespace gq::test

#endif
