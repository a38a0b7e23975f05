// Rice codes of any bytes: a group's words are read within them, the same by every instruction set;
// and whatever values are, their words can be read.
#include <stdlib.h>

#include <cmath>
#include <vector>

#include "kernels/codec/groups.h"
#include "kernels/codec/rice.h"
#include "kernels/stages.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {
namespace {

using Words = std::vector<uint32_t>;
using Floats = std::vector<float>;

struct Group {
  uint32_t value_count;
  uint32_t plane_count;
};

Floats decode(const Stages& stages, const Group& group, const Words& words, bool add) {
  Floats values(group.value_count, add ? 0.5f : -1.0f);
  stages.decode_rice({group.value_count, group.plane_count, words.data(), values.data(), add});
  return values;
}

void expect_equal(const Floats& a, const Floats& b) {
  for (size_t e = 0; e < a.size(); ++e) {
    if (!(a[e] == b[e] || (std::isnan(a[e]) && std::isnan(b[e])))) abort();
  }
}

/** The words as the first instruction set reads them. */
Floats read_by_all(const Group& group, const Words& words) {
  const Floats values = decode(*cpu_stages_here(0), group, words, false);
  const Floats sums = decode(*cpu_stages_here(0), group, words, true);
  for (size_t k = 1; const Stages* stages = cpu_stages_here(k); ++k) {
    expect_equal(values, decode(*stages, group, words, false));
    expect_equal(sums, decode(*stages, group, words, true));
  }
  return values;
}

/** What all instruction sets write; NaN where and only where a cell has one that is not finite. */
void write_by_all(const Group& group, const Floats& values) {
  Words words;
  for (size_t k = 0; const Stages* stages = cpu_stages_here(k); ++k) {
    Words here(group.plane_count * kPlaneWords);
    EncodeRiceArgs args{};
    args.coding.ranks = 1;
    args.stride_values = kGranuleValues;
    args.value_count = group.value_count;
    args.plane_count = group.plane_count;
    args.values = values.data();
    args.words = here.data();
    stages->encode_rice(args);
    if (k == 0) words = here;
    if (here != words) abort();
  }
  const Floats decoded = read_by_all(group, words);
  for (size_t first = 0; first < values.size(); first += kRiceCell) {
    bool is_poisoned = false, is_nan = false, is_large = false;
    for (size_t e = first; e < values.size() && e < first + kRiceCell; ++e) {
      is_poisoned |= !std::isfinite(values[e]);
      is_nan |= std::isnan(decoded[e]);
    }
    for (const float value : values) is_large |= std::fabs(value) > 0x1p117f;  // no step may fit
    if (is_nan != is_poisoned && !is_large) abort();
  }
}

void run(FuzzInput input) {
  const uint32_t value_count = 1 + input.take<uint16_t>() % 4096;
  const uint32_t least = rice_planes_least(value_count);
  const Group group{value_count, least + input.byte() % 64};
  if (input.byte() % 2 == 0) {
    Words words(group.plane_count * kPlaneWords);
    for (uint32_t& word : words) word = input.take<uint32_t>();
    read_by_all(group, words);
  } else {
    Floats values(value_count);
    const float unit = power_of_two(static_cast<int32_t>(input.byte() % 200) - 120);
    for (float& value : values) {
      const int16_t number = input.take<int16_t>();
      value = number == INT16_MIN ? float_from_bits(input.take<uint32_t>())
                                  : static_cast<float>(number) * unit;
    }
    write_by_all(group, values);
  }
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
