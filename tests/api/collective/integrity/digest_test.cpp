// Without checksums: what a changed bit does, and that ranks compare digests of their results in
// the next call.
#include <gtest/gtest.h>

#include "tests/api/collective/integrity/changed_bit.h"
#include "tests/support/config.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"

namespace gq::test {
namespace {

// No rank notices a wrong result in its own call: what checksum_test finds, checksums find.
TEST(Integrity, WithoutChecksums_WrongResults) {
  const Case one = kCases[2];
  const TwoCalls clean = make_two_calls(one, {}, kUncheckedOptions);
  int wrong = 0;
  for (uint64_t flip = 0; flip < 20; ++flip) {
    const size_t headers = 2;
    const Change change{1, headers + flip % 4, mix(flip)};
    const TwoCalls found = make_two_calls(one, change, kUncheckedOptions);
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
    *differ |= !difference(outcome.result, first.result).empty();
  }
  if (!*differ) return "";
  for (const Outcome& outcome : found.outcomes) {
    if (outcome.second != GQSGD_INTEGRITY) return gqsgd_status_name(outcome.second);
    if (outcome.later != first.later) return outcome.later + " is not " + first.later;
  }
  for (size_t rank = 0; rank < found.outcomes.size() && found.outcomes.size() > 2; ++rank) {
    size_t equal = 0;
    for (const Outcome& other : found.outcomes) {
      equal += difference(other.result, found.outcomes[rank].result).empty() ? 1 : 0;
    }
    const std::string named = "number 1, differ: rank " + std::to_string(rank) + " decoded words";
    if (equal == 1 && first.later.find(named) == std::string::npos) return first.later;
  }
  return "";
}

// One flipped bit of a result reaches one rank, or those behind it.
TEST(Integrity, WithoutChecksums_DifferentResultsAreFoundInTheNextCall) {
  for (const Case& one : kCases) {
    if (one.kind == Kind::reduce_scatter) continue;  // each rank has a slice of its own
    const TwoCalls clean = make_two_calls(one, {}, kUncheckedOptions);
    const size_t messages = clean.sizes[1].size();
    int differed = 0;
    for (size_t message = static_cast<size_t>(one.ranks) - 1; message < messages; ++message) {
      if (clean.sizes[1][message] == 80) continue;  // a second control message
      // Of sparse entries a bit of the code: another place may be none.
      const bool sparse = one.schedule == GQSGD_SCHEDULE_SPARSE;
      const uint64_t random = mix(message), words = clean.sizes[1][message] / 4;
      const uint64_t bit = sparse ? random % words * 32 : random;
      const TwoCalls found = make_two_calls(one, {1, message, bit}, kUncheckedOptions);
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
    const std::vector<Values> inputs = gradients(3, kCaseValues, 9);
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

}  // namespace
}  // namespace gq::test
