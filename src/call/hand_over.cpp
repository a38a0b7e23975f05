// Bytes travel two by two as floats that an uncompressed allreduce adds to zeros: integers below
// 2^16, which stay what they are. It takes the time of twice as many values as were reduced, once
// after a death.
#include "src/call/hand_over.h"

#include <string.h>

#include <algorithm>

#include "src/call/progress_loop.h"

namespace gq {
namespace {

constexpr size_t kPairsMax = size_t{1} << 18;  // of an allreduce: 1 MiB of floats

Status add(Endpoint& endpoint, std::vector<float>* pairs, KeepGoing keep_going) {
  Call call;
  call.format = uncompressed(Format());
  call.send = call.recv = pairs->data();
  call.value_count = pairs->size();
  call.op = GQSGD_SUM;
  call.schedule_id = GQSGD_SCHEDULE_DIRECT;
  ProgressLoop loop;
  loop.begin(endpoint, call, Status());
  while (!loop.advance()) {
    loop.wait();
    if (!keep_going.function(keep_going.user)) {
      abort_group(endpoint, "has left a group of survivors that does not form");
    }
  }
  return loop.status();
}

}  // namespace

Status hand_over(Endpoint& endpoint, bool has_them, std::vector<unsigned char>* bytes,
                 KeepGoing keep_going) {
  for (size_t first = 0; first < bytes->size(); first += 2 * kPairsMax) {
    const size_t size_bytes = std::min(2 * kPairsMax, bytes->size() - first);
    std::vector<float> pairs((size_bytes + 1) / 2);
    for (size_t k = 0; has_them && k < size_bytes; ++k) {
      const float unit = k % 2 == 0 ? 1.0f : 256.0f;
      pairs[k / 2] += unit * static_cast<float>((*bytes)[first + k]);
    }
    GQ_TRY(add(endpoint, &pairs, keep_going));
    for (size_t k = 0; k < size_bytes; ++k) {
      const auto pair = static_cast<uint32_t>(pairs[k / 2]);
      (*bytes)[first + k] = static_cast<unsigned char>(k % 2 == 0 ? pair & 0xff : pair >> 8);
    }
  }
  endpoint.calls = 0;  // of the caller's
  endpoint.result.digest = 0;
  return Status();
}

}  // namespace gq
