// The status and sentence of a call, and their comparison with what docs/ERRORS.md documents.
#ifndef GQ_TESTS_API_FAULTS_SUPPORT_OUTCOME_H
#define GQ_TESTS_API_FAULTS_SUPPORT_OUTCOME_H

#include <gqsgd.h>
#include <gtest/gtest.h>

#include <string>

namespace gq::test {

struct Outcome {
  gqsgd_status status = GQSGD_INTERNAL;
  std::string sentence;  ///< "" after success

  std::string text() const {
    return std::string(gqsgd_status_name(status)) + (sentence.empty() ? "" : ": " + sentence);
  }
};

/** Of a call that this thread has just made. */
inline Outcome outcome_of(gqsgd_status status) {
  return {status, status == GQSGD_OK ? "" : gqsgd_last_error()};
}

/** True if the extended regular expression `pattern` is found in `text`. */
bool matches(const std::string& text, const std::string& pattern);

/** The same as an assertion, for a line that a process wrote about its outcome. */
testing::AssertionResult found(const std::string& line, const std::string& pattern);

/** The status as promised, and a sentence in which `pattern` is found. */
testing::AssertionResult is(const Outcome& outcome, gqsgd_status status,
                            const std::string& pattern = "");

inline testing::AssertionResult is_ok(const Outcome& outcome) { return is(outcome, GQSGD_OK); }

}  // namespace gq::test

#endif
