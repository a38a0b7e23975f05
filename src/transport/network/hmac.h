// Keyed digests by OpenSSL's libcrypto, which is opened while the program runs and never linked.
#ifndef GQ_TRANSPORT_NETWORK_HMAC_H
#define GQ_TRANSPORT_NETWORK_HMAC_H

#include <stddef.h>
#include <string.h>

#include "src/support/status.h"

namespace gq {

/** 256 bits: a key, or HMAC-SHA256 of something. */
struct Digest {
  unsigned char bytes[32] = {};
};

/** In a time that does not depend on where they differ. */
bool same_digest(const Digest& a, const Digest& b);

/** Bytes that are authenticated together, one thing after the other; it fits all messages of a
 *  handshake. What comes before has a fixed length or a final 0, so that no two inputs are alike.
 */
class AuthenticatedBytes {
 public:
  /** `purpose` keeps digests of different uses apart. */
  explicit AuthenticatedBytes(const char* purpose) { add(purpose, strlen(purpose) + 1); }
  void add(const void* bytes, size_t size_bytes) {
    if (size_bytes > sizeof bytes_ - used_bytes_) size_bytes = sizeof bytes_ - used_bytes_;
    memcpy(bytes_ + used_bytes_, bytes, size_bytes);
    used_bytes_ += size_bytes;
  }
  const unsigned char* data() const { return bytes_; }
  size_t size_bytes() const { return used_bytes_; }

 private:
  unsigned char bytes_[512] = {};
  size_t used_bytes_ = 0;
};

/** HMAC-SHA256 with the library that was opened. */
class Hmac {
 public:
  /** UNSUPPORTED naming the package that has the library. GQSGD_CRYPTO_LIBRARY names a file. */
  static Status open(Hmac* out);

  Status digest(const Digest& key, const void* bytes, size_t size_bytes, Digest* out) const;
  Status digest(const Digest& key, const AuthenticatedBytes& bytes, Digest* out) const {
    return digest(key, bytes.data(), bytes.size_bytes(), out);
  }

 private:
  using Sha256 = const void* (*)();
  using Compute = unsigned char* (*)(const void* hash, const void* key, int key_bytes,
                                     const unsigned char* data, size_t data_bytes,
                                     unsigned char* digest, unsigned* digest_bytes);
  Sha256 sha256_ = nullptr;
  Compute compute_ = nullptr;
};

}  // namespace gq

#endif
