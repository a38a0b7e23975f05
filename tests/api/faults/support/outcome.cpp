// Comparing with patterns; the C library's, because the C++ one takes seconds to compile.
#include "tests/api/faults/support/outcome.h"

#include <regex.h>

namespace gq::test {

bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    ADD_FAILURE() << "not a pattern: " << pattern;
    return false;
  }
  const bool is_found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return is_found;
}

testing::AssertionResult found(const std::string& line, const std::string& pattern) {
  if (matches(line, pattern)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << line << "\n  promised: " << pattern;
}

testing::AssertionResult is(const Outcome& outcome, gqsgd_status status,
                            const std::string& pattern) {
  if (outcome.status == status && (pattern.empty() || matches(outcome.sentence, pattern))) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << outcome.text() << "\n  promised: " << gqsgd_status_name(status) << ": " << pattern;
}

}  // namespace gq::test
