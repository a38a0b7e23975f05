// Runs the tests of one program on this machine's device.
//   PROGRAM [--until-failure] [PART..]   tests with one of PART in their name, or those until one
//                                        fails; status 1: some failed, 77: there is no device
#include <gtest/gtest.h>
#include <stdio.h>
#include <string.h>

#include <chrono>
#include <exception>

#include "src/gpu/device/device.h"

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool passes(const testing::KnownTest& test) {
  testing::failures() = {};
  const double begin = seconds_now();
  try {
    test.body();
  } catch (const std::exception& error) {
    testing::Failure("an exception", 0, error.what());
  }
  const testing::Failures& found = testing::failures();
  printf("%-6s %s (%.1f s)\n", found.count == 0 ? "ok" : "FAILED", test.name.c_str(),
         seconds_now() - begin);
  for (const std::string& sentence : found.sentences) printf("    %s\n", sentence.c_str());
  if (found.count > found.sentences.size()) printf("    .. %zu failures\n", found.count);
  fflush(stdout);
  return found.count == 0;
}

bool is_wanted(const testing::KnownTest& test, int part_count, char** parts) {
  bool wanted = part_count == 0;
  for (int k = 0; k < part_count; ++k) wanted |= test.name.find(parts[k]) != std::string::npos;
  return wanted;
}

}  // namespace

int main(int argc, char** argv) {
  const char* reason = "";
  if (gq::process_device(&reason) == nullptr) {
    printf("skipped: no device: %s\n", reason);
    return 77;
  }
  const int first = argc > 1 && strcmp(argv[1], "--until-failure") == 0 ? 2 : 1;
  testing::ends_at_failure() = first == 2;
  size_t run = 0, failed = 0;
  for (const testing::KnownTest& test : testing::known_tests()) {
    if (!is_wanted(test, argc - first, argv + first)) continue;
    ++run;
    failed += passes(test) ? 0 : 1;
  }
  printf("%zu tests, %zu failed\n", run, failed);
  // Where a failure is expected, the lack of tests is none.
  const bool lacks_tests = run == 0 && !testing::ends_at_failure();
  return failed > 0 || lacks_tests ? 1 : 0;
}
