// How long an allreduce over NCCL takes: what a host enqueues, beside what devices and links do.
#ifndef GQ_PLAN_COST_DEVICE_COST_H
#define GQ_PLAN_COST_DEVICE_COST_H

#include "src/plan/cost/cost_model.h"

namespace gq {

/** What the host of a rank enqueues for a call in one piece: kernels, and collectives and groups of
 *  messages of NCCL. */
struct DeviceOperations {
  uint64_t kernels = 0;
  uint64_t exchanges = 0;
};

/** Of a plan for streams, by schedule direct or native. */
DeviceOperations device_operations(const Plan& plan);

/** Nanoseconds of such a call. UNSUPPORTED for other schedules and for floats of 16 bits, which
 *  devices do not have. */
Status predict_device_time(const Plan& plan, const CostQuestion& question,
                           const CostConstants& constants, double* time_ns);

}  // namespace gq

#endif
