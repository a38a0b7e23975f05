// The memory of a status's sentence: copies share it, the last one frees it, and there may be none.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/support/status.h"
#include "tests/api/faults/support/fail_nth.h"

namespace gq::test {
namespace {

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

}  // namespace
}  // namespace gq::test
