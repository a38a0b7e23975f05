// What is decided before anything moves: schedule, coding, shape and where words lie in an arena.
// Everything here follows from values that all ranks agree on.
#ifndef GQ_PLAN_PLAN_H
#define GQ_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/codec/formats.h"
#include "src/schedule/move.h"
#include "src/support/status.h"

namespace gq {

struct Plan {
  const Schedule* schedule = nullptr;
  Coding coding{};
  Shape shape;
  size_t landing_bytes = 0;       ///< where the landing area of copying transports begins
  size_t landing_slot_bytes = 0;  ///< one operand's chunk
  size_t arena_bytes = 0;

  /** Offset of a value's word in every rank's arena; `first_value` is a multiple of
   * kValueAlignment. */
  size_t offset_bytes(uint64_t first_value) const {
    return words_for(coding.bits, first_value) * sizeof(uint32_t);
  }
  size_t size_bytes(uint64_t value_count) const {
    return words_for(coding.bits, value_count) * sizeof(uint32_t);
  }
};

/** What make_plan() is asked for; all of it must be equal on all ranks. */
struct PlanRequest {
  const Format* format;
  int32_t schedule_id;
  uint32_t ranks;
  uint64_t value_count;
  uint64_t chunk_value_count;
  bool reads_in_place;  ///< the transport needs no landing area
};

/** Resolves AUTO, checks that format and schedule go together for this many ranks, lays out the
 *  arena. Host arithmetic only. */
Status make_plan(const PlanRequest& request, Plan* plan);

}  // namespace gq

#endif
