// What a machine and its network cost: the numbers that the cost model predicts with, as a struct
// and as a string of "name = value" lines. Nothing is measured here; gqsgd-calibrate does.
#ifndef GQ_PLAN_COST_COST_CONSTANTS_H
#define GQ_PLAN_COST_COST_CONSTANTS_H

#include <stddef.h>
#include <stdint.h>

#include <string_view>

#include "src/support/status.h"

namespace gq {

/** Nanoseconds of a stage: for one value where the values of a call lie in a cache, and where they
 *  do not; and for a range, whatever its length. */
struct StageCost {
  double cached;
  double streamed;
  double range;
};

/** The stages of kernels/stages.h as they are paid for: reduce_many is one `sum`, of two operands
 * and their encoding, and one `add` for each operand beyond. */
enum class CostStage : uint8_t { norm, quantize, reduce, sum, add, dequantize };
inline constexpr size_t kCostStageCount = 6;

/** Rows of stage costs. A format pays those of its levels, and extra for each field that it has. */
enum class CostRow : uint8_t {
  none,
  linear8,
  linear4,
  exponential8,
  exponential4,
  mantissa,  ///< exponential levels with 2 mantissa bits
  bf16,
  fp16,
  adaptive,  ///< widths of a mean of 4 bits, with blocks, correlated and rescaled as presets have
  rice,      ///< codes of a mean of 4 bits, with correlated as presets have
  // From here on extras, which are added to a row above.
  planes,  ///< each bit beyond a mean of 4, or less; only of adaptive widths
  blocks,
  correlated,
  rotated,
  rescaled,
  subtractive,
  averaged,  ///< combine=average on linear levels
};
inline constexpr size_t kCostRowCount = 17;
/** The mean that rows `adaptive` and `rice` are of. */
inline constexpr uint32_t kCostMeanBits = 4;

/** alpha and 1 / beta of the paper are latency_ns and byte_ns; 1 / gamma, 1 / gamma-hat and delta
 *  are stages. */
struct CostConstants {
  double latency_ns;  ///< from the end of a send to the start of its arrival
  double byte_ns;     ///< one byte on the link out of a rank, and on the one into it
  /** What such a link lets through at once after it was idle, as token buckets do: it makes up for
   *  that before it lets through more. 0: bytes arrive one after another. */
  double burst_bytes;
  /** The same inside a node, where ranks are on several. Links between them are the nodes' then. */
  double node_latency_ns, node_byte_ns;
  double message_ns;  ///< processor time of one message, at either end
  double move_ns;     ///< processor time of finding out what one move is, whatever it then does
  double call_ns;     ///< an allreduce of nothing
  double header_ns;   ///< one more rank's control message in it
  /** Each step of a call on a rank's longest way through it, besides what is above: 2 in direct,
   *  2 ceil(log2 n) in a tree and a butterfly, 2 (n - 1) in a ring. */
  double direct_step_ns, tree_step_ns, butterfly_step_ns, ring_step_ns;
  double cpus;         ///< processors that a node's ranks share; 0: every rank has one of its own
  double cache_bytes;  ///< what the ranks that share them can keep close
  /** An allreduce of the transport's own: each of its 2 ceil(log2 n) steps, and each of the 2 (n -
   * 1) / n bytes that a rank has to send for one. 0: not measured. */
  double native_step_ns;
  double native_byte_ns;
  /** How much longer AUTO takes bytes to last on links where messages travel, for what others send
   *  there: nothing may have been on the links when they were measured. 1 or more. */
  double traffic_factor;
  /** Over NCCL: of a host, for each kernel and for each collective or group of messages of NCCL;
   *  and in addition for each of those where the communicator does not block: NCCL creates a
   *  thread that enqueues it, and the host waits for that thread. */
  double enqueue_ns, enqueue_nccl_ns, nccl_thread_ns;
  /** Of a device, for each kernel, for each byte of its memory, for each collective or group of
   *  messages of NCCL, and for each byte of those. */
  double device_latency_ns, device_byte_ns;
  double device_message_ns, device_link_byte_ns;
  StageCost stages[kCostRowCount][kCostStageCount];

  const StageCost& stage(CostRow row, CostStage stage) const {
    return stages[static_cast<size_t>(row)][static_cast<size_t>(stage)];
  }
};

/** False if the time of schedule native was not measured. */
inline bool knows_native(const CostConstants& constants) { return constants.native_byte_ns > 0; }

/** Measured constants of an ordinary machine (two processors with AVX2, docs/COST.md) whose ranks
 *  have processors of their own and a network of 10 Gbit/s. */
const CostConstants& built_in_costs();

/** Reads "name = value" lines, '#' beginning a comment and ';' ending a line as well; names that
 * are left out keep the built-in value, and none comes twice. INVALID_ARGUMENT naming line, word
 * and what is allowed. */
Status parse_costs(std::string_view text, CostConstants* constants);

/** The whole string; returns its length without the final 0, as snprintf does. */
size_t describe_costs(const CostConstants& constants, char* text, size_t capacity_bytes);

/** The same in one line without a comma, as an option can have it: "name=value;..", with as many
 *  digits as parse_costs() needs for the same bits. */
size_t describe_costs_exactly(const CostConstants& constants, char* text, size_t capacity_bytes);

/** 16 bits that differ where constants do, but for one pair in 65,535; never 0. */
uint32_t digest_of(const CostConstants& constants);

}  // namespace gq

#endif
