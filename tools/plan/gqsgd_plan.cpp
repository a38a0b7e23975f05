// gqsgd-plan: a schedule's moves, totals, time and error before anything runs. See --help.
#include <cinttypes>
#include <cstdio>
#include <new>

#include "src/api/communicator/costs_file.h"
#include "src/api/communicator/options_string.h"
#include "src/api/quantizer/quantizer_spec.h"
#include "src/plan/choose.h"
#include "src/schedule/nodes.h"
#include "src/support/names.h"
#include "src/theory/bounds.h"
#include "tools/plan/advice.h"
#include "tools/plan/draw.h"
#include "tools/plan/options.h"
#include "tools/plan/schedules.h"

namespace gq::tools {
namespace {

constexpr uint32_t kDrawnRanksMax = 16;
constexpr int32_t kScheduleIds[] = {GQSGD_SCHEDULE_RING,         GQSGD_SCHEDULE_TREE,
                                    GQSGD_SCHEDULE_BUTTERFLY,    GQSGD_SCHEDULE_DIRECT,
                                    GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_SCHEDULE_NATIVE};
constexpr const char* kKindList[] = {
    "norm",   "merge_norms", "quantize", "send",      "receive_operand", "receive_result",
    "reduce", "reduce_many", "add_all",  "await_sum", "dequantize"};
constexpr const char* kContentList[] = {"codes", "sums", "norms"};

const char* kind_name(const Move& move) {
  return name_in(names_of(kKindList), static_cast<size_t>(move.kind));
}

const char* schedule_name(int32_t id) {
  return name_in(names_of(kScheduleList), static_cast<size_t>(id));
}

Status read_costs(const PlanOptions& options, CostConstants* constants) {
  *constants = built_in_costs();
  if (!options.costs_path.empty()) {
    AutoOptions read;
    GQ_TRY(gq::read_costs(options.costs_path, &read));
    if (!read.costs) {
      return fail(GQSGD_INVALID_ARGUMENT,
                  "--costs %s: there are no ranks here to measure; give a file, or the string of "
                  "gqsgd_comm_costs",
                  options.costs_path.c_str());
    }
    *constants = *read.costs;
  }
  if (options.bits_per_s > 0) {
    constants->byte_ns = constants->device_link_byte_ns = 8e9 / options.bits_per_s;
    constants->native_step_ns = constants->native_byte_ns = 0;  // measured on another link
  }
  return Status();
}

Status read_nodes(const PlanOptions& options, Nodes* nodes) {
  CommOptions of_comm;
  const std::string comm_options = options.nodes.empty() ? "" : "nodes=" + options.nodes;
  GQ_TRY(gq::parse_options(comm_options.c_str(), &of_comm));
  if (of_comm.nodes.empty()) of_comm.nodes.assign(options.ranks, 0);
  if (of_comm.nodes.size() != options.ranks) {
    return fail(GQSGD_INVALID_ARGUMENT, "--nodes has %zu numbers for %u ranks",
                of_comm.nodes.size(), options.ranks);
  }
  *nodes = Nodes(of_comm.nodes);
  return Status();
}

void print_moves(const Plan& plan, uint32_t rank) {
  std::printf("kind\tcontent\tpeer\torigin\tfirst_value\tvalue_count\thop\tweight_a\tweight_b\n");
  MoveCursor cursor(plan.schedule, plan.shape, rank);
  for (Move move; cursor.next(&move);) {
    std::printf("%s\t%s\t%u\t%u\t%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%u\n", kind_name(move),
                name_in(names_of(kContentList), static_cast<size_t>(move.content)), move.peer,
                move.origin, move.first_value, move.value_count, move.hop, move.weight_a,
                move.weight_b);
  }
}

void print_timeline(const Plan& plan) {
  std::printf("rank\tkind\tpeer\tfirst_value\tvalue_count\thop\tstart\tend\n");
  for (const TimedMove& timed : timeline(*plan.schedule, plan.shape, Machine())) {
    const Move& move = timed.move;
    std::printf("%u\t%s\t%u\t%" PRIu64 "\t%" PRIu64 "\t%u\t%.9g\t%.9g\n", timed.rank,
                kind_name(move), move.peer, move.first_value, move.value_count, move.hop,
                timed.start, timed.end);
  }
}

/** Ranks differ in trees and butterflies, so up to 16 are all shown, and of more the one asked for.
 */
void print_totals(const Plan& plan, uint32_t rank) {
  const bool all = plan.shape.ranks <= kDrawnRanksMax;
  std::printf("\n  rank  messages     codes sent  norms sent  values reduced\n");
  for (uint32_t r = all ? 0 : rank; r < (all ? plan.shape.ranks : rank + 1); ++r) {
    const Totals totals = totals_of(plan, r);
    std::printf("%6u  %8" PRIu64 "  %13" PRIu64 "  %10" PRIu64 "  %14" PRIu64 "\n", r,
                totals.messages_sent, totals.values_sent, totals.norms_sent, totals.reductions);
  }
}

void print_times(const CostQuestion& question, const CostConstants& constants,
                 const Choice& choice) {
  const double byte_ns = link_byte_ns(question, constants);
  if (byte_ns > 0) {
    std::printf("\n  predicted time, microseconds, at %.4g Mbit/s\n", 8e3 / byte_ns);
  } else {
    std::printf("\n  predicted time, microseconds, on links that take no time for bytes\n");
  }
  std::printf("    %-28s%11s  %11s  %11s\n", "", "codes", "float32", "bf16");
  for (const int32_t id : kScheduleIds) {
    if (id == GQSGD_SCHEDULE_HIERARCHICAL && question.nodes->is_flat()) continue;
    const bool modelled = id == GQSGD_SCHEDULE_DIRECT || id == GQSGD_SCHEDULE_NATIVE;
    if (question.on_device && !modelled) continue;
    std::printf("    %-28s", schedule_name(id));
    for (const SentAs sent_as : {SentAs::codes, SentAs::float32, SentAs::bf16}) {
      CostQuestion one = question;
      one.schedule_id = id;
      one.format = sent_format(question.format, sent_as);
      double time_ns = 0;
      const bool known = predict_time(one, constants, &time_ns).ok();
      const bool chosen = id == choice.schedule_id && sent_as == choice.sent_as;
      if (known) std::printf("%11.1f%s ", time_ns * 1e-3, chosen ? "*" : " ");
      if (!known) std::printf("%11s  ", "-");
    }
    std::printf("\n");
  }
  std::printf("    (* what schedule=auto takes with these constants; - does not go together)\n");
}

void print_error(const CostQuestion& question, const Plan& plan) {
  double theta = 0;
  const uint32_t reduction_depth = plan.schedule->reduction_depth(question.ranks);
  const uint32_t encodes = plan.shape.nodes != nullptr ? 2 : 1;
  if (question.format.levels == Levels::none) {
    std::printf("\n  error: float32 sums, nothing is quantized\n");
    return;
  }
  const Status bounded = variance_bound(question.format, question.ranks, question.value_count,
                                        reduction_depth, &theta, encodes);
  if (bounded.ok()) {
    std::printf("\n  error: E ||G - mean||^2 <= %.4g / n * sum of ||x_i||^2\n", theta);
  } else {
    std::printf("\n  error: %s\n", bounded.sentence());
  }
}

Status print_plan(const PlanOptions& options, const CostQuestion& question, const Plan& plan,
                  const CostConstants& constants) {
  char format[256];
  describe_quantizer(question.format, format, sizeof format);
  std::printf("%s\nschedule %s, %u ranks, %" PRIu64 " values, chunks of %" PRIu64 "\n", format,
              plan.schedule->name, question.ranks, question.value_count,
              plan.shape.chunk_value_count);
  print_totals(plan, options.rank);
  Choice choice{};
  double time_ns = 0;
  GQ_TRY(choose(question, constants, true, &choice, &time_ns));
  print_times(question, constants, choice);
  print_error(question, plan);
  if (question.ranks > kDrawnRanksMax) return Status();
  Shape drawn = plan.shape;  // more than a few chunks would be a blur
  drawn.value_count = std::min(drawn.value_count, 2 * drawn.ranks * drawn.chunk_value_count);
  std::printf("\n%s%s", drawn.value_count < plan.shape.value_count ? "its first chunks:\n" : "",
              drawing_of(timeline(*plan.schedule, drawn, Machine()), drawn.ranks).c_str());
  return Status();
}

Status run(const PlanOptions& options) {
  CostQuestion question{};
  GQ_TRY(parse_quantizer(options.format.c_str(), &question.format));
  question.ranks = options.ranks;
  question.value_count = options.value_count;
  question.reads_in_place = options.reads_in_place;
  question.chunk_value_count =
      options.chunk_value_count != 0
          ? options.chunk_value_count
      : options.on_device
          ? kChunkValueCountOnStreams
          : default_chunk_value_count(options.reads_in_place, options.ranks);
  question.dtype = options.dtype;
  question.transport_adds = true;  // AUTO asks for constants that know of it as well
  question.on_device = options.on_device;
  Nodes nodes;
  GQ_TRY(read_nodes(options, &nodes));
  question.nodes = &nodes;
  CostConstants constants;
  GQ_TRY(read_costs(options, &constants));
  if (options.show == Show::advice) return print_advice(options, question, constants);
  if (options.schedule == GQSGD_SCHEDULE_SPARSE) {
    return fail(GQSGD_UNSUPPORTED,
                "schedule sparse sends the codes that are not zero, so what it sends is known when "
                "the values are; gqsgd_comm_stat counts the bytes of calls");
  }
  question.schedule_id = options.schedule;
  if (options.schedule == GQSGD_SCHEDULE_AUTO) {
    Choice choice{};
    double time_ns = 0;
    GQ_TRY(choose(question, constants, false, &choice, &time_ns));
    question.schedule_id = choice.schedule_id;
  }
  Plan plan;
  PlanRequest request{&question.format,     question.schedule_id,       question.ranks,
                      question.value_count, question.chunk_value_count, question.reads_in_place};
  request.nodes = &nodes;
  request.stages_are_launches = options.on_device;
  GQ_TRY(make_plan(request, &plan));
  if (options.show == Show::moves) return print_moves(plan, options.rank), Status();
  if (options.show == Show::timeline) return print_timeline(plan), Status();
  return print_plan(options, question, plan, constants);
}

}  // namespace
}  // namespace gq::tools

int main(int argc, char** argv) {
  gq::tools::PlanOptions options;
  const gq::tools::Parsed parsed = gq::tools::parse_options(argc, argv, &options);
  if (parsed == gq::tools::Parsed::stop) return 0;
  if (parsed == gq::tools::Parsed::refused) return 2;
  try {
    const gq::Status status = gq::tools::run(options);
    if (status.ok()) return 0;
    std::fprintf(stderr, "gqsgd-plan: %s\n", status.sentence());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "gqsgd-plan: no memory for %u ranks and %" PRIu64 " values; take fewer\n",
                 options.ranks, options.value_count);
  }
  return 1;
}
