// What is decided before anything moves: schedule, coding, shape and layout of the arena.
// Everything here follows from values that all ranks agree on.
#ifndef GQ_PLAN_PLAN_H
#define GQ_PLAN_PLAN_H

#include <stdint.h>

#include "kernels/codec/formats.h"
#include "src/plan/layout.h"
#include "src/schedule/move.h"
#include "src/support/status.h"

namespace gq {

struct Plan {
  const Schedule* schedule = nullptr;
  Coding coding{};
  Shape shape;
  Layout layout;
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

/** The first field of a format that only an owner's re-encode can do, so that codes must be added
 *  wide; nullptr if there is none. */
const char* wide_only_field(const Format& format);

/** The first field that the sparse schedule cannot do; nullptr if there is none. */
const char* unlisted_field(const Format& format);

/** Resolves AUTO, checks that format and schedule go together for this many ranks, lays out the
 *  arena. Host arithmetic only. */
Status make_plan(const PlanRequest& request, Plan* plan);

}  // namespace gq

#endif
