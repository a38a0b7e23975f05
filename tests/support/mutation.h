// Mutations: faults that a test must find. mutate.py writes copies of sources that have them, and
// the environment variable GQ_MUTATION switches one of them on.
#ifndef GQ_TESTS_SUPPORT_MUTATION_H
#define GQ_TESTS_SUPPORT_MUTATION_H

#include <stdlib.h>
#include <string.h>

#include <type_traits>

namespace gq::test {

/** Whether GQ_MUTATION names this mutation. */
inline bool mutation_is(const char* name) {
  const char* active = getenv("GQ_MUTATION");
  return active != nullptr && strcmp(active, name) == 0;
}

/** Off in constant expressions, which have no environment. */
constexpr bool mutated(const bool& active) { return !std::is_constant_evaluated() && active; }

}  // namespace gq::test

#endif
