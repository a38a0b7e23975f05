// Bits that a custom transport changes on their way: every one is found by a rank, no rank has a
// wrong result, none waits in vain, and all know in the next call. GQ_FLIPS says how many.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <barrier>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/config.h"
#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"
#include "tests/support/wrapped_sockets.h"

namespace gq::test {
namespace {

constexpr size_t kValues = 3000;
constexpr const char* kOptions = "timeout_ms=60000,chunk_value_count=1024";

int flip_count() {
  const char* const text = getenv("GQ_FLIPS");
  return text == nullptr ? 300 : atoi(text);
}

/** Sockets that change one bit of one message that they send. */
struct FlippingSockets {
  static constexpr size_t kNone = SIZE_MAX;

  gqsgd_transport sockets;
  size_t message = kNone;
  uint64_t random = 0;  ///< which bit of it
  std::vector<size_t> sizes;
  std::vector<unsigned char> changed;

  int32_t done(uint64_t) const { return 1; }
};

gqsgd_transport flipping(FlippingSockets* self) {
  gqsgd_transport table = wrapped(self);
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    FlippingSockets& self = *static_cast<FlippingSockets*>(user);
    const auto* begin = static_cast<const unsigned char*>(bytes);
    if (self.sizes.size() == self.message) {
      self.changed.assign(begin, begin + size);
      const size_t bit = self.random % (8 * size);
      self.changed[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
      begin = self.changed.data();
    }
    self.sizes.push_back(size);
    return self.sockets.send(self.sockets.user, peer, begin, size, request);
  };
  return table;
}

enum class Kind { allreduce, many, reduce_scatter, allgather };

struct Case {
  Kind kind;
  const char* quantizer;
  gqsgd_schedule schedule;
  int ranks;
};

constexpr Case kCases[] = {
    {Kind::allreduce, "blocks-8", GQSGD_SCHEDULE_DIRECT, 3},
    {Kind::allreduce, "rotated-4-8", GQSGD_SCHEDULE_DIRECT, 2},
    {Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_RING, 3},
    {Kind::allreduce, "paper-ge4,block=128", GQSGD_SCHEDULE_RING, 4},
    {Kind::allreduce, "paper-gl8,block=32", GQSGD_SCHEDULE_TREE, 4},
    {Kind::allreduce, "paper-ge8,block=64", GQSGD_SCHEDULE_BUTTERFLY, 4},
    {Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_BUTTERFLY, 3},
    {Kind::allreduce, "blocks-8", GQSGD_SCHEDULE_HIERARCHICAL, 4},
    {Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_SPARSE, 3},
    {Kind::allreduce, "none", GQSGD_SCHEDULE_DIRECT, 3},
    {Kind::allreduce, "bf16", GQSGD_SCHEDULE_DIRECT, 2},
    {Kind::many, "paper-gl8", GQSGD_SCHEDULE_DIRECT, 3},
    {Kind::reduce_scatter, "blocks-8", GQSGD_SCHEDULE_AUTO, 3},
    {Kind::allgather, "paper-gl8", GQSGD_SCHEDULE_AUTO, 3},
};

std::string describe(const Case& one) {
  return std::string(one.quantizer) + " " + schedule_name(one.schedule) + ", kind " +
         std::to_string(static_cast<int>(one.kind)) + ", " + std::to_string(one.ranks) + " ranks";
}

std::vector<Values> inputs_of(const Case& one) {
  std::vector<Values> inputs = gradients(one.ranks, kValues, 5);
  if (one.schedule == GQSGD_SCHEDULE_SPARSE) {
    for (Values& values : inputs) {
      for (size_t e = 0; e < values.size(); ++e) {
        if (e % 100 != 0) values[e] = 0;
      }
    }
  }
  return inputs;
}

gqsgd_status call(const Case& one, gqsgd_comm comm, gqsgd_quantizer quantizer, Values input,
                  Values* result) {
  const size_t ranks = static_cast<size_t>(one.ranks), slice = kValues / ranks;
  const Config config = config_of(one.schedule);
  result->assign(kValues, -7);
  switch (one.kind) {
    case Kind::allreduce:
      return gqsgd_allreduce(comm, quantizer, input.data(), result->data(), kValues, GQSGD_FLOAT32,
                             GQSGD_MEAN, config, nullptr);
    case Kind::many: {
      const size_t counts[] = {700, 0, kValues - 700};
      const void* send[] = {input.data(), nullptr, input.data() + 700};
      void* recv[] = {result->data(), nullptr, result->data() + 700};
      return gqsgd_allreduce_many(comm, quantizer, send, recv, counts, 3, GQSGD_FLOAT32, GQSGD_MEAN,
                                  config, nullptr);
    }
    case Kind::reduce_scatter: {
      const std::vector<size_t> counts(ranks, slice);
      return gqsgd_reduce_scatter(comm, quantizer, input.data(), result->data(), counts.data(),
                                  GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
    }
    default: {
      const std::vector<size_t> counts(ranks, slice);
      return gqsgd_allgather(comm, quantizer, input.data(), result->data(), counts.data(),
                             GQSGD_FLOAT32, nullptr, nullptr);
    }
  }
}

/** What a rank saw. */
struct Outcome {
  gqsgd_status first = GQSGD_OK, second = GQSGD_OK;
  std::string sentence, later;
  Values result;
};

struct TwoCalls {
  std::vector<Outcome> outcomes;
  std::vector<std::vector<size_t>> sizes;  ///< of the messages that each rank sent
  std::string failure;
};

/** Two calls on every rank; in the first one `sender` sends message `message` with a bit changed.
 */
TwoCalls run(const Case& one, const std::vector<Values>& inputs, int sender, size_t message,
        uint64_t random, const std::string& options) {
  std::vector<FlippingSockets> users;
  for (const gqsgd_transport& table : socket_tables(one.ranks)) {
    users.emplace_back().sockets = table;
  }
  if (sender >= 0) users[sender].message = message;
  if (sender >= 0) users[sender].random = random;
  std::vector<gqsgd_transport> tables;
  for (FlippingSockets& user : users) tables.push_back(flipping(&user));
  std::string all = options;
  if (one.schedule == GQSGD_SCHEDULE_HIERARCHICAL) all += ",nodes=0:0:1:1";
  TwoCalls made;
  made.outcomes.resize(one.ranks);
  made.sizes.resize(one.ranks);
  std::barrier at_end(one.ranks);
  made.failure = run_threads(custom_comms(tables, all), [&](int rank, gqsgd_comm comm) {
    const Quantizer quantizer(one.quantizer);
    Outcome& outcome = made.outcomes[rank];
    outcome.first = call(one, comm, quantizer.get(), inputs[rank], &outcome.result);
    if (outcome.first != GQSGD_OK) outcome.sentence = gqsgd_last_error();
    made.sizes[rank] = users[rank].sizes;
    at_end.arrive_and_wait();
    Values later;
    outcome.second = call(one, comm, quantizer.get(), inputs[rank], &later);
    if (outcome.second != GQSGD_OK) outcome.later = gqsgd_last_error();
    at_end.arrive_and_wait();  // a rank that leaves closes its sockets
    return std::string();
  });
  return made;
}

/** "" if what follows a changed message is what the documentation says. */
std::string check(const TwoCalls& found, const TwoCalls& clean, int sender) {
  if (!found.failure.empty()) return found.failure;
  int finders = 0;
  for (size_t rank = 0; rank < found.outcomes.size(); ++rank) {
    const Outcome& outcome = found.outcomes[rank];
    const std::string who = "rank " + std::to_string(rank) + ": ";
    const bool is_wrong = outcome.result != clean.outcomes[rank].result;
    if (outcome.first == GQSGD_OK && is_wrong) return who + "a wrong result";
    if (outcome.first != GQSGD_OK && outcome.first != GQSGD_INTEGRITY) {
      return who + gqsgd_status_name(outcome.first) + ": " + outcome.sentence;
    }
    if (outcome.second != GQSGD_INTEGRITY) {
      return who + "then " + gqsgd_status_name(outcome.second) + ": " + outcome.later;
    }
    const bool names_sender =
        outcome.sentence.find("of rank " + std::to_string(sender)) != std::string::npos &&
        outcome.sentence.find("changed on") != std::string::npos &&
        outcome.sentence.find("rank " + std::to_string(rank) + " received") != std::string::npos;
    finders += outcome.first == GQSGD_INTEGRITY && names_sender ? 1 : 0;
  }
  return finders == 1 ? "" : std::to_string(finders) + " ranks name the sender";
}

/** Bits of messages `begin` to `end` (0: all) of random ranks. */
void flip_bits(int flips, bool in_headers) {
  std::vector<TwoCalls> clean;
  for (const Case& one : kCases) {
    clean.push_back(run(one, inputs_of(one), -1, 0, 0, kOptions));
    ASSERT_EQ(clean.back().failure, "");
    for (const Outcome& outcome : clean.back().outcomes) {
      ASSERT_EQ(outcome.second, GQSGD_OK) << describe(one) << ": " << outcome.later;
    }
  }
  for (int flip = 0; flip < flips; ++flip) {
    const size_t k = static_cast<size_t>(flip) % std::size(kCases);
    const Case& one = kCases[k];
    const uint64_t random = mix(static_cast<uint64_t>(flip) + (in_headers ? 1u << 20 : 0));
    const int sender = static_cast<int>(random % one.ranks);
    const size_t headers = static_cast<size_t>(one.ranks) - 1;
    const size_t messages = clean[k].sizes[sender].size();
    // Of the sparse schedule's second headers, see below.
    const size_t first = one.schedule == GQSGD_SCHEDULE_SPARSE ? 2 * headers : headers;
    const size_t message =
        in_headers ? mix(random) % headers : first + mix(random) % (messages - first);
    const TwoCalls found = run(one, inputs_of(one), sender, message, mix(random + 1), kOptions);
    ASSERT_EQ(check(found, clean[k], sender), "")
        << describe(one) << ", flip " << flip << ": message " << message << " of rank " << sender;
  }
}

TEST(Integrity, FlippedBitOfPayload_FoundNamedAndToldInTheNextCall) {
  flip_bits(flip_count(), false);
}

TEST(Integrity, FlippedBitOfControlMessage_FoundNamedAndToldInTheNextCall) {
  flip_bits(flip_count() / 3, true);
}

// Without checksums nothing is noticed: what the tests above find is the checksums' merit.
TEST(Integrity, WithoutChecksums_WrongResults) {
  const Case one = kCases[2];
  const std::string options = std::string(kOptions) + ",checksum=off";
  const TwoCalls clean = run(one, inputs_of(one), -1, 0, 0, options);
  int wrong = 0;
  for (uint64_t flip = 0; flip < 20; ++flip) {
    const size_t headers = 2;
    const TwoCalls found = run(one, inputs_of(one), 1, headers + flip % 4, mix(flip), options);
    ASSERT_EQ(found.failure, "");
    for (int rank = 0; rank < one.ranks; ++rank) {
      wrong += found.outcomes[rank].result != clean.outcomes[rank].result ? 1 : 0;
    }
  }
  EXPECT_GT(wrong, 10);
}

/** "" if ranks whose results differ are named by all of them, in one sentence. */
std::string check_divergence(const TwoCalls& found, bool* differ) {
  *differ = false;
  if (!found.failure.empty()) return found.failure;
  const Outcome& first = found.outcomes[0];
  for (const Outcome& outcome : found.outcomes) {
    if (outcome.first != GQSGD_OK) return outcome.sentence;
    *differ |= outcome.result != first.result;
  }
  if (!*differ) return "";
  for (const Outcome& outcome : found.outcomes) {
    if (outcome.second != GQSGD_INTEGRITY) return gqsgd_status_name(outcome.second);
    if (outcome.later != first.later) return outcome.later + " is not " + first.later;
  }
  for (size_t rank = 0; rank < found.outcomes.size() && found.outcomes.size() > 2; ++rank) {
    size_t equal = 0;
    for (const Outcome& other : found.outcomes) {
      equal += other.result == found.outcomes[rank].result ? 1 : 0;
    }
    const std::string named = "number 1, differ: rank " + std::to_string(rank) + " decoded words";
    if (equal == 1 && first.later.find(named) == std::string::npos) return first.later;
  }
  return "";
}

// One flipped bit of a result reaches one rank, or those behind it.
TEST(Integrity, WithoutChecksums_DifferentResultsAreFoundInTheNextCall) {
  const std::string options = std::string(kOptions) + ",checksum=off";
  for (const Case& one : kCases) {
    if (one.kind == Kind::reduce_scatter) continue;  // each rank has a slice of its own
    const TwoCalls clean = run(one, inputs_of(one), -1, 0, 0, options);
    const size_t messages = clean.sizes[1].size();
    int differed = 0;
    for (size_t message = static_cast<size_t>(one.ranks) - 1; message < messages; ++message) {
      if (clean.sizes[1][message] == 80) continue;  // a second control message
      // Of sparse entries a bit of the code: another place may be none.
      const bool sparse = one.schedule == GQSGD_SCHEDULE_SPARSE;
      const uint64_t random = mix(message), words = clean.sizes[1][message] / 4;
      const uint64_t bit = sparse ? random % words * 32 : random;
      const TwoCalls found = run(one, inputs_of(one), 1, message, bit, options);
      bool differ = false;
      ASSERT_EQ(check_divergence(found, &differ), "") << describe(one) << ", message " << message;
      differed += differ ? 1 : 0;
    }
    EXPECT_GT(differed, 0) << describe(one);
  }
}

// Calls on slices, and those that a rank refuses, have no digest.
TEST(Integrity, CallsOfEveryKind_DigestsAgree) {
  for (const char* options : {"checksum=off", "checksum=crc32c"}) {
    const std::vector<Values> inputs = gradients(3, kValues, 9);
    const std::string failure =
        run_threads(custom_comms(socket_tables(3), options), [&](int rank, gqsgd_comm comm) {
          for (int round = 0; round < 2; ++round) {
            for (const Case& one : kCases) {
              if (one.schedule == GQSGD_SCHEDULE_HIERARCHICAL) continue;
              const Quantizer quantizer(one.quantizer);
              Case here = one;
              here.ranks = 3;
              Values result;
              const gqsgd_status status = call(here, comm, quantizer.get(), inputs[rank], &result);
              const std::string failed = failure_of(status, one.quantizer);
              if (!failed.empty()) return failed;
              if (gqsgd_comm_refuse(comm, GQSGD_UNSUPPORTED, nullptr, nullptr) != GQSGD_OK) {
                return std::string(gqsgd_last_error());
              }
            }
          }
          return std::string();
        });
    EXPECT_EQ(failure, "");
  }
}

// The sizes of the messages of entries are in the second headers: a rank cannot go on, but fails.
TEST(Integrity, FlippedBitOfSecondHeader_NoRankHasAWrongResult) {
  const Case one{Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_SPARSE, 3};
  const std::string options = "timeout_ms=2000,chunk_value_count=1024";
  const TwoCalls clean = run(one, inputs_of(one), -1, 0, 0, options);
  for (uint64_t flip = 0; flip < 4; ++flip) {
    const TwoCalls found = run(one, inputs_of(one), 1, 2 + flip % 2, mix(flip), options);
    ASSERT_EQ(found.failure, "");
    int finders = 0;
    for (int rank = 0; rank < one.ranks; ++rank) {
      const Outcome& outcome = found.outcomes[rank];
      finders += outcome.first == GQSGD_INTEGRITY ? 1 : 0;
      if (outcome.first == GQSGD_OK) {
        EXPECT_EQ(outcome.result, clean.outcomes[rank].result);
      }
      EXPECT_NE(outcome.second, GQSGD_OK);
    }
    EXPECT_GE(finders, 1);
  }
}

// Norms travel for tensors without values too.
TEST(Integrity, FlippedBitOfNormsOfEmptyTensors_Integrity) {
  std::vector<FlippingSockets> users;
  for (const gqsgd_transport& table : socket_tables(2)) users.emplace_back().sockets = table;
  users[1].message = 1;  // behind the control message
  std::vector<gqsgd_transport> tables;
  for (FlippingSockets& user : users) tables.push_back(flipping(&user));
  std::barrier at_end(2);
  std::string sentence;
  const auto body = [&](int rank, gqsgd_comm comm) {
    const Quantizer quantizer("paper-gl8");
    const size_t counts[] = {0, 0};
    const void* send[] = {nullptr, nullptr};
    void* recv[] = {nullptr, nullptr};
    const gqsgd_status status =
        gqsgd_allreduce_many(comm, quantizer.get(), send, recv, counts, 2, GQSGD_FLOAT32,
                             GQSGD_MEAN, config_of(GQSGD_SCHEDULE_DIRECT), nullptr);
    if (rank == 0) sentence = gqsgd_last_error();
    at_end.arrive_and_wait();  // a rank that leaves closes its sockets
    return rank == 1 || status == GQSGD_INTEGRITY ? std::string() : "rank 0: no INTEGRITY";
  };
  EXPECT_EQ(run_threads(custom_comms(tables, kOptions), body), "");
  EXPECT_NE(sentence.find("norms of segments"), std::string::npos) << sentence;
}

TEST(Integrity, RanksDifferInTheOption_Mismatch) {
  const std::vector<gqsgd_transport> tables = socket_tables(2);
  std::vector<gqsgd_comm> comms(2);
  ASSERT_EQ(gqsgd_comm_create_custom(&tables[0], "checksum=off", &comms[0]), GQSGD_OK);
  ASSERT_EQ(gqsgd_comm_create_custom(&tables[1], "checksum=crc32c", &comms[1]), GQSGD_OK);
  const std::string failure = run_threads(comms, [](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("blocks-8");
    Values values(100, 1.0f);
    const gqsgd_status status =
        gqsgd_allreduce(comm, quantizer.get(), values.data(), values.data(), values.size(),
                        GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
    if (status != GQSGD_MISMATCH) return gqsgd_status_name(status);
    const std::string sentence = gqsgd_last_error();
    const char* const named = "checksum differs: rank 0 has off, rank 1 has crc32c";
    return sentence.find(named) != std::string::npos ? "" : sentence;
  });
  EXPECT_EQ(failure, "");
}

TEST(Integrity, UnknownChecksum_InvalidArgument) {
  std::vector<gqsgd_transport> tables = socket_tables(1);
  gqsgd_comm comm = nullptr;
  EXPECT_EQ(gqsgd_comm_create_custom(&tables[0], "checksum=md5", &comm), GQSGD_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gqsgd_last_error()).find("checksum=md5 is neither off nor crc32c"),
            std::string::npos);
  tables[0].close(tables[0].user);
}

}  // namespace
}  // namespace gq::test
