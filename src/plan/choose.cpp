// Every schedule with float32, bf16 and codes, costed in a fixed order: of near equals the first
// wins.
#include "src/plan/choose.h"

#include <algorithm>
#include <iterator>

#include "src/plan/error_ratio.h"
#include "src/schedule/nodes.h"

namespace gq {
namespace {

constexpr int32_t kOfCodes[] = {GQSGD_SCHEDULE_DIRECT,    GQSGD_SCHEDULE_HIERARCHICAL,
                                GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_TREE,
                                GQSGD_SCHEDULE_RING,      GQSGD_SCHEDULE_NATIVE};
// Where they cost the same a ring's work is the most even, and its moves are made first. A tree
// sends the fewest messages, and far beyond caches its ranks, which do not all work at once, get
// more of the memory bandwidth that they share.
constexpr int32_t kRingFirst[] = {GQSGD_SCHEDULE_RING,         GQSGD_SCHEDULE_TREE,
                                  GQSGD_SCHEDULE_BUTTERFLY,    GQSGD_SCHEDULE_DIRECT,
                                  GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_SCHEDULE_NATIVE};
constexpr int32_t kTreeFirst[] = {GQSGD_SCHEDULE_TREE,         GQSGD_SCHEDULE_RING,
                                  GQSGD_SCHEDULE_BUTTERFLY,    GQSGD_SCHEDULE_DIRECT,
                                  GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_SCHEDULE_NATIVE};
constexpr double kFarBeyondCaches = 10;

// Differences smaller than this are noise: then the earlier candidate is kept, which is
// the one without codes, or with less noise or fewer moves.
constexpr double kClearlyCheaper = 0.97;
// Codes have a larger error than bf16, and float32 has none; predictions are met within 10 %. On
// links that counts for nothing beside traffic_factor.
constexpr double kWorthAnError = 0.9;
// The transport's own allreduce changes its way with the length as it likes, and two constants are
// all that is known of it.
constexpr double kClearlyCheaperNative = 0.9;

/** False for what no plan can be made of, and for what AUTO does not take. */
bool is_candidate(const CostQuestion& question, SentAs sent_as, const CostConstants& constants) {
  const Format& format = question.format;
  const bool native = question.schedule_id == GQSGD_SCHEDULE_NATIVE;
  const bool native_known = question.on_device || knows_native(constants);
  if (native && !(question.transport_adds && native_known && adds_exactly(format))) return false;
  if (question.on_device && !native) {
    return question.schedule_id == GQSGD_SCHEDULE_DIRECT && sent_as == SentAs::codes;
  }
  const bool hierarchical = question.schedule_id == GQSGD_SCHEDULE_HIERARCHICAL;
  if (hierarchical && (question.nodes == nullptr || question.nodes->is_flat())) return false;
  const bool reencodes = hierarchical || question.schedule_id == GQSGD_SCHEDULE_DIRECT;
  if (!reencodes && wide_only_field(format) != nullptr) return false;
  return error_ratio(question) < kErrorRatioMax;
}

/** Whether the ranks of one memory touch many times what their caches hold. */
bool goes_far(const CostQuestion& question, const CostConstants& constants) {
  return question.reads_in_place && constants.cpus > 0 &&
         touched_bytes(question, constants) > kFarBeyondCaches * constants.cache_bytes;
}

/** Whether floats of the call travel as one message. */
bool fits_a_message(const CostQuestion& question) {
  return !question.reads_in_place &&
         question.value_count <= floats_per_message(question.chunk_value_count);
}

/** The fraction of the best time so far that a candidate has to stay below. */
double needed_part(const CostQuestion& candidate, SentAs sent_as, const Choice& best) {
  if (candidate.schedule_id == GQSGD_SCHEDULE_NATIVE) return kClearlyCheaperNative;
  const bool has_more_error = best.sent_as != sent_as;
  return has_more_error && candidate.reads_in_place ? kWorthAnError : kClearlyCheaper;
}

/** The constants that choices are made by. */
CostConstants on_busy_links(const CostQuestion& question, CostConstants constants) {
  if (question.reads_in_place || question.on_device) return constants;
  const double factor = std::max(1.0, constants.traffic_factor);
  constants.byte_ns *= factor;
  constants.native_byte_ns *= factor;
  return constants;
}

}  // namespace

Format sent_format(const Format& format, SentAs sent_as) {
  if (sent_as == SentAs::codes) return format;
  Format floats;
  floats.levels = sent_as == SentAs::bf16 ? Levels::bf16 : Levels::none;
  floats.bits = floats.bits_down = sent_as == SentAs::bf16 ? 16 : 32;
  const bool nearest = format.rounding == Rounding::nearest;
  floats.rounding = nearest ? Rounding::nearest : Rounding::independent;
  floats.seed = format.seed;
  return floats;
}

Status choose(const CostQuestion& question, const CostConstants& constants,
              bool may_be_uncompressed, Choice* choice, double* time_ns) {
  const CostConstants busy = on_busy_links(question, constants);
  const bool tree_first = goes_far(question, constants) || fits_a_message(question);
  const Levels levels = question.format.levels;
  const bool replaces = may_be_uncompressed && levels != Levels::none &&
                        question.format.nonfinite != Nonfinite::error;
  // What a call may send. A later form replaces an earlier one by needed_part().
  const struct {
    SentAs sent_as;
    bool is_possible;
    const int32_t (*schedules)[std::size(kOfCodes)];
  } forms[] = {{SentAs::float32, replaces, tree_first ? &kTreeFirst : &kRingFirst},
               {SentAs::bf16, replaces && !is_narrow(levels) && !question.on_device, &kOfCodes},
               {SentAs::codes, true, &kOfCodes}};
  CostQuestion chosen = question;
  double least_ns = 0;
  bool found = false;
  for (const auto& form : forms) {
    if (!form.is_possible) continue;
    CostQuestion candidate = question;
    candidate.format = sent_format(question.format, form.sent_as);
    for (const int32_t schedule_id : *form.schedules) {
      candidate.schedule_id = schedule_id;
      if (!is_candidate(candidate, form.sent_as, constants)) continue;
      double candidate_ns = 0;
      GQ_TRY(predict_time(candidate, busy, &candidate_ns));
      const double part = found ? needed_part(candidate, form.sent_as, *choice) : 1;
      if (found && candidate_ns >= part * least_ns) continue;
      found = true;
      chosen = candidate;
      least_ns = candidate_ns;
      *choice = {schedule_id, form.sent_as};
    }
  }
  return predict_time(chosen, constants, time_ns);
}

}  // namespace gq
