// What calls of schedule sparse are tested with: formats that are sent as sparse entries, and
// values that make few of them.
#ifndef GQ_TESTS_SUPPORT_FEW_VALUES_H
#define GQ_TESTS_SUPPORT_FEW_VALUES_H

#include <vector>

#include "tests/support/operation.h"

namespace gq::test {

inline const char* const kSparseFormats[] = {"paper-gl8",
                                             "paper-ge8",
                                             "paper-gl4",
                                             "paper-ge4",
                                             "paper-gl4,norm=2:2",
                                             "paper-gl8,norm=1:2,rounding=correlated",
                                             "paper-ge4,rounding=nearest"};

/** A few values of each rank stay, at places of its own and at places of all. */
inline std::vector<Values> few_values(int rank_count, size_t value_count, uint64_t seed) {
  std::vector<Values> inputs = gradients(rank_count, value_count, seed);
  const size_t apart = 40 * static_cast<size_t>(rank_count);
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    for (size_t e = 0; e < value_count; ++e) {
      if (e % apart != rank && e % (3 * apart) != 7) inputs[rank][e] = 0;
    }
  }
  return inputs;
}

}  // namespace gq::test

#endif
