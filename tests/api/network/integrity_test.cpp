// Bits that change between UCX's ends: every one is found, no rank has a wrong result, and all
// ranks know at once. GQ_FLIPS says how many, GQ_FIRST_FLIP which.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "tests/api/network/network_ranks.h"
#include "tests/support/config.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr int kRanks = 2;
constexpr size_t kValues = 6000;
constexpr size_t kFewValues = 100;  // that travel with control messages

int flip_count() {
  const char* const text = getenv("GQ_FLIPS");
  return text == nullptr ? 12 : atoi(text);
}

/** Of the bits: another run takes other ones. */
uint64_t first_seed() {
  const char* const text = getenv("GQ_FIRST_FLIP");
  return text == nullptr ? 0 : strtoull(text, nullptr, 10);
}

/** In the process of a rank: the library that changes a bit of message `message` from now on. */
std::string flip_later(long message, uint64_t random, bool headers) {
  void* const library = dlopen(GQ_FLIPPING_UCX, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return "the ranks use another UCX";
  void (*flip)(long, unsigned long, int) = nullptr;
  *reinterpret_cast<void**>(&flip) = dlsym(library, "gq_flip");
  flip(message, static_cast<unsigned long>(random), headers ? 1 : 0);
  return "";
}

struct Case {
  const char* quantizer;
  gqsgd_schedule schedule;
};

constexpr Case kCases[] = {{"blocks-8", GQSGD_SCHEDULE_DIRECT},
                           {"paper-gl8", GQSGD_SCHEDULE_RING},
                           {"none", GQSGD_SCHEDULE_DIRECT},
                           {"paper-ge4,block=64", GQSGD_SCHEDULE_TREE}};
/** Messages of words that a rank sends in each case at least. */
constexpr long kMessages = 3;

struct Outcome {
  gqsgd_status status = GQSGD_OK;
  gqsgd_status later = GQSGD_OK;
  bool is_right = false;
  bool names_change = false;
};

/** A call of each rank, then one more. */
std::string call(const Case& one, const std::vector<Values>& inputs, uint64_t random, bool headers,
                 SharedArray<Outcome>* outcomes) {
  const Values expected = simulate({one.quantizer, one.schedule}, inputs);
  const size_t value_count = inputs[0].size();
  const bool is_short = value_count == kFewValues;
  const int sender = static_cast<int>(random % kRanks);
  const long message = headers || is_short ? 0 : static_cast<long>(random / kRanks % kMessages);
  const RankBody body = [&](int rank, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer(one.quantizer);
    Outcome& outcome = (*outcomes)[rank];
    if (rank == sender) {
      const std::string failure = flip_later(message, mix(random), headers);
      if (!failure.empty()) return failure;
    }
    const auto made = [&](Values* result) {
      return gqsgd_allreduce(comm, quantizer.get(), inputs[rank].data(), result->data(),
                             value_count,
                             GQSGD_FLOAT32, GQSGD_MEAN, config_of(one.schedule), nullptr);
    };
    Values result(value_count, -7);
    outcome.status = made(&result);
    const std::string sentence = outcome.status == GQSGD_OK ? "" : gqsgd_last_error();
    outcome.names_change = sentence.find("changed on") != std::string::npos;
    outcome.is_right = difference(result, expected).empty();
    outcome.later = made(&result);
    return "";
  };
  const std::string options = "timeout_ms=60000,chunk_value_count=2048,ucx=" GQ_FLIPPING_UCX;
  return RankProcesses(kRanks, options, body, network_maker({"a", "b"})).wait();
}

void flip_bits(int flips, bool headers, size_t value_count = kValues) {
  const std::vector<Values> inputs = gradients(kRanks, value_count, 11);
  const size_t step = value_count == kFewValues ? 2 : 1;  // those by the direct schedule
  for (int flip = 0; flip < flips; ++flip) {
    const Case& one = kCases[step * static_cast<size_t>(flip) % std::size(kCases)];
    const uint64_t seed = first_seed() + static_cast<uint64_t>(flip);
    const uint64_t random = mix(headers ? seed + (1u << 30) : seed);
    SharedArray<Outcome> outcomes(kRanks);
    ASSERT_EQ(call(one, inputs, random, headers, &outcomes), "");
    const std::string where = describe(Operation{one.quantizer, one.schedule}) + ", flip " +
                              std::to_string(flip);
    int named = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Outcome& outcome = outcomes[rank];
      if (outcome.status == GQSGD_OK) {
        ASSERT_TRUE(outcome.is_right) << where;
      } else {
        ASSERT_EQ(outcome.status, GQSGD_INTEGRITY) << where;
      }
      ASSERT_EQ(outcome.later, GQSGD_INTEGRITY) << where;
      named += outcome.names_change ? 1 : 0;
    }
    ASSERT_GE(named, 1) << where;
  }
}

TEST(NetworkIntegrity, FlippedBitOfPayload_FoundByOneAndToldToAll) {
  GQ_SKIP_WITHOUT_NETWORK();
  flip_bits(flip_count(), false);
}

/** Of the control message or of the values behind it. */
TEST(NetworkIntegrity, FlippedBitOfShortCall_FoundByOneAndToldToAll) {
  GQ_SKIP_WITHOUT_NETWORK();
  flip_bits(flip_count(), false, kFewValues);
}

TEST(NetworkIntegrity, FlippedBitOfControlMessage_FoundByOneAndToldToAll) {
  GQ_SKIP_WITHOUT_NETWORK();
  flip_bits(flip_count() / 3, true);
}

}  // namespace
}  // namespace gq::test
