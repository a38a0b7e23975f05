// The defaults of optional functions: a transport returns a failure for what it does not have.
#include "src/transport/stream/stream_transport.h"

namespace gq {

Status Transport::begin_sum(const Sum& sum) {
  return fail(GQSGD_INTERNAL, "rank %u: a transport that cannot add was asked for %llu sums",
              rank(), static_cast<unsigned long long>(sum.addend_count));
}

Status Transport::end_sum(bool* done) {
  *done = false;
  return fail(GQSGD_INTERNAL, "rank %u: no sum was begun", rank());
}

Status Transport::open_streams(const StreamConfig&, std::unique_ptr<StreamTransport>*) {
  return fail(GQSGD_INTERNAL, "rank %u: calls on streams were asked of a transport without them",
              rank());
}

}  // namespace gq
