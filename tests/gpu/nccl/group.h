// Ranks on the stand-in of NCCL: threads of this process, each with a communicator, a stream and
// buffers of the device that tests have.
#ifndef GQ_TESTS_GPU_NCCL_GROUP_H
#define GQ_TESTS_GPU_NCCL_GROUP_H

#include <gqsgd.h>
#include <gqsgd_nccl.h>

#include <string>
#include <vector>

#include "src/transport/nccl/nccl_library.h"
#include "tests/gpu/nccl/stand_in.h"
#include "tests/support/host_device/device_group.h"
#include "tests/support/host_device/host_device.h"
#include "tests/support/operation.h"

namespace gq::test {

/** A function of the stand-in that NCCL does not have. */
void set_faults(const StandInFaults& faults);
int made_comms();
int aborted_comms();
int aborted_inside();
int crowds();
StandInRegistrations registrations();
StandInTraffic traffic();
const NcclLibrary* nccl_of_tests();

/** "nccl=..,timeout_ms=20000" and more. */
std::string stand_in_options(const std::string& more = "");

/** One allreduce of `input` on a rank: buffers in memory of the device, and what became of it. */
class StreamCall {
 public:
  explicit StreamCall(const Values& input);

  /** Enqueues it. */
  gqsgd_status make(gqsgd_comm comm, const Operation& operation);
  /** The same as a request. */
  gqsgd_status start(gqsgd_comm comm, const Operation& operation, gqsgd_request* request);
  /** Waits for the stream: false if it does not get there. */
  bool wait(int timeout_ms = 60000) { return stream.synchronize(timeout_ms); }
  Values result() const;
  /** True if no byte of the result has been written, and the input is as it was. */
  bool untouched() const;

 private:
  Config place_step(const Operation& operation);

  size_t value_count_;
  Values input_;
  bool in_place_ = false;
  DeviceMemory send_, recv_, step_;
  uint32_t given_step_[2] = {};

 public:
  OwnStream stream;  ///< last: its end waits for work on what is above
};

/** Every schedule with mean and sum, in place and not. */
std::vector<Operation> calls_of(const std::string& format,
                                const std::vector<gqsgd_schedule>& schedules);

class NcclGroup : public DeviceGroup {
 public:
  /** `own`: what each rank has in front of the options; empty: none. */
  explicit NcclGroup(int rank_count, const std::string& options = "",
                     const std::vector<std::string>& own = {});
};

}  // namespace gq::test

#endif
