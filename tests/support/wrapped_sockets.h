// Socket transports within a test's own: it adds a collective and answers for its requests.
#ifndef GQ_TESTS_SUPPORT_WRAPPED_SOCKETS_H
#define GQ_TESTS_SUPPORT_WRAPPED_SOCKETS_H

#include "include/gqsgd_transport.h"

namespace gq::test {

/** Requests of a wrapper's own are numbered from here, beyond any of the sockets'. */
inline constexpr uint64_t kFirstOwnRequest = uint64_t{1} << 32;

/** The table of `self->sockets` with `self` as its user. Wrapper has `sockets`, a gqsgd_transport,
 *  and `done(request)` for requests of its own. */
template <typename Wrapper>
gqsgd_transport wrapped(Wrapper* self) {
  gqsgd_transport table = self->sockets;
  table.user = self;
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    const gqsgd_transport& inner = static_cast<Wrapper*>(user)->sockets;
    return inner.send(inner.user, peer, bytes, size, request);
  };
  table.receive = [](void* user, int32_t peer, void* bytes, size_t size, uint64_t* request) {
    const gqsgd_transport& inner = static_cast<Wrapper*>(user)->sockets;
    return inner.receive(inner.user, peer, bytes, size, request);
  };
  table.test = [](void* user, uint64_t request, int32_t* done, size_t* size) {
    Wrapper& self = *static_cast<Wrapper*>(user);
    if (request < kFirstOwnRequest)
      return self.sockets.test(self.sockets.user, request, done, size);
    *done = self.done(request);
    return 0;
  };
  table.progress = [](void* user, int32_t timeout_us) {
    const gqsgd_transport& inner = static_cast<Wrapper*>(user)->sockets;
    return inner.progress(inner.user, timeout_us < 100 ? timeout_us : 100);
  };
  table.close = [](void* user) {
    const gqsgd_transport& inner = static_cast<Wrapper*>(user)->sockets;
    return inner.close(inner.user);
  };
  table.error_text = nullptr;
  return table;
}

}  // namespace gq::test

#endif
