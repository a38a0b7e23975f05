// Bernstein's inequality and Holm's rule.
#include "tests/api/statistics/rejection.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gq::test {

double bernstein(double deviation, double variance, double largest) {
  const double distance = std::fabs(deviation);
  if (distance == 0) return 1;
  const double scale = 2 * (variance + largest * distance / 3);
  return scale == 0 ? 0 : std::min(1.0, 2 * std::exp(-distance * distance / scale));
}

std::string rejected(std::vector<Hypothesis> family) {
  std::sort(family.begin(), family.end(),
            [](const Hypothesis& a, const Hypothesis& b) { return a.probability < b.probability; });
  std::string names;
  for (size_t rank = 0; rank < family.size(); ++rank) {
    const double level = kFamilyLevel / static_cast<double>(family.size() - rank);
    if (family[rank].probability > level) break;
    char probability[32];
    std::snprintf(probability, sizeof probability, " (%.1e)\n", family[rank].probability);
    names += family[rank].name + probability;
    if (rank == 9) return names + "and maybe more\n";
  }
  return names;
}

}  // namespace gq::test
