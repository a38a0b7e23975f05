// Nothing: gtest_once.h is what this is compiled for.
#include "tests/support/gtest_once.h"
