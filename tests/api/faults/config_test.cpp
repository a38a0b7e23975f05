// Configs that a call cannot have, on one rank of three: that rank's sentence names the field, the
// others' the rank, no result is touched, and the group goes on with equal counters.
#include <gqsgd_model.h>

#include <thread>

#include "tests/api/faults/support/call.h"

namespace gq::test {
namespace {

constexpr int kCulprit = 1;

/** A config of a later version, which has one field more. */
struct LaterConfig {
  Config known;
  uint64_t added;
};

/** One allreduce of each rank with its own config. */
std::vector<Outcome> call_with(const Group& group, const gqsgd_config* culprits,
                               const gqsgd_config* others) {
  std::vector<Outcome> outcomes(static_cast<size_t>(group.size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < group.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Call call(rank);
      outcomes[static_cast<size_t>(rank)] = outcome_of(
          gqsgd_allreduce(group.comm(rank), call.quantizer, call.send, call.recv, call.value_count,
                          call.dtype, call.op, rank == kCulprit ? culprits : others, nullptr));
      const bool refused = outcomes[static_cast<size_t>(rank)].status != GQSGD_OK;
      EXPECT_EQ(call.result_untouched(), refused);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void expect_refusal(const std::vector<Outcome>& outcomes, const char* sentence) {
  EXPECT_TRUE(is(outcomes[kCulprit], GQSGD_INVALID_ARGUMENT, sentence));
  for (const size_t rank : {0, 2}) {
    EXPECT_TRUE(is(outcomes[rank], GQSGD_REMOTE_ERROR,
                   "rank 1 refused its own call with INVALID_ARGUMENT"));
  }
}

void expect_counters(const Group& group, uint64_t expected) {
  for (int rank = 0; rank < group.size(); ++rank) {
    uint64_t step = 0;
    EXPECT_EQ(gqsgd_comm_counter(group.comm(rank), &step), GQSGD_OK);
    EXPECT_EQ(step, expected) << "rank " << rank;
  }
}

const uint32_t kSomewhere[2] = {};

struct WrongConfig {
  const char* name;
  void (*change)(Config* config);
  const char* sentence;
  bool counts;  ///< as a call of the counter does
};

const WrongConfig kWrongConfigs[] = {
    {"no size", [](Config* config) { config->size_bytes = 0; },
     "config.size_bytes is 0; it must be sizeof.gqsgd_config., which is 40 .*GQSGD_CONFIG_INIT",
     true},
    {"too short", [](Config* config) { config->size_bytes = 39; },
     "config.size_bytes is 39; it must be .* 40", true},
    {"a size that was never set", [](Config* config) { config->size_bytes = SIZE_MAX; },
     "config.size_bytes is 18446744073709551615; it must be .* 40", true},
    {"unknown schedule", [](Config* config) { config->schedule = with_number<gqsgd_schedule>(8); },
     "config.schedule is 8; allowed are the GQSGD_SCHEDULE_. constants, 0 to 7", true},
    {"negative schedule",
     [](Config* config) { config->schedule = with_number<gqsgd_schedule>(-1); },
     "config.schedule is -1; allowed are", true},
    {"unknown step source",
     [](Config* config) { config->step_source = with_number<gqsgd_step_source>(3); },
     "config.step_source is 3; allowed are GQSGD_STEP_COUNTER .0., GQSGD_STEP_GIVEN .1. and "
     "GQSGD_STEP_DEVICE .2.",
     true},
    {"step of the counter", [](Config* config) { config->step = 5; },
     "config.step is 5, but config.step_source is GQSGD_STEP_COUNTER; hint: GQSGD_STEP_GIVEN",
     true},
    {"index of the counter", [](Config* config) { config->index = 6; },
     "config.index is 6, but config.step_source is GQSGD_STEP_COUNTER; hint: GQSGD_STEP_GIVEN",
     true},
    {"address with the counter", [](Config* config) { config->device_step = kSomewhere; },
     "config.device_step is 0x.*, but config.step_source is GQSGD_STEP_COUNTER; hint: "
     "GQSGD_STEP_DEVICE",
     true},
    {"address with a given step",
     [](Config* config) {
       *config = config_at(7, 0);
       config->device_step = kSomewhere;
     },
     "config.device_step is 0x.*, but config.step_source is GQSGD_STEP_GIVEN; hint: ", false},
    {"given step too large", [](Config* config) { *config = config_at(uint64_t{1} << 32, 0); },
     "step is 4294967296; the largest is 4294967295", false},
    {"given index too large", [](Config* config) { *config = config_at(7, 65536); },
     "index is 65536; the largest is 65535", false},
    {"step on a device", [](Config* config) { *config = config_on_device(kSomewhere); },
     "config.step_source is GQSGD_STEP_DEVICE, which goes with a stream and memory of its device; "
     "on host memory use GQSGD_STEP_GIVEN",
     false},
    {"step beside an address",
     [](Config* config) {
       *config = config_on_device(kSomewhere);
       config->step = 1;
     },
     "config.step is 1, but config.step_source is GQSGD_STEP_DEVICE; hint: GQSGD_STEP_GIVEN",
     false},
};

class OneWrongConfig : public testing::TestWithParam<WrongConfig> {};

TEST_P(OneWrongConfig, ReportedOnAllRanks_GroupContinues) {
  Group group(3);
  Config wrong;
  GetParam().change(&wrong);
  const Config given = config_at(7, 0);
  const gqsgd_config* const others = GetParam().counts ? nullptr : &given;
  expect_refusal(call_with(group, wrong, others), GetParam().sentence);
  expect_counters(group, GetParam().counts ? 1 : 0);
  for (const Outcome& outcome : call_with(group, nullptr, nullptr)) EXPECT_TRUE(is_ok(outcome));
}

INSTANTIATE_TEST_SUITE_P(Configs, OneWrongConfig, testing::ValuesIn(kWrongConfigs),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& letter : name) letter = letter == ' ' ? '_' : letter;
                           return name;
                         });

TEST(Configs, OfALaterVersion_RefusedUnlessItsFieldsAreZero) {
  Group group(3);
  LaterConfig later{{}, 0};
  later.known.size_bytes = sizeof later;
  for (const Outcome& outcome : call_with(group, later.known, nullptr)) EXPECT_TRUE(is_ok(outcome));
  later.added = uint64_t{1} << 8;
  expect_refusal(call_with(group, later.known, nullptr),
                 "config.size_bytes is 48, and byte 41 of the config is not 0: .* whose config has "
                 "40 bytes");
  expect_counters(group, 2);
}

TEST(Configs, Null_IsCounterAndAuto) {
  Group group(3);
  const Config defaults;
  for (const Outcome& outcome : call_with(group, nullptr, defaults)) EXPECT_TRUE(is_ok(outcome));
  const Config direct = config_at(1, 0, GQSGD_SCHEDULE_DIRECT);
  for (const Outcome& outcome : call_with(group, nullptr, direct)) EXPECT_TRUE(is_ok(outcome));
}

TEST(Configs, OfSimulationsAndEstimates_Refused) {
  const Call call(0);
  const void* const send[2] = {call.send, call.send};
  void* const recv[2] = {};
  Config wrong[2] = {config_on_device(kSomewhere), Config()};
  wrong[1].size_bytes = 8;
  const char* const sentences[2] = {"config.step_source is GQSGD_STEP_DEVICE",
                                    "config.size_bytes is 8"};
  for (const size_t k : {0, 1}) {
    double error = 0;
    EXPECT_TRUE(is(outcome_of(gqsgd_simulate(call.quantizer, 2, send, recv, kCallValues, call.dtype,
                                             call.op, wrong[k], "")),
                   GQSGD_INVALID_ARGUMENT, sentences[k]));
    EXPECT_TRUE(is(outcome_of(gqsgd_expected_error(call.quantizer, 2, send, kCallValues, call.dtype,
                                                   wrong[k], 2, "", &error)),
                   GQSGD_INVALID_ARGUMENT, sentences[k]));
  }
}

TEST(Configs, OfAMeasurement_RefusedOnAllRanks) {
  Group group(2, "timeout_ms=3000");
  std::vector<Outcome> outcomes(2);
  const auto run = [&](int rank) {
    const Call call(rank);
    Config config;
    if (rank == kCulprit) config.step = 3;
    double error = 0;
    outcomes[static_cast<size_t>(rank)] = outcome_of(gqsgd_measured_error(
        group.comm(rank), call.quantizer, call.send, kCallValues, call.dtype, config, &error));
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_TRUE(is(outcomes[1], GQSGD_INVALID_ARGUMENT, "config.step is 3, but config.step_source"));
  EXPECT_TRUE(is(outcomes[0], GQSGD_REMOTE_ERROR, "rank 1 refused its own call with INVALID_ARG"));
  expect_counters(group, 0);
  EXPECT_TRUE(group.still_works());
}

}  // namespace
}  // namespace gq::test
