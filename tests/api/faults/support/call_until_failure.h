// A rank that calls without end while the test does something to it or to others.
#ifndef GQ_TESTS_API_FAULTS_SUPPORT_CALL_UNTIL_FAILURE_H
#define GQ_TESTS_API_FAULTS_SUPPORT_CALL_UNTIL_FAILURE_H

#include <cstdint>
#include <functional>
#include <string>

#include "tests/api/faults/support/call.h"

namespace gq::test {

/** In shared memory: what a rank leaves for the test to read, also one that dies. */
struct Trace {
  volatile uint64_t begun, finished;  ///< calls
  volatile uint64_t returned_us;      ///< when a call failed
  volatile uint64_t acted_us;         ///< when the rank did what the test had it do
};

uint64_t now_us();

/** Makes `call` again and again, each time after `before`, until it fails. The outcome of that;
 *  with those of the next call and of gqsgd_comm_status if one has another status. */
std::string call_until_failure(gqsgd_comm comm, Call* call, Trace* trace,
                               const std::function<void()>& before = nullptr);

}  // namespace gq::test

#endif
