// Everything is added into rank 0's memory and copied from there.
#include "src/transport/shared_memory/virtual_sums.h"

#include <string.h>

#include <algorithm>
#include <new>

namespace gq {
namespace {

template <typename Number>
void add_to(unsigned char* sums, const unsigned char* addends, uint64_t count) {
  Number* out = reinterpret_cast<Number*>(sums);
  const Number* in = reinterpret_cast<const Number*>(addends);
  for (uint64_t k = 0; k < count; ++k) out[k] += in[k];
}

}  // namespace

bool VirtualSums::resize(uint32_t ranks) {
  try {
    addends_.assign(ranks, nullptr);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Status VirtualSums::begin(uint32_t rank, const Sum& sum, unsigned char* addends) {
  if (come_ == 0) sum_ = sum;
  if (sum.addend != sum_.addend || sum.addend_count != sum_.addend_count) {
    return fail(GQSGD_PROTOCOL, "virtual rank %u adds %llu numbers, the others %llu", rank,
                static_cast<unsigned long long>(sum.addend_count),
                static_cast<unsigned long long>(sum_.addend_count));
  }
  addends_[rank] = addends;
  if (++come_ < addends_.size()) return Status();
  add();
  come_ = 0;
  std::fill(addends_.begin(), addends_.end(), nullptr);
  return Status();
}

void VirtualSums::add() const {
  unsigned char* sums = addends_[0];
  const size_t size_bytes = sum_.addend_count * addend_bytes(sum_.addend);
  for (size_t rank = 1; rank < addends_.size(); ++rank) {
    if (sum_.addend == Addend::uint64) {
      add_to<uint64_t>(sums, addends_[rank], sum_.addend_count);
    } else {
      add_to<float>(sums, addends_[rank], sum_.addend_count);
    }
  }
  for (size_t rank = 1; rank < addends_.size(); ++rank) memcpy(addends_[rank], sums, size_bytes);
}

}  // namespace gq
