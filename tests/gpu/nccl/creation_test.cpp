// What goes wrong where a group over NCCL forms: the library, the arguments, ranks that are
// missing, memory that is short; each a status and a sentence, and no wait without end.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/gpu/nccl/faults.h"

namespace gq::test {
namespace {

TEST(NcclLibrary, NotThere_Unsupported) {
  gqsgd_unique_id id;
  EXPECT_TRUE(says(gqsgd_nccl_unique_id_create("nccl=/nowhere/libnccl.so.2", &id),
                   GQSGD_UNSUPPORTED, "/nowhere/libnccl.so.2"));
  gqsgd_comm comm = nullptr;
  int thing = 0;
  EXPECT_TRUE(says(gqsgd_comm_create_from_nccl(&thing, "nccl=/nowhere/libnccl.so.2", &comm),
                   GQSGD_UNSUPPORTED, "is not loaded in this process"));
}

TEST(NcclLibrary, TooOld_Unsupported) {
  gqsgd_unique_id id;
  EXPECT_TRUE(says(gqsgd_nccl_unique_id_create("nccl=" GQ_OLD_STAND_IN, &id), GQSGD_UNSUPPORTED,
                   "version number 21003"));
}

TEST(NcclLibrary, LacksAFunction_Unsupported) {
  gqsgd_unique_id id;
  EXPECT_TRUE(says(gqsgd_nccl_unique_id_create("nccl=" GQ_LACKING_STAND_IN, &id), GQSGD_UNSUPPORTED,
                   "ncclAllGather is not found in "));
}

TEST(NcclLibrary, NotNccl_Unsupported) {
  gqsgd_unique_id id;
  EXPECT_TRUE(says(gqsgd_nccl_unique_id_create("nccl=libm.so.6", &id), GQSGD_UNSUPPORTED,
                   "ncclGetVersion is not found"));
}

/** The way in for programs that have NCCL under another name. */
TEST(NcclLibrary, NamedByTheEnvironment_Used) {
  gqsgd_unique_id id;
  setenv("GQSGD_NCCL_LIBRARY", "/nowhere/else.so", 1);
  const gqsgd_status status = gqsgd_nccl_unique_id_create("", &id);
  unsetenv("GQSGD_NCCL_LIBRARY");
  if (status != GQSGD_OK) {  // OK where this process has a library of that name already
    EXPECT_TRUE(says(status, GQSGD_UNSUPPORTED, "/nowhere/else.so"));
  }
}

TEST(Creation, NoDevice_Unsupported) {
  gqsgd_unique_id id;
  const std::string options = stand_in_options();
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK) << gqsgd_last_error();
  gqsgd_comm comm = nullptr;
  const gqsgd_status status = gqsgd_comm_create_nccl(&id, 0, 1, options.c_str(), &comm);
  if (process_device(nullptr) == nullptr) {
    EXPECT_TRUE(says(status, GQSGD_UNSUPPORTED, "need a GPU"));
  }
  EXPECT_EQ(comm, nullptr);
}

TEST(Creation, WrongArguments_Refused) {
  const UseHostDevice device;
  gqsgd_unique_id id, other;
  const std::string options = stand_in_options();
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
  ASSERT_EQ(gqsgd_unique_id_create(&other), GQSGD_OK);
  gqsgd_comm comm = nullptr;
  const char* text = options.c_str();
  EXPECT_TRUE(says(gqsgd_comm_create_nccl(&other, 0, 1, text, &comm), GQSGD_INVALID_ARGUMENT,
                   "gqsgd_nccl_unique_id_create"));
  EXPECT_TRUE(says(gqsgd_comm_create_nccl(nullptr, 0, 1, text, &comm), GQSGD_INVALID_ARGUMENT,
                   "unique_id is NULL"));
  EXPECT_TRUE(
      says(gqsgd_comm_create_nccl(&id, 2, 2, text, &comm), GQSGD_INVALID_ARGUMENT, "rank is 2"));
  EXPECT_TRUE(says(gqsgd_comm_create_nccl(&id, 0, 1, text, nullptr), GQSGD_INVALID_ARGUMENT,
                   "comm is NULL"));
  EXPECT_TRUE(
      says(gqsgd_comm_create_nccl(&id, 0, 1, "speed=1", &comm), GQSGD_INVALID_ARGUMENT, "speed"));
  EXPECT_TRUE(says(gqsgd_nccl_unique_id_create(text, nullptr), GQSGD_INVALID_ARGUMENT,
                   "unique_id is NULL"));
  EXPECT_TRUE(says(gqsgd_comm_create_from_nccl(nullptr, text, &comm), GQSGD_INVALID_ARGUMENT,
                   "nccl_comm is NULL"));
  EXPECT_TRUE(says(gqsgd_comm_create_from_nccl(&id, text, nullptr), GQSGD_INVALID_ARGUMENT,
                   "comm is NULL"));
}

TEST(Creation, MissingRank_Timeout) {
  const UseHostDevice device;
  for (const char* blocking : {"on", "off"}) {
    gqsgd_unique_id id;
    const std::string options =
        stand_in_options(std::string("timeout_ms=300,nccl_blocking=") + blocking);
    ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
    gqsgd_comm comm = nullptr;
    const auto begun = Clock::now();
    EXPECT_TRUE(says(gqsgd_comm_create_nccl(&id, 1, 3, options.c_str(), &comm), GQSGD_TIMEOUT,
                     "rank 1 waited 300 ms for 3 ranks"));
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(3));
    EXPECT_EQ(comm, nullptr);
  }
}

/** NCCL has no way out of a group that forms: the rank that left leaves again when it has. */
TEST(Creation, RankComesTooLate_TimeoutAndNothingLeftBehind) {
  const UseHostDevice device;
  const int comms_before = made_comms();
  gqsgd_unique_id id;
  const std::string options = stand_in_options("timeout_ms=300");
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
  gqsgd_comm comm = nullptr;
  EXPECT_TRUE(says(gqsgd_comm_create_nccl(&id, 0, 2, options.c_str(), &comm), GQSGD_TIMEOUT,
                   "rank 0 waited 300 ms for 2 ranks"));
  EXPECT_EQ(made_comms(), comms_before + 1);
  EXPECT_TRUE(says(gqsgd_comm_create_nccl(&id, 1, 2, options.c_str(), &comm), GQSGD_TIMEOUT,
                   "rank 1 waited 300 ms for a first word of all 2 ranks"));
  for (int k = 0; k < 500 && made_comms() != comms_before; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(made_comms(), comms_before);
}

/** For as long as this lives. */
class NcclCommBlocking {
 public:
  explicit NcclCommBlocking(const char* value) { setenv("NCCL_COMM_BLOCKING", value, 1); }
  ~NcclCommBlocking() { unsetenv("NCCL_COMM_BLOCKING"); }
};

/** NCCL's own variable overrides what the library wants of it. */
TEST(Creation, NcclMadeNotToBlock_CallsWork) {
  const NcclCommBlocking variable("0");
  const NcclGroup group(2);
  const int crowds_before = crowds();
  StandInFaults slow{};
  slow.in_progress_polls = 2;
  slow.look_time_ms = 20;
  const With faults(slow);
  EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
    for (int k = 0; k < 4; ++k) {
      StreamCall made(some_values());
      if (made.make(comm, usual()) != GQSGD_OK || !made.wait()) return gqsgd_last_error();
    }
    return "";
  }),
            "");
  EXPECT_EQ(crowds(), crowds_before);
}

/** NCCL writes a communicator that does not block where creation wanted it, long after. */
TEST(Creation, SecondRankComesLater_CommunicatorStaysWhereItWas) {
  const UseHostDevice device;
  const int violations_before = registrations().violations;
  gqsgd_unique_id id;
  const std::string options = stand_in_options("nccl_blocking=off");
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
  gqsgd_comm comms[2] = {};
  std::thread first([&] {
    EXPECT_EQ(gqsgd_comm_create_nccl(&id, 0, 2, options.c_str(), &comms[0]), GQSGD_OK);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(gqsgd_comm_create_nccl(&id, 1, 2, options.c_str(), &comms[1]), GQSGD_OK);
  first.join();
  EXPECT_EQ(registrations().violations, violations_before);
  for (gqsgd_comm comm : comms) EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

/** NCCL destroys no communicator that has an error: what it has stays until an abort. */
TEST(Creation, NcclFailsWhileGroupForms_CommunicatorAborted) {
  const UseHostDevice device;
  const int comms_before = made_comms(), aborts_before = aborted_comms();
  gqsgd_unique_id id;
  const std::string options = stand_in_options("nccl_blocking=off");
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
  StandInFaults later{};
  later.async_error = 6;
  const With faults(later);
  gqsgd_comm comm = nullptr;
  EXPECT_TRUE(says(gqsgd_comm_create_nccl(&id, 0, 2, options.c_str(), &comm), GQSGD_BACKEND,
                   "remote process exited"));
  EXPECT_EQ(made_comms(), comms_before);
  EXPECT_EQ(aborted_comms(), aborts_before + 1);
}

TEST(Creation, NcclMadeToBlockAndMissingRank_Timeout) {
  const UseHostDevice device;
  const NcclCommBlocking variable("1");
  gqsgd_unique_id id;
  const std::string options = stand_in_options("timeout_ms=300,nccl_blocking=off");
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
  gqsgd_comm comm = nullptr;
  EXPECT_TRUE(says(gqsgd_comm_create_nccl(&id, 1, 2, options.c_str(), &comm), GQSGD_TIMEOUT,
                   "rank 1 waited 300 ms for 2 ranks"));
}

TEST(Creation, Destroyed_NothingLeftBehind) {
  const int comms_before = made_comms();
  const size_t memory_before = allocations_in_use();
  for (int k = 0; k < 20; ++k) {
    const NcclGroup group(3);
    EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
      StreamCall made(some_values());
      if (made.make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
      return made.wait() ? "" : "stuck";
    }),
              "");
  }
  EXPECT_EQ(made_comms(), comms_before);
  EXPECT_EQ(allocations_in_use(), memory_before);
}

TEST(Creation, OutOfMemoryAnywhere_NoMemory) {
  const UseHostDevice device;
  const std::string options = stand_in_options();
  for (size_t nth = 1; nth < 20; ++nth) {
    const size_t memory_before = allocations_in_use();
    gqsgd_unique_id id;
    ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
    fail_allocations_from(nth);
    gqsgd_comm comm = nullptr;
    const gqsgd_status status = gqsgd_comm_create_nccl(&id, 0, 1, options.c_str(), &comm);
    fail_allocations_from(0);
    gqsgd_comm_destroy(comm);
    EXPECT_EQ(allocations_in_use(), memory_before) << nth;
    if (status == GQSGD_OK) return;
    EXPECT_EQ(status, GQSGD_NO_MEMORY) << nth << gqsgd_last_error();
  }
  ADD_FAILURE() << "memory never sufficed";
}

std::atomic<int32_t> set_aside{-1};  // the device that threads of the library made current
std::thread::id thread_of_test;

/** NCCL makes the device current again that was it before: on CUDA a context on device 0. */
TEST(Creation, MadeAndDestroyed_OnTheDeviceOfItsCommunicator) {
  Device watched = host_device();
  watched.set_current = [](int32_t ordinal) {
    if (std::this_thread::get_id() != thread_of_test) set_aside = ordinal;
    return host_device().set_current(ordinal);
  };
  const UseHostDevice device(watched);
  thread_of_test = std::this_thread::get_id();
  constexpr int32_t kOrdinal = 2;
  const std::string options = stand_in_options();
  gqsgd_unique_id id;
  gqsgd_comm comm = nullptr;
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
  (void)host_device().set_current(kOrdinal).ok();
  EXPECT_EQ(gqsgd_comm_create_nccl(&id, 0, 1, options.c_str(), &comm), GQSGD_OK);
  EXPECT_EQ(set_aside.exchange(-1), kOrdinal);
  (void)host_device().set_current(0).ok();
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
  EXPECT_EQ(set_aside, kOrdinal);
}

}  // namespace
}  // namespace gq::test
