/* What an allreduce costs and how far it is from the exact mean: bounds of the paper and beyond it,
 * predictions, and measurements on virtual ranks or on those of a communicator; and whether its
 * ranks have the right bits. */
#ifndef GQSGD_MODEL_H
#define GQSGD_MODEL_H

#include "gqsgd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Bounds and predictions ------------------------------------------------------------------ */
/** theta of the bound E ||G(x) - mean||^2 <= theta / rank_count * sum_i ||x_i||^2, where G(x) is
 *  the mean that an allreduce of `count` values over `rank_count` ranks returns with this
 *  schedule. Paper, section 4.2 (theorem on variance), for norms with p, q >= 2: theta is
 *  sqrt(d/n)/s for linear and 1/(8n) + sqrt(d/n)/2^(s-1) for exponential levels. Beyond it: the
 *  least of that and its twin with d/4 per squared level, so that no condition on s is needed; p or
 *  q = 1; the headroom of combine=sum; the roundings of averages and of the re-encode; and those of
 *  exponential reductions, which all ranks share: 1 + theta grows by 9/8 with each
 *  (gqsgd_depth_factor). Levels bf16 and fp16 have 2^-16 and 2^-22 in place of 1/8 and no other
 *  term, for values that are neither denormals of these types nor beyond them. With blocks d is
 *  their length. Correlated rounding, rescale and rotation have the bound of a format without them,
 *  twice that where a norm spans rotations of several lengths; they are better in most cases. The
 *  sparse schedule has the bound of direct, which replaces it where a call has too many sparse
 *  entries; the error of sparse entries is no larger. Float32 arithmetic is left out: below 2^-20
 *  of it while norm / s of linear levels, or the norm of exponential ones, is 2^-126 or more. Below
 *  that steps are denormal or zero, results are multiples of 2^-149, and the error may exceed the
 *  bound: of values of 1 to 8 * 2^-149 it does. Float32 sums of levels exponential, none, bf16
 *  and fp16 are left out too: up to (rank_count * 2^-24)^2 of theta, from 8192 ranks on more than
 *  all of fp16's.
 *  Infinite where a chain is too long for any bound. UNSUPPORTED where no bound is known:
 *  rounding=nearest is biased. Host arithmetic only. */
gqsgd_status gqsgd_variance_bound(gqsgd_quantizer quantizer, int32_t rank_count, size_t count,
                                  gqsgd_schedule schedule, double *theta);

/** The number of codes other than zero that all ranks together quantize to is expected to be at
 *  most this: 1/l^2 + sqrt(nd)/l, l the smallest level, for p = q = 2. (The paper's theorem prints
 *  it without the factor 1/l before the root, which equal values contradict.) UNSUPPORTED for other
 *  norms than p, q <= 2. */
gqsgd_status gqsgd_sparsity_bound(gqsgd_quantizer quantizer, int32_t rank_count, size_t count,
                                  gqsgd_schedule schedule, double *nonzero_count);

/** (9/8)^depth for exponential levels, depth being the longest chain of reductions of the schedule,
 *  or 1 for the one re-encode of the direct schedule and 2 for those of the hierarchical one; 81/80
 *  with mantissa bits; 1 + 2^-16 for bf16 and 1 + 2^-22 for fp16; 1 for linear levels and for the
 *  sparse schedule's entries. */
gqsgd_status gqsgd_depth_factor(gqsgd_quantizer quantizer, int32_t rank_count,
                                gqsgd_schedule schedule, double *factor);

/** Nanoseconds that an allreduce of `count` values over `rank_count` ranks is expected to
 *  take, from constants of the machine and its network; host arithmetic on the moves of one rank,
 *  for 100,000 ranks mostly in 0.1 s. docs/COST.md has the model.
 *  constants  the string that gqsgd-calibrate writes, "name = value" lines; names left out, and all
 *             with NULL, have built-in values: ranks with processors of their own at 10 Gbit/s
 *  schedule   AUTO is what it would choose with these constants; with NULL it is direct
 *  Messages travel, over links that are all alike: hierarchical is direct here (gqsgd-plan has
 *  nodes and shared memory). INVALID_ARGUMENT for a malformed string and for what an allreduce
 *  refuses; UNSUPPORTED for sparse, whose time depends on values, and for native without constants
 *  of it. */
gqsgd_status gqsgd_predict_time(gqsgd_quantizer quantizer, gqsgd_schedule schedule,
                                int32_t rank_count, size_t count, gqsgd_dtype dtype,
                                const char *constants, double *time_ns);

/** Writes the constants by which AUTO chooses into `costs`, as the option `costs` takes them, bit
 *  for bit: a group that gets them makes the same choices. At most `capacity_bytes` with the final
 *  0, cut if shorter; *size_bytes, unless NULL, is the size needed. "" where there are none:
 *  without the option, or with costs=measure before the first call of AUTO over threads, MPI and
 *  custom transports. */
gqsgd_status gqsgd_comm_costs(gqsgd_comm comm, char *costs, size_t capacity_bytes,
                              size_t *size_bytes);

/* ---- Errors of given values ------------------------------------------------------------------ */
/* Of a config: its schedule, and its step if that is given; GQSGD_STEP_DEVICE is refused. */

/** gqsgd_allreduce with `rank_count` virtual ranks on the calling thread: same schedule, same
 *  executor, same bits, but for sums of floats by NATIVE, made in rank order here, and for what
 *  AUTO chooses with `costs` (name a schedule). For tests, studies and debugging.
 *  rank_count  1 to 8192; time grows with its square
 *  send, recv  `rank_count` buffers each; recv[k] is NULL, send[k], or disjoint from all others
 *  options     as for communicators */
gqsgd_status gqsgd_simulate(gqsgd_quantizer quantizer, int32_t rank_count, const void *const *send,
                            void *const *recv, size_t count, gqsgd_dtype dtype, gqsgd_op op,
                            const gqsgd_config *config, const char *options);

/** The normalised mean square error that a format is expected to make of these values: the mean,
 *  over `draw_count` draws of the random numbers, of ||G - mean||^2 / ||mean||^2, G being what an
 *  allreduce of op MEAN returns. By virtual ranks on the calling thread, with the step of the
 *  config and those after it, from 0 where the config gives none. 0 where there is no error,
 *  infinite where there is no signal. Allocates one result and its mean.
 *  send [in]  `rank_count` buffers, 1 to 8192, of `count` elements
 *  options    as for communicators; `nodes` is which ranks share a node, without which
 *             HIERARCHICAL is DIRECT, and with `costs` AUTO chooses. NULL for all defaults */
gqsgd_status gqsgd_expected_error(gqsgd_quantizer quantizer, int32_t rank_count,
                                  const void *const *send, size_t count, gqsgd_dtype dtype,
                                  const gqsgd_config *config, int32_t draw_count,
                                  const char *options, double *error);

/** The same, measured here and now: a collective that averages `send` twice as float32, once
 *  uncompressed and once with `quantizer`, and compares. Without a step of its own it takes that
 *  of the next call, and does not use it up: the error is that of the next allreduce of these
 *  values. Every rank gets the same number. `send` is host memory. Allocates 12 bytes per value. */
gqsgd_status gqsgd_measured_error(gqsgd_comm comm, gqsgd_quantizer quantizer, const void *send,
                                  size_t count, gqsgd_dtype dtype, const gqsgd_config *config,
                                  double *error);

/* ---- Equal bits ------------------------------------------------------------------------------ */
/** Proves that all ranks get the bits that the format has: makes every call that the presets, the
 *  schedules and the types of values allow (240, of 4133 values each, on host memory) and compares
 *  its result with that of virtual ranks; and, of 3 virtual ranks on this rank's processor, with
 *  digests of the reference, which are part of the library. A collective: every rank calls with the
 *  same flipped_rank. The communicator's counter stays as it is.
 *  flipped_rank  -1. Or a rank, one bit of whose first results is changed before it compares them:
 *                so that tests can see that this is found. INVALID_ARGUMENT for any other number
 *  compared      unless NULL, the calls whose results were compared: those that this number of
 *                ranks has, and native ones only where the transport has an allreduce of its own
 *  differing     unless NULL, a number for each rank: of its results that differ
 *  Returns OK if all are equal; INTEGRITY on all ranks, with a sentence that names the ranks whose
 *  results differ, the first such call and both digests: the communicator stays usable. Another
 *  failure is that of a call, whose name is put before its sentence; nothing is written then.
 *  UNSUPPORTED over NCCL, which has no host memory. Allocates 33 KiB for each rank. */
gqsgd_status gqsgd_comm_verify(gqsgd_comm comm, int32_t flipped_rank, int32_t *compared,
                               int32_t *differing);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
