// Several connections between two ranks over UCX.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/ucx/ucx_ranks.h"

namespace gq::test {
namespace {

/** TCP connections of this process to others. */
uint32_t connection_count() {
  uint32_t count = 0;
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    sockaddr_storage own, peer;
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
        getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 &&
        own.ss_family == AF_INET) {
      ++count;
    }
  }
  return count;
}

TEST(UcxPaths, OverTcp_EachIsAConnection) {
  GQ_SKIP_WITHOUT_UCX();
  for (const uint32_t paths : {1, 2, 5}) {
    const auto lines = run_ucx_ranks(2, {"Tcp", "tcp,self", paths}, [paths](UcxRank& rank) {
      const std::string first = text_of(rank.barrier());
      // Where both ranks connect at the same time UCX closes one of the two, later.
      for (int look = 0; look < 400 && connection_count() != 3 * paths; ++look) {
        rank.engine().progress();
        usleep(5000);
      }
      return std::to_string(connection_count()) + first + text_of(rank.barrier());
    });
    // By each path one to the other rank, and both ends of one to itself.
    EXPECT_EQ(lines, std::vector<std::string>(2, std::to_string(3 * paths) + "OKOK"));
  }
}

TEST(UcxPaths, OtherNumberOnAnotherRank_InvalidArgumentNamesBoth) {
  GQ_SKIP_WITHOUT_UCX();
  SharedArray<PostedAddress> addresses(2);
  const auto body = [](UcxRank&) { return std::string("OK"); };
  Child one = ucx_child(0, 2, addresses.data(), {"Tcp", "tcp,self", 1}, body);
  Child other = ucx_child(1, 2, addresses.data(), {"Tcp", "tcp,self", 4}, body);
  EXPECT_EQ(one.line(), "INVALID_ARGUMENT: option paths is 4 on rank 1 and 1 on rank 0; it is the "
                        "same on all ranks");
  EXPECT_EQ(other.line(), "INVALID_ARGUMENT: option paths is 1 on rank 0 and 4 on rank 1; it is "
                          "the same on all ranks");
}

// A caller that sleeps until UCX has an event would sleep for each path else.
TEST(UcxPaths, FlushOfConnectionsThatTakeAll_DoneWithoutProgress) {
  GQ_SKIP_WITHOUT_UCX();
  for (const uint32_t paths : {1, 2, 16}) {
    const auto lines = run_ucx_ranks(2, {"Tcp", "tcp,self", paths}, [](UcxRank& rank) {
      UcxRequest request;
      bool done = false;
      Status status = rank.barrier();
      if (status.ok()) status = rank.engine().start_flush(1 - rank.rank(), &request);
      if (status.ok()) status = rank.engine().test(&request, &done);
      if (status.ok() && !done) return "later: " + text_of(rank.wait(&request));
      if (status.ok()) status = rank.barrier();
      return text_of(status);
    });
    EXPECT_EQ(lines, std::vector<std::string>(2, "OK")) << paths << " paths";
  }
}

}  // namespace
}  // namespace gq::test
