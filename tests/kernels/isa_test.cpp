// Every instruction set against scalar, bit for bit, on edge-biased data: all formats, element
// types, tails and element offsets; nothing written outside, caller's floating-point state kept.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/kernels/guarded.h"
#include "tests/kernels/stage_calls.h"
#include "tests/support/inputs.h"

namespace gq::test {
namespace {

constexpr RandomSite kSite{0x123456789ABCDEFull, 7, 11, 13, 2};
constexpr int32_t kDtypes[] = {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64};

/** Where a job runs: how many values, from where in the call, how far from aligned memory. */
struct Place {
  uint64_t first_value;
  size_t value_count;
  size_t offset;
};

std::string place_text(const Place& place) {
  return " first " + std::to_string(place.first_value) + " count " +
         std::to_string(place.value_count) + " offset " + std::to_string(place.offset);
}

std::vector<Coding> all_formats(Rounding rounding) {
  std::vector<Coding> formats = code_formats(3, 2, rounding);
  for (const Coding& wide : code_formats(3, 0, rounding)) formats.push_back(wide);
  formats.push_back(coding_for(Levels::none, 32, Combine::sum, 3, 2, rounding));
  return formats;
}

constexpr size_t kMostValues = 70000;

/** Edge-biased values as elements of a dtype. */
std::vector<uint8_t> make_elements(int32_t dtype, uint64_t seed) {
  const Floats values = edge_biased_values(seed, kMostValues, 3.0f);
  std::vector<uint8_t> bytes(kMostValues * dtype_size_bytes(dtype));
  for (size_t e = 0; e < kMostValues; ++e) {
    if (dtype == GQSGD_FLOAT32) memcpy(&bytes[4 * e], &values[e], 4);
    if (dtype == GQSGD_FLOAT64) {
      const double wide = values[e] * (1 + 0x1p-30);
      memcpy(&bytes[8 * e], &wide, 8);
    }
    if (dtype == GQSGD_FLOAT16 || dtype == GQSGD_BFLOAT16) {
      uint16_t narrow = static_cast<uint16_t>(mix(seed + e));
      if (dtype == GQSGD_FLOAT16 && (narrow & 0x7c00) == 0x7c00) narrow &= 0x83ff;
      if (dtype == GQSGD_BFLOAT16) narrow = static_cast<uint16_t>(bits_of(values[e]) >> 16);
      memcpy(&bytes[2 * e], &narrow, 2);
    }
  }
  return bytes;
}

/** The first of them: made once, because there are tens of thousands of jobs. */
std::vector<uint8_t> elements(int32_t dtype, uint64_t seed, size_t value_count) {
  static std::map<std::pair<int32_t, uint64_t>, std::vector<uint8_t>> made;
  std::vector<uint8_t>& all = made[{dtype, seed}];
  if (all.empty()) all = make_elements(dtype, seed);
  return {all.begin(), all.begin() + static_cast<ptrdiff_t>(value_count * dtype_size_bytes(dtype))};
}

Words make_codes(const Coding& coding, uint64_t seed) {
  if (coding.levels != Levels::none) return edge_biased_codes(seed, kMostValues, coding);
  const Floats values = edge_biased_values(seed, kMostValues, 1e30f);
  Words words(values.size());
  for (size_t e = 0; e < values.size(); ++e) words[e] = bits_of(values[e]);
  return words;
}

Words codes(const Coding& coding, uint64_t seed, size_t value_count) {
  static std::map<std::string, Words> made;
  Words& all = made[describe(coding) + std::to_string(seed)];
  if (all.empty()) all = make_codes(coding, seed);
  const uint64_t word_count = words_for(coding.bits, value_count);
  Words words(all.begin(), all.begin() + static_cast<ptrdiff_t>(word_count));
  const uint64_t used_bits = value_count * coding.bits % 32;
  if (used_bits != 0) words.back() &= (1u << used_bits) - 1;
  return words;
}

/** One stage on one place; appends what it wrote. */
class Outcome {
 public:
  explicit Outcome(const Stages& stages) : stages_(stages) {}
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  bool intact() const { return intact_; }

  void norm(NormOrder q, int32_t dtype, const Place& place) {
    const size_t width = dtype_size_bytes(dtype);
    Guarded<uint8_t> input(elements(dtype, 1, place.value_count), place.offset * width);
    Guarded<uint64_t> out(1, 0);
    *out.data() = 0;
    stages_.norm({q, 0, false, {}, range(place), input.data(), dtype, out.data(), nullptr});
    keep(out);
  }

  void quantize(const Coding& coding, int32_t dtype, const Place& place, float norm) {
    const size_t width = dtype_size_bytes(dtype);
    Guarded<uint8_t> input(elements(dtype, 2, place.value_count), place.offset * width);
    Guarded<uint32_t> words(words_for(coding.bits, place.value_count), place.offset);
    stages_.quantize({coding,
                      kSite,
                      range(place),
                      input.data(),
                      dtype,
                      {&norm, nullptr},
                      words.data(),
                      nullptr});
    keep(words);
  }

  void reduce(const Coding& coding, const Place& place, uint32_t weight_a, uint32_t weight_b) {
    Guarded<uint32_t> a(codes(coding, 3, place.value_count), place.offset);
    Guarded<uint32_t> b(codes(coding, 4, place.value_count), place.offset);
    stages_.reduce({coding, kSite, range(place), weight_a, weight_b, a.data(), b.data(), nullptr});
    keep(b);
  }

  void reduce_many(const Coding& coding, const Place& place, bool in_place) {
    std::vector<Guarded<uint32_t>> operands;
    for (uint32_t rank = 0; rank < coding.ranks; ++rank) {
      operands.emplace_back(codes(coding, 5 + rank, place.value_count), place.offset);
    }
    std::vector<const uint32_t*> pointers;
    for (Guarded<uint32_t>& operand : operands) pointers.push_back(operand.data());
    Guarded<uint32_t> out(words_for(coding.bits, place.value_count), place.offset);
    Guarded<uint32_t>& target = in_place ? operands[1] : out;
    const float norm = 1.75f;
    stages_.reduce_many({coding,
                         kSite,
                         range(place),
                         pointers.data(),
                         {&norm, nullptr},
                         target.data(),
                         nullptr,
                         nullptr});
    keep(target);
  }

  void dequantize(const Coding& coding, int32_t dtype, int32_t op, const Place& place,
                  float scale) {
    const size_t width = dtype_size_bytes(dtype);
    Guarded<uint32_t> words(codes(coding, 9, place.value_count), place.offset);
    Guarded<uint8_t> values(place.value_count * width, place.offset * width);
    stages_.dequantize({coding,
                        kSite,
                        range(place),
                        words.data(),
                        {&scale, nullptr},
                        dtype,
                        op,
                        values.data(),
                        nullptr});
    keep(values);
  }

 private:
  static Range range(const Place& place) { return {place.first_value, place.value_count}; }

  template <typename Element>
  void keep(const Guarded<Element>& buffer) {
    intact_ = intact_ && buffer.intact();
    const std::vector<Element> values = buffer.values();
    const auto* first = reinterpret_cast<const uint8_t*>(values.data());
    bytes_.insert(bytes_.end(), first, first + values.size() * sizeof(Element));
  }

  const Stages& stages_;
  std::vector<uint8_t> bytes_;
  bool intact_ = true;
};

/** Runs a job on scalar and on every other instruction set and compares. */
template <typename Job>
void expect_equal_everywhere(const std::string& what, Job job) {
  Outcome expected(scalar_stages());
  job(expected);
  EXPECT_TRUE(expected.intact()) << what << ": scalar wrote outside its buffer";
  for (const Stages* stages : stages_here()) {
    Outcome outcome(*stages);
    job(outcome);
    EXPECT_TRUE(outcome.intact()) << what << ": " << stages->name << " wrote outside its buffer";
    EXPECT_TRUE(outcome.bytes() == expected.bytes()) << what << " on " << stages->name;
  }
}

void expect_equal_norms(const Place& place) {
  for (const NormOrder q : {NormOrder::inf, NormOrder::one, NormOrder::two}) {
    for (const int32_t dtype : kDtypes) {
      expect_equal_everywhere("norm" + place_text(place),
                              [&](Outcome& outcome) { outcome.norm(q, dtype, place); });
    }
  }
}

/** Norms and scales of the middle and of both ends. */
const std::vector<float> kOneSize = {3.0f}, kAllSizes = {3.0f, 0x1p-135f, 0x1.8p127f};

void expect_equal_codecs(const Coding& coding, const Place& place,
                         const std::vector<float>& sizes) {
  const std::string what = describe(coding) + place_text(place);
  for (const int32_t dtype : kDtypes) {
    for (const float norm : sizes) {
      expect_equal_everywhere("quantize " + what, [&](Outcome& outcome) {
        outcome.quantize(coding, dtype, place, norm);
      });
    }
    for (const int32_t op : {GQSGD_SUM, GQSGD_MEAN}) {
      for (const float scale : sizes) {
        expect_equal_everywhere("dequantize " + what, [&](Outcome& outcome) {
          outcome.dequantize(coding, dtype, op, place, scale);
        });
      }
    }
  }
}

void expect_equal_reductions(const Coding& coding, const Place& place) {
  const std::string what = describe(coding) + place_text(place);
  if (coding.wide) {
    for (const bool in_place : {false, true}) {
      expect_equal_everywhere("reduce_many " + what, [&](Outcome& outcome) {
        outcome.reduce_many(coding, place, in_place);
      });
    }
    return;
  }
  for (const uint32_t weight : {1u, 2u, 37u, (1u << 20) - 1}) {
    expect_equal_everywhere("reduce " + what,
                            [&](Outcome& outcome) { outcome.reduce(coding, place, weight, 1); });
  }
}

void expect_equal_stages(const Place& place, const std::vector<float>& sizes) {
  expect_equal_norms(place);
  for (const Rounding rounding : {Rounding::independent, Rounding::nearest}) {
    for (const Coding& coding : all_formats(rounding)) {
      expect_equal_codecs(coding, place, sizes);
      expect_equal_reductions(coding, place);
    }
  }
}

TEST(Isa, EveryTailGivesTheSameBitsAndNothingElse) {
  for (size_t count = 0; count <= 257; ++count) {
    expect_equal_stages({32 * (count % 3), count, count % 4}, kOneSize);
  }
}

TEST(Isa, EveryElementOffsetGivesTheSameBits) {
  for (size_t offset = 1; offset < 16; ++offset) {
    expect_equal_stages({64, 1056 + offset, offset}, kOneSize);
  }
}

TEST(Isa, ManyTilesGiveTheSameBits) {
  expect_equal_stages({0, 1024, 0}, kAllSizes);
  expect_equal_stages({1023 * 32, 5 * 1024 + 77, 0}, kAllSizes);
  expect_equal_stages({65536 - 1024, 70000, 1}, kOneSize);
  expect_equal_stages({(uint64_t{1} << 36) - 64, 4096, 0}, kAllSizes);  // group 2^32 is inside
}

TEST(Isa, AWordsNeighboursInItsRangeDoNotMatter) {
  for (const Stages* stages : stages_here()) {
    for (const Coding& coding : all_formats(Rounding::independent)) {
      const Floats values = edge_biased_values(21, 4096, 1);
      const Words whole = test::quantize({*stages, coding, kSite, 0}, values, 1);
      for (const size_t first : {32u, 512u, 1024u, 1056u, 2080u}) {
        const Floats part(values.begin() + static_cast<ptrdiff_t>(first), values.end());
        const Words words = test::quantize({*stages, coding, kSite, first}, part, 1);
        const auto begin = whole.begin() + static_cast<ptrdiff_t>(words_for(coding.bits, first));
        EXPECT_TRUE(Words(begin, whole.end()) == words) << describe(coding) << first;
      }
    }
  }
}

TEST(Isa, TailLanesAreZero) {
  for (const Stages* stages : stages_here()) {
    for (const Coding& coding : code_formats(3, 2)) {
      const uint32_t per_word = codes_per_word(coding.bits);
      for (size_t count = 1; count < 70; ++count) {
        for (const float norm : {1.0f, 0.0f, NAN}) {
          const Words words =
              test::quantize({*stages, coding, kSite, 0}, edge_biased_values(1, count, 1), norm);
          for (size_t e = count; e < words.size() * per_word; ++e) {
            ASSERT_EQ(lane_at(words, coding.bits, e), 0u) << describe(coding) << " count " << count;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace gq::test
