// The terms of a prediction: what every call pays, the norm that comes before the control message,
// and the moves, of which long calls repeat the same ones.
#include "src/plan/cost/cost_model.h"

#include <algorithm>
#include <new>

#include "src/plan/cost/cost_walk.h"
#include "src/plan/cost/device_cost.h"
#include "src/schedule/nodes.h"

namespace gq {
namespace {

/** Null where all ranks are on one node, or each on its own: then all links are alike. */
const Nodes* nodes_of(const CostQuestion& question) {
  const Nodes* nodes = question.nodes;
  return nodes == nullptr || nodes->is_flat() ? nullptr : nodes;
}

/** Ranks that share processors and a cache: those of the largest node. */
uint32_t neighbours(const CostQuestion& question) {
  const Nodes* nodes = nodes_of(question);
  return nodes == nullptr ? question.ranks : nodes->part_count();
}

/** Ranks for each processor, where they share processors and there are more of them. */
double crowding(const CostQuestion& question, const CostConstants& constants) {
  return constants.cpus > 0 ? std::max(1.0, neighbours(question) / constants.cpus) : 1.0;
}

/** What a prediction is made from. */
struct Terms {
  const CostQuestion& question;
  const CostConstants& constants;
  double cached;  ///< share of what is touched
  CodecCost codec;
};

/** The first rank of a node of most ranks, or of fewest: it owns the most shards there. */
uint32_t rank_of_extreme(const Nodes& nodes, bool most) {
  uint32_t found = 0;
  for (uint32_t node = 1; node < nodes.count(); ++node) {
    const uint32_t size = nodes.size_of(node), best = nodes.size_of(found);
    if (most ? size > best : size < best) found = node;
  }
  return nodes.rank_of(found, 0);
}

/** What each step of a schedule takes of its own; native's are part of its move. */
double step_ns(int32_t schedule_id, const CostConstants& constants) {
  switch (schedule_id) {
    case GQSGD_SCHEDULE_DIRECT:
    case GQSGD_SCHEDULE_HIERARCHICAL:
      return constants.direct_step_ns;
    case GQSGD_SCHEDULE_TREE:
      return constants.tree_step_ns;
    case GQSGD_SCHEDULE_BUTTERFLY:
      return constants.butterfly_step_ns;
    case GQSGD_SCHEDULE_RING:
      return constants.ring_step_ns;
    default:
      return 0;
  }
}

/** As many steps lead to sums as there are reductions one after another, and as many back. */
double steps_ns(const Plan& plan, const CostConstants& constants) {
  const uint32_t ranks = plan.shape.ranks;
  if (ranks == 1 || plan.shape.value_count == 0) return 0;
  return 2.0 * std::max(1u, plan.schedule->reduction_depth(ranks)) *
         step_ns(plan.schedule_id, constants);
}

/** Ranks that share a processor wait while others work: each processor time of one is lengthened by
 *  that of those with which it shares. Stages from memory were timed with all processors at work on
 *  it: where ranks share one and one of them waits, the others get its memory bandwidth, and no
 *  time is lost.
 */
double moves_ns(const Plan& plan, const Terms& terms, uint32_t rank) {
  const WalkTimes times =
      walk_moves(plan, terms.codec, terms.constants, rank, nodes_of(terms.question));
  const double waited_ns = times.finish_ns - times.busy_ns;
  const bool one_memory = terms.question.reads_in_place && terms.constants.cpus > 0;
  const double made_up = one_memory ? 1 - terms.cached : 0;
  return times.finish_ns - made_up * waited_ns +
         times.busy_ns * (crowding(terms.question, terms.constants) - 1);
}

/** Where nodes differ, the largest share a link among most, and in a hierarchy ranks of the
 *  smallest own the most shards: all wait for the slower. */
double slowest_moves_ns(const Plan& plan, const Terms& terms) {
  const Nodes* nodes = nodes_of(terms.question);
  if (nodes == nullptr) return moves_ns(plan, terms, 0);
  return std::max(moves_ns(plan, terms, rank_of_extreme(*nodes, true)),
                  moves_ns(plan, terms, rank_of_extreme(*nodes, false)));
}

/** Chunks of a shard that are walked one by one: enough for the pipelines to be full. Those of
 * direct and of a hierarchy are 5 chunks deep, that of a tree 3 for each of its up to 20 levels. */
uint64_t walked_chunks(const Plan& plan) {
  if (plan.schedule->id == GQSGD_SCHEDULE_TREE) return 512;
  return std::clamp<uint64_t>((uint64_t{1} << 20) / plan.shape.ranks, 48, 256);
}

// The chain of maxima and sums that a walk is repeats itself with a period of a few chunks: of two
// in direct, of three or four where the pipeline depth is as many chunks. This is a multiple of
// those.
constexpr uint64_t kPeriodChunks = 12;

/** Once pipelines are full each period of chunks takes as long as the one before it. So of longer
 *  calls two shorter ones are walked, which differ from it, and from each other, by whole periods.
 */
double all_moves_ns(Plan plan, const Terms& terms) {
  const uint32_t parts = part_count(plan);
  const uint64_t chunk = plan.shape.chunk_value_count;
  const uint64_t shard = parts == 1 ? plan.shape.value_count : shard_value_count(plan.shape, parts);
  const uint64_t walked = walked_chunks(plan);
  const auto without = [&](uint64_t periods) {
    plan.shape.value_count = parts * (shard - periods * kPeriodChunks * chunk);  // all shards full
    return slowest_moves_ns(plan, terms);
  };
  if (shard <= walked * chunk) return without(0);
  const uint64_t left_out = (shard / chunk - walked) / kPeriodChunks + 1;
  const uint64_t between = walked / kPeriodChunks / 2;
  const double longer_ns = without(left_out);
  const double shorter_ns = without(left_out + between);
  return longer_ns +
         static_cast<double>(left_out) * (longer_ns - shorter_ns) / static_cast<double>(between);
}

/** Of a short call by direct, beyond its control messages: the values of all ranks on their way to
 *  this one, and the work of all ranks. */
double short_moves_ns(const Plan& plan, const Terms& terms) {
  const CostQuestion& question = terms.question;
  const uint64_t values = question.value_count;
  const double sent_bytes =
      (question.ranks - 1.0) * static_cast<double>(values) * dtype_bytes(question.dtype);
  double own_ns = question.ranks * terms.constants.move_ns;
  for (const CostStage stage : {CostStage::norm, CostStage::quantize, CostStage::dequantize}) {
    const bool is_done = stage != CostStage::norm || has_norm(question.format.levels);
    if (is_done) own_ns += terms.codec.of(stage, values);
  }
  const uint64_t shard = shard_value_count(plan.shape, question.ranks);
  own_ns += terms.codec.of(CostStage::sum, shard);
  own_ns += std::max(0.0, question.ranks - 2.0) * terms.codec.of(CostStage::add, shard);
  return sent_bytes * terms.constants.byte_ns +
         question.ranks * own_ns * crowding(question, terms.constants);
}

}  // namespace

double touched_bytes(const CostQuestion& question, const CostConstants& constants) {
  const double for_one = 2.0 * dtype_bytes(question.dtype) + question.format.bits / 8.0;
  const double sharing = constants.cpus > 0 ? neighbours(question) : 1;
  return sharing * static_cast<double>(question.value_count) * for_one;
}

Status predict_time(const CostQuestion& question, const CostConstants& constants, double* time_ns) {
  Plan plan;
  PlanRequest request{&question.format,     question.schedule_id,       question.ranks,
                      question.value_count, question.chunk_value_count, question.reads_in_place};
  request.nodes = question.nodes;
  request.stages_are_launches = question.on_device;
  GQ_TRY(make_plan(request, &plan));
  if (question.on_device) return predict_device_time(plan, question, constants, time_ns);
  if (plan.schedule->sends_sparse_entries) {
    return fail(GQSGD_UNSUPPORTED,
                "the time of schedule sparse depends on how many codes are zero; schedule direct "
                "is what it falls back to");
  }
  if (plan.schedule->adds_natively && !knows_native(constants)) {
    return fail(GQSGD_UNSUPPORTED,
                "the time of schedule native is the transport's own: native_step_ns and "
                "native_byte_ns are not among these constants; gqsgd-calibrate-mpi measures them");
  }
  const double cached = cached_share(constants, touched_bytes(question, constants));
  const Terms terms{question, constants, cached, codec_cost(constants, plan.coding, cached)};
  const double control_ns = constants.call_ns + question.ranks * constants.header_ns;
  if (question.is_short && plan.schedule_id == GQSGD_SCHEDULE_DIRECT) {
    *time_ns = control_ns + short_moves_ns(plan, terms);
    return Status();
  }
  const bool norm_first = has_norm(question.format.levels) &&
                          (plan.coding.block == 0 || question.format.nonfinite == Nonfinite::error);
  const double norm_ns = norm_first ? terms.codec.of(CostStage::norm, question.value_count) *
                                          crowding(question, constants)
                                    : 0;
  try {
    *time_ns = control_ns + norm_ns + steps_ns(plan, constants) + all_moves_ns(plan, terms);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory to cost the moves of %u ranks", question.ranks);
  }
  return Status();
}

}  // namespace gq
