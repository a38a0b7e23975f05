// Nothing: gtest_once.h is what this is compiled for.
#include "tests/gtest_once/gtest_once.h"
