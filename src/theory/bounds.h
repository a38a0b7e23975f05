// The bounds of the theory, before anything runs: variance and sparsity of a quantised allreduce,
// as functions of its format and size. No values are looked at.
//
// Notation. n ranks, d values (of one block, if norms are per block), x_i on rank i, G(x) the
// result with op = mean, l the smallest level above zero in units of the norm: 1/s for s linear
// levels, 2^-(s-1) for s exponential ones (s less the headroom where codes are added in code form).
//
//   E ||G(x) - mean||^2 <= theta / n * sum_i ||x_i||^2
//
// Paper (Xin et al., ECAI 2025, theorem on variance and sparsity): for p, q >= 2 quantizing has
//   theta_linear = sqrt(d / n) l,  theta_exponential = 1/(8 n) + sqrt(d / n) l.
// What is added to it here:
//   - neither s <= sqrt(nd) nor its exponential twin is needed: tau = min(sqrt(d / n) l, d l^2 / 4)
//     bounds what uniform steps add, whatever s is;
//   - p or q = 1 makes the norm larger by at most sqrt(n) or sqrt(d): l grows by that factor;
//   - roundings inside exponential reductions are common to all ranks, so they do not average out:
//     1 + theta grows by 9/8 with each reduction of the longest chain (theta_exponential alone,
//     times powers of 9/8, is too small: three equal ranks already exceed it);
//   - averages and the re-encode of a wide sum round to steps anew: see average_weight.
// And for the extensions:
//   - norms per block: d is the length of a block, and l grows by 1 + 2^-7, by which a norm of 16
//     bits may be too large;
//   - correlated rounding: errors of two ranks are never positively correlated, so that the bound
//     of independent rounding holds for it;
//   - mantissa bits: between levels 1 and 5/4 of an octave, 1/80 takes the place of 1/8;
//   - hierarchy: the codes of a node of k ranks are encoded as their mean and count k / n in the
//     result. The sum of k^2 over the nodes is at most n^2, and that of k^(3/2) |y_a| at most
//     n^(3/2) |y|, so that all nodes together add no more than one re-encode of everything, with
//     l of the re-encode where means are encoded as results are;
//   - bits_down: l of the re-encode is its own;
//   - rescale: a block's scale is never larger than its norm, so that the bound holds with the
//   norm;
//   - subtractive rounding: the error of the re-encode is uniform in half a step to either side
//     whatever the sum is, d l^2 / 12 in place of tau;
//   - rotation: a rotation changes no length, so that the bound holds for what it gives back; d
//     counts the values that fill up the last ones, and a norm that spans rotations of several
//     lengths doubles theta.
// Float32 arithmetic is left out; it adds less than 2^-20 relative, but where norm / s of linear
// levels, or the norm of exponential ones, is below 2^-126: results are multiples of 2^-149; and
// but for float32 sums of levels exponential, none, bf16 and fp16. Each addition is off by 2^-24 of
// a sum of up to n ranks, so that a mean is by n 2^-24 of the mean magnitude: (n 2^-24)^2 of theta.
#ifndef GQ_THEORY_BOUNDS_H
#define GQ_THEORY_BOUNDS_H

#include <stdint.h>

#include "kernels/codec/formats.h"
#include "src/support/status.h"

namespace gq {

/** theta, for the schedule whose longest chain of reductions in code form is `reduction_depth` (0
 * where an owner adds wide and encodes once). Infinite where a chain is too long for any bound.
 * `encodes`: re-encodes of wide sums in a chain; 2 in a hierarchy, whatever its nodes are.
 * UNSUPPORTED for rounding=nearest, which is biased. INVALID_ARGUMENT for ranks or combines that no
 * schedule has, and where combine=exact leaves no level. */
Status variance_bound(const Format& format, uint32_t ranks, uint64_t value_count,
                      uint32_t reduction_depth, double* theta, uint32_t encodes = 1);

/** The expected number of codes other than zero that all ranks together quantize to is at most
 *  1/l^2 + sqrt(nd) / l (the paper prints it without the factor 1/l before the root,
 *  which equal values contradict), and never more than there are codes.
 *  For p, q <= 2, where the norm is at least ||x||; UNSUPPORTED for others, and as above. */
Status sparsity_bound(const Format& format, uint32_t ranks, uint64_t value_count,
                      uint32_t reduction_depth, double* nonzero_count);

/** What 1 + theta grows by between quantizing and the result through exponential reductions:
 *  (9/8)^depth, depth = combines, or the re-encodes of wide sums; 81/80 with mantissa bits. 1
 *  for linear levels. */
double depth_factor(const Format& format, uint32_t reduction_depth, uint32_t encodes = 1);

/** A reduction with combine=average rounds the sum of W ranks to W times a step. This is the most
 *  that W can add up to over the reductions of one rank's codes, divided by n, in any order in
 *  which n ranks are merged by chains of at most `reduction_depth`: (n + 1)/2 - 1/n for a ring,
 * less than 2 for a tree. It bounds the sum of W^2 over all reductions, divided by n^2, as well, so
 * that together they add at most n * average_weight * tau to theta. */
double average_weight(uint32_t ranks, uint32_t reduction_depth);

}  // namespace gq

#endif
