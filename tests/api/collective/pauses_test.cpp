// Callers that pause between their looks at a request, over a transport that goes on only while
// they look, and that takes several looks to move a message.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/inputs.h"
#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"

namespace gq::test {
namespace {

constexpr const char* kOptions = "timeout_ms=40";
constexpr useconds_t kPauseUs = 50000;
constexpr int kLooksOfATimeout = 8;

/** Sockets that go on in every third look. */
struct SlowSockets {
  gqsgd_transport sockets;
  int looks = 0;
};

gqsgd_transport slowed(SlowSockets* self) {
  gqsgd_transport table = self->sockets;
  table.user = self;
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    const gqsgd_transport& inner = static_cast<SlowSockets*>(user)->sockets;
    return inner.send(inner.user, peer, bytes, size, request);
  };
  table.receive = [](void* user, int32_t peer, void* bytes, size_t size, uint64_t* request) {
    const gqsgd_transport& inner = static_cast<SlowSockets*>(user)->sockets;
    return inner.receive(inner.user, peer, bytes, size, request);
  };
  table.test = [](void* user, uint64_t request, int32_t* done, size_t* size) {
    const gqsgd_transport& inner = static_cast<SlowSockets*>(user)->sockets;
    return inner.test(inner.user, request, done, size);
  };
  table.progress = [](void* user, int32_t) {
    SlowSockets& self = *static_cast<SlowSockets*>(user);
    if (++self.looks % 3 != 0) return 0;
    return self.sockets.progress(self.sockets.user, 0);
  };
  table.close = [](void* user) {
    const gqsgd_transport& inner = static_cast<SlowSockets*>(user)->sockets;
    return inner.close(inner.user);
  };
  table.error_text = nullptr;
  return table;
}

/** Two ranks of one thread, each with a request. */
class Pauses : public testing::Test {
 protected:
  Pauses() {
    for (int rank = 0; rank < 2; ++rank) {
      slow_[rank].sockets = inner_[static_cast<size_t>(rank)];
      tables_.push_back(slowed(&slow_[rank]));
    }
    comms_ = custom_comms(tables_, kOptions);
  }
  ~Pauses() override {
    for (const gqsgd_comm comm : comms_) gqsgd_comm_destroy(comm);
  }

  void start(int rank) {
    values_[rank] = gradients(2, 1000, 5)[static_cast<size_t>(rank)];
    ASSERT_EQ(gqsgd_allreduce_start(comms_[static_cast<size_t>(rank)], quantizer_.get(),
                                    values_[rank].data(), values_[rank].data(), 1000, GQSGD_FLOAT32,
                                    GQSGD_MEAN, nullptr, nullptr, &requests_[rank]),
              GQSGD_OK);
  }

  const std::vector<gqsgd_transport> inner_ = socket_tables(2);
  SlowSockets slow_[2];
  std::vector<gqsgd_transport> tables_;
  std::vector<gqsgd_comm> comms_;
  const Quantizer quantizer_{"paper-gl8"};
  Values values_[2];
  gqsgd_request requests_[2] = {};
};

TEST_F(Pauses, LongerThanTheTimeoutAreNoTimeoutWhileMessagesMove) {
  for (const int rank : {0, 1}) start(rank);
  for (int turns = 0; requests_[0] != nullptr || requests_[1] != nullptr; ++turns) {
    ASSERT_LT(turns, 1000);
    for (gqsgd_request& request : requests_) {
      int32_t done = 0;
      if (request == nullptr) continue;
      ASSERT_EQ(gqsgd_request_test(request, &done), GQSGD_OK) << gqsgd_last_error();
      if (done != 0) request = nullptr;
    }
    usleep(kPauseUs);
  }
  EXPECT_EQ(values_[0], values_[1]);
}

TEST_F(Pauses, DoNotHideARankThatNeverCalls) {
  start(0);
  gqsgd_status status = GQSGD_OK;
  int32_t looks = 0;
  for (int32_t done = 0; done == 0; ++looks) {
    ASSERT_LT(looks, 1000);
    status = gqsgd_request_test(requests_[0], &done);
    usleep(kPauseUs);
  }
  EXPECT_EQ(status, GQSGD_TIMEOUT) << gqsgd_last_error();
  EXPECT_GT(looks, kLooksOfATimeout);
}

}  // namespace
}  // namespace gq::test
