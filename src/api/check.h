// Checks of arguments that several functions of the C ABI share. Each failure names the argument,
// its value and what is allowed.
#ifndef GQ_API_CHECK_H
#define GQ_API_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "src/support/status.h"

namespace gq {

/** A user's buffer of `value_count` elements of `element_bytes`. */
struct Buffer {
  const char* name;
  const void* data;
  size_t value_count;
  size_t element_bytes;

  size_t size_bytes() const { return value_count * element_bytes; }
};

/** Ranks of a group, virtual ones too. */
Status check_size(int32_t rank_count);
Status check_dtype(int32_t dtype);
/** `name`: the argument. */
Status check_count(const char* name, size_t count);
Status check_op(int32_t op);
/** `rank` of a group of `size`, which is right. */
Status check_rank(int32_t rank, int32_t size);
Status check_stream(const void* stream);
Status check_step(uint64_t step, uint64_t index);

/** Not NULL unless empty, element-aligned, and its size in bytes fits. */
Status check_buffer(const Buffer& buffer);

/** Disjoint, or (in_place) at the same address. */
Status check_overlap(const Buffer& a, const Buffer& b, bool may_be_equal);

}  // namespace gq

#endif
