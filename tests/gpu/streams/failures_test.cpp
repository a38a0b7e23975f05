// The functions of a rank's device that a call uses. Each fails in turn, in the first call and in a
// later one: no rank waits for its deadline, what breaks a group is kept, and nothing is left
// behind. And they are called with that device current.
#include <gtest/gtest.h>

#include <set>

#include "tests/gpu/streams/local_group.h"
#include "tests/support/host_device/ask_first.h"

namespace gq::test {
namespace {

thread_local int functions_left = 0;  // until one fails on this thread; 0: none does

thread_local std::set<int32_t> called_on;  // by this thread

Status fail_in_turn() {
  if (functions_left == 0 || --functions_left > 0) return Status();
  return fail(GQSGD_BACKEND, "the driver has ended");
}

/** Of a function that is to be called with the rank's device current. */
Status fail_in_turn_there() {
  int32_t here = -1;
  (void)host_device().current(&here).ok();
  called_on.insert(here);
  return fail_in_turn();
}

Device failing_device() {
  Device device = host_device();
  ask_first<fail_in_turn, &Device::current>(&device);  // may be asked on any device
  ask_first<fail_in_turn_there, &Device::allocate, &Device::allocate_pinned, &Device::memory_kind,
            &Device::copy, &Device::clear, &Device::make_stream, &Device::is_capturing,
            &Device::make_event, &Device::record, &Device::wait, &Device::query,
            &Device::load_kernels>(&device);
  return device;
}

/** False once the call has fewer functions than `nth`: it works then. */
bool fail_nth(const Operation& operation, int calls_before, int nth) {
  static const Device device = failing_device();
  const Values values = gradients(1, 600, 2)[0];
  const LocalGroup group(2);
  const UseHostDevice here(device);
  bool failed = false;
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    for (int k = 0; k < calls_before; ++k) {
      StreamCall made(values);
      if (made.make(comm, operation) != GQSGD_OK || !made.wait()) return gqsgd_last_error();
    }
    StreamCall made(values);
    functions_left = rank == 0 ? nth : 0;
    const gqsgd_status status = made.make(comm, operation);
    if (rank == 0) failed = functions_left == 0;
    functions_left = 0;
    if (!made.wait()) return "the stream does not get through";
    if (status == GQSGD_OK || (rank == 1 && status == GQSGD_REMOTE_ERROR)) return "";
    return status == GQSGD_BACKEND && gqsgd_comm_status(comm) == status ? "" : gqsgd_last_error();
  }),
            "")
      << nth;
  return failed;
}

void fail_all(const Operation& operation) {
  for (const int calls_before : {0, 2}) {
    const size_t before = allocations_in_use();
    int nth = 1;
    while (nth < 200 && fail_nth(operation, calls_before, nth)) ++nth;
    EXPECT_GT(nth, 10);
    EXPECT_LT(nth, 200);
    EXPECT_EQ(allocations_in_use(), before);
  }
}

TEST(DeviceFails, OneKernelOfEachRank_AllRanksLearnAtOnce) {
  fail_all({"paper-ge8", GQSGD_SCHEDULE_DIRECT});
}

TEST(DeviceFails, Stages_AllRanksLearnAtOnce) { fail_all({"rotated-4", GQSGD_SCHEDULE_DIRECT}); }

/** CUDA makes a context on the device where a function is called first, and a default stream is
 *  another one there. */
TEST(OtherDevice, ThreadIsThere_NoFunctionCalledThere) {
  static const Device device = failing_device();
  LocalGroup group(1);
  const UseHostDevice here(device);
  const gqsgd_comm comm = group.comm(0);
  const Operation operation{"paper-ge8", GQSGD_SCHEDULE_DIRECT};
  const Values values = gradients(1, 600, 2)[0];
  StreamCall first(values), second(values), third(values);
  ASSERT_EQ(first.make(comm, operation), GQSGD_OK) << gqsgd_last_error();
  (void)host_device().set_current(1).ok();
  called_on.clear();
  gqsgd_request request = nullptr;
  EXPECT_EQ(second.make(comm, operation), GQSGD_OK) << gqsgd_last_error();
  EXPECT_EQ(third.start(comm, operation, &request), GQSGD_OK) << gqsgd_last_error();
  EXPECT_EQ(gqsgd_request_wait(request), GQSGD_OK) << gqsgd_last_error();
  EXPECT_EQ(gqsgd_comm_status(comm), GQSGD_OK);
  group.destroy(0);
  EXPECT_EQ(called_on, std::set<int32_t>{0});
  (void)host_device().set_current(0).ok();
  EXPECT_FALSE(third.untouched());
}

}  // namespace
}  // namespace gq::test
