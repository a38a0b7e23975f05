// Lays segments out one after the other, and finds buffers that overlap.
#include "src/api/segments.h"

#include <stdio.h>

#include <new>

#include "kernels/stages.h"
#include "src/api/check.h"
#include "src/api/extents.h"
#include "src/support/fnv1a.h"

namespace gq {
namespace {

// A tensor list is refused before its size in bytes overflows.
constexpr size_t kTensorCountMax = size_t{1} << 44;

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Status check_count_of(size_t k, size_t count) {
  if (check_count("counts", count).ok()) return Status();
  char name[32];
  snprintf(name, sizeof name, "counts[%zu]", k);
  return check_count(name, count);
}

/** Where each segment lies in the call, whose format is known. */
Status lay_out(const size_t* counts, size_t segment_count, Call* call, SegmentedBuffers* buffers) {
  if (counts == nullptr && segment_count > 0) {
    return fail(GQSGD_INVALID_ARGUMENT, "counts is NULL");
  }
  if (segment_count > kTensorCountMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "tensor_count is %zu; the largest is %zu", segment_count,
                kTensorCountMax);
  }
  Segments& segments = buffers->segments;
  try {
    segments.parts.resize(segment_count);
    buffers->places.of.resize(segment_count);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for %zu segments", segment_count);
  }
  const bool rotated = call->format.rotate == Rotate::hadamard;
  // Groups begin anew with each slice, while tensors share them.
  const bool in_groups = call->format.mean_half_bits != 0 && has_one_schedule(call->operation);
  const uint64_t alignment = in_groups ? consecutive_groups(0, 0).group_values
                                       : value_alignment(call->format.block, rotated);
  uint64_t first_value = 0;
  Fnv1a64 hash;  // docs/FORMAT.md, section 15
  for (size_t k = 0; k < segment_count; ++k) {
    GQ_TRY(check_count_of(k, counts[k]));
    segments.parts[k] = {first_value, counts[k]};
    hash.add_number(counts[k]);
    call->value_count = first_value + counts[k];
    GQ_TRY(check_count("the sum of counts", static_cast<size_t>(call->value_count)));
    first_value += round_up(counts[k], alignment);
  }
  segments.hash = hash.hash();
  buffers->attach_to(call);
  return Status();
}

/** Slices lie one after the other in `whole`, without what is between them in the call; the own one
 *  is also `own`. In place is where both are one. */
struct Slices {
  Buffer whole, own;
  size_t own_offset;  ///< of its first value in `whole`
};

Status find_slices(const Communicator& communicator, const Call& call, const char* whole_name,
                   const void* whole, const char* own_name, const void* own, Slices* slices) {
  const std::vector<Part>& parts = call.segments->parts;
  const uint32_t rank = communicator.endpoint.rank();
  const size_t element_bytes = dtype_size_bytes(call.dtype);
  size_t total = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (k == rank) slices->own_offset = total;
    total += static_cast<size_t>(parts[k].value_count);
  }
  slices->whole = {whole_name, whole, total, element_bytes};
  slices->own = {own_name, own, static_cast<size_t>(parts[rank].value_count), element_bytes};
  GQ_TRY(check_buffer(slices->whole));
  return check_buffer(slices->own);
}

const unsigned char* own_in_whole(const Slices& slices) {
  return static_cast<const unsigned char*>(slices.whole.data) +
         slices.own_offset * slices.whole.element_bytes;
}

Status check_places(const Slices& slices, bool* in_place) {
  *in_place = slices.own.value_count > 0 && slices.own.data == own_in_whole(slices);
  return *in_place ? Status() : check_overlap(slices.whole, slices.own, false);
}

/** What reduce-scatter and allgather have. */
Status begin_slices(Communicator& communicator, const Arguments& arguments, const char* function,
                    const size_t* counts, Call* call, SegmentedBuffers* buffers) {
  GQ_TRY(begin_call(communicator, arguments, function, call));
  GQ_TRY(check_stream(communicator, arguments.stream));
  return lay_out(counts, communicator.endpoint.size(), call, buffers);
}

/** One buffer of a tensor list, by name and number. */
Status check_tensor(const char* list, size_t number, const void* data, size_t value_count,
                    size_t element_bytes) {
  char name[32];
  snprintf(name, sizeof name, "%s[%zu]", list, number);
  return check_buffer({name, data, value_count, element_bytes});
}

Status check_tensors(const Call& call) {
  const std::vector<Part>& parts = call.segments->parts;
  std::vector<Extent> written, read;
  try {
    written.reserve(parts.size());
    read.reserve(parts.size());
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for %zu tensors", parts.size());
  }
  const size_t element_bytes = dtype_size_bytes(call.dtype);
  for (size_t k = 0; k < parts.size(); ++k) {
    const size_t value_count = static_cast<size_t>(parts[k].value_count);
    const Place& place = call.places->of[k];
    GQ_TRY(check_tensor("send", k, place.send, value_count, element_bytes));
    GQ_TRY(check_tensor("recv", k, place.recv, value_count, element_bytes));
    if (value_count == 0) continue;
    read.push_back(extent_of(place.send, k, value_count * element_bytes));
    written.push_back(extent_of(place.recv, k, value_count * element_bytes));
  }
  return check_disjoint(&written, read);
}

}  // namespace

Status check_reduce_scatter(Communicator& communicator, const Arguments& arguments,
                            const void* send, void* recv, const size_t* counts, Call* call,
                            SegmentedBuffers* buffers) {
  call->operation = Operation::reduce_scatter;
  GQ_TRY(begin_slices(communicator, arguments, "gqsgd_reduce_scatter", counts, call, buffers));
  Slices slices;
  GQ_TRY(find_slices(communicator, *call, "send", send, "recv", recv, &slices));
  Places& places = buffers->places;
  GQ_TRY(check_places(slices, &places.in_place));
  const auto* next = static_cast<const unsigned char*>(send);
  for (size_t k = 0; k < places.of.size(); ++k) {
    places.of[k].send = next;
    next += call->segments->parts[k].value_count * slices.whole.element_bytes;
  }
  places.of[communicator.endpoint.rank()].recv = recv;
  return Status();
}

Status check_allgather(Communicator& communicator, const Arguments& arguments, const void* send,
                       void* recv, const size_t* counts, Call* call, SegmentedBuffers* buffers) {
  call->operation = Operation::allgather;
  GQ_TRY(begin_slices(communicator, arguments, "gqsgd_allgather", counts, call, buffers));
  Slices slices;
  GQ_TRY(find_slices(communicator, *call, "recv", recv, "send", send, &slices));
  Places& places = buffers->places;
  GQ_TRY(check_places(slices, &places.in_place));
  auto* next = static_cast<unsigned char*>(recv);
  for (size_t k = 0; k < places.of.size(); ++k) {
    places.of[k].recv = next;
    next += call->segments->parts[k].value_count * slices.whole.element_bytes;
  }
  places.of[communicator.endpoint.rank()].send = send;
  return Status();
}

Status check_allreduce_many(Communicator& communicator, const Arguments& arguments,
                            const TensorList& tensors, Call* call, SegmentedBuffers* buffers) {
  call->operation = Operation::allreduce_many;
  GQ_TRY(begin_call(communicator, arguments, nullptr, call));
  GQ_TRY(check_stream(communicator, arguments.stream));
  GQ_TRY(lay_out(tensors.counts, tensors.tensor_count, call, buffers));
  if (tensors.tensor_count > 0 && (tensors.send == nullptr || tensors.recv == nullptr)) {
    return fail(GQSGD_INVALID_ARGUMENT, "%s is NULL", tensors.send == nullptr ? "send" : "recv");
  }
  Places& places = buffers->places;
  for (size_t k = 0; k < tensors.tensor_count; ++k) {
    places.of[k] = {tensors.send[k], tensors.recv[k]};
    const bool overwrites = tensors.counts[k] > 0 && tensors.send[k] == tensors.recv[k];
    places.in_place = places.in_place || overwrites;
  }
  return check_tensors(*call);
}

}  // namespace gq
