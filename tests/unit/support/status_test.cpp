// Statuses: a failure keeps its sentence, copies share it, and success allocates nothing.
#include "src/support/status.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/api/faults/support/fail_nth.h"

namespace gq::test {
namespace {

TEST(Status, Ok_NoSentence) {
  const Status ok;
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.code(), GQSGD_OK);
  EXPECT_STREQ(ok.sentence(), "");
  static_assert(sizeof(Status) == sizeof(void*));
}

TEST(Status, Failure_CodeAndFormattedSentence) {
  const Status failed = fail(GQSGD_TIMEOUT, "rank %d waited %s", 3, "long");
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.code(), GQSGD_TIMEOUT);
  EXPECT_STREQ(failed.sentence(), "rank 3 waited long");
}

TEST(Status, LongSentence_Cut) {
  const std::string longest(2 * kSentenceBytes, 'x');
  const Status failed = fail(GQSGD_SYSTEM, "%s", longest.c_str());
  EXPECT_EQ(failed.sentence(), longest.substr(0, kSentenceBytes - 1));
}

TEST(Status, FailureThatQuotesAnother_BothSentences) {
  Status failed = fail(GQSGD_SYSTEM, "no such file");
  failed = fail(failed.code(), "costs=a: %s", failed.sentence());
  EXPECT_EQ(failed.code(), GQSGD_SYSTEM);
  EXPECT_STREQ(failed.sentence(), "costs=a: no such file");
}

TEST(Status, OkAsFailure_Internal) { EXPECT_EQ(fail(GQSGD_OK, "?").code(), GQSGD_INTERNAL); }

TEST(Status, CopiesMovesAndAssignments_SentenceLivesAsLongAsOneOfThem) {
  const long before = heap_bytes_in_use();
  {
    Status kept;
    {
      const Status failed = fail(GQSGD_MISMATCH, "dtype");
      const Status copy = failed;
      EXPECT_EQ(copy.sentence(), failed.sentence()) << "shared, not copied";
      kept = copy;
    }
    Status moved = std::move(kept);
    EXPECT_TRUE(kept.ok());
    moved = *&moved;
    EXPECT_STREQ(moved.sentence(), "dtype");
    moved = Status();
    EXPECT_TRUE(moved.ok());
  }
  EXPECT_EQ(heap_bytes_in_use(), before);
}

TEST(Status, CopiesOnManyThreads_FreedByTheLastOne) {
  Status failed = fail(GQSGD_ABORTED, "rank 2 aborted its communicator");
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&failed] {
      for (int round = 0; round < 10000; ++round) {
        const Status mine = failed;
        EXPECT_EQ(mine.code(), GQSGD_ABORTED);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_STREQ(failed.sentence(), "rank 2 aborted its communicator");
  const long before = heap_bytes_in_use();
  failed = Status();
  EXPECT_LT(heap_bytes_in_use(), before);
}

TEST(Status, NoMemoryForASentence_FixedOneForEachCode) {
  for (const gqsgd_status code : {GQSGD_NO_MEMORY, GQSGD_TIMEOUT, GQSGD_INTERNAL}) {
    fail_nth(1);
    const Status failed = fail(code, "lost");
    EXPECT_STREQ(fail_nth_failed(), "malloc");
    const Status copy = failed;
    EXPECT_EQ(copy.code(), code);
    const std::string expected =
        std::string(gqsgd_status_string(code)) + " (there was no memory for a sentence)";
    EXPECT_EQ(copy.sentence(), expected);
  }
}

TEST(Status, NoMemoryAndACodeOfAnotherVersion_NoMemory) {
  fail_nth(1);
  EXPECT_EQ(fail(1234, "lost").code(), GQSGD_NO_MEMORY);
  EXPECT_STREQ(fail_nth_failed(), "malloc");
}

TEST(Status, StageWithoutError_Ok) { EXPECT_TRUE(Status(StageError()).ok()); }

TEST(Status, StageThatCudaRefuses_BackendInCudasWords) {
  const Status failed(StageError{"a kernel's launch", 98, "cudaErrorX", "no such kernel"});
  EXPECT_EQ(failed.code(), GQSGD_BACKEND);
  EXPECT_STREQ(failed.sentence(), "a kernel's launch: CUDA error 98 (cudaErrorX): no such kernel");
}

TEST(Status, StageThatDoesNotExist_Internal) {
  const Status failed(StageError{"reduce", 0, nullptr, "no stage adds such codes"});
  EXPECT_EQ(failed.code(), GQSGD_INTERNAL);
  EXPECT_STREQ(failed.sentence(), "reduce: no stage adds such codes");
}

}  // namespace
}  // namespace gq::test
