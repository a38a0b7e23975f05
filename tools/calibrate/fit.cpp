// Descent along one constant at a time, in factors that shrink: few constants, and each prediction
// grows with each of them.
#include "tools/calibrate/fit.h"

#include <cmath>
#include <iterator>

#include "bench/perf/team.h"

namespace gq::tools {
namespace {

constexpr double CostConstants::*kFitted[] = {
    &CostConstants::call_ns,        &CostConstants::header_ns,     &CostConstants::latency_ns,
    &CostConstants::message_ns,     &CostConstants::byte_ns,       &CostConstants::cache_bytes,
    &CostConstants::native_step_ns, &CostConstants::native_byte_ns};  // 0 stays 0

constexpr double kLargestFactor = 4;
constexpr double kSmallestFactor = 1.02;

// A cache's size makes a step in the times of calls, which a descent does not find from afar.
constexpr double kFirstCaches[] = {1e6, 4e6, 16e6, 64e6};

/** Stages take longer inside calls, where ranks wait and caches are shared, than alone: float32
 * words and codes by a factor each. */
void scale_stages(bool of_none, double factor, CostConstants* constants) {
  for (size_t row = 0; row < kCostRowCount; ++row) {
    if ((row == static_cast<size_t>(CostRow::none)) != of_none) continue;
    for (StageCost& cost : constants->stages[row]) {
      cost = {cost.cached * factor, cost.streamed * factor, cost.range * factor};
    }
  }
}

/** Change `number` of what is fitted. */
void change(size_t number, double factor, CostConstants* constants) {
  if (number < std::size(kFitted)) {
    constants->*kFitted[number] *= factor;
  } else {
    scale_stages(number == std::size(kFitted), factor, constants);
  }
}
constexpr size_t kChangeCount = std::size(kFitted) + 2;

/** The misfit of what it ends with. */
double descend(const std::vector<TimedCall>& calls, CostConstants* constants) {
  double least = misfit(calls, *constants);
  for (double factor = kLargestFactor; factor > kSmallestFactor; factor = std::sqrt(factor)) {
    for (bool better = true; better;) {
      better = false;
      for (size_t number = 0; number < kChangeCount; ++number) {
        for (const double by : {factor, 1 / factor}) {
          CostConstants tried = *constants;
          change(number, by, &tried);
          const double found = misfit(calls, tried);
          if (found >= least * 0.9999) continue;
          least = found;
          *constants = tried;
          better = true;
        }
      }
    }
  }
  return least;
}

}  // namespace

double misfit(const std::vector<TimedCall>& calls, const CostConstants& constants) {
  double sum = 0;
  for (const TimedCall& call : calls) {
    double predicted_ns = 0;
    if (!predict_time(call.question, constants, &predicted_ns).ok()) {
      throw bench::Failure(last_error());
    }
    sum += std::abs(std::log(predicted_ns / call.time_ns));
  }
  return sum / static_cast<double>(calls.size());
}

void fit(const std::vector<TimedCall>& calls, CostConstants* constants) {
  const CostConstants start = *constants;
  double least = misfit(calls, start);
  for (const double cache_bytes : kFirstCaches) {
    CostConstants found = start;
    found.cache_bytes = cache_bytes;
    const double off = descend(calls, &found);
    if (off >= least) continue;
    least = off;
    *constants = found;
  }
}

}  // namespace gq::tools
