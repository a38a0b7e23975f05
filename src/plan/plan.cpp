// Which schedules a format can use with how many ranks, and how long an arena must be.
#include "src/plan/plan.h"

#include "src/support/names.h"

namespace gq {
namespace {

// Words start on cache lines of their own in the landing area.
constexpr size_t kLineBytes = 64;

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/** AUTO is direct: one rounding for any number of ranks, and two messages in sequence. */
Status find_schedule(int32_t id, const Schedule** schedule) {
  *schedule = schedule_by_id(id == GQSGD_SCHEDULE_AUTO ? GQSGD_SCHEDULE_DIRECT : id);
  if (*schedule != nullptr) return Status();
  if (id >= GQSGD_SCHEDULE_AUTO && id <= GQSGD_SCHEDULE_SPARSE) {
    return fail(
        GQSGD_UNSUPPORTED,
        "schedule %d is not built yet; this version has auto, ring, tree, butterfly, direct",
        static_cast<int>(id));
  }
  return fail(GQSGD_INVALID_ARGUMENT,
              "schedule is %d; allowed are the GQSGD_SCHEDULE_* constants, 0 to %d",
              static_cast<int>(id), GQSGD_SCHEDULE_SPARSE);
}

Status check_levels(const Format& format, const Coding& coding, const Schedule& schedule) {
  if (coding.levels != Levels::linear || coding.steps > 0) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "combine=exact with %d bits has no level left for %u ranks in schedule %s "
              "(%u / %u < 1); use combine=average, or schedule direct, which adds wide",
              static_cast<int>(format.bits), coding.ranks, schedule.name, code_max(format.bits),
              coding.ranks);
}

}  // namespace

Status make_plan(const PlanRequest& request, Plan* plan) {
  GQ_TRY(find_schedule(request.schedule_id, &plan->schedule));
  const uint32_t combines = plan->schedule->combines(request.ranks);
  plan->coding = coding_of(*request.format, request.ranks, combines);
  GQ_TRY(check_levels(*request.format, plan->coding, *plan->schedule));
  plan->shape.ranks = request.ranks;
  plan->shape.value_count = request.value_count;
  plan->shape.value_alignment = kValueAlignment;
  plan->shape.chunk_value_count = request.chunk_value_count;

  const uint64_t chunk = request.chunk_value_count < request.value_count ? request.chunk_value_count
                                                                         : request.value_count;
  plan->landing_bytes = round_up(plan->size_bytes(request.value_count), kLineBytes);
  plan->landing_slot_bytes = round_up(plan->size_bytes(chunk), kLineBytes);
  const uint64_t slots = request.reads_in_place ? 0 : request.ranks;
  plan->arena_bytes = plan->landing_bytes + slots * plan->landing_slot_bytes;
  return Status();
}

}  // namespace gq
