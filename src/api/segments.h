// Collectives on several buffers: their arguments, checked and laid out as the segments of a call.
#ifndef GQ_API_SEGMENTS_H
#define GQ_API_SEGMENTS_H

#include "src/api/communicator/communicator.h"

namespace gq {

struct SegmentArguments {
  gqsgd_quantizer quantizer;
  const size_t* value_counts;
  size_t segment_count;  ///< of tensors; slices are as many as ranks
  int32_t dtype;
  int32_t op;
  int32_t schedule;
  const uint64_t* at;
  void* stream;
};

Status check_reduce_scatter(Communicator& communicator, const SegmentArguments& arguments,
                            const void* send, void* recv, Call* call, Segments* segments);

Status check_allgather(Communicator& communicator, const SegmentArguments& arguments,
                       const void* send, void* recv, Call* call, Segments* segments);

Status check_allreduce_many(Communicator& communicator, const SegmentArguments& arguments,
                            const void* const* send, void* const* recv, Call* call,
                            Segments* segments);

}  // namespace gq

#endif
