// Tests that repeat themselves with other random numbers: seeds, and what follows from one of them.
#ifndef GQ_TESTS_SUPPORT_SEEDS_H
#define GQ_TESTS_SUPPORT_SEEDS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <stdexcept>

#include "tests/support/inputs.h"

namespace gq::test {

/** Numbers that follow from a seed alone. */
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  /** From 0 to `end` - 1. */
  uint64_t below(uint64_t end) { return mix(seed_ ^ mix(++drawn_)) % end; }
  bool one_in(uint64_t count) { return below(count) == 0; }

 private:
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

struct Seeds {
  uint64_t first, end;
  uint64_t count() const { return end - first; }
};

/** 0 to `usual` - 1 unless GQ_SEEDS=first:end has others. */
inline Seeds seeds_of_environment(uint64_t usual) {
  const char* const text = getenv("GQ_SEEDS");
  if (text == nullptr) return {0, usual};
  unsigned long long first = 0, end = 0;
  if (sscanf(text, "%llu:%llu", &first, &end) != 2 || first >= end) {
    throw std::invalid_argument("GQ_SEEDS is first:end");
  }
  return {first, end};
}

}  // namespace gq::test

#endif
