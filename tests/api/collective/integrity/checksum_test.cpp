// Checksums of messages: every bit that a transport changes is found by a rank, no rank has a wrong
// result, none waits in vain, and all know in the next call. GQ_FLIPS says how many.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <barrier>

#include "tests/api/collective/integrity/changed_bit.h"
#include "tests/support/config.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"

namespace gq::test {
namespace {

int flip_count() {
  const char* const text = getenv("GQ_FLIPS");
  return text == nullptr ? 300 : atoi(text);
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

/** Changes a bit of each of `flips` messages of random ranks: control messages, or those after. */
void flip_bits(int flips, bool in_control) {
  std::vector<TwoCalls> clean;
  for (const Case& one : kCases) {
    clean.push_back(make_two_calls(one, {}, kCaseOptions));
    ASSERT_EQ(clean.back().failure, "");
    for (const Outcome& outcome : clean.back().outcomes) {
      ASSERT_EQ(outcome.second, GQSGD_OK) << describe(one) << ": " << outcome.later;
    }
  }
  for (int flip = 0; flip < flips; ++flip) {
    const size_t k = static_cast<size_t>(flip) % std::size(kCases);
    const Case& one = kCases[k];
    const uint64_t random = mix(static_cast<uint64_t>(flip) + (in_control ? 1u << 20 : 0));
    const int sender = static_cast<int>(random % one.ranks);
    const size_t headers = static_cast<size_t>(one.ranks) - 1;
    const size_t messages = clean[k].sizes[sender].size();
    // Second control messages of the sparse schedule have a test of their own.
    const size_t first = one.schedule == GQSGD_SCHEDULE_SPARSE ? 2 * headers : headers;
    const size_t message =
        in_control ? mix(random) % headers : first + mix(random) % (messages - first);
    const TwoCalls found = make_two_calls(one, {sender, message, mix(random + 1)}, kCaseOptions);
    ASSERT_EQ(check(found, clean[k], sender), "")
        << describe(one) << ", flip " << flip << ": message " << message << " of rank " << sender;
  }
}

TEST(Integrity, FlippedBitOfPayload_FoundNamedAndReportedInTheNextCall) {
  flip_bits(flip_count(), false);
}

TEST(Integrity, FlippedBitOfControlMessage_FoundNamedAndReportedInTheNextCall) {
  flip_bits(flip_count() / 3, true);
}

// All ranks know how many entries there are, also the one that received a changed header before: it
// goes on to the end of the call with the others, in moves as well.
TEST(Integrity, FlippedBitOfFirstHeaderOfSparse_FoundNamedAndReportedInTheNextCall) {
  for (const bool dense : {false, true}) {
    const Case one{Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_SPARSE, 3, dense};
    const TwoCalls clean = make_two_calls(one, {}, kCaseOptions);
    for (uint64_t flip = 0; flip < 4; ++flip) {
      const TwoCalls found = make_two_calls(one, {1, flip % 2, mix(flip)}, kCaseOptions);
      EXPECT_EQ(check(found, clean, 1), "") << (dense ? "dense" : "sparse") << ", flip " << flip;
    }
  }
}

// The sizes of the messages of entries are in the second headers: a rank cannot go on, but fails.
TEST(Integrity, FlippedBitOfSecondHeader_NoRankHasAWrongResult) {
  const Case one{Kind::allreduce, "paper-gl8", GQSGD_SCHEDULE_SPARSE, 3};
  const std::string options = "timeout_ms=2000,chunk_value_count=1024";
  const TwoCalls clean = make_two_calls(one, {}, options);
  for (uint64_t flip = 0; flip < 4; ++flip) {
    const TwoCalls found = make_two_calls(one, {1, 2 + flip % 2, mix(flip)}, options);
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

// Ranks that measure costs exchange a control message in each round, the first with nothing else.
TEST(Integrity, FlippedBitOfMeasuredTimes_OtherRanksNameTheRankThatFoundIt) {
  std::vector<FlippingSockets> users;
  for (const gqsgd_transport& table : socket_tables(2)) users.emplace_back().sockets = table;
  users[1].message = 3;
  std::vector<gqsgd_transport> tables;
  for (FlippingSockets& user : users) tables.push_back(flipping(&user));
  std::barrier at_end(2);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("blocks-8");
    Values values(100, 1.0f);
    const gqsgd_status status =
        gqsgd_allreduce(comm, quantizer.get(), values.data(), values.data(), values.size(),
                        GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
    const std::string sentence = gqsgd_last_error();
    at_end.arrive_and_wait();  // a rank that leaves closes its sockets
    if (status != GQSGD_INTEGRITY) return gqsgd_status_name(status) + (": " + sentence);
    const char* const named =
        rank == 0 ? "rank 0 received the control message of rank 1 changed"
                  : "rank 0 has no result of the call before: it received a message of rank 1";
    return sentence.find(named) != std::string::npos ? "" : sentence;
  };
  EXPECT_EQ(run_threads(custom_comms(tables, "timeout_ms=60000,costs=measure"), body), "");
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
  EXPECT_EQ(run_threads(custom_comms(tables, kCaseOptions), body), "");
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
