// AUTO takes the cheapest schedule that goes with the format, and no compression below a crossover.
#include "src/plan/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "src/plan/error_ratio.h"
#include "src/schedule/nodes.h"
#include "tests/support/succeeds.h"

namespace gq {
namespace {

CostQuestion question_of(const Format& format, uint32_t ranks, uint64_t value_count) {
  CostQuestion question{};
  question.format = format;
  question.ranks = ranks;
  question.value_count = value_count;
  question.chunk_value_count = 65536;
  question.reads_in_place = true;
  question.dtype = GQSGD_FLOAT32;
  return question;
}

Choice chosen(const CostQuestion& question, bool may_be_uncompressed = true) {
  Choice choice{};
  double time_ns = 0;
  EXPECT_TRUE(
      test::succeeds(choose(question, built_in_costs(), may_be_uncompressed, &choice, &time_ns)));
  return choice;
}

/** In one memory: what another form with more error has to stay below, once for each form between.
 */
double least_part(SentAs taken, SentAs other) {
  if (taken == other || taken == SentAs::codes) return 0.97;
  return taken == SentAs::float32 && other == SentAs::codes ? 0.9 * 0.9 : 0.9;
}

TEST(Choose, AllCandidates_CheapestOrNearlySo) {
  Format average;
  average.combine = Combine::average;
  for (const uint64_t value_count : {0u, 100u, 10000u, 1000000u, 100000000u}) {
    for (const uint32_t ranks : {1u, 2u, 5u, 64u, 1000u}) {
      CostQuestion question = question_of(average, ranks, value_count);
      Choice choice{};
      double time_ns = 0;
      ASSERT_TRUE(choose(question, built_in_costs(), true, &choice, &time_ns).ok());
      for (const SentAs sent_as : {SentAs::float32, SentAs::bf16, SentAs::codes}) {
        question.format = sent_format(average, sent_as);
        for (const int32_t id :
             {GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT}) {
          question.schedule_id = id;
          const bool is_direct = id == GQSGD_SCHEDULE_DIRECT;
          if (sent_as == SentAs::bf16 && !is_direct) continue;
          if (error_ratio(question) >= kErrorRatioMax) continue;
          double other_ns = 0;
          ASSERT_TRUE(predict_time(question, built_in_costs(), &other_ns).ok());
          EXPECT_LE(least_part(choice.sent_as, sent_as) * time_ns, other_ns)
              << ranks << ' ' << value_count << ' ' << id << ' ' << static_cast<int>(sent_as);
          if (id == choice.schedule_id && sent_as == choice.sent_as) {
            EXPECT_EQ(time_ns, other_ns);
          }
        }
      }
    }
  }
}

TEST(Choose, LongCalls_CompressedAndShortOnesNot) {
  const Format format;
  EXPECT_EQ(chosen(question_of(format, 4, 64)).sent_as, SentAs::float32);
  EXPECT_EQ(chosen(question_of(format, 4, 100000000)).sent_as, SentAs::codes);
  EXPECT_EQ(chosen(question_of(format, 4, 64), false).sent_as, SentAs::codes);
}

double least_ns(CostQuestion question) {
  double least = 0;
  for (const int32_t id : {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_RING,
                           GQSGD_SCHEDULE_BUTTERFLY}) {
    question.schedule_id = id;
    double time_ns = 0;
    EXPECT_TRUE(test::succeeds(predict_time(question, built_in_costs(), &time_ns)));
    if (least == 0 || time_ns < least) least = time_ns;
  }
  return least;
}

double direct_ns(CostQuestion question) {
  double time_ns = 0;
  question.schedule_id = GQSGD_SCHEDULE_DIRECT;
  EXPECT_TRUE(test::succeeds(predict_time(question, built_in_costs(), &time_ns)));
  return time_ns;
}

/** By how much codes are predicted cheaper at the first length from which on they are taken. */
double gain_where_codes_begin(bool reads_in_place) {
  for (uint64_t value_count = 64; value_count < 100000000; value_count += value_count / 16) {
    CostQuestion question = question_of(Format(), 4, value_count);
    question.reads_in_place = reads_in_place;
    if (chosen(question).sent_as != SentAs::codes) continue;
    const double codes_ns = least_ns(question);
    question.format = sent_format(Format(), SentAs::bf16);
    const double bf16_ns = direct_ns(question);
    question.format = uncompressed(Format());
    return std::min(bf16_ns, least_ns(question)) / codes_ns;
  }
  return 0;
}

TEST(Choose, BusyLinks_CodesEarlierThanInOneMemory) {
  EXPECT_LT(gain_where_codes_begin(false), 1 / 0.97);
  EXPECT_GT(gain_where_codes_begin(false), 0.8);
  EXPECT_GT(gain_where_codes_begin(true), 1 / 0.9);
}

/** Constants of a transport whose own allreduce has cheap steps, and bytes like all others. */
CostConstants with_native() {
  CostConstants constants = built_in_costs();
  constants.native_step_ns = 100;
  constants.native_byte_ns = constants.byte_ns;
  return constants;
}

Choice chosen_with(const CostConstants& constants, const CostQuestion& question) {
  Choice choice{};
  double time_ns = 0;
  EXPECT_TRUE(test::succeeds(choose(question, constants, true, &choice, &time_ns)));
  return choice;
}

bool sends_floats(const CostConstants& constants, const CostQuestion& question) {
  return chosen_with(constants, question).sent_as != SentAs::codes;
}

// From slow links to fast ones: each form where it is the cheapest. What asks for floats of 16 bits
// gets them or float32, and fp16 is never chosen for codes.
TEST(Choose, LinksOfAllRates_CodesThenBf16ThenFloat32) {
  Format blocks;
  blocks.block = 128;
  blocks.rescale = true;
  blocks.rounding = Rounding::correlated;
  CostQuestion question = question_of(blocks, 2, 1 << 22);
  question.reads_in_place = false;
  CostConstants constants = built_in_costs();
  std::vector<SentAs> taken;
  for (constants.byte_ns = 4; constants.byte_ns > 0.001; constants.byte_ns /= 1.1) {
    const SentAs sent_as = chosen_with(constants, question).sent_as;
    if (taken.empty() || taken.back() != sent_as) taken.push_back(sent_as);
  }
  EXPECT_EQ(taken, (std::vector<SentAs>{SentAs::codes, SentAs::bf16, SentAs::float32}));
  for (const Levels levels : {Levels::bf16, Levels::fp16}) {
    question.format = Format();
    question.format.levels = levels;
    question.format.bits = question.format.bits_down = 16;
    for (constants.byte_ns = 4; constants.byte_ns > 0.001; constants.byte_ns /= 1.1) {
      EXPECT_NE(chosen_with(constants, question).sent_as, SentAs::bf16);
    }
  }
}

// Links on which floats and codes take nearly the same: what others may send decides.
TEST(Choose, TrafficOnEvenLinks_CodesAndFloatsWithoutIt) {
  CostQuestion question = question_of(Format(), 2, 1 << 22);
  question.reads_in_place = false;
  CostConstants constants = built_in_costs();
  int differ = 0;
  for (constants.byte_ns = 0.05; constants.byte_ns < 2; constants.byte_ns *= 1.05) {
    constants.traffic_factor = 1.25;
    const bool busy = sends_floats(constants, question);
    constants.traffic_factor = 1;
    const bool quiet = sends_floats(constants, question);
    EXPECT_TRUE(quiet || !busy) << constants.byte_ns;
    differ += busy != quiet;
    constants.traffic_factor = 0;  // as 1: links are not free
    EXPECT_EQ(sends_floats(constants, question), quiet);
  }
  EXPECT_GE(differ, 3);
}

TEST(Choose, FloatsInOneMessage_TreeElseRing) {
  const CostConstants all_equal{};
  CostQuestion question = question_of(Format(), 2, 65536 / 4);
  EXPECT_EQ(chosen_with(all_equal, question).schedule_id, GQSGD_SCHEDULE_RING);
  question.reads_in_place = false;
  EXPECT_EQ(chosen_with(all_equal, question).schedule_id, GQSGD_SCHEDULE_TREE);
  question.value_count += 1;
  EXPECT_EQ(chosen_with(all_equal, question).schedule_id, GQSGD_SCHEDULE_RING);
}

TEST(Choose, ShortCalls_LeftToATransportThatAdds) {
  CostQuestion question = question_of(Format(), 4, 64);
  question.transport_adds = true;
  const Choice taken = chosen_with(with_native(), question);
  EXPECT_EQ(taken.schedule_id, GQSGD_SCHEDULE_NATIVE);
  EXPECT_EQ(taken.sent_as, SentAs::float32);
  question.format = uncompressed(question.format);  // asked for
  EXPECT_EQ(chosen_with(with_native(), question).schedule_id, GQSGD_SCHEDULE_NATIVE);
  question.value_count = 100000000;
  question.format = Format();
  EXPECT_EQ(chosen_with(with_native(), question).sent_as, SentAs::codes);
}

TEST(Choose, TransportCannotAddOrIsNotMeasured_OtherSchedules) {
  CostQuestion question = question_of(Format(), 4, 64);
  EXPECT_NE(chosen_with(with_native(), question).schedule_id, GQSGD_SCHEDULE_NATIVE);
  question.transport_adds = true;
  EXPECT_NE(chosen_with(built_in_costs(), question).schedule_id, GQSGD_SCHEDULE_NATIVE);
  question.format.levels = Levels::exponential;  // cannot be added as integers
  question.format.combine = Combine::sum;
  CostConstants never_plain = with_native();
  Choice choice{};
  double time_ns = 0;
  ASSERT_TRUE(choose(question, never_plain, false, &choice, &time_ns).ok());
  EXPECT_NE(choice.schedule_id, GQSGD_SCHEDULE_NATIVE);
}

TEST(Choose, SlowLinksBetweenNodes_HierarchyWhereTheErrorStays) {
  Format blocks;
  blocks.block = 128;
  const Nodes nodes({0, 0, 0, 0, 1, 1, 1, 1});
  const Nodes apart({0, 1, 2, 3, 4, 5, 6, 7});
  CostQuestion question = question_of(blocks, 8, 10000000);
  EXPECT_EQ(chosen(question, false).schedule_id, GQSGD_SCHEDULE_DIRECT);
  question.nodes = &apart;
  EXPECT_EQ(chosen(question, false).schedule_id, GQSGD_SCHEDULE_DIRECT);
  question.nodes = &nodes;
  EXPECT_EQ(chosen(question, false).schedule_id, GQSGD_SCHEDULE_HIERARCHICAL);
  question.format.rescale = true;
  EXPECT_EQ(chosen(question, false).schedule_id, GQSGD_SCHEDULE_DIRECT);
}

TEST(Choose, FloatsOnAnyNodes_Hierarchy) {
  const Nodes nodes({0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  CostQuestion question = question_of(uncompressed(Format()), 16, 10000000);
  question.nodes = &nodes;
  EXPECT_EQ(chosen(question).schedule_id, GQSGD_SCHEDULE_HIERARCHICAL);
}

TEST(Choose, OnlyAnOwnerCanReencode_Direct) {
  Format blocks;
  blocks.block = 128;
  blocks.rescale = true;
  for (const uint32_t ranks : {2u, 7u, 300u}) {
    for (const uint64_t value_count : {100u, 1000000u}) {
      EXPECT_EQ(chosen(question_of(blocks, ranks, value_count), false).schedule_id,
                GQSGD_SCHEDULE_DIRECT);
    }
  }
}

TEST(Choose, ChainsOfRoundingsAndFewerLevels_LeftOut) {
  Format average, sum;
  const Format exact;
  average.combine = Combine::average;
  sum.combine = Combine::sum;
  sum.levels = Levels::exponential;
  for (const Format& format : {average, sum, exact}) {
    for (uint32_t ranks = 3; ranks < 40; ++ranks) {
      CostQuestion question = question_of(format, ranks, 64);
      question.transport_adds = true;
      Choice choice{};
      double time_ns = 0;
      ASSERT_TRUE(choose(question, with_native(), false, &choice, &time_ns).ok());
      EXPECT_EQ(choice.schedule_id, GQSGD_SCHEDULE_DIRECT) << ranks;
    }
  }
}

TEST(Choose, NonfiniteError_KeepsTheNorm) {
  Format strict;
  strict.nonfinite = Nonfinite::error;
  EXPECT_EQ(chosen(question_of(strict, 4, 64)).sent_as, SentAs::codes);
}

TEST(Choose, Uncompressed_KeepsSeedAndRoundingOfOutputs) {
  Format format;
  format.seed = 77;
  format.rounding = Rounding::nearest;
  EXPECT_EQ(uncompressed(format).seed, 77u);
  EXPECT_EQ(uncompressed(format).rounding, Rounding::nearest);
  format.rounding = Rounding::correlated;
  EXPECT_EQ(uncompressed(format).rounding, Rounding::independent);
}

}  // namespace
}  // namespace gq
