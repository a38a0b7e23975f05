// The first messages over UCX, while the group forms: they show that each rank's UCX reaches each
// other's, and connect them.
#ifndef GQ_TRANSPORT_NETWORK_GREETINGS_H
#define GQ_TRANSPORT_NETWORK_GREETINGS_H

#include <vector>

#include "src/transport/network/bootstrap/network_bootstrap.h"
#include "src/transport/ucx/ucx_engine.h"

namespace gq {

/** One rank's, which it sends and receives. They stay where they are until the engine is destroyed.
 */
class Greetings {
 public:
  /** One by each of `paths` connections to a rank. May throw std::bad_alloc. */
  Greetings(uint32_t size, uint32_t paths)
      : size_(size), sent_(size * paths), received_(size * paths) {}

  /** Returns when all are done. TIMEOUT and PEER_LOST name ranks that are not reached; OK also
   * where the group has failed meanwhile, which bootstrap->conclude() returns. */
  Status exchange(const NetworkToken& token, NetworkBootstrap* bootstrap, UcxEngine* engine);

 private:
  Status start(uint32_t rank, UcxEngine* engine);
  Status test_all(UcxEngine* engine, bool* done);
  void note_lost(uint32_t peer);
  Status lost(uint32_t rank) const;
  Status late(uint32_t rank) const;

  uint32_t size_;
  std::vector<UcxRequest> sent_;  // number of the path * size_ + rank
  std::vector<UcxRequest> received_;
  uint32_t lost_ = 0;           // the first rank whose connection has failed
  bool is_incomplete_ = false;  // a greeting has failed
  uint64_t lost_us_ = 0;        // when that was seen; 0 while there is none
};

}  // namespace gq

#endif
