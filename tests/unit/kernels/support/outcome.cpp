#include "tests/unit/kernels/support/outcome.h"

#include <string.h>

#include <map>

#include "kernels/codec/block_norm.h"
#include "tests/support/inputs.h"

namespace gq::test {

const std::vector<float> kOneSize = {3.0f}, kAllSizes = {3.0f, 0x1p-135f, 0x1.8p127f};

bool has_device_stages() {
  for (const Stages* stages : stages_here()) {
    if (strstr(stages->name, "cuda") != nullptr) return true;
  }
  return false;
}

std::string place_text(const Place& place) {
  return " first " + std::to_string(place.first_value) + " count " +
         std::to_string(place.value_count) + " offset " + std::to_string(place.offset);
}

namespace {

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

constexpr size_t kMostCodes = kMostValues + kRotationValues;

Words make_codes(const Coding& coding, uint64_t seed) {
  if (coding.levels != Levels::none) return edge_biased_codes(seed, kMostCodes, coding);
  const Floats values = edge_biased_values(seed, kMostCodes, 1e30f);
  Words words(values.size());
  for (size_t e = 0; e < values.size(); ++e) words[e] = bits_of(values[e]);
  return words;
}

Words codes(const Coding& coding, uint64_t seed, size_t value_count) {
  static std::map<std::string, Words> made;
  Words& all = made[describe(coding) + std::to_string(seed)];
  if (all.empty()) all = make_codes(coding, seed);
  const uint64_t count = code_count(coding.rotated, value_count);
  const uint64_t word_count = words_for(coding.bits, count);
  Words words(all.begin(), all.begin() + static_cast<ptrdiff_t>(word_count));
  const uint64_t used_bits = count * coding.bits % 32;
  if (used_bits != 0) words.back() &= (1u << used_bits) - 1;
  return words;
}

/** The format of what reduce_many writes, as if it were quantized so. */
Coding down_of(Coding coding) {
  if (!coding.wide) return coding;
  coding.bits = coding.bits_down;
  coding.steps = coding.steps_down;
  return coding;
}

/** Codes of norms: most of ordinary size, some zero, NaN, the largest and the smallest. */
std::vector<uint16_t> block_norms(const Coding& coding, uint64_t seed, size_t value_count) {
  const uint16_t edges[] = {0, kNormCodeNan, kNormCodeMax, 1, 0x7f7f, 0x0080, 0x7fc0};
  std::vector<uint16_t> norms(norm_count(coding.block, coding.rotated, value_count));
  for (size_t k = 0; k < norms.size(); ++k) {
    const uint64_t draw = mix(seed * 0x30007 + k);
    norms[k] = draw % 3 == 0 ? edges[(draw >> 8) % (sizeof edges / sizeof edges[0])]
                             : static_cast<uint16_t>(0x4040 - (draw >> 32) % 0x200);
  }
  return norms;
}

Range range_of(const Place& place) { return {place.first_value, place.value_count}; }

/** One number, or codes of blocks in a buffer of their own. */
class NormBuffer {
 public:
  NormBuffer(const Coding& coding, const Place& place, float one)
      : one_(one),
        has_blocks_(coding.block > 0),
        blocks_(has_blocks_ ? block_norms(coding, 9, place.value_count) : std::vector<uint16_t>(),
                place.offset) {}
  NormView view() {
    return has_blocks_ ? NormView{nullptr, blocks_.data()} : NormView{&one_, nullptr};
  }

 private:
  float one_;
  bool has_blocks_;
  Guarded<uint16_t> blocks_;
};

size_t code_words(const Coding& coding, uint32_t bits, const Place& place) {
  return words_for(bits, code_count(coding.rotated, place.value_count));
}

}  // namespace

void Outcome::norm(NormOrder q, uint32_t block, bool rotated, int32_t dtype, const Place& place) {
  const size_t width = dtype_size_bytes(dtype);
  Guarded<uint8_t> input(elements(dtype, 1, place.value_count), place.offset * width);
  const size_t size_bytes = block > 0 ? 2 * norm_count(block, rotated, place.value_count)
                            : q == NormOrder::inf ? 4
                                                  : 8;
  Guarded<uint8_t> out(size_bytes, 0);
  stages_.norm(
      {q, block, rotated, kSite, range_of(place), input.data(), dtype, out.data(), nullptr});
  keep(out);
}

void Outcome::quantize(const Coding& coding, int32_t dtype, const Place& place, float norm) {
  const size_t width = dtype_size_bytes(dtype);
  Guarded<uint8_t> input(elements(dtype, 2, place.value_count), place.offset * width);
  NormBuffer norms(coding, place, norm);
  for (const bool nontemporal : {false, true}) {
    Guarded<uint32_t> words(code_words(coding, coding.bits, place), place.offset);
    stages_.quantize({coding, kSite, range_of(place), input.data(), dtype, norms.view(),
                      words.data(), nullptr, nontemporal});
    keep(words);
  }
}

void Outcome::reduce(const Coding& coding, const Place& place, uint32_t weight_a,
                     uint32_t weight_b) {
  Guarded<uint32_t> a(codes(coding, 3, place.value_count), place.offset);
  Guarded<uint32_t> b(codes(coding, 4, place.value_count), place.offset);
  stages_.reduce({coding, kSite, range_of(place), weight_a, weight_b, a.data(), b.data(), nullptr});
  keep(b);
}

void Outcome::reduce_many(const Coding& coding, const Place& place, bool in_place,
                          const std::vector<uint32_t>& weights, bool nontemporal) {
  std::vector<Guarded<uint32_t>> operands;
  const size_t operand_count = weights.empty() ? coding.ranks : weights.size();
  for (uint32_t rank = 0; rank < operand_count; ++rank) {
    // Vectors where the first one is, but for others.
    const size_t offset = place.offset * rank % 16;
    operands.emplace_back(codes(coding, 5 + rank, place.value_count), offset);
  }
  std::vector<const uint32_t*> pointers;
  for (Guarded<uint32_t>& operand : operands) pointers.push_back(operand.data());
  Guarded<uint32_t> out(code_words(coding, coding.bits_down, place), place.offset);
  Guarded<uint32_t>& target = in_place ? operands[1] : out;
  NormBuffer norms(coding, place, 1.75f);
  const size_t scale_count =
      coding.rescale ? norm_count(coding.block, coding.rotated, place.value_count) : 0;
  Guarded<uint16_t> scales(scale_count, place.offset);
  stages_.reduce_many({coding, site_, range_of(place), pointers.data(), norms.view(), target.data(),
                       scales.data(), nullptr, weights.empty() ? nullptr : weights.data(),
                       static_cast<uint32_t>(weights.size()), nontemporal});
  keep(target);
  keep(scales);
}

void Outcome::scaled_means(const Coding& coding, const Place& place,
                           const std::vector<uint32_t>& weights) {
  const size_t word_count = code_words(coding, coding.bits, place);
  std::vector<Guarded<uint32_t>> operands;
  std::vector<const uint32_t*> pointers;
  for (uint32_t k = 0; k < weights.size(); ++k) {
    Words words = codes(coding, 5 + k, place.value_count);
    const std::vector<uint16_t> scales = block_norms(coding, 20 + k, place.value_count);
    words.resize(word_count + (scales.size() + 1) / 2);
    memcpy(words.data() + word_count, scales.data(), 2 * scales.size());
    operands.emplace_back(words, place.offset);
  }
  for (Guarded<uint32_t>& operand : operands) pointers.push_back(operand.data());
  Guarded<uint32_t> out(word_count, place.offset);
  Guarded<uint16_t> scales(norm_count(coding.block, coding.rotated, place.value_count),
                           place.offset);
  ReduceManyArgs args{};
  args.coding = coding;
  args.random = kSite;
  args.range = range_of(place);
  args.words = pointers.data();
  args.out_words = out.data();
  args.out_scales = scales.data();
  args.weights = weights.data();
  args.weight_count = static_cast<uint32_t>(weights.size());
  args.operand_scales_bytes = word_count * sizeof(uint32_t);
  stages_.reduce_many(args);
  keep(out);
  keep(scales);
}

void Outcome::dequantize(const Coding& coding, int32_t dtype, int32_t op, const Place& place,
                         float scale) {
  Guarded<uint32_t> words(codes(down_of(coding), 8, place.value_count), place.offset);
  const size_t width = dtype_size_bytes(dtype);
  NormBuffer scales(coding, place, scale);
  for (const bool nontemporal : {false, true}) {
    Guarded<uint8_t> values(place.value_count * width, place.offset * width);
    stages_.dequantize({coding, kSite, range_of(place), words.data(), scales.view(), dtype, op,
                        values.data(), nullptr, {}, {}, nontemporal});
    keep(values);
  }
}

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

static void expect_equal_wide(const std::string& what, const Coding& coding, const Place& place,
                              const RandomSite& site) {
  for (const bool in_place : {false, true}) {
    if (in_place && coding.bits != coding.bits_down) continue;
    const auto reduce_many = [&](Outcome& outcome) {
      outcome.reduce_many(coding, place, in_place);
      outcome.reduce_many(coding, place, in_place, {}, true);
    };
    expect_equal_everywhere("reduce_many " + what, reduce_many, site);
  }
}

void expect_equal_node_sums(const Coding& coding, const Place& place, uint32_t node,
                            uint32_t nodes) {
  RandomSite site = kSite;
  site.node = node;
  site.nodes = nodes;
  const std::string number = std::to_string(node) + " of " + std::to_string(nodes);
  expect_equal_wide("node " + number + " " + describe(coding) + place_text(place), coding, place,
                    site);
}

void expect_equal_reductions(const Coding& coding, const Place& place) {
  const std::string what = describe(coding) + place_text(place);
  if (coding.wide) return expect_equal_wide(what, coding, place, kSite);
  for (const uint32_t weight : {1u, 2u, 37u, (1u << 20) - 1}) {
    expect_equal_everywhere("reduce " + what,
                            [&](Outcome& outcome) { outcome.reduce(coding, place, weight, 1); });
  }
}

}  // namespace gq::test
