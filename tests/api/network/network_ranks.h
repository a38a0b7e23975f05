// Ranks of a network that are processes of this machine, for RankProcesses.
#ifndef GQ_TESTS_API_NETWORK_NETWORK_RANKS_H
#define GQ_TESTS_API_NETWORK_NETWORK_RANKS_H

#include <string>
#include <vector>

#include "tests/support/ranks.h"

namespace gq::test {

/** Makes communicators of one group over the loopback device: rank 0's process makes the id. For
 *  one group. `hosts`: the host id of each rank; none: all are on one. */
CommMaker network_maker(const std::vector<std::string>& hosts = {});

/** "" if UCX is here; asked in a child, since this process is to have no threads. */
std::string why_no_network();

#define GQ_SKIP_WITHOUT_NETWORK()                                                                 \
  do {                                                                                            \
    if (const std::string why_ = gq::test::why_no_network(); !why_.empty()) GTEST_SKIP() << why_; \
  } while (false)

}  // namespace gq::test

#endif
