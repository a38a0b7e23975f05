// The stages under test are those of lists alone.
// clang-format off
#include "tests/cuda/emulated.h"
// clang-format on

#include "tests/cuda/stages_under_test.h"

namespace gq::test {

const Stages stages_under_test = {
    "emulated cuda", nullptr,
    nullptr,         nullptr,
    nullptr,         nullptr,
    nullptr,         emulated_count_entries,
    emulated_select, emulated_add_sparse,
};

}  // namespace gq::test
