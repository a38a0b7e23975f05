// What tests/meson.build compiles once for many tests.
#ifndef GQ_TESTS_SUPPORT_GTEST_ONCE_H
#define GQ_TESTS_SUPPORT_GTEST_ONCE_H

#include <gtest/gtest.h>

#endif
