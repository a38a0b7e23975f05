// Statuses: code and sentence of a failure. status_memory_test.cpp has the memory of sentences.
#include "src/support/status.h"

#include <gtest/gtest.h>

#include <string>

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
