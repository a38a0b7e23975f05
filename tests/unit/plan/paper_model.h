// The performance model of the paper (Xin et al., "Global-QSGD", section "Performance Model"), as
// it is printed there. src/plan/cost/cost_model.h extends it to every schedule.
//
//   n      ranks                       alpha  propagation delay, s
//   S      size of the gradient, B     beta   bandwidth, B/s
//   S-hat  size of its codes, B        gamma  speed of adding values, B/s
//   rho    S / S-hat                   gamma-hat  speed of adding codes, B/s
//   omega  gamma / gamma-hat           delta  time to quantize and dequantize a byte of S, s/B
//
// log is the logarithm to base 2: the depth of the tree is 2 log n. The paper prints the tree; the
// ring is the one that it names beside it (Thakur, Rabenseifner, Gropp 2005).
#ifndef GQ_TESTS_UNIT_PLAN_PAPER_MODEL_H
#define GQ_TESTS_UNIT_PLAN_PAPER_MODEL_H

namespace gq::test {

struct PaperMachine {
  double alpha_s;
  double beta;       ///< bytes per second
  double gamma;      ///< bytes per second
  double gamma_hat;  ///< bytes per second; gamma where nothing is compressed
  double delta_s;    ///< seconds per byte of the gradient; 0 where nothing is compressed
};

/** 2 log(n) alpha + 2 log(n) S-hat / beta + log(n) S-hat / gamma-hat + delta S. */
double paper_tree_s(const PaperMachine& machine, double ranks, double size_bytes, double rho);

/** 2 (n-1) alpha + 2 (n-1)/n S-hat / beta + (n-1)/n S-hat / gamma-hat + delta S. */
double paper_ring_s(const PaperMachine& machine, double ranks, double size_bytes, double rho);

/** True where compressing pays, delta neglected: beta (rho - omega) > 2 gamma (1 - rho). The same
 *  for ring and tree, whatever n and S. For rho = 4 it is the paper's equation with 6 gamma. */
bool paper_speeds_up(double beta, double gamma, double rho, double omega);

}  // namespace gq::test

#endif
