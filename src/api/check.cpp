// What a caller may pass, in sentences.
#include "src/api/check.h"

#include <inttypes.h>

#include "kernels/codec/formats.h"

namespace gq {
namespace {

// Elements are numbered with 44 bits in the random counter (40 bits of group, 16 elements each).
constexpr uint64_t kValueCountMax = UINT64_C(1) << 44;

/** Bytes that both ranges hold; 0 if they are disjoint. Addresses are compared as integers. */
size_t overlap_bytes(const Buffer& a, const Buffer& b) {
  const uintptr_t a_first = reinterpret_cast<uintptr_t>(a.data);
  const uintptr_t b_first = reinterpret_cast<uintptr_t>(b.data);
  const uintptr_t first = a_first > b_first ? a_first : b_first;
  const uintptr_t a_end = a_first + a.size_bytes();
  const uintptr_t b_end = b_first + b.size_bytes();
  const uintptr_t end = a_end < b_end ? a_end : b_end;
  return end > first ? end - first : 0;
}

}  // namespace

Status check_size(int32_t rank_count) {
  if (rank_count >= 1 && rank_count <= static_cast<int32_t>(kRanksMax)) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "a group has 1 to %u ranks, not %" PRId32, kRanksMax,
              rank_count);
}

Status check_rank(int32_t rank, int32_t size) {
  if (rank >= 0 && rank < size) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "rank is %" PRId32 "; in a group of %" PRId32 " ranks it is 0 to %" PRId32, rank,
              size, size - 1);
}

Status check_dtype(int32_t dtype) {
  if (dtype >= GQSGD_FLOAT32 && dtype <= GQSGD_FLOAT64) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "dtype is %" PRId32
              "; allowed are GQSGD_FLOAT32 (0), GQSGD_FLOAT16 (1), "
              "GQSGD_BFLOAT16 (2), GQSGD_FLOAT64 (3)",
              dtype);
}

Status check_count(const char* name, size_t count) {
  if (count <= kValueCountMax) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "%s is %zu; the largest is %" PRIu64, name, count,
              kValueCountMax);
}

Status check_op(int32_t op) {
  if (op == GQSGD_SUM || op == GQSGD_MEAN) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "op is %" PRId32 "; allowed are GQSGD_SUM (0) and GQSGD_MEAN (1)", op);
}

Status check_stream(const void* stream) {
  if (stream == nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "stream is %p; it must be NULL for host memory, which is all this communicator has",
              stream);
}

Status check_step(uint64_t step, uint64_t index) {
  if (step > UINT32_MAX) {
    return fail(GQSGD_INVALID_ARGUMENT, "step is %" PRIu64 "; the largest is %" PRIu32, step,
                UINT32_MAX);
  }
  if (index > kIndexMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "index is %" PRIu64 "; the largest is %u", index,
                kIndexMax);
  }
  return Status();
}

Status check_buffer(const Buffer& buffer) {
  if (buffer.value_count > PTRDIFF_MAX / buffer.element_bytes) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "%s has %zu elements of %zu bytes, more than an address space (%td bytes) holds",
                buffer.name, buffer.value_count, buffer.element_bytes, PTRDIFF_MAX);
  }
  if (buffer.value_count == 0) return Status();
  if (buffer.data == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "%s is NULL, of %zu elements", buffer.name,
                buffer.value_count);
  }
  if (reinterpret_cast<uintptr_t>(buffer.data) % buffer.element_bytes != 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "%s is %p, which is not aligned to its elements of %zu bytes", buffer.name,
                buffer.data, buffer.element_bytes);
  }
  return Status();
}

Status check_overlap(const Buffer& a, const Buffer& b, bool may_be_equal) {
  if (may_be_equal && a.data == b.data) return Status();
  const size_t shared_bytes = overlap_bytes(a, b);
  if (shared_bytes == 0) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "%s and %s overlap in %zu bytes; they must be disjoint%s",
              a.name, b.name, shared_bytes, may_be_equal ? " or equal" : "");
}

}  // namespace gq
