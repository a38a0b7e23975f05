// Ranks that are processes, each with its end of a group over UCX. They exchange addresses through
// memory that they share; who else could see them is not tested here.
#ifndef GQ_TESTS_UNIT_TRANSPORT_UCX_UCX_RANKS_H
#define GQ_TESTS_UNIT_TRANSPORT_UCX_UCX_RANKS_H

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/transport/ucx/ucx_engine.h"
#include "tests/support/shared_memory.h"
#include "tests/unit/transport/children.h"

namespace gq::test {

/** What UCX may use between the ranks of a test. */
struct Wire {
  const char* name;
  const char* tls;  ///< UCX_TLS, or nullptr: what UCX chooses on one host
  uint32_t paths = 1;
};
inline constexpr Wire kWires[] = {
    {"Chosen", nullptr}, {"Tcp", "tcp,self"}, {"TcpByThreePaths", "tcp,self", 3}};

/** The library of GQSGD_TEST_UCX_LIBRARY, or the one that is found. */
UcxOptions library_under_test();

/** "" if UCX can be opened, otherwise why not. Asked in a child: this process loads no UCX. */
std::string why_no_ucx();

#define GQ_SKIP_WITHOUT_UCX()                                          \
  do {                                                                 \
    if (const std::string reason_ = why_no_ucx(); !reason_.empty()) {  \
      ASSERT_EQ(getenv("GQSGD_TEST_UCX_LIBRARY"), nullptr) << reason_; \
      GTEST_SKIP() << reason_;                                         \
    }                                                                  \
  } while (false)

struct PostedAddress {
  std::atomic<uint32_t> size_bytes;
  unsigned char bytes[8192];
};

/** A rank's end and calls that wait, with a deadline. */
class UcxRank {
 public:
  UcxRank(uint32_t rank, PostedAddress* addresses, uint32_t size)
      : rank_(rank), size_(size), addresses_(addresses) {}

  /** Opens the end, posts its address. */
  Status open(const UcxOptions& options = library_under_test());
  /** Waits for all addresses and connects to each rank, also to itself. */
  Status connect();
  /** A greeting to each rank, and one of each. */
  Status greet();

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  UcxEngine& engine() { return *engine_; }
  void destroy() { engine_.reset(); }
  /** The socket address bytes and all that a peer of this rank gets. */
  const PostedAddress& posted(uint32_t rank) const { return addresses_[rank]; }

  /** Progresses until the request is done; TIMEOUT after `timeout_ms`. */
  Status wait(UcxRequest* request, int64_t timeout_ms = 20000);
  Status send(uint32_t peer, uint32_t channel, const std::string& bytes);
  /** *bytes has the size to expect. */
  Status receive(uint32_t peer, uint32_t channel, std::string* bytes);
  Status flush(uint32_t peer);
  /** Sends a byte to each rank and receives one from each. */
  Status barrier();
  /** Progresses for so long. */
  void progress_for_ms(int64_t duration_ms);

 private:
  uint32_t rank_;
  uint32_t size_;
  PostedAddress* addresses_;
  std::deque<UcxRequest> requests_;  // those that are not done at a deadline outlive the engine
  std::unique_ptr<UcxEngine> engine_;
};

using UcxBody = std::function<std::string(UcxRank&)>;

/** One child per rank: "joins" by open(), connect() and greet(), then runs the body. Their lines.
 */
std::vector<std::string> run_ucx_ranks(uint32_t size, const Wire& wire, const UcxBody& body);
/** One of them: `addresses` has an element per rank, shared by all. */
Child ucx_child(uint32_t rank, uint32_t size, PostedAddress* addresses, const Wire& wire,
                const UcxBody& body);

/** Bytes that depend on all of it. */
std::string pattern(size_t size_bytes, uint32_t seed);

}  // namespace gq::test

#endif
