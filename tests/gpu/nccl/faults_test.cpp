// What goes wrong around NCCL: the library, its calls, its errors later on, ranks that are missing,
// memory that is short; each a status and a sentence, and no wait without end.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "src/transport/nccl/nccl_types.h"
#include "tests/gpu/nccl/group.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;

Operation usual() { return {"paper-ge8", GQSGD_SCHEDULE_DIRECT}; }

Values some_values() { return gradients(1, 600, 2)[0]; }

/** The faults of the stand-in for as long as this lives. */
class With {
 public:
  explicit With(const StandInFaults& faults) { set_faults(faults); }
  ~With() { set_faults({}); }
};

testing::AssertionResult says(gqsgd_status status, gqsgd_status expected, const char* part) {
  const std::string sentence = gqsgd_last_error();
  if (status == expected && sentence.find(part) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << gqsgd_status_name(status) << ": " << sentence;
}

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
  gqsgd_unique_id id;
  const std::string options = stand_in_options("timeout_ms=300");
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
  gqsgd_comm comm = nullptr;
  const auto begun = Clock::now();
  EXPECT_TRUE(says(gqsgd_comm_create_nccl(&id, 1, 3, options.c_str(), &comm), GQSGD_TIMEOUT,
                   "rank 1 waited 300 ms for 3 ranks"));
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(3));
  EXPECT_EQ(comm, nullptr);
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
TEST(Creation, Destroyed_OnTheDeviceOfItsCommunicator) {
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
  (void)host_device().set_current(0).ok();
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
  EXPECT_EQ(set_aside, kOrdinal);
}

TEST(Calls, NcclRefuses_GroupBroken) {
  const NcclGroup group(2, "timeout_ms=1000");
  const std::string failures = group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(some_values());
    if (rank == 0) {
      StandInFaults faults{};
      faults.fail_call = 1;
      faults.fail_result = 1;
      set_faults(faults);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const gqsgd_status status = made.make(comm, usual());
    const std::string sentence = gqsgd_last_error();
    if (rank == 0) {
      if (status != GQSGD_BACKEND) return gqsgd_status_name(status) + sentence;
      for (const char* part : {"NCCL error 1", "unhandled cuda error", "told to fail", "22304"}) {
        if (sentence.find(part) == std::string::npos) return sentence;
      }
      if (gqsgd_comm_status(comm) != GQSGD_BACKEND) return "it is not broken";
    } else if (status != GQSGD_TIMEOUT) {
      return gqsgd_status_name(status) + sentence;
    }
    if (!made.wait(5000)) return "the stream does not get through";
    return made.untouched() ? "" : "something was written";
  });
  set_faults({});
  EXPECT_EQ(failures, "");
}

TEST(Calls, NcclFailsLater_GroupBroken) {
  const NcclGroup group(2);
  StandInFaults later{};
  later.async_error = 6;
  const With faults(later);
  for (const int rank : {0, 1}) {
    const gqsgd_status status = gqsgd_comm_status(group.comm(rank));
    EXPECT_TRUE(says(status, GQSGD_BACKEND, "remote process exited"));
    StreamCall made(some_values());
    EXPECT_EQ(made.make(group.comm(rank), usual()), GQSGD_BACKEND);
    EXPECT_TRUE(made.wait(5000) && made.untouched());
  }
}

TEST(Calls, NcclReportsCompletion_CallsEnd) {
  const NcclGroup group(3);
  StandInFaults slow{};
  slow.in_progress_polls = 3;
  const With faults(slow);
  EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
    for (int k = 0; k < 4; ++k) {
      StreamCall made(some_values());
      if (made.make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
      if (!made.wait() || made.untouched()) return "nothing was done";
    }
    return "";
  }),
            "");
}

TEST(Calls, RankDoesNotCall_Timeout) {
  const NcclGroup group(3, "timeout_ms=300");
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    if (rank == 1) return "";
    StreamCall made(some_values());
    const gqsgd_status status = made.make(comm, usual());
    if (status != GQSGD_TIMEOUT) return gqsgd_status_name(status);
    if (std::string(gqsgd_last_error()).find("waited 300 ms") == std::string::npos) {
      return gqsgd_last_error();
    }
    if (!made.wait(5000)) return "the stream does not get through";
    return made.untouched() ? "" : "something was written";
  }),
            "");
}

/** A call that was enqueued and will never be answered ends when a thread aborts the group. */
TEST(Calls, GroupAborted_CallsEnd) {
  for (const bool in_place : {false, true}) {
    const NcclGroup group(2, in_place ? "nccl_blocking=on" : "");
    Operation call = usual();
    call.in_place = in_place;
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      const Values values = some_values();
      StreamCall first(values), lost(values);
      if (first.make(comm, call) != GQSGD_OK || !first.wait()) return "the first call failed";
      if (rank == 1) return "";
      if (lost.make(comm, call) != GQSGD_OK) return gqsgd_last_error();
      if (lost.wait(100)) return "it ended without its peer";
      const auto begun = Clock::now();
      if (gqsgd_comm_abort(comm) != GQSGD_OK) return gqsgd_last_error();
      if (gqsgd_comm_status(comm) != GQSGD_ABORTED) return "it is not aborted";  // NCCL is called
      if (Clock::now() - begun > std::chrono::milliseconds(100)) return "abort took its time";
      if (!lost.wait(5000)) return "the stream does not get through";
      return lost.untouched() ? "" : "something was written";
    }),
              "");
  }
}

TEST(Calls, AbortOfNcclHangs_CallsEnd) {
  StandInFaults deaf{};
  deaf.deaf_abort = 1;
  {
    const NcclGroup group(1);
    const With faults(deaf);
    const auto begun = Clock::now();
    EXPECT_EQ(gqsgd_comm_abort(group.comm(0)), GQSGD_OK);
    EXPECT_LT(Clock::now() - begun, std::chrono::milliseconds(100));
  }
}

TEST(Calls, MemoryOfAnotherKind_Refused) {
  const NcclGroup group(1);
  const Quantizer quantizer("paper-gl8");
  Values host(100, 1.0f);
  const DeviceMemory memory(400);
  const Config config = config_at(0, 0);
  EXPECT_TRUE(says(gqsgd_allreduce(group.comm(0), quantizer.get(), host.data(), memory.as<float>(),
                                   100, GQSGD_FLOAT32, GQSGD_SUM, config, nullptr),
                   GQSGD_INVALID_ARGUMENT, "memory of the host"));
  EXPECT_TRUE(says(gqsgd_allreduce(group.comm(0), quantizer.get(), memory.as<float>(), host.data(),
                                   100, GQSGD_FLOAT32, GQSGD_SUM, config, nullptr),
                   GQSGD_INVALID_ARGUMENT, "recv is"));
}

TEST(Calls, Reserved_NothingAllocated) {
  const NcclGroup group(2);
  EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer(usual().quantizer);
    const gqsgd_status reserved = gqsgd_comm_reserve(comm, quantizer.get(), 600, GQSGD_FLOAT32);
    return reserved == GQSGD_OK ? "" : gqsgd_last_error();
  }),
            "");
  constexpr size_t kKinds = 60;
  std::vector<std::unique_ptr<StreamCall>> calls;
  for (size_t k = 0; k < 2 * kKinds; ++k) {
    calls.push_back(std::make_unique<StreamCall>(gradients(1, 600 - k / 2, 2)[0]));
  }
  fail_allocations_from(1);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      StreamCall& made = *calls[2 * kind + static_cast<size_t>(rank)];
      Operation call = usual();
      call.op = kind % 2 == 0 ? GQSGD_SUM : GQSGD_MEAN;
      if (kind % 3 == 0) call.schedule = GQSGD_SCHEDULE_RING;
      if (made.make(comm, call) != GQSGD_OK) return gqsgd_last_error();
      if (!made.wait()) return "stuck";
    }
    return "";
  }),
            "");
  fail_allocations_from(0);
}

TEST(BorrowedNccl, Communicator_UsedAndLeftAlone) {
  const UseHostDevice device;
  const auto* library = nccl_of_tests();
  nccl::Id id;
  ASSERT_EQ(library->get_unique_id(&id), nccl::kSuccess);
  const int comms_before = made_comms(), aborts_before = aborted_comms();
  const std::vector<Values> inputs = gradients(2, 900, 6);
  const Values expected = simulate(usual(), inputs);
  std::vector<std::thread> ranks;
  std::string said[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      nccl::Config config;
      nccl::Comm theirs = nullptr;
      (void)library->init(&theirs, 2, id, rank, &config);
      gqsgd_comm comm = nullptr;
      std::string& line = said[rank];
      if (gqsgd_comm_create_from_nccl(theirs, stand_in_options().c_str(), &comm) != GQSGD_OK) {
        line = gqsgd_last_error();
        return;
      }
      int32_t got_rank = -1, got_size = -1;
      gqsgd_comm_rank(comm, &got_rank);
      gqsgd_comm_size(comm, &got_size);
      if (got_rank != rank || got_size != 2) line = "another rank or size";
      StreamCall made(inputs[static_cast<size_t>(rank)]);
      if (made.make(comm, usual()) != GQSGD_OK || !made.wait()) line = gqsgd_last_error();
      line += difference(made.result(), expected);
      gqsgd_comm_abort(comm);
      gqsgd_comm_destroy(comm);
      (void)library->destroy(theirs);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(said[0] + said[1], "");
  EXPECT_EQ(made_comms(), comms_before);
  EXPECT_EQ(aborted_comms(), aborts_before);
}

/** Communicators of two ranks that the test owns. */
struct BorrowedPair {
  const NcclLibrary* const library = nccl_of_tests();
  nccl::Comm comms[2] = {};

  BorrowedPair() {
    nccl::Id id;
    (void)library->get_unique_id(&id);
    for (int rank = 0; rank < 2; ++rank) {
      nccl::Config config;
      (void)library->init(&comms[rank], 2, id, rank, &config);
    }
  }
};

/** CUDA frees nothing while a kernel runs, and NCCL's kernel waits until its owner aborts. */
TEST(BorrowedNccl, MissingRank_MemoryInUseKept) {
  const UseHostDevice device;
  const BorrowedPair pair;
  const size_t memory_before = allocations_in_use();
  std::thread owner([&] {  // The end of a stream waits here, as CUDA's does not.
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    (void)pair.library->abort(pair.comms[0]);
  });
  gqsgd_comm comm = nullptr;
  EXPECT_TRUE(says(gqsgd_comm_create_from_nccl(
                       pair.comms[0], stand_in_options("timeout_ms=300").c_str(), &comm),
                   GQSGD_TIMEOUT, "waited 300 ms for a first word"));
  owner.join();
  EXPECT_EQ(comm, nullptr);
  constexpr size_t kBrokenHostsAndWords = 3;
  EXPECT_EQ(allocations_in_use(), memory_before + kBrokenHostsAndWords);
  (void)pair.library->destroy(pair.comms[1]);
}

TEST(BorrowedNccl, RankDoesNotCall_DestroyedWithoutWaitingAndMemoryInUseKept) {
  const UseHostDevice device;
  const BorrowedPair pair;
  gqsgd_comm comms[2] = {};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::string options = stand_in_options("timeout_ms=300");
      (void)gqsgd_comm_create_from_nccl(pair.comms[rank], options.c_str(), &comms[rank]);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  StreamCall made(some_values());
  EXPECT_TRUE(says(made.make(comms[0], usual()), GQSGD_TIMEOUT, "waited 300 ms"));
  const size_t memory_before = allocations_in_use();
  const auto begun = Clock::now();
  EXPECT_EQ(gqsgd_comm_destroy(comms[0]), GQSGD_OK);
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
  EXPECT_EQ(allocations_in_use(), memory_before);
  (void)pair.library->abort(pair.comms[0]);
  EXPECT_TRUE(made.wait(5000));
  gqsgd_comm_destroy(comms[1]);
  (void)pair.library->destroy(pair.comms[1]);
}

}  // namespace
}  // namespace gq::test
