// FNV-1a, the hash by which ranks compare what they have. Nothing here withstands an adversary.
#ifndef GQ_SUPPORT_FNV1A_H
#define GQ_SUPPORT_FNV1A_H

#include <stddef.h>
#include <stdint.h>

namespace gq {

template <typename Hash, Hash kOffset, Hash kPrime>
class Fnv1a {
 public:
  Hash hash() const { return hash_; }

  void add_bytes(const void* bytes, size_t size_bytes) {
    const auto* next = static_cast<const unsigned char*>(bytes);
    for (const auto* const end = next + size_bytes; next < end; ++next) add_whole(*next);
  }

  /** The 8 bytes of `number`, the lowest first on every machine. */
  void add_number(uint64_t number) {
    for (uint32_t shift = 0; shift < 64; shift += 8) add_whole(number >> shift & 0xff);
  }

  /** All bits of `number` in one step: faster than its bytes, and another hash than of them. */
  void add_whole(Hash number) { hash_ = (hash_ ^ number) * kPrime; }

 private:
  Hash hash_ = kOffset;
};

using Fnv1a32 = Fnv1a<uint32_t, UINT32_C(0x811c9dc5), UINT32_C(0x01000193)>;
using Fnv1a64 = Fnv1a<uint64_t, UINT64_C(0xcbf29ce484222325), UINT64_C(0x100000001b3)>;

}  // namespace gq

#endif
