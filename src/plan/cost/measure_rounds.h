// What the ranks of a group measure together, and in which order: rounds, of which each is decided
// by the times that all ranks have agreed on, and the constants that follow from them. No clock and
// no message is here.
#ifndef GQ_PLAN_COST_MEASURE_ROUNDS_H
#define GQ_PLAN_COST_MEASURE_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

#include "src/plan/cost/cost_constants.h"

namespace gq {

/** The time that measuring may take in all: a round is made only if it is expected to end before.
 */
inline constexpr double kMeasureBudgetNs = 200e6;

enum class RoundKind : uint8_t {
  shares,      ///< who has the same processors
  processors,  ///< those of a node
  machine,     ///< processors and caches of all nodes
  stages,      ///< the stages of one row of the constants, on every rank alone
  barrier,     ///< nothing: control messages alone
  link,        ///< messages to the next rank, from all ranks at once
  sum,         ///< the transport's own allreduce
  done,
};

/** What all ranks do at once, between two exchanges of control messages. */
struct MeasureRound {
  RoundKind kind = RoundKind::shares;
  CostRow row = CostRow::none;  ///< of stages
  bool inside_node = false;     ///< of link: to the next rank of the same node
  size_t size_bytes = 0;        ///< of a message, or of what is added
  uint32_t window = 0;          ///< messages under way to a rank
  uint32_t count = 0;           ///< messages, or sums one after another
};

/** Numbers that a rank has found out in a round: of stages nanoseconds for a value by CostStage; of
 *  barrier, link and sum nanoseconds of one exchange, message or sum; of machine processors and
 *  bytes of caches, both negative, so that of all numbers the largest is the slowest. */
inline constexpr size_t kRoundNumberCount = 8;
struct RoundNumbers {
  float of[kRoundNumberCount] = {};
};

struct MeasuredGroup {
  uint32_t ranks = 1;
  uint32_t far_senders = 1;  ///< ranks of a node that send to another one in a round
  bool has_near = false;     ///< there are links inside nodes and between them
  bool reads_in_place = false;
  bool transport_adds = false;
};

/** Equal numbers on all ranks make equal rounds and equal constants. */
class MeasureRounds {
 public:
  void begin(const MeasuredGroup& group);

  /** The round to make; of kind done once there is none. */
  const MeasureRound& current() const { return round_; }

  /** Ends the round. `slowest`: of each number the largest of all ranks; `elapsed_ns`: the largest
   *  time since the first round. */
  void agree(const RoundNumbers& slowest, double elapsed_ns);

  /** What has been measured, with 4 digits; built-in values for the rest. */
  CostConstants constants() const;

  /** The longest message of a round, and the most of them that are under way to a rank. */
  static constexpr size_t kMessageBytes = 65536;
  static constexpr uint32_t kWindow = 8;
  /** What the longest sum takes. */
  static constexpr size_t kSumBytes = kMessageBytes * kWindow;

 private:
  /** Rounds of one size, each with more messages than the one before. */
  struct Sizes {
    RoundKind kind;
    size_t size_bytes;
    uint32_t window;
    uint32_t first_count, most_count;
    double share;  ///< of the time that there is for the link
  };
  /** What one kind of link takes. */
  struct LinkTimes {
    double chain_ns = 0;  ///< a message that the next one waits for
    double small_ns = 0;  ///< one of many that are under way
    double large_ns = 0;  ///< of the longest ones
    double large_bytes = 0;
    uint32_t large_count = 0;  ///< of them, in the last round
  };
  enum Target : uint32_t { kFar, kNear, kSum, kTargetCount };
  static constexpr size_t kLinkSizesCount = 7, kSumSizesCount = 6;
  static const Sizes kLinkSizes[kLinkSizesCount];
  static const Sizes kSumSizes[kSumSizesCount];

  void keep_stages(const RoundNumbers& slowest);
  void keep_time(double message_ns);
  bool next_row();
  void next_target(uint32_t target);
  void next_of_target();
  bool try_round(const Sizes& sizes, uint32_t count);
  const Sizes* sizes_of_target() const { return target_ == kSum ? kSumSizes : kLinkSizes; }
  size_t sizes_count() const { return target_ == kSum ? kSumSizesCount : kLinkSizesCount; }
  bool has(uint32_t target) const;
  double byte_ns(const LinkTimes& times, double senders) const;

  MeasuredGroup group_;
  MeasureRound round_;
  CostConstants constants_{};
  double elapsed_ns_ = 0;
  double barrier_ns_ = 0;
  uint32_t barriers_ = 0;
  uint32_t target_ = kFar;
  size_t size_ = 0;                             // index of its Sizes
  uint32_t repeats_ = 0;                        // rounds of the most messages
  double target_begin_ns_ = 0, target_ns_ = 0;  // when its rounds began, and how long they may take
  double message_ns_ = 0;                       // what a message of the last round took
  LinkTimes links_[kTargetCount];
};

}  // namespace gq

#endif
