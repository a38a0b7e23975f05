// What tests/meson.build compiles once for many tests: each includes what it needs all the same.
#ifndef GQ_TESTS_GTEST_ONCE_H
#define GQ_TESTS_GTEST_ONCE_H

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <thread>

#endif
