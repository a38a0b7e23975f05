/* The stages of an allreduce one at a time: norm, quantize, reduce, reduce_many, dequantize. For
 * those who study the format or write a collective of their own; gqsgd.h has whole collectives. */
#ifndef GQSGD_STAGES_H
#define GQSGD_STAGES_H

#include "gqsgd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Sizes ----------------------------------------------------------------------------------- */
/** Size in bytes of `value_count` packed values: whole 32-bit words. rotate=hadamard fills values
 *  up to a multiple of 128. With width=adaptive and levels=rice enough for any number of ranks. */
gqsgd_status gqsgd_packed_size(gqsgd_quantizer quantizer, size_t value_count, size_t *size_bytes);

/** The same for what gqsgd_reduce_many writes, whose codes have bits_down bits. */
gqsgd_status gqsgd_result_size(gqsgd_quantizer quantizer, size_t value_count, size_t *size_bytes);

/** Number of norms that gqsgd_norm writes for `value_count` values: one for each block, or one.
 *  Where codes have no norm (levels none, bf16, fp16, rice) it writes one that is 0: other stages
 *  want an array of one all the same, and ignore what is in it. */
gqsgd_status gqsgd_norm_count(gqsgd_quantizer quantizer, size_t value_count, size_t *norm_count);

/** Bytes of workspace that are enough for any one stage of `value_count` values on a device, of up
 *  to 1024 ranks; host arithmetic only. Stages on host memory need none: they allocate nothing, but
 *  with levels=rice the values of a group (128 KiB at most), and gqsgd_reduce_many with
 *  width=adaptive an address for each rank; NO_MEMORY leaves all as it was. */
gqsgd_status gqsgd_workspace_size(gqsgd_quantizer quantizer, size_t value_count, gqsgd_dtype dtype,
                                  size_t *size_bytes);

/* ---- Stages ---------------------------------------------------------------------------------- */
/** The place of a stage in an allreduce. The layout never changes; unused fields are 0.
 *  reduction_depth is the longest chain of reductions in code form: size - 1 for a ring,
 *  ceil(log2 size) for tree and butterfly, 0 for the direct schedule, whose owner adds decoded
 *  codes instead. It sets the levels of `combine=exact` and the headroom of `combine=sum`. */
typedef struct {
  uint64_t rank;            /**< the rank that runs the stage */
  uint64_t size;            /**< ranks in the allreduce, at least 1 */
  uint64_t reduction_depth; /**< longest chain of reductions in code form */
  uint64_t step;            /**< training step, below 2^32 */
  uint64_t index;           /**< call within the step, below 2^16 */
  uint64_t first_value;     /**< position of value 0 in the whole call; see below */
  uint64_t hop;      /**< number of this reduction in the schedule, from 1; 0 when quantizing */
  uint64_t weight_a; /**< ranks merged in operand a (combine=average) */
  uint64_t weight_b; /**< ranks merged in operand b */
} gqsgd_site;

/* A stage works on any range of a call that begins at a multiple of 32 values, of `block` and, with
 * rotate=hadamard, of 1024, and ends at one or with the call. Norms and scales are one number for
 * the call, or one for each block of the range; those of blocks are on a grid of 16 bits, and
 * numbers off it are INVALID_ARGUMENT with index and value. bits_down other than bits, rescale,
 * subtractive rounding and mantissa_bits need reduction_depth = 0.
 *
 * stream: NULL for host memory, else a cudaStream_t (1 and 2: cudaStreamLegacy and PerThread), and
 * all pointers are to memory of the current device; `site` and the array `words` itself are host
 * memory. A stage is then enqueued, also while a graph is captured: it never waits, allocates or
 * reads values on the host: norms of blocks off their grid are rounded up to it. Workspace, aligned
 * to 8 bytes, is the stage's until it has run; host memory, and quantize, need none (NULL). Errors:
 * UNSUPPORTED with levels=bf16 and fp16, and without CUDA or a device, INVALID_ARGUMENT for memory
 * of the other kind, BACKEND. */

/** norms [out] of this rank's values: gqsgd_norm_count numbers, NaN or infinity where an input is.
 *  The largest over ranks is the global norm for p = inf, NaN if one is NaN. */
gqsgd_status gqsgd_norm(gqsgd_quantizer quantizer, const gqsgd_site *site, const void *values,
                        size_t value_count, gqsgd_dtype dtype, float *norms, void *workspace,
                        size_t workspace_size_bytes, void *stream);

/** Rounds `value_count` values at random to codes (paper, eq. 2), packed into `words`
 *  (gqsgd_packed_size bytes); tail lanes are 0. norms [in] the global norms. */
gqsgd_status gqsgd_quantize(gqsgd_quantizer quantizer, const gqsgd_site *site, const void *values,
                            size_t value_count, gqsgd_dtype dtype, const float *norms,
                            uint32_t *words, void *workspace, size_t workspace_size_bytes,
                            void *stream);

/** Adds codes in code form (paper, Algorithm 2 for exponential levels): b becomes a + b, or their
 *  weighted mean with combine=average. `a` and `b_inout` may not overlap. */
gqsgd_status gqsgd_reduce(gqsgd_quantizer quantizer, const gqsgd_site *site, const uint32_t *a,
                          uint32_t *b_inout, size_t value_count, void *stream);

/** The owner's step of the direct schedule: decodes site->size operands, adds them wide in rank
 *  order and encodes once, with bits_down bits (gqsgd_result_size bytes). norms [in] the global
 *  norms; out_scales [out] one scale per norm, which may take their place. out_words may be one of
 *  the operands if they have as many bits; with levels=rice they have not. */
gqsgd_status gqsgd_reduce_many(gqsgd_quantizer quantizer, const gqsgd_site *site,
                               const uint32_t *const *words, size_t value_count, const float *norms,
                               uint32_t *out_words, float *out_scales, void *workspace,
                               size_t workspace_size_bytes, void *stream);

/** Decodes codes to `value_count` elements of `values`. words, scales [in] what reduce_many wrote
 *  (reduction_depth = 0), or codes reduced in code form and the global norms. op SUM gives the sum
 *  over site->size ranks, MEAN the mean. */
gqsgd_status gqsgd_dequantize(gqsgd_quantizer quantizer, const gqsgd_site *site,
                              const uint32_t *words, const float *scales, size_t value_count,
                              gqsgd_dtype dtype, gqsgd_op op, void *values, void *stream);

/* ---- Adaptive widths (width=adaptive) -------------------------------------------------------- */
/* Groups of blocks from all over a call share their bits (docs/FORMAT.md, section 16): all stages
 * and the functions below work on a whole call, first_value 0, of site->size ranks. Norms, scales
 * and widths are one for each block, in the order of values. */

/** Bits of the codes of each block, 2 to 8, or 0 for a block of norm 0 or NaN: what all ranks
 *  compute from the global norms. widths [out] gqsgd_norm_count bytes. */
gqsgd_status gqsgd_widths(gqsgd_quantizer quantizer, const gqsgd_site *site, const float *norms,
                          size_t value_count, uint8_t *widths, void *stream);

/** As gqsgd_dequantize. norms [in] the global norms, which the widths follow from; scales [in] what
 *  reduce_many wrote. */
gqsgd_status gqsgd_dequantize_adaptive(gqsgd_quantizer quantizer, const gqsgd_site *site,
                                       const uint32_t *words, const float *norms,
                                       const float *scales, size_t value_count, gqsgd_dtype dtype,
                                       gqsgd_op op, void *values, void *stream);

/* ---- Rice codes (levels=rice) ---------------------------------------------------------------- */
/* Groups of values from all over a call have messages of one size (docs/FORMAT.md, section 20). The
 * stages above work on a whole call, first_value 0, of site->size ranks: gqsgd_quantize writes the
 * codes of group 0, group 1, .., and gqsgd_dequantize reads the sums of all groups in this order.
 * In the direct schedule rank r owns the groups r * k to r * k + k - 1 of all, where k is
 * group_count / site->size, rounded up: the last ranks may own fewer, or none. */

/** Groups of a call, and bytes of each one's codes and sums, whole 32-bit words: codes of group g
 *  begin at byte g * codes_size_bytes. Of `site`, size decides them. Host arithmetic only. */
gqsgd_status gqsgd_rice_groups(gqsgd_quantizer quantizer, const gqsgd_site *site,
                               size_t value_count, size_t *group_count, size_t *codes_size_bytes,
                               size_t *sums_size_bytes);

/** As gqsgd_reduce_many, of group_count groups from first_group on, 0 groups included: words[rank]
 *  [in] the codes of these groups alone, out_words [out] their sums, which overlap no operand.
 *  value_count is that of the whole call. workspace as for gqsgd_reduce_many. */
gqsgd_status gqsgd_reduce_rice(gqsgd_quantizer quantizer, const gqsgd_site *site,
                               const uint32_t *const *words, size_t value_count,
                               size_t first_group, size_t group_count, uint32_t *out_words,
                               void *workspace, size_t workspace_size_bytes, void *stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
