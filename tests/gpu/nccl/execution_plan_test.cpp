// Programs whose messages travel while stages work: no step touches what is under way beside it,
// and a wait that is missing is seen.
#include "src/gpu/enqueue/plan/execution_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/gpu/enqueue/plan/batches.h"
#include "tests/support/operation.h"
#include "tests/support/succeeds.h"

namespace gq::test {
namespace {

using Steps = std::vector<ExecutionStep>;
using Kind = ExecutionStep::Kind;

struct Case {
  std::string quantizer;
  gqsgd_schedule schedule;
  uint32_t ranks;
  uint64_t value_count;
  uint64_t chunk_value_count;
};

std::string describe(const Case& test) {
  return test.quantizer + " " + schedule_name(test.schedule) + ", " + std::to_string(test.ranks) +
         " ranks, " + std::to_string(test.value_count) + " values in chunks of " +
         std::to_string(test.chunk_value_count);
}

ExecutionPlan plan_of(const Case& test, uint32_t rank, Pace pace) {
  Format format;
  EXPECT_TRUE(test::succeeds(parse_quantizer(test.quantizer.c_str(), &format)));
  PlanRequest request{&format,          test.schedule,          test.ranks,
                      test.value_count, test.chunk_value_count, false};
  request.stages_are_launches = true;
  Plan plan;
  EXPECT_TRUE(test::succeeds(make_plan(request, &plan)));
  ExecutionPlan execution_plan;
  EXPECT_TRUE(test::succeeds(execution_plan.make(plan, rank, nullptr, pace)));
  return execution_plan;
}

/** Bytes of the arena. */
struct Access {
  size_t begin;
  size_t size_bytes;
  bool writes;
};
using Accesses = std::vector<Access>;

bool collide(const Access& a, const Access& b) {
  const bool apart = a.begin + a.size_bytes <= b.begin || b.begin + b.size_bytes <= a.begin;
  return a.size_bytes > 0 && !apart && (a.writes || b.writes);
}

/** Of a call in one piece: a stage works on all values of its move. */
Accesses of_stage(const ExecutionPlan& execution_plan, const ExecutionStep& step) {
  const Layout& layout = execution_plan.plan().layout;
  const Move& move = step.move;
  const auto of = [&](Content content, bool writes) -> Access {
    const bool is_there = content != Content::norms || execution_plan.plan().coding.block != 0;
    return {layout.offset_bytes(content, move.first_value),
            is_there ? layout.size_bytes(content, move.value_count) : 0, writes};
  };
  const Access norms = of(Content::norms, false), words = of(move.content, true);
  switch (move.kind) {
    case MoveKind::norm:
      return {of(Content::norms, true)};
    case MoveKind::merge_norms:
      return {of(Content::norms, true), {step.from_bytes, norms.size_bytes, false}};
    case MoveKind::quantize:
      return {words, norms};
    case MoveKind::reduce:
      return {words, {step.from_bytes, words.size_bytes, false}};
    default: {
      Accesses all = {of(Content::sums, true), norms};
      for (uint32_t k = 0; k < step.count; ++k) {
        all.push_back({execution_plan.operands()[step.first + k], words.size_bytes, false});
      }
      return all;
    }
  }
}

Accesses accesses_of(const ExecutionPlan& execution_plan, const ExecutionStep& step) {
  switch (step.kind) {
    case Kind::stage:
      return of_stage(execution_plan, step);
    case Kind::copy:
      return {{step.from_bytes, step.size_bytes, false}, {step.to_bytes, step.size_bytes, true}};
    case Kind::sum:
      return {{step.to_bytes, step.size_bytes, true}};
    case Kind::join:
      return {};
    case Kind::exchange:
      break;
  }
  Accesses all;
  for (uint32_t k = 0; k < step.count; ++k) {
    const Transfer& transfer = execution_plan.transfers()[step.first + k];
    all.push_back({transfer.here_bytes, transfer.size_bytes, !transfer.sends});
  }
  return all;
}

/** "" if no step touches what an exchange on the side stream reads or writes before it is joined.
 */
std::string collision(const ExecutionPlan& execution_plan, const Steps& steps) {
  Accesses unjoined;
  for (size_t k = 0; k < steps.size(); ++k) {
    const ExecutionStep& step = steps[k];
    if (step.kind == Kind::join) unjoined.clear();
    const Accesses own = accesses_of(execution_plan, step);
    // Exchanges on the side stream come after each other.
    for (const Access& access : step.on_side_stream ? Accesses() : own) {
      for (const Access& other : unjoined) {
        if (collide(access, other)) {
          return "step " + std::to_string(k) + " of " + std::to_string(steps.size()) + " at byte " +
                 std::to_string(std::max(access.begin, other.begin));
        }
      }
    }
    if (step.on_side_stream) unjoined.insert(unjoined.end(), own.begin(), own.end());
  }
  return unjoined.empty() ? "" : "an exchange is never joined";
}

size_t count_of(const Steps& steps, Kind kind) {
  return static_cast<size_t>(std::count_if(
      steps.begin(), steps.end(), [kind](const ExecutionStep& step) { return step.kind == kind; }));
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const uint32_t ranks : {1u, 2u, 3u, 5u, 8u}) {
    for (const uint64_t value_count : {33, 1000, 4099}) {
      for (const char* quantizer : {"paper-gl8", "none", "paper-gl8,block=32"}) {
        for (const gqsgd_schedule schedule : kSchedules) {
          cases.push_back({quantizer, schedule, ranks, value_count, 64});
        }
        cases.push_back({quantizer, GQSGD_SCHEDULE_NATIVE, ranks, value_count, 64});
      }
      for (const char* quantizer : kWideFormats) {
        cases.push_back({quantizer, GQSGD_SCHEDULE_DIRECT, ranks, value_count, 128});
      }
    }
  }
  return cases;
}

TEST(ExecutionPlan, OperationsUnderWay_Untouched) {
  for (const Case& test : all_cases()) {
    for (uint32_t rank = 0; rank < test.ranks; ++rank) {
      const ExecutionPlan execution_plan = plan_of(test, rank, Pace::overlapped);
      EXPECT_EQ(collision(execution_plan, execution_plan.steps()), "")
          << describe(test) << ", rank " << rank;
    }
  }
}

/** In a ring and a tree operands may come long before they are needed: there a wait that is missing
 *  may be made up for by the next one. */
TEST(ExecutionPlan, MissingWait_Found) {
  for (const gqsgd_schedule schedule : kSchedules) {
    const ExecutionPlan execution_plan =
        plan_of({"paper-gl8", schedule, 3, 4099, 64}, 1, Pace::overlapped);
    size_t joins = 0, missed = 0;
    for (size_t k = 0; k < execution_plan.steps().size(); ++k) {
      if (execution_plan.steps()[k].kind != Kind::join) continue;
      Steps without = execution_plan.steps();
      without.erase(without.begin() + static_cast<ptrdiff_t>(k));
      missed += collision(execution_plan, without).empty() ? 0 : 1;
      ++joins;
    }
    EXPECT_GT(joins, 10u) << schedule_name(schedule);
    EXPECT_GT(missed, 0u) << schedule_name(schedule);
    if (schedule == GQSGD_SCHEDULE_DIRECT) {
      EXPECT_EQ(missed, joins);
    }
  }
}

TEST(ExecutionPlan, ChunksOfACall_Overlap) {
  for (const gqsgd_schedule schedule : kSchedules) {
    const ExecutionPlan execution_plan =
        plan_of({"paper-gl8", schedule, 4, 4096, 64}, 1, Pace::overlapped);
    const auto& steps = execution_plan.steps();
    const size_t overlapping = static_cast<size_t>(std::count_if(
        steps.begin(), steps.end(), [](const auto& step) { return step.on_side_stream; }));
    EXPECT_GE(3 * overlapping, count_of(steps, Kind::exchange)) << schedule_name(schedule);
  }
}

/** With parts of one chunk there is nothing to overlap, and a second stream would cost for nothing.
 */
TEST(ExecutionPlan, OneChunk_SameAtEveryPace) {
  for (const char* quantizer : {"paper-gl8", "blocks-8"}) {
    for (const gqsgd_schedule schedule : kSchedules) {
      if (quantizer != std::string("paper-gl8") && schedule != GQSGD_SCHEDULE_DIRECT) continue;
      const Case test{quantizer, schedule, 4, 1000, 4096};
      const ExecutionPlan overlapped = plan_of(test, 2, Pace::overlapped);
      const ExecutionPlan in_turns = plan_of(test, 2, Pace::in_turns);
      EXPECT_EQ(count_of(overlapped.steps(), Kind::join), 0u) << describe(test);
      EXPECT_EQ(count_of(overlapped.steps(), Kind::exchange),
                count_of(in_turns.steps(), Kind::exchange))
          << describe(test);
      EXPECT_EQ(overlapped.steps().size(), in_turns.steps().size()) << describe(test);
    }
  }
}

/** Codes of a chunk that travel in one round are made by one launch. */
TEST(ExecutionPlan, EachChunk_QuantizedByOneLaunch) {
  for (const char* quantizer : {"paper-gl8", "blocks-8"}) {
    for (const uint32_t rank : {0u, 1u, 3u}) {
      const Case test{quantizer, GQSGD_SCHEDULE_DIRECT, 4, 4 * 6 * 1024, 1024};
      const ExecutionPlan execution_plan = plan_of(test, rank, Pace::overlapped);
      const Steps& steps = execution_plan.steps();
      size_t launches = 0;
      for (size_t first = 0; first < steps.size(); first = batch_end(steps, first)) {
        const bool is_stage = steps[first].kind == Kind::stage;
        launches += is_stage && steps[first].move.kind == MoveKind::quantize ? 1 : 0;
      }
      EXPECT_EQ(launches, 6u) << describe(test) << ", rank " << rank;
    }
  }
}

/** One exchange for each chunk of a part, and a few to fill and to empty the line. */
TEST(ExecutionPlan, EachChunk_InterleavesStages) {
  for (const char* quantizer : {"paper-gl8", "blocks-8", "none"}) {
    const Case test{quantizer, GQSGD_SCHEDULE_DIRECT, 4, 4 * 40 * 1024, 1024};
    const size_t chunks = std::string(quantizer) == "none" ? 160 : 40;
    const size_t exchanges = count_of(plan_of(test, 1, Pace::overlapped).steps(), Kind::exchange);
    EXPECT_GE(exchanges, chunks) << quantizer;
    EXPECT_LE(exchanges, chunks + 8) << quantizer;
  }
}

}  // namespace
}  // namespace gq::test
