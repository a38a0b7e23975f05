// The order of the rounds, and the cost model's formulas the other way round.
#include "src/plan/cost/measure_rounds.h"

#include <math.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>

namespace gq {
namespace {

// Stages are timed until then; what is left is for links.
constexpr double kStagesNs = 60e6;
// Rounds of the links end before the whole time is over: an expectation may be a little short.
constexpr double kLinksEndNs = 0.95 * kMeasureBudgetNs;
// An exchange of control messages beside other work waits for it, so that the shortest counts.
constexpr uint32_t kBarrierCount = 5;
constexpr uint32_t kGrowth = 4;
// So many of the longest messages are 2 MiB: rounds of as many are alike.
constexpr uint32_t kManyMessages = 32;
// Rounds of the most messages: the fastest one counts.
constexpr uint32_t kRepeats = 3;
// Of messages that take what any message takes.
constexpr size_t kShortBytes = 64;
// Index of the first sizes beyond those that a message takes whatever its length.
constexpr size_t kFirstLong = 2;
constexpr int kDigits = 4;
// Less is no time: it would be the noise of a difference.
constexpr double kLeastNs = 1e-6;

double rounded(double number) {
  char text[40];
  const auto end =
      std::to_chars(text, text + sizeof text, number, std::chars_format::scientific, kDigits - 1);
  double kept = 0;
  std::from_chars(text, end.ptr, kept);
  return kept;
}

/** A time that the cost constants can have. */
double time_of(double ns) {
  if (!(ns > kLeastNs)) return 0;
  return rounded(std::min(ns, 1e12));
}

}  // namespace

// Each longer message is no surprise: it takes 4 or 8 times what the one before it took, at most.
const MeasureRounds::Sizes MeasureRounds::kLinkSizes[kLinkSizesCount] = {
    {RoundKind::link, kShortBytes, 1, 4, 64, 0.3},
    {RoundKind::link, kShortBytes, kWindow, 16, 256, 0.3},
    {RoundKind::link, 256, kWindow, 8, 8, 0.4},
    {RoundKind::link, 1024, kWindow, 8, 8, 0.4},
    {RoundKind::link, 4096, kWindow, 8, 32, 0.4},
    {RoundKind::link, 16384, kWindow, 8, 8, 0.5},
    {RoundKind::link, kMessageBytes, kWindow, 2, 2048, 1},
};
const MeasureRounds::Sizes MeasureRounds::kSumSizes[kSumSizesCount] = {
    {RoundKind::sum, kShortBytes, 1, 4, 16, 0.2}, {RoundKind::sum, 512, 1, 4, 4, 0.3},
    {RoundKind::sum, 4096, 1, 4, 4, 0.3},         {RoundKind::sum, 32768, 1, 1, 4, 0.5},
    {RoundKind::sum, 262144, 1, 1, 4, 0.7},       {RoundKind::sum, kSumBytes, 1, 1, 64, 1},
};

void MeasureRounds::begin(const MeasuredGroup& group) {
  *this = MeasureRounds();
  group_ = group;
  constants_ = built_in_costs();
}

void MeasureRounds::agree(const RoundNumbers& slowest, double elapsed_ns) {
  elapsed_ns_ = elapsed_ns;
  switch (round_.kind) {
    case RoundKind::shares:
      round_.kind = RoundKind::processors;
      return;
    case RoundKind::processors:
      round_.kind = RoundKind::machine;
      return;
    case RoundKind::machine:
      constants_.cpus = rounded(std::max(0.0, -double{slowest.of[0]}));
      if (slowest.of[1] < 0) constants_.cache_bytes = rounded(-double{slowest.of[1]});
      round_.kind = RoundKind::stages;
      round_.row = CostRow::none;
      return;
    case RoundKind::stages:
      keep_stages(slowest);
      if (next_row()) return;
      round_ = MeasureRound();
      round_.kind = RoundKind::barrier;
      return;
    case RoundKind::barrier:
      barrier_ns_ = barriers_ == 0 ? slowest.of[0] : std::min(barrier_ns_, double{slowest.of[0]});
      if (++barriers_ < kBarrierCount) return;
      next_target(kFar);
      return;
    default:
      keep_time(slowest.of[0]);
      next_of_target();
  }
}

/** Memory costs what it costs the built-in machine: to leave all caches would take more workspace
 *  than many calls have. */
void MeasureRounds::keep_stages(const RoundNumbers& slowest) {
  const size_t row = static_cast<size_t>(round_.row);
  for (size_t stage = 0; stage < kCostStageCount; ++stage) {
    StageCost& cost = constants_.stages[row][stage];
    cost.cached = time_of(slowest.of[stage]);
    cost.streamed = std::max(cost.cached, cost.streamed);
  }
}

bool MeasureRounds::next_row() {
  const size_t next = static_cast<size_t>(round_.row) + 1;
  if (next == kCostRowCount || elapsed_ns_ > kStagesNs) return false;
  round_.row = static_cast<CostRow>(next);
  return true;
}

/** Of rounds that are alike the fastest counts: ranks that wait for a processor slow a round, and
 *  nothing speeds it up but what a link lets through at once after it was idle. Rounds of many long
 *  messages are alike, for which that is little. */
void MeasureRounds::keep_time(double message_ns) {
  message_ns_ = message_ns;
  LinkTimes& times = links_[target_];
  const auto keep = [&](double* kept_ns) {
    *kept_ns = *kept_ns == 0 ? message_ns : std::min(*kept_ns, message_ns);
  };
  if (size_ == 0) keep(&times.chain_ns);
  if (size_ == 1) keep(&times.small_ns);
  if (size_ < kFirstLong) return;
  const double bytes = static_cast<double>(round_.size_bytes);
  if (times.large_bytes != bytes || times.large_count < kManyMessages) times.large_ns = 0;
  keep(&times.large_ns);
  times.large_bytes = bytes;
  times.large_count = round_.count;
}

bool MeasureRounds::has(uint32_t target) const {
  if (group_.ranks == 1) return false;
  if (target == kNear) return group_.has_near;
  return target != kSum || group_.transport_adds;
}

/** From `target` on: the first one that there is gets an equal part of the time. */
void MeasureRounds::next_target(uint32_t target) {
  while (target < kTargetCount && !has(target)) ++target;
  if (target == kTargetCount) {
    round_.kind = RoundKind::done;
    return;
  }
  uint32_t left = 0;
  for (uint32_t later = target; later < kTargetCount; ++later) left += has(later) ? 1 : 0;
  target_ = target;
  target_begin_ns_ = elapsed_ns_;
  target_ns_ = std::max(0.0, kLinksEndNs - elapsed_ns_) / left;
  size_ = repeats_ = 0;
  message_ns_ = 0;  // not known: the first round is made whatever it takes
  try_round(sizes_of_target()[0], sizes_of_target()[0].first_count);
}

/** More messages of this size, or longer ones, as long as there is time for them. */
void MeasureRounds::next_of_target() {
  const Sizes& same = sizes_of_target()[size_];
  const uint32_t more = std::min(round_.count * kGrowth, same.most_count);
  const bool again =
      more > round_.count || (repeats_ < kRepeats && more >= kManyMessages * kGrowth);
  if (again && try_round(same, more)) {
    repeats_ += more == same.most_count ? 1 : 0;
    return;
  }
  repeats_ = 0;
  if (size_ + 1 < sizes_count()) {
    const Sizes& longer = sizes_of_target()[size_ + 1];
    if (try_round(longer, longer.first_count) || try_round(longer, 1)) {
      size_ += 1;
      return;
    }
  }
  next_target(target_ + 1);
}

/** Makes it the round unless it is expected to last too long: a longer message takes as much longer
 *  at most. */
bool MeasureRounds::try_round(const Sizes& sizes, uint32_t count) {
  const double longer = round_.size_bytes == 0 || message_ns_ == 0
                            ? 1
                            : std::max(1.0, static_cast<double>(sizes.size_bytes) /
                                                static_cast<double>(round_.size_bytes));
  const double expected_ns = message_ns_ * longer * count + barrier_ns_;
  const double left_ns = target_begin_ns_ + target_ns_ - elapsed_ns_;
  if (message_ns_ > 0 && expected_ns > std::min(left_ns, sizes.share * target_ns_)) return false;
  round_.kind = sizes.kind;
  round_.inside_node = target_ == kNear;
  round_.size_bytes = sizes.size_bytes;
  round_.window = sizes.window;
  round_.count = count;
  return true;
}

/** In one memory a rank reads the words itself; elsewhere they travel while it works, and a long
 *  message takes what its bytes take. */
double MeasureRounds::byte_ns(const LinkTimes& times, double senders) const {
  const bool adds_up = group_.reads_in_place || times.large_bytes < kMessageBytes;
  const double words_ns =
      adds_up ? std::max(times.large_ns - times.small_ns, times.large_ns / 4) : times.large_ns;
  const double bytes = times.large_bytes - (adds_up ? kShortBytes : 0);
  return words_ns / bytes / senders;
}

CostConstants MeasureRounds::constants() const {
  CostConstants constants = constants_;
  const LinkTimes &far = links_[kFar], &near = links_[kNear], &sum = links_[kSum];
  constants.header_ns = time_of(std::min(constants.header_ns, barrier_ns_ / (2.0 * group_.ranks)));
  constants.call_ns = time_of(barrier_ns_ - constants.header_ns * group_.ranks);
  if (group_.ranks == 1) return constants;
  constants.burst_bytes = 0;
  constants.traffic_factor = 1;  // what others send was there when the links were measured
  // A message of many is sent and one is received in that time.
  constants.message_ns = time_of(far.small_ns / 2);
  constants.latency_ns = time_of(far.chain_ns - far.small_ns);
  if (far.large_bytes > 0) constants.byte_ns = time_of(byte_ns(far, group_.far_senders));
  constants.node_latency_ns = constants.latency_ns;
  constants.node_byte_ns = constants.byte_ns;
  if (group_.has_near) {
    constants.node_latency_ns = time_of(near.chain_ns - near.small_ns);
    if (near.large_bytes > 0) constants.node_byte_ns = time_of(byte_ns(near, 1));
  }
  if (sum.large_bytes == 0) return constants;
  const double ranks = group_.ranks;
  const double steps = 2.0 * std::bit_width(group_.ranks - 1);
  const double sent_bytes = 2 * (ranks - 1) / ranks * sum.large_bytes;
  constants.native_step_ns = time_of(sum.chain_ns / steps);
  constants.native_byte_ns =
      std::max(time_of((sum.large_ns - sum.chain_ns) / sent_bytes), kLeastNs);
  return constants;
}

}  // namespace gq
