// The two functions of libcrypto that are called, declared here as OpenSSL 1.1 and 3 have them.
#include "src/transport/network/hmac.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "src/support/posix/regular_file.h"
#include "src/support/shown.h"

namespace gq {
namespace {

constexpr const char* kNames[] = {"libcrypto.so.3", "libcrypto.so.1.1"};

Status not_found(const char* reason) {
  return fail(
      GQSGD_UNSUPPORTED,
      "libcrypto of OpenSSL, by which ranks prove that they know the group's secret, is not "
      "here: %s; apt-get install libssl3 (or dnf install openssl-libs), or name the file "
      "in GQSGD_CRYPTO_LIBRARY",
      Shown(reason == nullptr ? "no reason given" : reason, Shown::kPathBytes).text());
}

/** The library stays open: another thread may be inside. */
Status open_library(void** handle) {
  const char* named = secure_getenv("GQSGD_CRYPTO_LIBRARY");
  if (named != nullptr && named[0] != '\0') {
    const char* irregular = strchr(named, '/') == nullptr ? nullptr : irregular_file(named);
    if (irregular != nullptr) return not_found(irregular);
    *handle = dlopen(named, RTLD_LAZY | RTLD_LOCAL);
    return *handle != nullptr ? Status() : not_found(dlerror());
  }
  for (const char* name : kNames) {
    *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (*handle != nullptr) return Status();
  }
  return not_found(dlerror());
}

}  // namespace

bool same_digest(const Digest& a, const Digest& b) {
  unsigned char difference = 0;
  for (size_t k = 0; k < sizeof a.bytes; ++k) {
    difference = static_cast<unsigned char>(difference | (a.bytes[k] ^ b.bytes[k]));
  }
  return difference == 0;
}

Status Hmac::open(Hmac* out) {
  void* handle = nullptr;
  GQ_TRY(open_library(&handle));
  out->sha256_ = reinterpret_cast<Sha256>(dlsym(handle, "EVP_sha256"));
  out->compute_ = reinterpret_cast<Compute>(dlsym(handle, "HMAC"));
  if (out->sha256_ != nullptr && out->compute_ != nullptr) return Status();
  return not_found("EVP_sha256 or HMAC is not found in it");
}

Status Hmac::digest(const Digest& key, const void* bytes, size_t size_bytes, Digest* out) const {
  unsigned made_bytes = 0;
  const unsigned char* made =
      compute_(sha256_(), key.bytes, sizeof key.bytes, static_cast<const unsigned char*>(bytes),
               size_bytes, out->bytes, &made_bytes);
  if (made != nullptr && made_bytes == sizeof out->bytes) return Status();
  return fail(GQSGD_BACKEND, "HMAC of libcrypto made %u of %zu bytes", made_bytes,
              sizeof out->bytes);
}

}  // namespace gq
