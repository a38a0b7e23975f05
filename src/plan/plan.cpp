// Which schedules a format can use with how many ranks, and how a call is cut.
#include "src/plan/plan.h"

#include "src/schedule/nodes.h"
#include "src/support/names.h"

namespace gq {
namespace {

// Steps that a rank may be ahead of what it waits for. With 1 a call of 4 hosts that share two
// processors takes 1.2 times as long in 8 bits and 1.5 times in 4; with more than 2 hosts have more
// on their way than their ports hold, and wait longer for the last of it
// (docs/decisions/0001-moves-in-order.md).
constexpr uint32_t kPipelineDepthOnWires = 2;

// On streams a message of one round is received in the next but one
// (src/gpu/enqueue/plan/execution_plan.h): a deeper pipeline would only add rounds at a call's
// begin and end.
constexpr uint32_t kPipelineDepthOnStreams = 2;

uint32_t pipeline_depth_of(const PlanRequest& request) {
  if (request.reads_in_place) return 1;
  return request.stages_are_launches ? kPipelineDepthOnStreams : kPipelineDepthOnWires;
}

uint64_t chunk_values(const PlanRequest& request, const Coding& coding) {
  const bool floats_travel = coding.levels == Levels::none && !request.reads_in_place;
  return floats_travel ? floats_per_message(request.chunk_value_count) : request.chunk_value_count;
}

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/** AUTO is direct: one rounding for any number of ranks, and two messages in sequence. */
Status find_schedule(int32_t id, const Schedule** schedule) {
  *schedule = schedule_by_id(id == GQSGD_SCHEDULE_AUTO ? GQSGD_SCHEDULE_DIRECT : id);
  if (*schedule != nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "schedule is %d; allowed are the GQSGD_SCHEDULE_* constants, 0 to %d",
              static_cast<int>(id), GQSGD_SCHEDULE_SPARSE);
}

Status check_sparse(const Format& format, const Schedule& schedule) {
  const char* field = schedule.sends_sparse_entries ? dense_field(format) : nullptr;
  if (field == nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "schedule %s adds sparse entries of linear or exponential codes with one norm and "
              "encodes nothing again. It does not go with %s; use schedule direct, or "
              "levels=linear or exponential with block=0, rotate=none, width=fixed, "
              "rescale=false, rounding_down=random, mantissa_bits=0 and bits_down equal to bits",
              schedule.name, field);
}

Status check_integers(const Format& format, const Schedule& schedule) {
  if (!schedule.adds_natively || adds_exactly(format)) return Status();
  return fail(
      GQSGD_INVALID_ARGUMENT,
      "schedule %s lets the transport add codes as integers, which needs levels=linear with "
      "combine=exact, or levels=none; this format has levels=%s,combine=%s: use schedule "
      "direct or auto",
      schedule.name, name_in(names_of(kLevelsList), static_cast<size_t>(format.levels)),
      name_in(names_of(kCombineList), static_cast<size_t>(format.combine)));
}

Status check_tensors(const PlanRequest& request, const Schedule& schedule) {
  if (request.operation != Operation::allreduce_many || !schedule.sends_sparse_entries)
    return Status();
  return fail(
      GQSGD_INVALID_ARGUMENT,
      "schedule %s makes sparse entries of one tensor's codes; allreduce_many goes with the "
      "other schedules, or with auto",
      schedule.name);
}

Status check_wide_only(const Format& format, const Schedule& schedule) {
  const char* field = wide_only_field(format);
  if (field == nullptr || schedule.adds_wide) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "schedule %s reduces in code form, and %s needs an owner that adds wide and encodes "
              "once; use schedule direct or auto",
              schedule.name, field);
}

Status check_levels(const Format& format, const Coding& coding, const Schedule& schedule) {
  if (coding.levels != Levels::linear || coding.steps > 0) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "combine=exact with %d bits has no level left for %u ranks in schedule %s "
              "(%u / %u < 1); use combine=average, or schedule direct, which adds wide",
              static_cast<int>(format.bits), coding.ranks, schedule.name, code_max(format.bits),
              coding.ranks);
}

uint64_t given_value_count(const PlanRequest& request) {
  if (request.segments == nullptr) return request.value_count;
  uint64_t count = 0;
  for (uint64_t k = 0; k < request.segment_count; ++k) count += request.segments[k].value_count;
  return count;
}

}  // namespace

const char* wide_only_field(const Format& format) {
  if (format.levels == Levels::rice) return "levels=rice";
  if (format.mean_half_bits != 0) return "width=adaptive";
  if (format.levels == Levels::bf16) return "levels=bf16";
  if (format.levels == Levels::fp16) return "levels=fp16";
  if (format.bits_down != format.bits) return "bits_down other than bits";
  if (format.rounding_down != RoundingDown::random) return "rounding_down=subtractive";
  if (format.rescale) return "rescale=true";
  if (format.mantissa_bits != 0) return "mantissa_bits";
  return nullptr;
}

const char* dense_field(const Format& format) {
  if (format.levels == Levels::none) return "levels=none";
  if (format.block != 0) return "block";
  if (format.rotate != Rotate::none) return "rotate=hadamard";
  return wide_only_field(format);
}

bool adds_exactly(const Format& format) {
  const bool exact = format.levels == Levels::linear && format.combine == Combine::exact;
  return exact || format.levels == Levels::none;
}

Shape shape_of(const PlanRequest& request, const Coding& coding) {
  Shape shape;
  shape.ranks = request.ranks;
  shape.value_count = request.value_count;
  shape.value_alignment = part_alignment(coding);
  shape.chunk_value_count = round_up(chunk_values(request, coding), shape.value_alignment);
  shape.pipeline_depth = pipeline_depth_of(request);
  shape.block_norms = coding.block != 0;
  return shape;
}

Coding float_coding(Format format, uint32_t ranks) {
  format.rotate = Rotate::none;
  format.block = 0;
  format.mean_half_bits = 0;
  format.mantissa_bits = 0;
  format.levels = Levels::none;
  format.bits = format.bits_down = 32;
  return coding_of(format, ranks, 0);
}

void set_groups(const Groups& groups, Plan* plan) {
  plan->groups = groups;
  for (Coding* coding : {&plan->coding, &plan->decoding, &plan->one_rank}) {
    if (!coding->grouped()) continue;
    coding->group_values = groups.group_values;
    coding->group_planes = groups.group_planes;
    coding->group_planes_down = groups.group_planes_down;
  }
}

Status make_plan(const PlanRequest& request, Plan* plan) {
  if (has_one_schedule(request.operation)) {
    plan_slices(request, plan);
    return Status();
  }
  GQ_TRY(find_schedule(request.schedule_id, &plan->schedule));
  GQ_TRY(check_tensors(request, *plan->schedule));
  plan->schedule_id = plan->schedule->id;
  const bool hierarchical = plan->schedule_id == GQSGD_SCHEDULE_HIERARCHICAL;
  const bool flat = request.nodes == nullptr || request.nodes->is_flat();
  if (hierarchical && flat) plan->schedule = schedule_by_id(GQSGD_SCHEDULE_DIRECT);
  const uint32_t reduction_depth = plan->schedule->reduction_depth(request.ranks);
  plan->coding = plan->decoding = coding_of(*request.format, request.ranks, reduction_depth);
  if (plan->coding.levels == Levels::rice) {
    plan->decoding = float_coding(*request.format, request.ranks);
  }
  GQ_TRY(check_sparse(*request.format, *plan->schedule));
  GQ_TRY(check_wide_only(*request.format, *plan->schedule));
  GQ_TRY(check_integers(*request.format, *plan->schedule));
  GQ_TRY(check_levels(*request.format, plan->coding, *plan->schedule));
  if (plan->coding.grouped()) {
    set_groups(interleaved_groups(request.value_count, plan->coding), plan);
  }
  plan->shape = shape_of(request, plan->coding);
  if (plan->coding.grouped()) plan->shape.value_count = plan->groups.padded_count();
  plan->given_value_count = given_value_count(request);
  plan->shape.nodes = hierarchical && !flat ? request.nodes : nullptr;
  plan->shape.encodes_nodes_down =
      plan->shape.nodes != nullptr && plan->coding.encodes_nodes_down();
  const bool single_chunks = plan->schedule->adds_wide && !plan->schedule->sends_sparse_entries;
  plan->layout = Layout(plan->coding, plan->shape,
                        {.reads_in_place = request.reads_in_place,
                         .has_room = request.has_room && single_chunks,
                         .orders_messages = request.stages_are_launches});
  if (plan->schedule->sends_sparse_entries)
    plan->layout.add_sparse_entries(plan->shape, request.reads_in_place);
  if (request.segment_count > 0) {
    const bool on_device = plan->coding.grouped() && request.stages_are_launches;
    const size_t places = on_device ? static_cast<size_t>(request.segment_count) : 0;
    plan->layout.add_segments(request.segment_count, request.ranks, request.reads_in_place,
                              places * sizeof(SegmentPlace));
  }
  if (plan->coding.levels == Levels::rice && request.stages_are_launches) {
    const uint64_t nodes = plan->shape.nodes == nullptr ? 1 : plan->shape.nodes->count();
    plan->float_sums_count = nodes * shard_value_count(plan->shape, shard_count(plan->shape));
    const size_t sums = static_cast<size_t>(plan->float_sums_count);
    plan->float_sums_bytes = reserve_behind(&plan->layout, sums * sizeof(float));
  }
  return Status();
}

}  // namespace gq
