// The stand-in for GoogleTest sees what fails: tests made to fail do, and end where they must.
#include <gtest/gtest.h>
#include <stdio.h>

namespace {

int reached = 0;

TEST(Mutation, Test_Passes) {
  EXPECT_EQ(1 + 1, 2);
  ASSERT_TRUE(true) << "never formed";
}
TEST(Mutation, Test_FailsTwice) {
  EXPECT_EQ(1 + 1, 3) << "first";
  EXPECT_TRUE(false) << "second";
}
TEST(Mutation, Test_EndsAtAnAssertion) {
  ASSERT_EQ(1, 2) << "ends here";
  ++reached;
}

/** Failures of each test, in the order in which they stand. */
constexpr size_t kExpected[] = {0, 2, 1};

}  // namespace

int main() {
  size_t number = 0;
  bool right = testing::known_tests().size() == 3;
  for (const testing::KnownTest& test : testing::known_tests()) {
    testing::failures() = {};
    test.body();
    const testing::Failures& found = testing::failures();
    right = right && found.count == kExpected[number];
    right =
        right && (number != 1 || found.sentences[0].find("(2 and 3) first") != std::string::npos);
    ++number;
  }
  const auto& kept = testing::failures().sentences;
  right = right && reached == 0 && kept.size() == 1 && kept[0].find("ends here") != kept[0].npos;
  puts(right ? "the stand-in sees deliberate failures" : "the stand-in MISSES deliberate failures");
  return right ? 0 : 1;
}
