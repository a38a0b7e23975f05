// Words that change in shared memory behind their sender's back: with checksums a rank that reads
// them fails, and tells the others; without, results are wrong or ranks differ.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/call/progress_loop.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/inputs.h"
#include "tests/support/succeeds.h"
#include "tests/unit/execute/wrapped_transport.h"

namespace gq {
namespace {

constexpr size_t kValues = 3000;

/** Its rank changes a bit of one message in its own arena, when it has sent it. */
class ScribblingTransport final : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  int64_t messages_before = -1;
  uint64_t random = 0;

  Status arena(size_t size_bytes, unsigned char** base) override {
    const Status status = WrappedTransport::arena(size_bytes, base);
    base_ = *base;
    return status;
  }
  Status send(const Message& message) override {
    GQ_TRY(WrappedTransport::send(message));
    const bool own = message.origin == rank() && message.last_origin == rank();
    if (!own || messages_before-- != 0) return Status();
    const uint64_t bit = random % (8 * message.size_bytes);
    base_[message.offset_bytes + bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    changed = true;
    return Status();
  }
  bool changed = false;

 private:
  unsigned char* base_ = nullptr;
};

struct Ranks {
  Ranks(uint32_t ranks, const char* quantizer, int32_t schedule, ChecksumKind kind)
      : endpoints(ranks),
        loops(ranks),
        results(ranks),
        given(test::gradients(static_cast<int>(ranks), kValues, 3)) {
    std::vector<std::unique_ptr<HostTransport>> transports(ranks);
    EXPECT_TRUE(test::succeeds(create_local(ranks, transports.data())));
    auto wrapped = std::make_unique<ScribblingTransport>(std::move(transports[1]));
    scribbler = wrapped.get();
    transports[1] = std::move(wrapped);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Endpoint& endpoint = endpoints[rank];
      endpoint.set_transport(std::move(transports[rank]));
      endpoint.messages.open(endpoint.host.get(), kind);
      endpoint.stages = cpu_stages_named("scalar");
      endpoint.chunk_value_count = 1024;
      endpoint.timeout_ms = 20000;
      Call call;
      EXPECT_TRUE(test::succeeds(parse_quantizer(quantizer, &call.format)));
      if (schedule == GQSGD_SCHEDULE_SPARSE) {
        for (size_t e = 0; e < kValues; ++e) given[rank][e] *= e % 100 == 0 ? 1.0f : 0.0f;
      }
      results[rank].assign(kValues, -7);
      call.send = given[rank].data();
      call.recv = results[rank].data();
      call.value_count = kValues;
      call.schedule_id = schedule;
      calls.push_back(call);
    }
  }
  void run() {
    for (size_t rank = 0; rank < loops.size(); ++rank) {
      loops[rank].begin(endpoints[rank], calls[rank], Status());
    }
    for (int round = 0; round < 2000; ++round) {
      for (size_t rank = 0; rank < loops.size(); ++rank) {
        if (!loops[rank].advance()) loops[rank].look();
      }
    }
  }

  ScribblingTransport* scribbler = nullptr;
  std::vector<Endpoint> endpoints;
  std::vector<Call> calls;
  std::vector<ProgressLoop> loops;
  std::vector<test::Values> results;
  std::vector<test::Values> given;
};

struct Case {
  const char* quantizer;
  int32_t schedule;
};
constexpr Case kCases[] = {{"blocks-8", GQSGD_SCHEDULE_DIRECT},
                           {"none", GQSGD_SCHEDULE_DIRECT},
                           {"paper-gl8", GQSGD_SCHEDULE_RING},
                           {"paper-gl8,block=32", GQSGD_SCHEDULE_TREE},
                           {"paper-ge8,block=64", GQSGD_SCHEDULE_BUTTERFLY},
                           {"paper-gl8", GQSGD_SCHEDULE_SPARSE}};

TEST(Checksums, WordsChangeInSharedMemory_IntegrityOnAllThatHaveNoResult) {
  for (const Case& one : kCases) {
    Ranks clean(4, one.quantizer, one.schedule, ChecksumKind::crc32c);
    clean.run();
    int changed = 0;
    for (int64_t message = 0; message < 6; ++message) {
      Ranks ranks(4, one.quantizer, one.schedule, ChecksumKind::crc32c);
      ranks.scribbler->messages_before = message;
      ranks.scribbler->random = test::mix(static_cast<uint64_t>(message));
      ranks.run();
      if (!ranks.scribbler->changed) continue;
      changed += 1;
      int named = 0;
      for (size_t rank = 0; rank < 4; ++rank) {
        const std::string where = std::string(one.quantizer) + ", message " +
                                  std::to_string(message) + ", rank " + std::to_string(rank);
        ASSERT_TRUE(ranks.loops[rank].has_ended()) << where;
        const Status& status = ranks.loops[rank].status();
        if (status.ok()) {
          EXPECT_EQ(ranks.results[rank], clean.results[rank]) << where;
        } else {
          EXPECT_EQ(status.code(), GQSGD_INTEGRITY) << where << ": " << status.sentence();
        }
        named += std::string(status.sentence()).find("changed on their way") != std::string::npos;
      }
      EXPECT_GE(named, 1) << one.quantizer << ", message " << message;
    }
    EXPECT_GT(changed, 0) << one.quantizer;
  }
}

TEST(Checksums, NothingChanges_SameResults) {
  for (const Case& one : kCases) {
    Ranks with(3, one.quantizer, one.schedule, ChecksumKind::crc32c);
    Ranks without(3, one.quantizer, one.schedule, ChecksumKind::off);
    with.run();
    without.run();
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(test::succeeds(with.loops[rank].status())) << one.quantizer;
      EXPECT_EQ(with.results[rank], without.results[rank]) << one.quantizer;
    }
  }
}

}  // namespace
}  // namespace gq
