// A rank that overwrites shared memory while the others reduce: all that its descriptors and
// mappings let it write of its peers', and what it shows of its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/support/old_kernel/old_kernel.h"
#include "tests/support/operation.h"
#include "tests/support/shared_memory.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

constexpr int kRanks = 4;
constexpr int kScribbler = 1;
constexpr int64_t kFormTimeoutMs = 20000;
constexpr uint64_t kSeed = 20;

using Word = volatile uint32_t;
struct Words {
  Word* first;
  size_t count;
  uint64_t offset_bytes;  ///< in its file
};

/** Mappings of this process that it may write, of files with this name. */
std::vector<Words> writable_mappings(const std::string& name) {
  std::vector<Words> found;
  FILE* const maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    uintptr_t begin = 0, end = 0;
    uint64_t offset_bytes = 0;
    if (std::sscanf(line, "%lx-%lx rw-s %lx", &begin, &end, &offset_bytes) != 3) continue;
    if (std::strstr(line, ("/memfd:" + name + " ").c_str()) == nullptr) continue;
    found.push_back(
        {reinterpret_cast<Word*>(begin), (end - begin) / sizeof(uint32_t), offset_bytes});
  }
  if (maps != nullptr) std::fclose(maps);
  return found;
}

constexpr size_t kUnitBytes = 4096;  // of every kind of page
constexpr size_t kUnitWords = kUnitBytes / sizeof(uint32_t);
constexpr size_t kUsedWords = 64;  // of a page with words that wake ranks, or of a control block
constexpr size_t kFileUnits = 2;   // wherever in them a control block lies

/** What descriptors of segments can still be mapped for writing: their beginnings. */
std::vector<Words> writable_files() {
  std::vector<Words> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find("/memfd:gqsgd") == std::string::npos) continue;
    const int file = std::atoi(entry.path().filename().c_str());
    const size_t size_bytes = kFileUnits * kUnitBytes;
    void* const base = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (base == MAP_FAILED) continue;
    found.push_back({static_cast<Word*>(base), size_bytes / sizeof(uint32_t), 0});
  }
  return found;
}

/** A word and what is written there. */
struct Scribble {
  Word* word;
  uint32_t value;
};

uint32_t hostile_value(size_t number) {
  const uint32_t random = static_cast<uint32_t>(mix(kSeed + number));
  const uint32_t values[] = {0, 1, UINT32_MAX, 0x7fffffff, random};
  return values[number % std::size(values)];
}
constexpr size_t kValues = 5;

/** Every word with every value; words that are in use lie at the beginning (`near`) of a page. */
void list_scribbles(std::vector<Scribble>* near, std::vector<Scribble>* far) {
  std::vector<Words> places = writable_mappings("gqsgd-wakeup");
  for (const Words& words : writable_files()) places.push_back(words);
  for (const Words& words : places) {
    for (size_t k = 0; k < words.count * kValues; ++k) {
      auto* const list = k / kValues % kUnitWords < kUsedWords ? near : far;
      list->push_back({words.first + k / kValues, hostile_value(k)});
    }
  }
  for (size_t k = near->size(); k > 1; --k) std::swap((*near)[k - 1], (*near)[mix(kSeed * k) % k]);
}

void write_share(const std::vector<Scribble>& list, size_t number, size_t share_count) {
  const size_t end = list.size() * (number + 1) / share_count;
  for (size_t k = list.size() * number / share_count; k < end; ++k) *list[k].word = list[k].value;
}

/** "" if the failure is one that a correct library may report of such a rank. */
std::string problem_with(const Outcome& outcome) {
  static constexpr gqsgd_status kNamed[] = {GQSGD_PROTOCOL, GQSGD_TIMEOUT,      GQSGD_PEER_LOST,
                                            GQSGD_ABORTED,  GQSGD_REVOKED,      GQSGD_MISMATCH,
                                            GQSGD_VERSION,  GQSGD_REMOTE_ERROR, GQSGD_NONFINITE};
  const bool named =
      std::find(std::begin(kNamed), std::end(kNamed), outcome.status) != std::end(kNamed);
  if (named && !outcome.sentence.empty()) return "";
  return "unnamed: " + outcome.text();
}

/** What the ranks of one group do: the same calls on all. */
struct Round {
  const char* quantizer;
  gqsgd_schedule schedule;
  size_t first_call, call_count;
  bool values_hold;    ///< nothing that is written can change the result, or end the group
  int64_t timeout_ms;  ///< of calls
};

gqsgd_comm join(const gqsgd_unique_id& id, int rank, const Round& round) {
  gqsgd_comm comm = nullptr;
  const std::string options = "timeout_ms=" + std::to_string(kFormTimeoutMs);
  if (gqsgd_comm_create_process(&id, rank, kRanks, options.c_str(), &comm) == GQSGD_OK &&
      gqsgd_comm_set_timeout(comm, round.timeout_ms) == GQSGD_OK) {
    return comm;
  }
  std::fprintf(stderr, "rank %d: %s\n", rank, gqsgd_last_error());
  _exit(9);
}

/** "OK", or "failed" by a name, or what was wrong. */
std::string survive(const gqsgd_unique_id& id, int rank, const Round& round) {
  const gqsgd_comm comm = join(id, rank, round);
  Call call(rank);
  call.use(round.quantizer);
  call.config.schedule = round.schedule;
  Values first;
  for (size_t number = round.first_call; number < round.call_count; ++number) {
    const Outcome outcome = call.make(comm);
    if (outcome.status != GQSGD_OK) {
      const std::string problem = problem_with(outcome);
      return problem.empty() ? "failed" : problem;
    }
    if (first.empty()) first = call.result;
    const size_t size_bytes = first.size() * sizeof(float);
    if (round.values_hold && std::memcmp(first.data(), call.result.data(), size_bytes) != 0) {
      return "wrong values in call " + std::to_string(number);
    }
  }
  return "OK";
}

/** Writes a share of all there is before each call; *next_call is where the next group begins. */
std::string scribble(const gqsgd_unique_id& id, const Round& round, size_t* next_call) {
  const gqsgd_comm comm = join(id, kScribbler, round);
  Call call(kScribbler);
  std::vector<Scribble> near, far;
  list_scribbles(&near, &far);
  for (size_t number = round.first_call; number < round.call_count; ++number) {
    *next_call = number + 1;
    if (number % 4 == 0) usleep(300);  // the others sleep by now
    if (number > round.first_call) {
      write_share(near, number, round.call_count);
      write_share(far, number, round.call_count);
    }
    if (call.make(comm).status != GQSGD_OK) break;
  }
  return std::to_string(near.size()) + " and " + std::to_string(far.size());
}

/** Runs a group; the lines of its survivors. */
std::vector<std::string> run_group(const Round& round,
                                   const std::function<std::string(const gqsgd_unique_id&)>& other,
                                   std::string* others_line) {
  gqsgd_unique_id id;
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  std::vector<Child> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back(
        [&, rank] { return rank == kScribbler ? other(id) : survive(id, rank, round); });
  }
  std::vector<std::string> survivors;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string line = ranks[static_cast<size_t>(rank)].line();
    rank == kScribbler ? * others_line = line : survivors.emplace_back(line);
  }
  return survivors;
}

bool kernel_seals_writing() {
  const int file = memfd_create("gqsgd-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const bool sealed = fcntl(file, F_ADD_SEALS, 0x0010) == 0;
  close(file);
  return sealed;
}

class OverwrittenMemory : public testing::Test {
 protected:
  void TearDown() override { run_without_write_seal(0); }
};

// Words that peers write wake a rank and nothing more: with the memory that they read sealed, no
// value in any of them harms a result.
TEST_F(OverwrittenMemory, EveryWritableWord_Overwritten_ResultsRight) {
  if (!kernel_seals_writing()) GTEST_SKIP() << "Linux before 5.1: the next test is what holds";
  SharedArray<size_t> next_call(1);
  const Round round{"paper-gl8", GQSGD_SCHEDULE_DIRECT, 0, 641, true, 20000};
  std::string line;
  const auto survivors = run_group(
      round, [&](const gqsgd_unique_id& id) { return scribble(id, round, &next_call[0]); }, &line);
  EXPECT_EQ(survivors, std::vector<std::string>(kRanks - 1, "OK"));
  EXPECT_EQ(next_call[0], round.call_count);
  const size_t unit_count = kRanks * static_cast<size_t>(getpagesize()) / kUnitBytes;
  EXPECT_EQ(line, std::to_string(unit_count * kUsedWords * kValues) + " and " +
                      std::to_string(unit_count * (kUnitWords - kUsedWords) * kValues))
      << "a page of each rank, and nothing else";
}

// Without the seal a rank can write everything: groups end by name then, and go on with the next
// words.
TEST_F(OverwrittenMemory, WithoutTheSeal_GroupsEndWithANamedFailure) {
  run_without_write_seal(1);
  SharedArray<size_t> next_call(1);
  size_t failed_count = 0;
  Round round{"paper-gl8", GQSGD_SCHEDULE_DIRECT, 0, 640, false, 300};
  for (int turn = 0; turn < 60 && next_call[0] < round.call_count; ++turn) {
    round.first_call = next_call[0];
    std::string line;
    const auto survivors = run_group(
        round, [&](const gqsgd_unique_id& id) { return scribble(id, round, &next_call[0]); },
        &line);
    for (const std::string& survivor : survivors) {
      EXPECT_TRUE(survivor == "OK" || survivor == "failed")
          << survivor << ", calls " << round.first_call << " to " << next_call[0];
      failed_count += survivor == "failed" ? 1 : 0;
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failed_count, 0u) << "words that were written should have shown";
}

/** What another process could do too: no race of threads, which ThreadSanitizer would report. */
__attribute__((no_sanitize("thread"))) void overwrite(Word* word, uint32_t value) { *word = value; }

/** Writes one word of its own memory again and again while it takes part: of the control block, or
 *  of the arena. */
std::string scribble_own(const gqsgd_unique_id& id, const Round& round, size_t number) {
  const gqsgd_comm comm = join(id, kScribbler, round);
  Call call(kScribbler);
  call.use(round.quantizer);
  call.config.schedule = round.schedule;
  (void)call.make_status(comm);
  const std::vector<Words> own = writable_mappings("gqsgd");
  if (own.size() != 2) _exit(8);
  const bool in_arena = number % 4 == 3;
  const bool arena_is_first = own[0].offset_bytes > own[1].offset_bytes;
  const Words words = own[in_arena != arena_is_first ? 1 : 0];
  const uint32_t value = hostile_value(mix(kSeed + number));
  const size_t index = mix(kSeed * 7 + number) % (in_arena ? words.count : 192);
  std::atomic<bool> ended{false};
  std::atomic<uint64_t> writes{0};
  std::thread scribbler([&] {
    for (; !ended; ++writes) overwrite(&words.first[index], value);
  });
  for (size_t k = 1; k < round.call_count; ++k) {
    const uint64_t before = writes;
    while (writes == before) std::this_thread::yield();  // so that each call meets the word
    (void)call.make_status(comm);
  }
  ended = true;
  scribbler.join();
  return "";
}

TEST_F(OverwrittenMemory, OwnMemory_Overwritten_NoOtherRankHarmed) {
  const Round rounds[] = {{"paper-gl8", GQSGD_SCHEDULE_DIRECT, 0, 4, false, 300},
                          {"paper-gl8", GQSGD_SCHEDULE_SPARSE, 0, 4, false, 300},
                          {"paper-gl8", GQSGD_SCHEDULE_RING, 0, 4, false, 300}};
  size_t failed_count = 0;
  for (size_t number = 0; number < 60; ++number) {
    const Round& round = rounds[number % std::size(rounds)];
    std::string line;
    const auto survivors = run_group(
        round, [&](const gqsgd_unique_id& id) { return scribble_own(id, round, number); }, &line);
    for (const std::string& survivor : survivors) {
      EXPECT_TRUE(survivor == "OK" || survivor == "failed") << survivor << ", number " << number;
      failed_count += survivor == "failed" ? 1 : 0;
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failed_count, 0u);
}

}  // namespace
}  // namespace gq::test
