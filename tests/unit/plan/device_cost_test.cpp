// Times over NCCL: short calls are NCCL's own allreduce, long ones codes; what a host enqueues is
// the time of short calls, and links and memory that of long ones.
#include "src/plan/cost/device_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/plan/choose.h"
#include "tests/support/succeeds.h"

namespace gq {
namespace {

CostQuestion question_of(const char* quantizer, uint64_t value_count, uint32_t ranks = 8) {
  CostQuestion question{};
  EXPECT_TRUE(test::succeeds(parse_quantizer(quantizer, &question.format)));
  question.schedule_id = GQSGD_SCHEDULE_DIRECT;
  question.ranks = ranks;
  question.value_count = value_count;
  question.chunk_value_count = 4 << 20;
  question.dtype = GQSGD_FLOAT32;
  question.transport_adds = question.on_device = true;
  return question;
}

double time_ns(const CostQuestion& question, const CostConstants& constants = built_in_costs()) {
  double time_ns = 0;
  EXPECT_TRUE(test::succeeds(predict_time(question, constants, &time_ns)));
  return time_ns;
}

Choice chosen(const CostQuestion& question, const CostConstants& constants = built_in_costs(),
              bool may_be_uncompressed = true) {
  Choice choice{};
  double time_ns = 0;
  EXPECT_TRUE(test::succeeds(choose(question, constants, may_be_uncompressed, &choice, &time_ns)));
  return choice;
}

/** Where an operation of NCCL creates a thread. */
CostConstants costs_of_threads() {
  CostConstants constants = built_in_costs();
  constants.enqueue_nccl_ns += constants.nccl_thread_ns;
  return constants;
}

/** The least of the lengths tried from which on codes are taken; floats are by native before, and
 *  codes by direct from there on. */
uint64_t crossover(const char* quantizer, const CostConstants& constants = built_in_costs()) {
  uint64_t first = 0;
  for (uint64_t value_count = 64; value_count < 1000000000; value_count += value_count / 8) {
    const Choice choice = chosen(question_of(quantizer, value_count), constants);
    const bool floats = choice.sent_as == SentAs::float32;
    EXPECT_EQ(choice.schedule_id, floats ? GQSGD_SCHEDULE_NATIVE : GQSGD_SCHEDULE_DIRECT);
    EXPECT_FALSE(floats && first != 0) << quantizer << ' ' << value_count;
    if (!floats && first == 0) first = value_count;
  }
  return first;
}

TEST(DeviceCost, ShortCalls_FloatsByNcclThenCodesByDirect) {
  for (const char* quantizer : {"paper-gl8", "paper-ge8", "paper-gl4", "blocks-8", "adaptive-4"}) {
    EXPECT_GT(crossover(quantizer), 100000u) << quantizer;
    EXPECT_LT(crossover(quantizer), 5000000u) << quantizer;
    EXPECT_LT(crossover(quantizer, costs_of_threads()), 30000000u) << quantizer;
  }
  EXPECT_LT(crossover("paper-gl8"), crossover("blocks-8")) << "which enqueues more";
}

/** Rice codes take a device longer than NCCL takes floats over NVLink: they are for networks. */
TEST(DeviceCost, LongRiceCodes_ForSlowerLinksAlone) {
  CostConstants network = built_in_costs();
  network.device_link_byte_ns *= 16;
  const CostQuestion question = question_of("rice-4", 100000000);
  EXPECT_EQ(chosen(question).sent_as, SentAs::float32);
  EXPECT_EQ(chosen(question, network).sent_as, SentAs::codes);
  EXPECT_EQ(chosen(question, built_in_costs(), false).schedule_id, GQSGD_SCHEDULE_DIRECT);
  EXPECT_EQ(time_ns(question_of("rice-4", 1000)),
            5 * built_in_costs().enqueue_ns + 3 * built_in_costs().enqueue_nccl_ns);
}

/** Eight ranks: quantizing, an eighth of the sums, and decoding; no links. */
TEST(DeviceCost, RiceCodes_TimesOfTheirStages) {
  CostConstants constants{};
  const double values = 8 << 20;
  const double stages_ns = values * (0.0272 + (0.0475 + 6 * 0.0123) / 8 + 0.0107);
  EXPECT_NEAR(time_ns(question_of("rice-4", 8 << 20), constants), stages_ns, 0.01 * stages_ns);
  constants.device_byte_ns = 1;
  const double bytes = 4.5 + (0.5 * 3 + 16 + 6 * 8.5) / 8 + 4.5;
  EXPECT_NEAR(time_ns(question_of("rice-4", 8 << 20), constants), values * bytes,
              0.02 * values * bytes);
}

/** Rotations take longer than floats do on links that take next to no time. */
TEST(DeviceCost, LongRotationsOnFasterLinks_FloatsByNccl) {
  CostConstants fast = built_in_costs();
  fast.device_link_byte_ns /= 64;
  EXPECT_EQ(chosen(question_of("rotated-8", 100000000)).sent_as, SentAs::codes);
  EXPECT_EQ(chosen(question_of("rotated-8", 100000000), fast).sent_as, SentAs::float32);
}

TEST(DeviceCost, SlowerHosts_LaterCodes) {
  CostConstants slow = built_in_costs();
  slow.enqueue_ns *= 4;
  slow.enqueue_nccl_ns *= 4;
  EXPECT_GT(crossover("paper-gl8", slow), 2 * crossover("paper-gl8"));
}

TEST(DeviceCost, ShortCall_TimeOfItsEnqueues) {
  CostConstants constants = built_in_costs();
  const double kernel_ns = constants.enqueue_ns, nccl_ns = constants.enqueue_nccl_ns;
  EXPECT_EQ(time_ns(question_of("paper-gl8", 1000)), 6 * kernel_ns + 3 * nccl_ns);
  EXPECT_EQ(time_ns(question_of("blocks-8", 1000)), 7 * kernel_ns + 5 * nccl_ns);
  constants.enqueue_ns = constants.enqueue_nccl_ns = 0;
  const double device_ns = 6 * constants.device_latency_ns + 3 * constants.device_message_ns;
  EXPECT_NEAR(time_ns(question_of("paper-gl8", 1000), constants), device_ns, 0.01 * device_ns);
}

TEST(DeviceCost, CommunicatorDoesNotBlock_SlowerHostAndLaterCodes) {
  CostQuestion question = question_of("paper-gl8", 1000);
  const double blocking_ns = time_ns(question);
  question.nccl_blocks = false;
  EXPECT_EQ(time_ns(question), blocking_ns + 3 * built_in_costs().nccl_thread_ns);
  EXPECT_EQ(time_ns(question), time_ns(question_of("paper-gl8", 1000), costs_of_threads()));
  question.value_count = 6000000;
  EXPECT_EQ(chosen(question).sent_as, SentAs::float32);
  question.nccl_blocks = true;
  EXPECT_EQ(chosen(question).sent_as, SentAs::codes);
}

/** Messages of other chunks travel beside the stages of one. */
TEST(DeviceCost, MoreChunks_Overlap) {
  CostConstants constants{};
  constants.device_byte_ns = constants.device_link_byte_ns = 1;
  CostQuestion question = question_of("paper-gl8", 8 << 20);
  const double one_ns = time_ns(question, constants);
  question.chunk_value_count = 1 << 10;
  const double many_ns = time_ns(question, constants);
  EXPECT_LT(many_ns, 0.95 * one_ns);
  EXPECT_GT(many_ns, 0.6 * one_ns);
}

TEST(DeviceCost, NeverUncompressed_CodesByDirect) {
  const Choice choice = chosen(question_of("paper-gl8", 64), built_in_costs(), false);
  EXPECT_EQ(choice.schedule_id, GQSGD_SCHEDULE_DIRECT);
  EXPECT_EQ(choice.sent_as, SentAs::codes);
}

TEST(DeviceCost, FewFloatsThatAreAskedFor_ByNccl) {
  const Choice choice = chosen(question_of("none", 64));
  EXPECT_EQ(choice.schedule_id, GQSGD_SCHEDULE_NATIVE);
  EXPECT_EQ(choice.sent_as, SentAs::codes);
}

TEST(DeviceCost, OtherSchedulesAndFloatsOf16Bits_Unsupported) {
  double time = 0;
  CostQuestion question = question_of("paper-gl8", 1000);
  for (const int32_t id : {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_BUTTERFLY}) {
    question.schedule_id = id;
    EXPECT_EQ(predict_time(question, built_in_costs(), &time).code(), GQSGD_UNSUPPORTED);
  }
  EXPECT_EQ(predict_time(question_of("bf16", 1000), built_in_costs(), &time).code(),
            GQSGD_UNSUPPORTED);
}

TEST(DeviceCost, EveryLength_Finite) {
  for (const uint32_t ranks : {1u, 2u, 8u, 1000u}) {
    for (const uint64_t value_count : {UINT64_C(0), UINT64_C(1), UINT64_C(1) << 40}) {
      const double time = time_ns(question_of("blocks-8", value_count, ranks));
      EXPECT_TRUE(std::isfinite(time) && time > 0) << ranks << ' ' << value_count;
    }
  }
}

}  // namespace
}  // namespace gq
