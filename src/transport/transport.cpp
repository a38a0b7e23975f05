// What a transport without an allreduce of its own says if it is asked for one all the same.
#include "src/transport/transport.h"

namespace gq {

Status Transport::begin_sum(const Sum& sum) {
  return fail(GQSGD_INTERNAL, "rank %u: a transport that cannot add was asked for %llu sums",
              rank(), static_cast<unsigned long long>(sum.addend_count));
}

Status Transport::end_sum(bool* done) {
  *done = false;
  return fail(GQSGD_INTERNAL, "rank %u: no sum was begun", rank());
}

}  // namespace gq
