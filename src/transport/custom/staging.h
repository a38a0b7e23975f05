// Messages with trailers at a custom transport, which takes words and trailer in one piece: copies,
// in memory that is made once and used again.
#ifndef GQ_TRANSPORT_CUSTOM_STAGING_H
#define GQ_TRANSPORT_CUSTOM_STAGING_H

#include <stddef.h>
#include <string.h>

#include <bit>
#include <memory>
#include <vector>

#include "src/transport/host_transport.h"

namespace gq {

/** Buffers by size: whole powers of two. The last one that came back is the next one taken, which a
 *  cache may still have. Members may throw std::bad_alloc, but for give_back(). */
class Staging {
 public:
  static constexpr size_t staged_bytes(size_t size_bytes) { return size_bytes + sizeof(Trailer); }

  /** True if take() would have to make memory. */
  bool is_empty(size_t size_bytes) const { return free_[class_of(size_bytes)].empty(); }

  /** A buffer for a message of `size_bytes` and its trailer. */
  unsigned char* take(size_t size_bytes) {
    const size_t size_class = class_of(size_bytes);
    std::vector<unsigned char*>& free = free_[size_class];
    if (free.empty()) {
      buffers_.reserve(buffers_.size() + 1);
      free.reserve(counts_[size_class] + 1);  // for all that come back
      buffers_.push_back(std::make_unique_for_overwrite<unsigned char[]>(size_t{1} << size_class));
      counts_[size_class] += 1;
      return buffers_.back().get();
    }
    unsigned char* const taken = free.back();
    free.pop_back();
    return taken;
  }
  void give_back(unsigned char* buffer, size_t size_bytes) noexcept {
    free_[class_of(size_bytes)].push_back(buffer);  // reserved by take()
  }
  /** Leaves the buffers as they are for the life of the process. */
  void leak() {
    for (auto& buffer : buffers_) (void)buffer.release();
  }

  static void pack(unsigned char* staged, const void* words, size_t size_bytes,
                   const Trailer& trailer) {
    memcpy(staged, words, size_bytes);
    memcpy(staged + size_bytes, &trailer, sizeof trailer);
  }
  static void unpack(const unsigned char* staged, void* words, size_t size_bytes,
                     Trailer* trailer) {
    memcpy(words, staged, size_bytes);
    memcpy(trailer, staged + size_bytes, sizeof *trailer);
  }

 private:
  static size_t class_of(size_t size_bytes) {
    return static_cast<size_t>(std::bit_width(staged_bytes(size_bytes) - 1));
  }

  std::vector<std::unique_ptr<unsigned char[]>> buffers_;
  std::vector<unsigned char*> free_[8 * sizeof(size_t) + 1];
  size_t counts_[8 * sizeof(size_t) + 1] = {};
};

}  // namespace gq

#endif
