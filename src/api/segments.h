// Collectives on several buffers: their arguments, checked and laid out as the segments of a call.
#ifndef GQ_API_SEGMENTS_H
#define GQ_API_SEGMENTS_H

#include "src/api/arguments.h"

namespace gq {

/** The arrays of gqsgd_allreduce_many. */
struct TensorList {
  const void* const* send;
  void* const* recv;
  const size_t* counts;
  size_t tensor_count;
};

/** counts: of each rank's slice. */
Status check_reduce_scatter(Communicator& communicator, const Arguments& arguments,
                            const void* send, void* recv, const size_t* counts, Call* call,
                            SegmentedBuffers* buffers);

Status check_allgather(Communicator& communicator, const Arguments& arguments, const void* send,
                       void* recv, const size_t* counts, Call* call, SegmentedBuffers* buffers);

Status check_allreduce_many(Communicator& communicator, const Arguments& arguments,
                            const TensorList& tensors, Call* call, SegmentedBuffers* buffers);

}  // namespace gq

#endif
