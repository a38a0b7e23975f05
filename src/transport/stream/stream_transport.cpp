// A transport of streams moves nothing of the host's memory.
#include "src/transport/stream/stream_transport.h"

namespace gq {
namespace {

Status on_streams_only(const char* what) {
  return fail(GQSGD_INTERNAL, "%s was asked of a transport whose words travel on streams", what);
}

}  // namespace

Status StreamTransport::arena(size_t, unsigned char**) { return on_streams_only("an arena"); }
Status StreamTransport::publish(uint64_t, const Header&) { return on_streams_only("a header"); }
Status StreamTransport::send(const Message&) { return on_streams_only("a send"); }
Status StreamTransport::expect(const Message&) { return on_streams_only("a receive"); }
Status StreamTransport::receive(const Message&, const unsigned char**) {
  return on_streams_only("a receive");
}
Status StreamTransport::flushed(bool*) { return on_streams_only("a flush"); }

}  // namespace gq
