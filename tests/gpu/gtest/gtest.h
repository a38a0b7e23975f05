// As much of GoogleTest as tests/unit/kernels and tests/gpu/stages use, for machines with a
// device and no GoogleTest: TEST, EXPECT_*, ASSERT_* with messages. tests/gpu/main.cpp runs what is
// known.
#ifndef GQ_TESTS_GPU_GTEST_H
#define GQ_TESTS_GPU_GTEST_H

#include <stdio.h>
#include <unistd.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace testing {

struct KnownTest {
  std::string name;
  std::function<void()> body;
};

inline std::vector<KnownTest>& known_tests() {
  static std::vector<KnownTest> all;
  return all;
}

inline bool know(const char* name, std::function<void()> body) {
  known_tests().push_back({name, std::move(body)});
  return true;
}

/** The first failure ends the program: enough where one is expected. */
inline bool& ends_at_failure() {
  static bool ends = false;
  return ends;
}

/** Failures of the test that runs; the first few are kept with their words. */
struct Failures {
  size_t count = 0;
  std::vector<std::string> sentences;
};

inline Failures& failures() {
  static Failures all;
  return all;
}

/** One failure, which takes a message until the end of its statement. */
class Failure {
 public:
  Failure(const char* file, int line, const char* text) {
    sentence_ << file << ':' << line << ": " << text << ' ';
  }
  ~Failure() {
    if (ends_at_failure()) {
      printf("FAILED %s\n", sentence_.str().c_str());
      fflush(stdout);
      _exit(1);
    }
    constexpr size_t kKept = 10;
    if (++failures().count <= kKept) failures().sentences.push_back(sentence_.str());
  }
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;

  template <typename Part>
  Failure& operator<<(const Part& part) {
    sentence_ << part;
    return *this;
  }

 private:
  std::ostringstream sentence_;
};

/** "" if they are equal, else both values where they can be written. */
template <typename A, typename B>
std::string unequal(const A& a, const B& b) {
  if (a == b) return "";
  std::ostringstream text;
  if constexpr (requires { text << a << b; }) text << '(' << a << " and " << b << ')';
  return text.str() + ' ';
}

/** Turns a failure into what a test can return. */
struct End {
  void operator&(const Failure&) const {}
};

}  // namespace testing

#define TEST(suite, name)                                     \
  static void suite##_##name();                               \
  [[maybe_unused]] static const bool known_##suite##_##name = \
      ::testing::know(#suite "." #name, suite##_##name);      \
  static void suite##_##name()

#define GQ_EXPECT(condition, text) \
  if (condition) {                 \
  } else                           \
    ::testing::Failure(__FILE__, __LINE__, text)
#define GQ_ASSERT(condition, text) \
  if (condition) {                 \
  } else                           \
    return ::testing::End() & ::testing::Failure(__FILE__, __LINE__, text)

#define EXPECT_TRUE(value) GQ_EXPECT((value), #value)
#define EXPECT_FALSE(value) GQ_EXPECT(!(value), "not " #value)
/** Both sides once: they may be calls. */
#define EXPECT_EQ(a, b)                                           \
  if (const auto said = ::testing::unequal(a, b); said.empty()) { \
  } else                                                          \
    ::testing::Failure(__FILE__, __LINE__, #a " == " #b) << said
#define EXPECT_NE(a, b) GQ_EXPECT((a) != (b), #a " != " #b)
#define ASSERT_TRUE(value) GQ_ASSERT((value), #value)
#define ASSERT_EQ(a, b) GQ_ASSERT((a) == (b), #a " == " #b)

#endif
