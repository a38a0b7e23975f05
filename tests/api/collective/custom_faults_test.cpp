// Custom transports that are wrong or fail: tables with bad fields, functions that return an error,
// short messages, peers that never call. A status that names what happened, and intact inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"
#include "tests/support/wrapped_sockets.h"

namespace gq::test {
namespace {

/** What a wrapped table does wrong, and after how many calls of that function. */
struct Fault {
  enum Function { kNone, kSend, kReceive, kTest, kProgress, kShort, kForeign, kStuck };
  enum How { kReturns, kThrows, kThrowsNumber };
  Function function = kNone;
  int after = 0;
  How how = kReturns;
};

constexpr int32_t kCode = 77;
constexpr uint64_t kStuckRequest = uint64_t{1} << 40;  // a send that is never done

/** Sockets with a fault. */
struct FaultySockets {
  gqsgd_transport sockets;
  Fault fault;
  int calls = 0;
  bool closed = false;

  static FaultySockets& of(void* user) { return *static_cast<FaultySockets*>(user); }
  bool fails(Fault::Function function) {
    return fault.function == function && calls++ >= fault.after;
  }
  int32_t failure() const {
    if (fault.how == Fault::kThrows) throw std::runtime_error("the cable is on fire");
    if (fault.how == Fault::kThrowsNumber) throw 42;
    return kCode;
  }
};

gqsgd_transport with_fault(FaultySockets* self) {
  gqsgd_transport table = self->sockets;
  table.user = self;
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    static const unsigned char kNoise[80] = {1, 2, 3};
    FaultySockets& self = FaultySockets::of(user);
    if (self.fails(Fault::kSend)) return self.failure();
    if (size == sizeof kNoise && self.fails(Fault::kForeign)) bytes = kNoise;
    const int32_t code = self.sockets.send(self.sockets.user, peer, bytes, size, request);
    if (self.fails(Fault::kStuck)) *request = kStuckRequest;
    return code;
  };
  table.receive = [](void* user, int32_t peer, void* bytes, size_t size, uint64_t* request) {
    FaultySockets& self = FaultySockets::of(user);
    if (self.fails(Fault::kReceive)) return self.failure();
    return self.sockets.receive(self.sockets.user, peer, bytes, size, request);
  };
  table.test = [](void* user, uint64_t request, int32_t* done, size_t* size) {
    FaultySockets& self = FaultySockets::of(user);
    if (self.fails(Fault::kTest)) return self.failure();
    *done = 0;
    if (request == kStuckRequest) return 0;
    const int32_t code = self.sockets.test(self.sockets.user, request, done, size);
    if (*done && self.fails(Fault::kShort)) *size -= 1;
    return code;
  };
  table.progress = [](void* user, int32_t timeout_us) {
    FaultySockets& self = FaultySockets::of(user);
    if (self.fails(Fault::kProgress)) return self.failure();
    return self.sockets.progress(self.sockets.user, timeout_us);
  };
  table.close = [](void* user) {
    FaultySockets& self = FaultySockets::of(user);
    self.closed = true;
    const int32_t code = self.sockets.close(self.sockets.user);
    if (self.fault.how != Fault::kReturns) self.failure();
    return code;
  };
  table.error_text = [](void* user, int32_t code) -> const char* {
    const FaultySockets& self = FaultySockets::of(user);
    const gqsgd_transport& inner = self.sockets;
    if (self.fault.how != Fault::kReturns) self.failure();
    return code == kCode ? "the cable\nis cut" : inner.error_text(inner.user, code);
  };
  return table;
}

/** One rank's outcome of a call that may fail. */
struct Outcome {
  gqsgd_status status = GQSGD_OK;
  std::string sentence;
  gqsgd_status kept = GQSGD_OK;
  bool input_is_intact = false;
};

/** Rank 1 of two has the fault; each rank makes one call. */
std::vector<Outcome> run_with(const Fault& fault, const std::string& options,
                              gqsgd_schedule schedule = GQSGD_SCHEDULE_DIRECT) {
  const std::vector<gqsgd_transport> inner = socket_tables(2);
  std::vector<FaultySockets> users = {{inner[0], {}}, {inner[1], fault}};
  const auto comms = custom_comms({with_fault(&users[0]), with_fault(&users[1])}, options);
  std::vector<Outcome> outcomes(2);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("paper-gl8");
    Values input = gradients(2, 4096, 3)[rank];
    if (schedule == GQSGD_SCHEDULE_SPARSE) std::fill(input.begin() + 40, input.end(), 0.0f);
    Values send = input, recv(input.size());
    Outcome& outcome = outcomes[rank];
    outcome.status = gqsgd_allreduce(comm, quantizer.get(), send.data(), recv.data(), send.size(),
                                     GQSGD_FLOAT32, GQSGD_MEAN, config_of(schedule), nullptr);
    outcome.sentence = gqsgd_last_error();
    outcome.kept = gqsgd_comm_status(comm);
    outcome.input_is_intact = send == input;
    return "";
  };
  EXPECT_EQ(run_threads(comms, body), "");
  EXPECT_TRUE(users[0].closed && users[1].closed);
  return outcomes;
}

void expect_broken(const Outcome& outcome, gqsgd_status status,
                   const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.status, status) << outcome.sentence;
  EXPECT_EQ(outcome.kept, status);
  EXPECT_TRUE(outcome.input_is_intact);
  for (const std::string& word : words) {
    EXPECT_NE(outcome.sentence.find(word), std::string::npos)
        << "\"" << word << "\" in: " << outcome.sentence;
  }
}

TEST(CustomFaults, FunctionReturnsError_BackendWithCodeRankAndPhase) {
  const struct {
    Fault fault;
    std::vector<std::string> words;
  } cases[] = {
      {{Fault::kSend, 0},
       {"rank 1, while control messages", "send to rank 0", "code 77: the cable\\x0ais cut"}},
      {{Fault::kSend, 1},
       {"rank 1, while packed codes", "send to rank 0", "code 77: the cable\\x0ais cut"}},
      {{Fault::kReceive, 0}, {"while control messages", "receive from rank 0", "code 77"}},
      {{Fault::kReceive, 2}, {"while packed codes", "receive from rank 0", "code 77"}},
      {{Fault::kTest, 0}, {"while control messages", "receive from rank 0", "code 77"}},
      {{Fault::kProgress, 0}, {"progress failed with code 77: the cable\\x0ais cut"}},
  };
  for (const auto& test : cases) {
    const std::vector<Outcome> outcomes =
        run_with(test.fault, "timeout_ms=1000,chunk_value_count=512");
    expect_broken(outcomes[1], GQSGD_BACKEND, test.words);
    // The other rank finds out by its sockets only.
    EXPECT_TRUE(outcomes[0].status == GQSGD_BACKEND || outcomes[0].status == GQSGD_TIMEOUT)
        << outcomes[0].sentence;
    EXPECT_TRUE(outcomes[0].input_is_intact);
  }
}

// Where a function throws, close does as well: buffers stay, and nothing else happens.
TEST(CustomFaults, FunctionThrows_BackendWithItsMessage) {
  const struct {
    Fault fault;
    std::vector<std::string> words;
  } cases[] = {
      {{Fault::kSend, 0, Fault::kThrows},
       {"send to rank 0 threw an exception: the cable is on fire"}},
      {{Fault::kReceive, 2, Fault::kThrows}, {"receive from rank 0 threw an exception: the cable"}},
      {{Fault::kTest, 0, Fault::kThrowsNumber},
       {"receive from rank 0 threw an exception: of a type that is no std::exception"}},
      {{Fault::kProgress, 0, Fault::kThrows}, {"progress threw an exception: the cable is on"}},
  };
  for (const auto& test : cases) {
    expect_broken(run_with(test.fault, "timeout_ms=1000,chunk_value_count=512")[1], GQSGD_BACKEND,
                  test.words);
  }
}

TEST(CustomFaults, ShortMessage_ProtocolWithBothLengths) {
  expect_broken(run_with({Fault::kShort, 0}, "timeout_ms=1000")[1], GQSGD_PROTOCOL,
                {"rank 1, while control messages", "got 79 of 80 bytes from rank 0"});
  expect_broken(run_with({Fault::kShort, 1}, "timeout_ms=1000")[1], GQSGD_PROTOCOL,
                {"rank 1, while packed codes", "got 2055 of 2056 bytes from rank 0"});
}

TEST(CustomFaults, ForeignBytes_Protocol) {
  const std::vector<Outcome> outcomes = run_with({Fault::kForeign, 0}, "timeout_ms=1000");
  expect_broken(outcomes[0], GQSGD_PROTOCOL,
                {"80 bytes from rank 1 that are not its control message"});
}

TEST(CustomFaults, SendNeverLeaves_TimeoutNamesPeer) {
  // Of a short call: a header, codes and sums; or two headers and entries.
  for (const auto& [schedule, after] :
       {std::pair{GQSGD_SCHEDULE_DIRECT, 2}, std::pair{GQSGD_SCHEDULE_SPARSE, 2}}) {
    const auto outcomes = run_with({Fault::kStuck, after}, "timeout_ms=1000", schedule);
    EXPECT_EQ(outcomes[0].status, GQSGD_OK) << outcomes[0].sentence;
    expect_broken(outcomes[1], GQSGD_TIMEOUT,
                  {"rank 1 waited", "ms for rank 0 to take the last codes sent to it"});
  }
}

TEST(CustomFaults, RankNeverCalls_TimeoutNamesRank) {
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    if (rank == 2) return "";
    const auto begin = std::chrono::steady_clock::now();
    Values result;
    const std::string failure =
        allreduce(comm, {"paper-gl8", GQSGD_SCHEDULE_DIRECT}, Values(100, 1.0f), &result);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds < 0.2 || seconds > 10)  // a machine may have other things to do
      return "after " + std::to_string(seconds) + " s: " + failure;
    const bool named = failure.find("TIMEOUT") != std::string::npos &&
                       failure.find("for rank 2 to make this call") != std::string::npos;
    return named ? "" : "says: " + failure;
  };
  EXPECT_EQ(run_threads(custom_comms(socket_tables(3), "timeout_ms=200"), body), "");
}

TEST(CustomFaults, AbortFromAnotherThread_EndsTheWait) {
  const auto comms = custom_comms(socket_tables(2), "");
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(gqsgd_comm_abort(comms[0]), GQSGD_OK);
  });
  Values result;
  const std::string failure =
      allreduce(comms[0], {"paper-gl8", GQSGD_SCHEDULE_DIRECT}, Values(100, 1.0f), &result);
  aborter.join();
  EXPECT_NE(failure.find("ABORTED: rank 0 aborted"), std::string::npos) << failure;
  for (gqsgd_comm comm : comms) EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

TEST(CustomFaults, Mismatch_NamedOnAllRanks_GroupUsable) {
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const Operation good{"paper-gl8", GQSGD_SCHEDULE_RING};
    Operation bad = good;
    bad.quantizer = rank == 1 ? "paper-gl4" : "paper-gl8";
    const std::string failure = allreduce(comm, bad, Values(100, 1.0f), &result);
    const bool named =
        failure.find("MISMATCH") != std::string::npos &&
        failure.find("bits differs: rank 0 has 8, rank 1 has 4") != std::string::npos;
    if (!named) return "says: " + failure;
    return allreduce(comm, good, Values(100, 1.0f), &result);
  };
  EXPECT_EQ(run_threads(custom_comms(socket_tables(3), ""), body), "");
}

/** Sockets whose messages leave a few waits after they were sent. */
struct LaggingSockets {
  struct Send {
    int32_t peer;
    const void* bytes;
    size_t size_bytes;
    int waits_left = 3;
    uint64_t request = 0;
  };

  gqsgd_transport sockets;
  std::vector<Send> sends;

  int32_t done(uint64_t request) {
    const Send& send = sends[request - kFirstOwnRequest];
    int32_t done = 0;
    size_t size_bytes = 0;
    if (send.waits_left == 0) sockets.test(sockets.user, send.request, &done, &size_bytes);
    return done;
  }
};

gqsgd_transport lagging(LaggingSockets* self) {
  gqsgd_transport table = wrapped(self);
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    LaggingSockets& self = *static_cast<LaggingSockets*>(user);
    *request = kFirstOwnRequest + self.sends.size();
    self.sends.push_back({peer, bytes, size});
    return 0;
  };
  table.progress = [](void* user, int32_t timeout_us) {
    LaggingSockets& self = *static_cast<LaggingSockets*>(user);
    for (LaggingSockets::Send& send : self.sends) {
      if (timeout_us == 0 || send.waits_left == 0 || --send.waits_left > 0) continue;
      self.sockets.send(self.sockets.user, send.peer, send.bytes, send.size_bytes, &send.request);
    }
    return self.sockets.progress(self.sockets.user, timeout_us < 100 ? timeout_us : 100);
  };
  return table;
}

// A rank that knows how the call ends goes, but not before the others can know it: they have no
// other channel.
TEST(CustomFaults, AllRanksFailAlike_ControlMessagesLeaveFirst) {
  constexpr int kRanks = 3;
  const auto sockets = socket_tables(kRanks);
  LaggingSockets slow[] = {{sockets[1], {}}, {sockets[2], {}}};
  const auto body = [](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const Operation refused{"blocks-8", GQSGD_SCHEDULE_RING};
    std::string failure = allreduce(comm, refused, Values(100, 1.0f), &result);
    if (failure.find("INVALID_ARGUMENT") == std::string::npos) return "refused: " + failure;
    const Operation bad{rank == 1 ? "paper-gl4" : "paper-gl8", GQSGD_SCHEDULE_RING};
    failure = allreduce(comm, bad, Values(100, 1.0f), &result);
    return failure.find("MISMATCH") != std::string::npos ? "" : "differs: " + failure;
  };
  const auto comms =
      custom_comms({sockets[0], lagging(&slow[0]), lagging(&slow[1])}, "timeout_ms=2000");
  EXPECT_EQ(run_threads(comms, body), "");
}

TEST(CustomFaults, ControlMessageNeverLeaves_TimeoutNamesPeer) {
  const std::vector<gqsgd_transport> inner = socket_tables(2);
  FaultySockets users[] = {{inner[0], {}}, {inner[1], {Fault::kStuck, 0}}};
  const auto body = [](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const Operation bad{rank == 1 ? "paper-gl4" : "paper-gl8", GQSGD_SCHEDULE_RING};
    const std::string failure = allreduce(comm, bad, Values(100, 1.0f), &result);
    const char* const expected =
        rank == 0 ? "MISMATCH" : "ms for rank 0 to take its control message; it is stopped";
    return failure.find(expected) != std::string::npos ? "" : failure;
  };
  EXPECT_EQ(run_threads(custom_comms({with_fault(&users[0]), with_fault(&users[1])},
                                     "timeout_ms=500"),
                        body),
            "");
}

class BadTable : public testing::Test {
 protected:
  BadTable() : user_{socket_tables(1)[0], {}}, table_(with_fault(&user_)) {}
  ~BadTable() override { user_.sockets.close(user_.sockets.user); }

  void expect(gqsgd_status status, const char* words) {
    gqsgd_comm comm = reinterpret_cast<gqsgd_comm>(this);
    EXPECT_EQ(gqsgd_comm_create_custom(&table_, "", &comm), status);
    EXPECT_EQ(comm, nullptr);
    EXPECT_NE(std::strstr(gqsgd_last_error(), words), nullptr) << gqsgd_last_error();
    EXPECT_FALSE(user_.closed);
  }

  FaultySockets user_;
  gqsgd_transport table_;
};

TEST_F(BadTable, WrongField_RefusedByName) {
  const gqsgd_transport good = table_;
  table_.struct_size_bytes = sizeof table_ - 1;
  expect(GQSGD_INVALID_ARGUMENT, "struct_size_bytes is");
  table_ = good, table_.struct_size_bytes = 1 << 20;
  expect(GQSGD_INVALID_ARGUMENT, "struct_size_bytes is");
  table_ = good, table_.send = nullptr;
  expect(GQSGD_INVALID_ARGUMENT, "send is NULL");
  table_ = good, table_.receive = nullptr;
  expect(GQSGD_INVALID_ARGUMENT, "receive is NULL");
  table_ = good, table_.test = nullptr;
  expect(GQSGD_INVALID_ARGUMENT, "test is NULL");
  table_ = good, table_.progress = nullptr;
  expect(GQSGD_INVALID_ARGUMENT, "progress is NULL");
  table_ = good, table_.close = nullptr;
  expect(GQSGD_INVALID_ARGUMENT, "close is NULL");
  table_ = good, table_.rank = 1;
  expect(GQSGD_INVALID_ARGUMENT, "rank is 1; with size 1 it is 0 to 0");
  table_ = good, table_.size = 0;
  expect(GQSGD_INVALID_ARGUMENT, "not 0");
}

TEST_F(BadTable, OptionsAndNullPointers_Refused) {
  gqsgd_comm comm = nullptr;
  EXPECT_EQ(gqsgd_comm_create_custom(nullptr, "", &comm), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(gqsgd_comm_create_custom(&table_, "", nullptr), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(gqsgd_comm_create_custom(&table_, "speed=high", &comm), GQSGD_INVALID_ARGUMENT);
  EXPECT_FALSE(user_.closed);
}

TEST_F(BadTable, LaterVersion_AcceptedIfNothingNewIsUsed) {
  struct {
    gqsgd_transport known;
    void* unknown;
  } later = {table_, nullptr};
  later.known.struct_size_bytes = sizeof later;
  table_.struct_size_bytes = sizeof later;
  gqsgd_comm comm = nullptr;
  later.unknown = &later;
  EXPECT_EQ(gqsgd_comm_create_custom(&later.known, "", &comm), GQSGD_UNSUPPORTED);
  EXPECT_NE(std::strstr(gqsgd_last_error(), "is not 0"), nullptr) << gqsgd_last_error();
  EXPECT_FALSE(user_.closed);
  later.unknown = nullptr;
  ASSERT_EQ(gqsgd_comm_create_custom(&later.known, "", &comm), GQSGD_OK);
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
  EXPECT_TRUE(user_.closed);
  user_.sockets = socket_tables(1)[0];  // for the destructor
}

/** What gqsgd_comm_transport says; "" if it fails. */
std::string transport_of(gqsgd_comm comm) {
  const char* name = "";
  EXPECT_EQ(gqsgd_comm_transport(comm, &name), GQSGD_OK) << gqsgd_last_error();
  return name;
}

TEST(CustomNames, TableHasAName_Copied) {
  gqsgd_transport table = socket_tables(1)[0];
  char name[] = "sockets";
  table.name = name;
  gqsgd_comm comm = nullptr;
  ASSERT_EQ(gqsgd_comm_create_custom(&table, "", &comm), GQSGD_OK);
  name[0] = '?';
  EXPECT_EQ(transport_of(comm), "sockets");
  EXPECT_EQ(gqsgd_comm_transport(comm, nullptr), GQSGD_INVALID_ARGUMENT);
  EXPECT_STREQ(gqsgd_last_error(), "gqsgd_comm_transport: name is NULL");
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

TEST(CustomNames, TableWithoutAName_Custom) {
  for (const size_t size_bytes : {sizeof(gqsgd_transport), offsetof(gqsgd_transport, name)}) {
    gqsgd_transport table = socket_tables(1)[0];
    table.struct_size_bytes = size_bytes;
    // Beyond a table of the first version is memory of its caller.
    table.name = size_bytes < sizeof table ? "not in the table" : nullptr;
    gqsgd_comm comm = nullptr;
    ASSERT_EQ(gqsgd_comm_create_custom(&table, "", &comm), GQSGD_OK);
    EXPECT_EQ(transport_of(comm), "custom");
    EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
  }
}

TEST(CustomNames, OwnTransports_ThreadsAndProcesses) {
  const auto body = [](const char* expected) {
    return
        [expected](int, gqsgd_comm comm) { return transport_of(comm) == expected ? "" : "other"; };
  };
  EXPECT_EQ(run_threads(2, "", body("threads")), "");
  EXPECT_EQ(run_processes(2, "", body("processes")), "");
}

TEST(CustomFaults, FailureInCreation_TransportSetsTheSentence) {
  EXPECT_EQ(gqsgd_fail(GQSGD_UNSUPPORTED, "no wire here"), GQSGD_UNSUPPORTED);
  EXPECT_STREQ(gqsgd_last_error(), "no wire here");
  EXPECT_EQ(gqsgd_fail(GQSGD_BACKEND, nullptr), GQSGD_BACKEND);
  EXPECT_STREQ(gqsgd_last_error(), "");
}

}  // namespace
}  // namespace gq::test
