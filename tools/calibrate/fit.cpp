// Descent along one constant at a time, in factors that shrink: few constants, and each prediction
// grows with each of them.
#include "tools/calibrate/fit.h"

#include <cmath>
#include <iterator>

#include "bench/perf/team.h"

namespace gq::tools {
namespace {

// Those that are 0 stay so.
constexpr double CostConstants::*kFitted[] = {
    &CostConstants::call_ns,       &CostConstants::header_ns,
    &CostConstants::latency_ns,    &CostConstants::message_ns,
    &CostConstants::byte_ns,       &CostConstants::cache_bytes,
    &CostConstants::burst_bytes,   &CostConstants::direct_step_ns,
    &CostConstants::tree_step_ns,  &CostConstants::butterfly_step_ns,
    &CostConstants::ring_step_ns,  &CostConstants::native_step_ns,
    &CostConstants::native_byte_ns};

// Where the descent begins for what steps of the schedules take of their own.
constexpr double kFirstStepNs = 100;

constexpr double kRoundness = 0.1;
constexpr double kLargestFactor = 4;
constexpr double kCoarsestFactor = 1.5;  // of a first descent, from many places
constexpr double kSmallestFactor = 1.02;

// Stages take longer inside calls than alone, where ranks wait, share caches or processors; by more
// than this it is the links that are slow.
constexpr double kLeastScale = 0.5, kMostScale = 4;

// A descent does not find from afar where a call leaves the caches, whether it is links or stages
// that a byte waits for, links or processors that a message does, nor that a link lets bursts
// through: so it begins at each of these places.
constexpr double kFirstCaches[] = {1e6, 4e6, 16e6, 64e6};
constexpr double kFirstLinkShares[] = {0.02, 0.9};  // of byte_ns_of()
constexpr double kFirstBursts[] = {1, 1e5};
struct FirstMessage {
  double latency_ns, message_ns;
};
constexpr FirstMessage kFirstMessages[] = {{20000, 500}, {1000, 8000}};

/** Rows whose stages take longer by one factor: those of each kind of levels, of which one format
 * is timed. */
constexpr size_t kKindCount = 3;
size_t kind_of(size_t row) {
  switch (static_cast<CostRow>(row)) {
    case CostRow::none:
      return 0;
    case CostRow::exponential8:
    case CostRow::exponential4:
    case CostRow::mantissa:
      return 1;
    default:  // linear codes, and what is paid on top of them
      return 2;
  }
}

struct Guess {
  CostConstants constants;
  double scales[kKindCount] = {1, 1, 1};  ///< of the stages of each kind
  double off = 0;                         ///< misfit
};

/** False if stages would be scaled beyond what is believed. */
bool scale_stages(size_t kind, double factor, Guess* guess) {
  double& scale = guess->scales[kind];
  scale *= factor;
  for (size_t row = 0; row < kCostRowCount; ++row) {
    if (kind_of(row) != kind) continue;
    for (StageCost& cost : guess->constants.stages[row]) {
      cost = {cost.cached * factor, cost.streamed * factor, cost.range * factor};
    }
  }
  return kLeastScale <= scale && scale <= kMostScale;
}

/** Change `number` of what is fitted; false if it is not to be tried. */
bool change(size_t number, double factor, Guess* guess) {
  if (number >= std::size(kFitted)) return scale_stages(number - std::size(kFitted), factor, guess);
  guess->constants.*kFitted[number] *= factor;
  return true;
}
constexpr size_t kChangeCount = std::size(kFitted) + kKindCount;

/** The mean of what `of` makes of log(predicted / measured). */
template <typename Of>
double mean_of(const std::vector<TimedCall>& calls, const CostConstants& constants, Of of) {
  double sum = 0;
  for (const TimedCall& call : calls) {
    double predicted_ns = 0;
    const Status predicted = predict_time(call.question, constants, &predicted_ns);
    if (!predicted.ok()) throw bench::Failure(predicted.sentence());
    sum += of(std::log(predicted_ns / call.time_ns));
  }
  return sum / static_cast<double>(calls.size());
}

/** The misfit, but round where it is small: along one constant at a time a descent gets stuck at
 *  every call that is met exactly, where another one would have to change with it. */
double rounded_misfit(const std::vector<TimedCall>& calls, const CostConstants& constants) {
  return mean_of(calls, constants, [](double off) { return std::hypot(off, kRoundness); });
}

/** From factors of 4 down to one that is larger than `smallest`. */
void descend(const std::vector<TimedCall>& calls, double smallest, Guess* guess) {
  guess->off = rounded_misfit(calls, guess->constants);
  for (double factor = kLargestFactor; factor > smallest; factor = std::sqrt(factor)) {
    for (bool better = true; better;) {
      better = false;
      for (size_t number = 0; number < kChangeCount; ++number) {
        for (const double by : {factor, 1 / factor}) {
          Guess tried = *guess;
          if (!change(number, by, &tried)) continue;
          tried.off = rounded_misfit(calls, tried.constants);
          if (tried.off >= guess->off * 0.9999) continue;
          *guess = tried;
          better = true;
        }
      }
    }
  }
}

/** Nanoseconds for each byte that a rank sends, in the longest call of floats by a ring; 0 if there
 *  is none. */
double byte_ns_of(const std::vector<TimedCall>& calls) {
  double most_bytes = 0, byte_ns = 0;
  for (const TimedCall& call : calls) {
    const CostQuestion& question = call.question;
    const bool is_ring = question.schedule_id == GQSGD_SCHEDULE_RING;
    if (!is_ring || question.format.levels != Levels::none) continue;
    const double ranks = question.ranks;
    const double bytes = 8 * (ranks - 1) / ranks * static_cast<double>(question.value_count);
    if (bytes <= most_bytes) continue;
    most_bytes = bytes;
    byte_ns = call.time_ns / bytes;
  }
  return byte_ns;
}

/** Where descents begin; constants that are not set here stay as they are. */
std::vector<CostConstants> first_constants(const std::vector<TimedCall>& calls,
                                           CostConstants constants) {
  const double byte_ns = byte_ns_of(calls);
  const bool in_memory = !calls.empty() && calls[0].question.reads_in_place;
  constants.direct_step_ns = constants.tree_step_ns = kFirstStepNs;
  constants.butterfly_step_ns = constants.ring_step_ns = kFirstStepNs;
  std::vector<CostConstants> all;
  for (const double cache_bytes : kFirstCaches) {
    for (const double link_share : kFirstLinkShares) {
      for (const double burst_bytes : kFirstBursts) {
        if (in_memory && burst_bytes != kFirstBursts[0]) continue;
        for (const FirstMessage& message : kFirstMessages) {
          constants.cache_bytes = cache_bytes;
          if (byte_ns > 0) constants.byte_ns = link_share * byte_ns;
          constants.burst_bytes = in_memory ? 0 : burst_bytes;
          constants.latency_ns = message.latency_ns;
          constants.message_ns = message.message_ns;
          all.push_back(constants);
        }
      }
    }
  }
  return all;
}

}  // namespace

double misfit(const std::vector<TimedCall>& calls, const CostConstants& constants) {
  return mean_of(calls, constants, [](double off) { return std::abs(off); });
}

void fit(const std::vector<TimedCall>& calls, CostConstants* constants) {
  Guess best;
  bool any = false;
  for (const CostConstants& first : first_constants(calls, *constants)) {
    Guess guess{first};
    descend(calls, kCoarsestFactor, &guess);
    if (any && guess.off >= best.off) continue;
    any = true;
    best = guess;
  }
  descend(calls, kSmallestFactor, &best);
  *constants = best.constants;
}

}  // namespace gq::tools
