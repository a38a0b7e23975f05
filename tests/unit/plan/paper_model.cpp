// The paper's closed forms.
#include "tests/unit/plan/paper_model.h"

#include <math.h>

namespace gq::test {

double paper_tree_s(const PaperMachine& m, double ranks, double size_bytes, double rho) {
  const double levels = log2(ranks);
  const double codes_bytes = size_bytes / rho;
  return 2 * levels * m.alpha_s + 2 * levels * codes_bytes / m.beta +
         levels * codes_bytes / m.gamma_hat + m.delta_s * size_bytes;
}

double paper_ring_s(const PaperMachine& m, double ranks, double size_bytes, double rho) {
  const double share = (ranks - 1) / ranks;
  const double codes_bytes = size_bytes / rho;
  return 2 * (ranks - 1) * m.alpha_s + 2 * share * codes_bytes / m.beta +
         share * codes_bytes / m.gamma_hat + m.delta_s * size_bytes;
}

bool paper_speeds_up(double beta, double gamma, double rho, double omega) {
  return beta * (rho - omega) > 2 * gamma * (1 - rho);
}

}  // namespace gq::test
