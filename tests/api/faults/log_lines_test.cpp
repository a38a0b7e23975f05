// What the log says at each level, and where: every test runs in children, because GQSGD_LOG is
// read once.
#include <fcntl.h>
#include <gqsgd_log.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/support/config.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

using Lines = std::vector<std::string>;

Lines lines_in(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/** What a child with GQSGD_LOG=`level` (null: unset) writes to standard error during `body`, which
 *  returns "" or what went wrong. */
Lines standard_error_of(const char* level, const std::function<std::string()>& body) {
  const int file = memfd_create("standard_error", 0);
  EXPECT_EQ(fcntl(file, F_SETFL, O_APPEND), 0);  // as several processes have a log file
  Child child([&] {
    dup2(file, STDERR_FILENO);
    level == nullptr ? unsetenv("GQSGD_LOG") : setenv("GQSGD_LOG", level, 1);
    return body();
  });
  EXPECT_EQ(child.line(), "");
  std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(file);
  return lines_in(text);
}

/** One allreduce of `value_count` ones. */
std::string call(gqsgd_comm comm, size_t value_count, const char* spec = "blocks-8",
                 gqsgd_schedule schedule = GQSGD_SCHEDULE_AUTO) {
  std::vector<float> values(value_count, 1.0f);
  gqsgd_quantizer quantizer = nullptr;
  gqsgd_status status = gqsgd_quantizer_create(spec, &quantizer);
  if (status == GQSGD_OK) {
    status = gqsgd_allreduce(comm, quantizer, values.data(), values.data(), value_count,
                             GQSGD_FLOAT32, GQSGD_MEAN, config_of(schedule), nullptr);
  }
  gqsgd_quantizer_destroy(quantizer);
  return failure_of(status, "allreduce");
}

std::string call_twice(int, gqsgd_comm comm) {
  const std::string failure = call(comm, 1024);
  return failure.empty() ? call(comm, 1024) : failure;
}

std::function<std::string()> threads(int ranks, const std::string& options, const RankBody& body) {
  return [=] { return run_threads(ranks, options, body); };
}

const std::string kPrefix = R"([^ :]+:\d+:\d+ gqsgd )";
const std::string kComm = "comm [0-9a-f]{8} ";
const std::string kCreated =
    R"(2 ranks over threads on 1 node; schedule auto: direct, no costs given; stages \w+; )"
    R"(chunk 65536 values; 1 thread; timeout 300000 ms; libgqsgd 0\.1\.0, wire version 2)";
// 4 blocks a rank and direction: 512 codes, their norms (8 bytes) up and down, and 8 of scales.
const std::string kKind =
    R"(allreduce of 1024 float32 \(mean\), blocks-8, schedule direct \(auto: no costs given\): )"
    R"(this rank sends 1048 bytes, 4096 as float32, ratio 3\.91)";
const std::string kDestroyed =
    R"(destroyed after 2 calls: 2096 bytes sent, 8192 as float32, ratio 3\.91; waited \d+ ms)";

/** How many lines are `pattern`, whole. */
size_t count(const Lines& lines, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<size_t>(
      std::count_if(lines.begin(), lines.end(),
                    [&](const std::string& line) { return std::regex_match(line, expression); }));
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/** Lines are these, each once, in any order. */
void expect_lines(const Lines& lines, const Lines& patterns) {
  EXPECT_EQ(lines.size(), patterns.size()) << text_of(lines);
  for (const std::string& pattern : patterns) {
    EXPECT_EQ(count(lines, pattern), 1u) << pattern << " in\n" << text_of(lines);
  }
}

Lines of_both_ranks(const Lines& texts) {
  Lines patterns;
  for (const char* rank : {"0", "1"}) {
    for (const std::string& text : texts) {
      patterns.push_back(kPrefix + "INFO " + kComm + "rank " + rank + ": " + text);
    }
  }
  return patterns;
}

TEST(LogLines, NotAskedFor_None) {
  for (const char* level : {static_cast<const char*>(nullptr), "", "none"}) {
    EXPECT_EQ(text_of(standard_error_of(level, threads(2, "", call_twice))), "");
  }
}

TEST(LogLines, InfoOfThreads_CommunicatorKindOfCallAndTotals) {
  const Lines lines = standard_error_of("info", threads(2, "", call_twice));
  expect_lines(lines, of_both_ranks({kCreated, kKind, kDestroyed}));
}

TEST(LogLines, InfoOfProcesses_SameLinesOfTwoProcesses) {
  const Lines lines =
      standard_error_of("info", [] { return run_processes(2, "timeout_ms=20000", call_twice); });
  std::string created = kCreated;
  created.replace(created.find("threads"), 7, "processes");
  created.replace(created.find("300000"), 6, "20000");
  expect_lines(lines, of_both_ranks({created, kKind, kDestroyed}));
  std::set<std::string> processes, comms;
  for (const std::string& line : lines) {
    processes.insert(line.substr(0, line.rfind(':', line.find(" gqsgd "))));
    comms.insert(line.substr(line.find("comm "), 13));
  }
  EXPECT_EQ(processes.size(), 2u);
  EXPECT_EQ(comms.size(), 1u);
}

TEST(LogLines, Trace_OneLineForEachCall) {
  const Lines lines = standard_error_of("trace", threads(2, "", call_twice));
  EXPECT_EQ(lines.size(), 10u) << text_of(lines);
  for (const char* call : {"call 1, allreduce of 1024 float32 \\(mean\\), step 0 index 0",
                           "call 2, allreduce of 1024 float32 \\(mean\\), step 1 index 0"}) {
    EXPECT_EQ(
        count(lines, kPrefix + "TRACE " + kComm + "rank \\d: " + call + R"(: OK after \d+\.\d us)"),
        2u)
        << text_of(lines);
  }
}

TEST(LogLines, TraceOfARefusedCall_HasItsStatus) {
  const Lines lines = standard_error_of(
      "trace", threads(1, "", [](int, gqsgd_comm comm) {
        return call(comm, 10, "blocks-8", GQSGD_SCHEDULE_RING).empty() ? "was not refused" : "";
      }));
  EXPECT_EQ(count(lines, kPrefix + "TRACE .* INVALID_ARGUMENT after .* us"), 1u) << text_of(lines);
  EXPECT_EQ(count(lines, ".*schedule ring.*"), 0u) << text_of(lines);
}

TEST(LogLines, Warn_WarningsAlone) {
  const Lines lines = standard_error_of("warn", [] {
    setenv("GQSGD_TIMEOUT_MS", "soon", 1);
    return threads(1, "", call_twice)();
  });
  expect_lines(lines, {kPrefix + "WARN GQSGD_TIMEOUT_MS=soon is not a number of milliseconds; the "
                                 "default 300000 is used"});
}

TEST(LogLines, MalformedVariable_OneWarningAndNothingElse) {
  const Lines lines = standard_error_of("verbose\n", [] {
    const std::string failure = threads(1, "", call_twice)();
    return failure.empty() ? threads(1, "", call_twice)() : failure;
  });
  expect_lines(lines, {kPrefix + R"(WARN GQSGD_LOG=verbose\\x0a is not warn, info or trace; )"
                                 "nothing is logged"});
}

TEST(LogLines, BrokenCommunicator_ItsSentence) {
  const Lines lines = standard_error_of("info", threads(1, "", [](int, gqsgd_comm comm) {
                                          gqsgd_comm_abort(comm);
                                          return call(comm, 10).empty() ? "was not aborted" : "";
                                        }));
  EXPECT_EQ(count(lines, kPrefix + "INFO " + kComm +
                             "rank 0: broken by ABORTED: rank 0 aborted its communicator"),
            1u)
      << text_of(lines);
}

TEST(LogLines, KindsOfCalls_EachOnceUpToTheCapacity) {
  const Lines lines =
      standard_error_of("info", threads(1, "", [](int, gqsgd_comm comm) {
                          std::string failure;
                          for (int round = 0; round < 2; ++round) {
                            for (size_t count = 1; count <= 140 && failure.empty(); ++count)
                              failure = call(comm, count);
                          }
                          return failure;
                        }));
  EXPECT_EQ(count(lines, ".* allreduce of .*"), 128u);
  EXPECT_EQ(count(lines, kPrefix + "INFO " + kComm +
                             "rank 0: 128 kinds of calls have been logged; more are not logged"),
            1u);
  EXPECT_EQ(lines.size(), 128u + 3);
}

TEST(LogLines, ScheduleByCosts_PredictedTimes) {
  const Lines lines = standard_error_of(
      "info", threads(2, "costs=builtin", [](int, gqsgd_comm comm) {
        const std::string failure = call(comm, 64, "blocks-8,seed=7");
        return failure.empty() ? call(comm, 1000, "paper-gl8", GQSGD_SCHEDULE_TREE) : failure;
      }));
  EXPECT_EQ(count(lines, R"(.*schedule auto: chosen by costs;.*)"), 2u) << text_of(lines);
  EXPECT_EQ(count(lines, R"(.* blocks-8,seed=7, schedule \w+ \(auto: uncompressed, predicted \d+ )"
                         R"(us against direct \d+ us\): .*ratio 1\.00)"),
            2u)
      << text_of(lines);
  EXPECT_EQ(count(lines, R"(.* paper-gl8, schedule tree: this rank sends 1000 bytes, 4000 as )"
                         R"(float32, ratio 4\.00)"),
            2u)
      << text_of(lines);
}

TEST(LogLines, CodesThatCostMuch_Bf16) {
  const char* const costs = "costs=correlated.quantize=100 100 0;byte_ns=10";
  const Lines lines = standard_error_of("info", threads(2, costs, [](int, gqsgd_comm comm) {
                                          return call(comm, 100000, "blocks-8");
                                        }));
  EXPECT_EQ(
      count(lines, R"(.* blocks-8, schedule direct \(auto: as bf16, predicted \d+ us against )"
                   R"(direct \d+ us\): .*ratio 2\.00)"),
      2u)
      << text_of(lines);
}

TEST(LogLines, OptionWithoutEffect_Warning) {
  const Lines lines = standard_error_of("warn", [] {
    return run_threads(custom_comms(socket_tables(2), "nontemporal_bytes=1"), call_twice);
  });
  EXPECT_EQ(lines.size(), 2u) << text_of(lines);
  EXPECT_EQ(count(lines, kPrefix + "WARN " + kComm +
                             R"(rank \d: option nontemporal_bytes has no effect over \w+: .*)"),
            2u)
      << text_of(lines);
}

TEST(LogLines, FormatBesideAPreset_SpecificationOfTheSameFormat) {
  for (const char* spec : {"rotated-4,block=64", "blocks-8,bits=4", "blocks-8,bits=4,bits_down=8",
                           "levels=exponential,bits=8,norm=2:2,seed=5"}) {
    const Lines lines = standard_error_of(
        "info", threads(1, "", [=](int, gqsgd_comm comm) { return call(comm, 10, spec); }));
    std::smatch shown;
    const std::string text = text_of(lines);
    ASSERT_TRUE(std::regex_search(text, shown, std::regex(R"(\(mean\), (\S+), schedule)"))) << text;
    Child child([&] {
      std::string full[2] = {std::string(300, '\0'), std::string(300, '\0')};
      for (int k = 0; k < 2; ++k) {
        gqsgd_quantizer quantizer = nullptr;
        const std::string one = k == 0 ? spec : shown[1].str();
        if (gqsgd_quantizer_create(one.c_str(), &quantizer) != GQSGD_OK) return one;
        gqsgd_quantizer_describe(quantizer, full[k].data(), full[k].size(), nullptr);
      }
      return full[0] == full[1] ? std::string() : full[1];
    });
    EXPECT_EQ(child.line(), "") << spec << " is shown as " << shown[1];
    EXPECT_LT(shown[1].length(), 80) << shown[1];
  }
}

// Each line is one write: of eight threads none is in the middle of another.
TEST(LogLines, EightThreads_WholeLines) {
  constexpr int kCalls = 100;
  const Lines lines = standard_error_of("trace", threads(8, "", [](int, gqsgd_comm comm) {
                                          std::string failure;
                                          for (int k = 0; k < kCalls && failure.empty(); ++k)
                                            failure = call(comm, 100);
                                          return failure;
                                        }));
  EXPECT_EQ(lines.size(), 8u * (kCalls + 3));
  EXPECT_EQ(count(lines, kPrefix + "(INFO|TRACE) " + kComm + R"(rank \d: [^:]*(: [^:]*){0,4})"),
            lines.size());
}

// A peer's end that is closed, or a disk that is full, is no failure of the library.
TEST(LogLines, StandardErrorClosed_CallsSucceed) {
  Child child([] {
    int ends[2];
    if (pipe(ends) != 0) return std::string("no pipe");
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    setenv("GQSGD_LOG", "trace", 1);
    return run_threads(2, "", call_twice);
  });
  EXPECT_EQ(child.line(), "");
}

/** Counts lines by level. */
struct Counts {
  int lines[4] = {};

  static void callback(void* user, gqsgd_log_level level, const char* line) {
    ++static_cast<Counts*>(user)->lines[level];
    if (std::string(line).find('\n') != std::string::npos) ++static_cast<Counts*>(user)->lines[0];
  }
  std::string text() const {
    return std::to_string(lines[1]) + " " + std::to_string(lines[2]) + " " +
           std::to_string(lines[3]);
  }
};

TEST(LogLines, Callback_LinesUpToItsLevelAndNoneOnStandardError) {
  const char* const expected[] = {"0 0 0", "1 0 0", "1 3 0", "1 3 2"};
  for (int32_t level = GQSGD_LOG_NONE; level <= GQSGD_LOG_TRACE; ++level) {
    const Lines lines = standard_error_of("trace", [&] {
      setenv("GQSGD_TIMEOUT_MS", "soon", 1);
      Counts counts;
      gqsgd_set_log(static_cast<gqsgd_log_level>(level), Counts::callback, &counts);
      const std::string failure = threads(1, "", call_twice)();
      if (!failure.empty() || counts.lines[0] > 0) return failure + " or a newline";
      return counts.text() == expected[level] ? "" : counts.text();
    });
    EXPECT_EQ(text_of(lines), "") << level;
  }
}

TEST(LogLines, CallbackRemoved_StandardErrorAgain) {
  const Lines lines = standard_error_of("info", [] {
    Counts counts;
    gqsgd_set_log(GQSGD_LOG_TRACE, Counts::callback, &counts);
    gqsgd_set_log(GQSGD_LOG_TRACE, nullptr, nullptr);
    const std::string failure = threads(1, "", call_twice)();
    return counts.text() == "0 0 0" ? failure : counts.text();
  });
  EXPECT_EQ(lines.size(), 3u) << text_of(lines);
}

}  // namespace
}  // namespace gq::test
