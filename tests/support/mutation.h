// Mutations: faults that a test must find. mutate.py writes copies of sources that have them, and
// the environment variable GQ_MUTATION switches one of them on.
#ifndef GQ_TESTS_SUPPORT_MUTATION_H
#define GQ_TESTS_SUPPORT_MUTATION_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>

namespace gq::test {

/** Whether GQ_MUTATION names this mutation. */
inline bool mutation_is(const char* name) {
  const char* active = getenv("GQ_MUTATION");
  return active != nullptr && strcmp(active, name) == 0;
}

/** A mutation's number, which tests/gpu/ptx gives to kernels: they have no environment. */
constexpr uint32_t number_of_mutation(const char* name) {
  uint32_t number = 2166136261u;
  for (; *name != 0; ++name) number = (number ^ static_cast<uint8_t>(*name)) * 16777619u;
  return number;
}

#if defined(__CUDACC__)
#define GQ_MUTATION_SWITCH(name) \
  constexpr uint32_t name = gq::test::number_of_mutation(#name)

__host__ __device__ inline bool mutated(uint32_t mutation) {
#if defined(__CUDA_ARCH__)
  uint32_t active;
  asm("mov.u32 %0, %%envreg3;" : "=r"(active));  // 0 on a device
  return active == mutation;
#else
  const char* const active = getenv("GQ_MUTATION");
  return active != nullptr && number_of_mutation(active) == mutation;
#endif
}
#else
#define GQ_MUTATION_SWITCH(name) inline const bool name = gq::test::mutation_is(#name)

/** Off in constant expressions, which have no environment. */
constexpr bool mutated(const bool& active) { return !std::is_constant_evaluated() && active; }
#endif

}  // namespace gq::test

#endif
