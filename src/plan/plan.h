// What is decided before anything moves: schedule, coding, shape and layout of the arena.
// Everything here follows from values that all ranks agree on.
#ifndef GQ_PLAN_PLAN_H
#define GQ_PLAN_PLAN_H

#include <stdint.h>

#include "kernels/codec/groups.h"
#include "src/plan/layout.h"
#include "src/schedule/move.h"
#include "src/support/status.h"

namespace gq {

/** The collectives, as the control message writes them; measure_costs comes before the first call
 *  that needs what it measures. */
enum class Operation : uint32_t {
  allreduce = 1,
  reduce_scatter = 2,
  allgather = 3,
  allreduce_many = 4,
  measure_costs = 5,
};

/** Operations in slices. */
constexpr bool has_one_schedule(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::allgather;
}

struct Plan {
  const Schedule* schedule = nullptr;
  /** The requested one, AUTO resolved: hierarchical also where it is flat. */
  int32_t schedule_id = 0;
  Coding coding{};
  /** Of what is turned into values: of Rice codes, the float32 numbers that they are decoded to. */
  Coding decoding{};
  /** Owners do not encode sums again but add, as float32, the values that each rank's codes stand
   *  for: codes in this coding, values two at a time in the other. */
  bool adds_values = false;
  Coding one_rank{};
  Coding pair_sum{};
  uint64_t sum_tile_value_count = 0;  ///< values that are added at once then
  Groups groups;                      ///< where there are any; in slices, of one as of each
  /** Values that the caller gave. The shape has more where groups are filled up to whole granules,
   *  or tensors of a list begin at a block: moves have these in between. */
  uint64_t given_value_count = 0;
  Shape shape;
  Layout layout;
  /** Of Rice codes on a device: where an owner's sums are in the arena, as float32, until they are
   *  encoded, and of how many values it adds at once: a shard, or that of each node of a part. */
  size_t float_sums_bytes = 0;
  uint64_t float_sums_count = 0;
};

/** The arguments of make_plan(); all of them must be equal on all ranks. */
struct PlanRequest {
  const Format* format;
  int32_t schedule_id;
  uint32_t ranks;
  uint64_t value_count;
  uint64_t chunk_value_count;
  bool reads_in_place;  ///< the transport needs no landing area
  bool has_room = false;  ///< words have trailers behind them where messages are single chunks
  Operation operation = Operation::allreduce;
  uint32_t rank = 0;  ///< of operations in slices: the own one
  /** Tensors of allreduce_many, or the slices of ranks; not null for these operations. */
  const Part* segments = nullptr;
  uint64_t segment_count = 0;
  const Nodes* nodes = nullptr;  ///< for the hierarchical schedule; nullptr: all ranks on one node
  /** Each stage call is a launch, so each is for a whole chunk. */
  bool stages_are_launches = false;
};

/** The values of a message of floats that travels: it is as long as one of 8-bit codes. */
constexpr uint64_t floats_per_message(uint64_t chunk_value_count) {
  return (chunk_value_count + 3) / 4;
}

/** The first field of a format that only an owner's re-encode can do, so that codes must be added
 *  wide; nullptr if there is none. */
const char* wide_only_field(const Format& format);

/** The first field that the sparse schedule cannot do; nullptr if there is none. */
const char* dense_field(const Format& format);

/** True if codes can be added as integers without rounding, or are no codes. */
bool adds_exactly(const Format& format);

Shape shape_of(const PlanRequest& request, const Coding& coding);

/** The coding of values that travel, or lie, as float32: rounded by the format's rule where
 *  elements are narrower. */
Coding float_coding(Format format, uint32_t ranks);

/** Gives the groups of a call to the codings of its plan that have any. */
void set_groups(const Groups& groups, Plan* plan);

/** The plan of operations in slices. */
void plan_slices(const PlanRequest& request, Plan* plan);

/** Resolves AUTO, checks that format and schedule fit each other for this many ranks, lays out the
 *  arena. Host arithmetic only. */
Status make_plan(const PlanRequest& request, Plan* plan);

}  // namespace gq

#endif
