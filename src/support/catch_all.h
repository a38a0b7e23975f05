// Exceptions of a caller's function end here: none crosses the C ABI.
#ifndef GQ_SUPPORT_CATCH_ALL_H
#define GQ_SUPPORT_CATCH_ALL_H

#include <cxxabi.h>
#include <stdio.h>

#include <exception>

namespace gq {

/** The message of an exception. */
using ThrownText = char[200];

/** Calls `function`, which is a caller's. True if it threw; then *text is written. */
template <typename Function>
[[nodiscard]] bool throws(const Function& function, ThrownText* text) {
  try {
    function();
    return false;
#if defined(__GLIBCXX__)
  } catch (const abi::__forced_unwind&) {
    throw;  // pthread_exit(), which may not be held up
#endif
  } catch (const std::exception& thrown) {
    snprintf(*text, sizeof *text, "%s", thrown.what());
  } catch (...) {
    snprintf(*text, sizeof *text, "of a type that is no std::exception");
  }
  return true;
}

}  // namespace gq

#endif
