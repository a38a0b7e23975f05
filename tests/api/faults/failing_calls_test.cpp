// Every allocation and every system call of the library fails once: no crash, no hang, no leak, a
// status that the catalogue knows, and a group that either goes on or says why not.
#include <gqsgd_elastic.h>
#include <gqsgd_log.h>
#include <gqsgd_model.h>
#include <gqsgd_stages.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/api/faults/support/fail_nth.h"
#include "tests/support/socket_group.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

constexpr unsigned long kNever = 1ul << 40;

/** Everything a process may hold too much of. */
struct Holdings {
  long heap_bytes = heap_bytes_in_use();
  size_t descriptors = 0, segments = 0;

  Holdings() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      ++descriptors;
      const auto target = std::filesystem::read_symlink(entry.path(), gone);
      segments += target.string().find("gqsgd") != std::string::npos ? 1 : 0;
    }
  }
};

/** The result of one run of a scenario; the first failure counts. Allocates nothing. */
struct Trial {
  gqsgd_status status = GQSGD_OK;
  char sentence[512] = "";

  /** Notes the outcome of a call of the library; true if it succeeded. */
  bool note(gqsgd_status returned) {
    if (returned == GQSGD_OK) return true;
    if (status == GQSGD_OK) snprintf(sentence, sizeof sentence, "%s", gqsgd_last_error());
    if (status == GQSGD_OK) status = returned;
    return false;
  }
};

/** Makes its calls with fail_nth(nth) in force. */
using Scenario = std::function<Trial(unsigned long nth)>;

/** A resource that is missing; or that of a rank whose connection could not be taken. */
bool is_catalogued(gqsgd_status status) {
  return status == GQSGD_OK || (status >= GQSGD_NO_MEMORY && status <= GQSGD_SYSTEM) ||
         status == GQSGD_TIMEOUT || status == GQSGD_PEER_LOST;
}

/** Runs the scenario whole once, then with its nth call failing; a line about what was wrong. */
std::string run_once(const Scenario& scenario, unsigned long nth) {
  const Trial whole = scenario(kNever);
  if (whole.status != GQSGD_OK) return std::string("without a failure: ") + whole.sentence;
  const Holdings before;
  const Trial trial = scenario(nth);
  const Holdings after;
  const char* failed = fail_nth_failed();
  if (failed == nullptr) return "end";
  const std::string what =
      std::string(failed) + " failed: " + gqsgd_status_name(trial.status) + ": " + trial.sentence;
  if (!is_catalogued(trial.status)) return what;
  if (trial.status != GQSGD_OK && trial.sentence[0] == '\0') return what + "(no sentence)";
  if (after.descriptors != before.descriptors) return what + " (descriptors leaked)";
  if (after.segments != before.segments) return what + " (a segment leaked)";
  if (after.heap_bytes > before.heap_bytes) {
    return what + " (" + std::to_string(after.heap_bytes - before.heap_bytes) + " bytes leaked)";
  }
  return "ok " + what;
}

/** One call after the other, each in a process of its own, until there is none left to fail. */
void fail_each(const Scenario& scenario, unsigned long least_count) {
  std::map<std::string, int> counts;
  for (unsigned long nth = 1;; ++nth) {
    Child child([&] { return run_once(scenario, nth); });
    const std::string line = child.line();
    if (line == "end") {
      EXPECT_GE(nth - 1, least_count) << "calls that were made to fail";
      break;
    }
    ASSERT_EQ(line.rfind("ok ", 0), 0u) << "call " << nth << ": " << line;
    counts[line.substr(3, line.find(" failed") - 3)] += 1;
    ASSERT_LT(nth, 3000u);
  }
  std::string summary;
  for (const auto& [name, count] : counts) summary += name + " " + std::to_string(count) + "  ";
  printf("failed in turn: %s\n", summary.c_str());
}

Trial make_quantizer(unsigned long nth) {
  Trial trial;
  gqsgd_quantizer quantizer = nullptr;
  size_t size_bytes = 0;
  fail_nth(nth);
  if (trial.note(gqsgd_quantizer_create("paper-ge8,seed=5", &quantizer))) {
    trial.note(gqsgd_packed_size(quantizer, 100, &size_bytes));
    trial.note(gqsgd_quantizer_destroy(quantizer));
  }
  fail_nth_pause();
  return trial;
}

TEST(FailingCalls, Quantizers_Reported) { fail_each(make_quantizer, 1); }

Trial simulate(unsigned long nth) {
  Trial trial;
  Call call(0);
  const void* send[3] = {call.send, call.send, call.send};
  void* recv[3] = {call.recv, nullptr, nullptr};
  fail_nth(nth);
  trial.note(gqsgd_simulate(call.quantizer, 3, send, recv, call.value_count, call.dtype, call.op,
                            call.config, ""));
  fail_nth_pause();
  return trial;
}

TEST(FailingCalls, Simulations_Reported) { fail_each(simulate, 10); }

/** Stages of Rice codes allocate the values of a group. */
Trial rice_stages(unsigned long nth) {
  Trial trial;
  Call call(0);
  call.use("rice-4");
  gqsgd_site site{};
  site.size = 1;
  const float values[5] = {1, -2, 0.5f, 3, 65};
  float norm = 0, scale = 0, result[5];
  uint32_t words[64], sums[64];
  const uint32_t* const operands[] = {words};
  fail_nth(nth);
  trial.note(gqsgd_quantize(call.quantizer, &site, values, 5, GQSGD_FLOAT32, &norm, words, nullptr,
                            0, nullptr));
  trial.note(gqsgd_reduce_many(call.quantizer, &site, operands, 5, &norm, sums, &scale, nullptr, 0,
                               nullptr));
  trial.note(gqsgd_reduce_rice(call.quantizer, &site, operands, 5, 0, 1, sums, nullptr, 0,
                               nullptr));
  trial.note(gqsgd_dequantize(call.quantizer, &site, sums, &scale, 5, GQSGD_FLOAT32, GQSGD_MEAN,
                              result, nullptr));
  fail_nth_pause();
  return trial;
}

TEST(FailingCalls, StagesOfRiceCodes_Reported) { fail_each(rice_stages, 4); }

/** Two ranks' codes of 300 values, and what the owner's step makes of them. */
struct OwnersStep {
  explicit OwnersStep(const char* spec) {
    call.use(spec);
    site.size = 2;
    const auto* const values = static_cast<const float*>(call.send);
    EXPECT_EQ(gqsgd_norm(call.quantizer, &site, values, 300, GQSGD_FLOAT32, norms, nullptr, 0,
                         nullptr),
              GQSGD_OK);
    EXPECT_EQ(gqsgd_quantize(call.quantizer, &site, values, 300, GQSGD_FLOAT32, norms, words,
                             nullptr, 0, nullptr),
              GQSGD_OK);
    std::fill(std::begin(sums), std::end(sums), 0xabcdefu);
    std::fill(std::begin(scales), std::end(scales), -7.0f);
  }
  /** With the nth allocation failing; the number that is left of it. */
  gqsgd_status run(unsigned long nth, unsigned long* left) {
    const uint32_t* const operands[] = {words, words};
    fail_nth(nth);
    const gqsgd_status status = gqsgd_reduce_many(call.quantizer, &site, operands, 300, norms, sums,
                                                  scales, nullptr, 0, nullptr);
    *left = fail_nth_pause();
    return status;
  }

  Call call{0};
  gqsgd_site site{};
  float norms[3] = {}, scales[3];
  uint32_t words[400] = {}, sums[400];
};

/** What has changed of the outputs of an owner's step without memory; "" if nothing has. */
std::string changed_without_memory(const char* spec) {
  OwnersStep step(spec);
  unsigned long left = 0;
  const gqsgd_status status = step.run(1, &left);
  if (status != GQSGD_NO_MEMORY) return gqsgd_status_name(status);
  for (const uint32_t word : step.sums) {
    if (word != 0xabcdefu) return "a word";
  }
  for (const float scale : step.scales) {
    if (scale != -7.0f) return "a scale";
  }
  return "";
}

// In a process of its own: which call has failed is remembered.
TEST(FailingCalls, OwnersStepWithoutMemory_WritesNothing) {
  for (const char* spec : {"rice-4", "adaptive-4"}) {
    Child child([&] { return changed_without_memory(spec); });
    EXPECT_EQ(child.line(), "") << spec;
  }
}

// As gqsgd_stages.h has it.
TEST(FailingCalls, OwnersStep_AllocatesOnceWithGroupsAloneElseNothing) {
  const std::pair<const char*, unsigned long> cases[] = {{"rice-4", 1},   {"adaptive-4", 1},
                                                         {"blocks-8", 0}, {"rotated-4", 0},
                                                         {"none", 0},     {"bf16", 0}};
  for (const auto& [spec, count] : cases) {
    OwnersStep step(spec);
    unsigned long left = 0;
    EXPECT_EQ(step.run(kNever, &left), GQSGD_OK) << spec;
    EXPECT_EQ(kNever - left, count) << spec;
  }
}

/** Two ranks; rank 0's calls fail, rank 1 gets whatever follows from that, but not a hang. */
Trial local_group(unsigned long nth) {
  Trial trial;
  gqsgd_comm comms[2] = {};
  std::unique_ptr<Call> calls[2] = {std::make_unique<Call>(0), std::make_unique<Call>(1)};
  fail_nth(nth);
  const char* options = "timeout_ms=2000,nodes=3:4,threads=3";
  const bool made = trial.note(gqsgd_comm_create_local(2, options, comms));
  const unsigned long left = fail_nth_pause();
  if (!made) return trial;
  std::thread peer([&] { calls[1]->make_status(comms[1]); });
  fail_nth(left);
  trial.note(calls[0]->make_status(comms[0]));
  trial.note(gqsgd_comm_destroy(comms[0]));
  fail_nth_pause();
  peer.join();
  gqsgd_comm_destroy(comms[1]);
  return trial;
}

TEST(FailingCalls, LocalGroups_Reported) { fail_each(local_group, 10); }

/** Two ranks; rank 0's start fails at one call after the other, rank 1 gets an error for it, but
 *  not a hang. */
Trial start_request(unsigned long nth) {
  Trial trial;
  gqsgd_comm comms[2] = {};
  Call call(0), peers(1);
  trial.note(gqsgd_comm_create_local(2, "timeout_ms=2000", comms));
  gqsgd_status peer_got = GQSGD_OK;
  std::thread peer([&] { peer_got = peers.make_status(comms[1]); });
  fail_nth(nth);
  const bool started = trial.note(call.start(comms[0]));
  fail_nth_pause();
  if (started) trial.note(gqsgd_request_wait(call.request));
  peer.join();
  trial.note(gqsgd_comm_destroy(comms[0]));
  gqsgd_comm_destroy(comms[1]);
  if (started || peer_got == GQSGD_REMOTE_ERROR) return trial;
  trial.status = GQSGD_INTERNAL;
  snprintf(trial.sentence, sizeof trial.sentence, "the peer got %s", gqsgd_status_name(peer_got));
  return trial;
}

TEST(FailingCalls, Requests_Reported) { fail_each(start_request, 2); }

/** The first start of a thread, over a transport whose callers make progress: "end" if it makes
 *  fewer calls. */
std::string first_start(unsigned long nth) {
  Trial trial;
  const char* failed = nullptr;
  Call call(0);
  const gqsgd_comm comm = custom_comms(socket_tables(1), "")[0];
  std::thread([&] {
    fail_nth(nth);
    const bool started = trial.note(call.start(comm));
    fail_nth_pause();
    failed = fail_nth_failed();
    if (started) trial.note(gqsgd_request_wait(call.request));
  }).join();
  trial.note(gqsgd_comm_destroy(comm));
  return failed == nullptr ? "end" : gqsgd_status_name(trial.status);
}

TEST(FailingCalls, FirstRequestOfAThreadOverSockets_Reported) {
  unsigned long nth = 1;
  for (std::string line; line != "end"; ++nth) {
    Child child([&] { return first_start(nth); });
    line = child.line();
    EXPECT_TRUE(line == "NO_MEMORY" || line == "end") << "call " << nth << ": " << line;
    ASSERT_LT(nth, 100u);
  }
  EXPECT_GT(nth, 4u);  // the request, and the list of its thread
}

using ThreeComms = gqsgd_comm[3];

void make_threads(ThreeComms* comms) {
  EXPECT_EQ(gqsgd_comm_create_local(3, "timeout_ms=20000", *comms), GQSGD_OK);
}

/** Of a group of processes, which are all this one. */
void make_processes(ThreeComms* comms) {
  gqsgd_unique_id id;
  EXPECT_EQ(gqsgd_unique_id_create(&id), GQSGD_OK);
  std::thread ranks[3];
  for (const int rank : {0, 1, 2}) {
    ranks[rank] = std::thread([&, rank] {
      const char* const options = "timeout_ms=20000";
      EXPECT_EQ(gqsgd_comm_create_process(&id, rank, 3, options, &(*comms)[rank]), GQSGD_OK);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

/** Three ranks; rank 0's shrink fails at one call after the other. The others go on, with it or
 *  without it, and do not wait for it. */
Trial shrink_group(void (*make)(ThreeComms*), unsigned long nth) {
  constexpr auto kSoon = std::chrono::seconds(5);  // where the timeout is 20
  Trial trial;
  ThreeComms comms = {}, shrunk = {};
  gqsgd_status got[3] = {};
  make(&comms);
  const auto shrink = [&](int rank) {
    return gqsgd_comm_shrink(comms[rank], nullptr, 0, GQSGD_FLOAT32, "", &shrunk[rank], nullptr,
                             nullptr);
  };
  const auto begin = std::chrono::steady_clock::now();
  std::thread peers[2];
  for (const int rank : {1, 2}) {
    peers[rank - 1] = std::thread([&, rank] { got[rank] = shrink(rank); });
  }
  fail_nth(nth);
  const bool goes_on = trial.note(shrink(0));
  fail_nth_pause();
  for (std::thread& peer : peers) peer.join();
  const bool is_soon = std::chrono::steady_clock::now() - begin < kSoon;
  if (!goes_on) got[0] = shrink(0) == GQSGD_REVOKED ? GQSGD_OK : GQSGD_INTERNAL;  // never anew
  for (const int rank : {0, 1, 2}) {
    gqsgd_comm_destroy(shrunk[rank]);
    gqsgd_comm_destroy(comms[rank]);
  }
  if (is_soon && got[0] == GQSGD_OK && got[1] == GQSGD_OK && got[2] == GQSGD_OK) return trial;
  trial.status = GQSGD_INTERNAL;
  snprintf(trial.sentence, sizeof trial.sentence, "%s; rank 0 again %s, the others %s and %s",
           is_soon ? "soon" : "late", gqsgd_status_name(got[0]), gqsgd_status_name(got[1]),
           gqsgd_status_name(got[2]));
  return trial;
}

TEST(FailingCalls, ShrinkOfThreads_OthersGoOn) {
  fail_each([](unsigned long nth) { return shrink_group(make_threads, nth); }, 20);
}

TEST(FailingCalls, ShrinkOfProcesses_OthersGoOn) {
  fail_each([](unsigned long nth) { return shrink_group(make_processes, nth); }, 60);
}

/** The first call of the library in a process, which makes what the library keeps for good. */
using FirstCall = gqsgd_status (*)();

std::string first_call(FirstCall call, unsigned long nth) {
  try {
    fail_nth(nth);
    const gqsgd_status status = call();
    fail_nth_pause();
    return std::string(fail_nth_failed() == nullptr ? "end " : "") + gqsgd_status_name(status);
  } catch (...) {
    return "an exception has crossed the C ABI";
  }
}

TEST(FailingCalls, FirstUsesInAProcess_Reported) {
  const struct {
    FirstCall call;
    const char* expected;  // where memory is not what is missing
  } cases[] = {
      {[] {
         gqsgd_quantizer quantizer;
         return gqsgd_quantizer_create("", &quantizer);
       },
       "OK"},
      {[] {
         gqsgd_comm comm;
         return gqsgd_comm_create_local(1, "", &comm);
       },
       "OK"},
      {[] {
         gqsgd_set_log(
             GQSGD_LOG_WARN, [](void*, gqsgd_log_level, const char*) {}, nullptr);
         return GQSGD_OK + 0;
       },
       "OK"},
      {[] { return gqsgd_comm_status(nullptr); }, "BAD_HANDLE"},
      {[] { return gqsgd_request_wait(nullptr); }, "BAD_HANDLE"},
  };
  for (const auto& one : cases) {
    std::string line;
    for (unsigned long nth = 1; line.rfind("end", 0) != 0; ++nth) {
      Child child([&] { return first_call(one.call, nth); });
      line = child.line();
      EXPECT_TRUE(found(line, std::string("^(NO_MEMORY|SYSTEM)$|^(end )?") + one.expected + "$"))
          << "call " << nth;
      ASSERT_LT(nth, 100u);
    }
  }
}

void take_part(const gqsgd_unique_id& id, int rank, Call* call, Trial* trial) {
  gqsgd_comm comm = nullptr;
  if (!trial->note(gqsgd_comm_create_process(&id, rank, 2, "timeout_ms=300,nodes=3:4", &comm)))
    return;
  trial->note(call->make_status(comm));
  trial->note(gqsgd_comm_destroy(comm));
}

/** The same with two processes; `victim` is the rank whose calls fail. */
Trial process_group(int victim, unsigned long nth) {
  Trial trial;
  gqsgd_unique_id id;
  if (!trial.note(gqsgd_unique_id_create(&id))) return trial;
  Child other([&] {
    Trial mine;
    Call call(1 - victim);
    take_part(id, 1 - victim, &call, &mine);
    return std::string(gqsgd_status_name(mine.status));
  });
  Call call(victim);
  fail_nth(nth);
  take_part(id, victim, &call, &trial);
  fail_nth_pause();
  const std::string peer = other.line();
  // A rank that reaches the others tells them.
  const bool is_told = strcmp(trial.sentence, "no memory for 2 ranks") != 0 || peer != "TIMEOUT";
  for (const char* expected : {"OK", "REMOTE_ERROR", "PEER_LOST", "TIMEOUT", "NO_RESOURCE"}) {
    if (peer == expected && is_told) return trial;
  }
  trial.status = GQSGD_INTERNAL;
  snprintf(trial.sentence, sizeof trial.sentence, "the peer got %s", peer.c_str());
  return trial;
}

TEST(FailingCalls, RootOfAProcessGroup_Reported) {
  fail_each([](unsigned long nth) { return process_group(0, nth); }, 40);
}

TEST(FailingCalls, JoinerOfAProcessGroup_Reported) {
  fail_each([](unsigned long nth) { return process_group(1, nth); }, 40);
}

// A timer of the program's that fires before the kernel has committed a long piece.
TEST(FailingCalls, InterruptedCommits_ContinueInShorterPieces) {
  for (const long page_count : {64, 3, 1}) {
    Child child([=] {
      gqsgd_unique_id id;
      gqsgd_comm comm = nullptr;
      interrupt_longer_commits(page_count * getpagesize());
      if (gqsgd_unique_id_create(&id) != GQSGD_OK ||
          gqsgd_comm_create_process(&id, 0, 1, "", &comm) != GQSGD_OK) {
        return std::string(gqsgd_last_error());
      }
      Call call(0);
      const gqsgd_status reserved =
          gqsgd_comm_reserve(comm, call.quantizer, size_t{4} << 20, GQSGD_FLOAT32);
      return std::string(gqsgd_status_name(reserved)) + " " + call.make(comm).text();
    });
    EXPECT_EQ(child.line(), "OK OK") << "interrupted beyond " << page_count << " pages";
  }
}

}  // namespace
}  // namespace gq::test
