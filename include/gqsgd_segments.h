/* Collectives on tensor lists and slices: many tensors as one operation, or one slice for each
 * rank.
 *
 * Part 8 of the C ABI, which gqsgd.h ends with: programs include that header. A tensor list of any
 * length is one call, which succeeds or fails as a whole. docs/FORMAT.md, section 15, has its
 * bits. */
#ifndef GQSGD_SEGMENTS_H
#define GQSGD_SEGMENTS_H

#include "gqsgd.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Allreduce of `tensor_count` tensors as one operation, without a flat copy; every tensor has
 *  norms of its own.
 *  send, recv    `tensor_count` buffers each; recv[k] is send[k] or disjoint from all others
 *  value_counts  elements of each, equal on all ranks; 0 is legal
 *  Arrays of pointers and counts are copied. Anything else is as for gqsgd_allreduce, but that
 *  schedule SPARSE is refused. Allocates 32 bytes for each tensor. */
GQSGD_API gqsgd_status gqsgd_allreduce_many(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                            const void *const *send, void *const *recv,
                                            const size_t *value_counts, size_t tensor_count,
                                            int32_t dtype, int32_t op, int32_t schedule,
                                            const uint64_t at[2], void *stream);

/** Adds or averages over all ranks, and gives each rank its own slice.
 *  value_counts [in] one for each rank: elements of its slice, equal on all ranks; 0 is legal
 *  send  [in]  all slices one after the other, in rank order
 *  recv  [out] the own slice; disjoint from `send`, or in place: at its place in `send`
 *  Norms and rotations begin anew with every slice. Codes are rounded once and never encoded again,
 *  so that bits_down, rescale and rounding_down have no effect: the owner adds float32 values.
 *  Errors and state as for gqsgd_allreduce. Allocates 32 bytes for each rank, and workspace of 4
 *  bytes for each value of the longest slice besides the codes. */
GQSGD_API gqsgd_status gqsgd_reduce_scatter(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                            const void *send, void *recv,
                                            const size_t *value_counts, int32_t dtype, int32_t op,
                                            const uint64_t at[2], void *stream);

/** Gives every rank the slices of all, each rounded once by its owner, who gets the rounded values
 *  as well: every rank ends with the same bits.
 *  value_counts, and fields without effect, as for gqsgd_reduce_scatter
 *  send  [in]  the own slice; disjoint from `recv`, or in place: at its place in `recv`
 *  recv  [out] all slices one after the other, in rank order */
GQSGD_API gqsgd_status gqsgd_allgather(gqsgd_comm comm, gqsgd_quantizer quantizer, const void *send,
                                       void *recv, const size_t *value_counts, int32_t dtype,
                                       const uint64_t at[2], void *stream);

/** The same as requests: started, tested and waited for as gqsgd_allreduce_start says. Arrays of
 *  pointers and counts are copied. */
GQSGD_API gqsgd_status gqsgd_allreduce_many_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                                  const void *const *send, void *const *recv,
                                                  const size_t *value_counts, size_t tensor_count,
                                                  int32_t dtype, int32_t op, int32_t schedule,
                                                  const uint64_t at[2], void *stream,
                                                  gqsgd_request *request);
GQSGD_API gqsgd_status gqsgd_reduce_scatter_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                                  const void *send, void *recv,
                                                  const size_t *value_counts, int32_t dtype,
                                                  int32_t op, const uint64_t at[2], void *stream,
                                                  gqsgd_request *request);
GQSGD_API gqsgd_status gqsgd_allgather_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                             const void *send, void *recv,
                                             const size_t *value_counts, int32_t dtype,
                                             const uint64_t at[2], void *stream,
                                             gqsgd_request *request);

#ifdef __cplusplus
}
#endif

#endif
