// How fast Rice codes of cells of 32 values can be written and read with AVX-512: the numbers of
// docs/decisions/0040-rice-codes.md. A group of 32,768 values, from its cache.
//
//   g++ -O3 -std=c++20 -march=native tools/adaptive_study/rice_speed.cpp -o rice_speed
//   ./rice_speed
//
// u is the zigzag number of a code. A cell has p, the least with which the sum of u >> p is at most
// 32; then the p low bits of its 32 numbers, a 32-bit word for each bit; and u >> p in unary, so
// that a cell has at most 64 bits of it, which are read at once.
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

namespace {

constexpr int kCell = 32;
constexpr int kValues = 32768;
constexpr int kCells = kValues / kCell;
constexpr int kLargestParameter = 14;
constexpr uint8_t kNoCodes = 15;  // of a cell whose codes are all 0

struct Group {
  alignas(64) uint32_t planes[kValues];
  alignas(64) uint64_t unary[kValues / 32 + 8];
  uint8_t parameter[kCells];
  size_t plane_count;
  size_t unary_bits;

  double bits_per_value() const {
    return (32.0 * static_cast<double>(plane_count) + static_cast<double>(unary_bits) +
            4.0 * kCells) / kValues;
  }
};

uint16_t zigzag(int code) { return static_cast<uint16_t>(code > 0 ? 2 * code - 1 : -2 * code); }

/** The definition, value after value. */
void write_plainly(const uint16_t* u, Group& group) {
  std::memset(&group, 0, sizeof group);
  for (int c = 0; c < kCells; ++c) {
    const uint16_t* const cell = u + c * kCell;
    if (std::all_of(cell, cell + kCell, [](uint16_t each) { return each == 0; })) {
      group.parameter[c] = kNoCodes;
      continue;
    }
    int p = 0;
    const auto sum = [&] {
      uint32_t total = 0;
      for (int e = 0; e < kCell; ++e) total += cell[e] >> p;
      return total;
    };
    while (p < kLargestParameter && sum() > kCell) ++p;
    group.parameter[c] = static_cast<uint8_t>(p);
    for (int bit = 0; bit < p; ++bit, ++group.plane_count) {
      for (int e = 0; e < kCell; ++e) {
        group.planes[group.plane_count] |= static_cast<uint32_t>(cell[e] >> bit & 1) << e;
      }
    }
    for (int e = 0; e < kCell; ++e) {
      group.unary_bits += cell[e] >> p;
      group.unary[group.unary_bits / 64] |= 1ull << group.unary_bits % 64;
      ++group.unary_bits;
    }
  }
}

/** Numbers of at most 32 in unary, `lengths` of them in bytes; their sum is at most 32. */
uint64_t unary_of(__m256i lengths) {
  __m256i ends = _mm256_add_epi8(lengths, _mm256_set1_epi8(1));
  ends = _mm256_add_epi8(ends, _mm256_slli_si256(ends, 1));
  ends = _mm256_add_epi8(ends, _mm256_slli_si256(ends, 2));
  ends = _mm256_add_epi8(ends, _mm256_slli_si256(ends, 4));
  ends = _mm256_add_epi8(ends, _mm256_slli_si256(ends, 8));
  const __m128i low = _mm256_castsi256_si128(ends);
  const __m128i high = _mm_add_epi8(_mm256_extracti128_si256(ends, 1),
                                    _mm_shuffle_epi8(low, _mm_set1_epi8(15)));
  const auto bits = [](__m128i eight) {
    const __m512i place = _mm512_add_epi64(_mm512_cvtepu8_epi64(eight), _mm512_set1_epi64(-1));
    return _mm512_sllv_epi64(_mm512_set1_epi64(1), place);
  };
  return static_cast<uint64_t>(_mm512_reduce_or_epi64(
      _mm512_or_si512(_mm512_or_si512(bits(low), bits(_mm_srli_si128(low, 8))),
                      _mm512_or_si512(bits(high), bits(_mm_srli_si128(high, 8))))));
}

/** Bits behind each other, word after word. */
struct BitWriter {
  uint64_t* words;
  uint64_t open = 0;
  size_t count = 0;

  void append(uint64_t bits, uint32_t length) {
    const uint32_t used = count % 64;
    open |= bits << used;
    words[count / 64] = open;
    if (used + length >= 64) open = used == 0 ? 0 : bits >> (64 - used);
    count += length;
    words[count / 64] = open;
  }
};

void write_fast(const uint16_t* u, Group& group) {
  BitWriter unary{group.unary};
  uint32_t* plane = group.planes;
  for (int c = 0; c < kCells; ++c) {
    const __m512i cell = _mm512_load_si512(u + c * kCell);
    uint32_t planes[16];
    for (int bit = 0; bit < 16; ++bit) {
      planes[bit] = _mm512_test_epi16_mask(cell, _mm512_set1_epi16(static_cast<short>(1 << bit)));
    }
    uint32_t sums[17] = {};  // of u >> p for each p
    for (int p = 15; p >= 0; --p) {
      sums[p] = 2 * sums[p + 1] + static_cast<uint32_t>(__builtin_popcount(planes[p]));
    }
    if (sums[0] == 0) {
      group.parameter[c] = kNoCodes;
      continue;
    }
    int p = 0;
    while (p < kLargestParameter && sums[p] > kCell) ++p;
    group.parameter[c] = static_cast<uint8_t>(p);
    std::memcpy(plane, planes, 32);
    if (p > 8) std::memcpy(plane + 8, planes + 8, 32);
    plane += p;
    const __m512i lengths = _mm512_srl_epi16(cell, _mm_cvtsi32_si128(p));
    unary.append(unary_of(_mm512_cvtepi16_epi8(lengths)), kCell + sums[p]);
  }
  group.plane_count = static_cast<size_t>(plane - group.planes);
  group.unary_bits = unary.count;
}

/** 64 bits from any bit on. */
uint64_t bits_at(const uint64_t* words, size_t bit) {
  unsigned __int128 two;
  std::memcpy(&two, words + bit / 64, sizeof two);
  return static_cast<uint64_t>(two >> bit % 64);
}

struct Reader {
  const Group& group;
  const uint32_t* plane = group.planes;
  size_t bit = 0;
  __m512i places;

  explicit Reader(const Group& from) : group(from) {
    uint8_t place[64];
    for (int k = 0; k < 64; ++k) place[k] = static_cast<uint8_t>(k);
    places = _mm512_loadu_si512(place);
  }

  /** The 32 codes of the next cell. */
  __m512i read(int cell) {
    const int p = group.parameter[cell];
    if (p == kNoCodes) return _mm512_setzero_si512();
    const uint64_t ones = bits_at(group.unary, bit);
    bit += static_cast<size_t>(_tzcnt_u64(_pdep_u64(1ull << 31, ones))) + 1;
    const __m256i ends = _mm512_castsi512_si256(_mm512_maskz_compress_epi8(ones, places));
    const __m256i before = _mm256_permute2x128_si256(ends, _mm256_set1_epi8(-1), 0x02);
    const __m256i starts = _mm256_alignr_epi8(ends, before, 15);
    const __m256i lengths =
        _mm256_sub_epi8(_mm256_sub_epi8(ends, starts), _mm256_set1_epi8(1));
    __m512i u = _mm512_cvtepu8_epi16(lengths);
    for (int k = p - 1; k >= 0; --k) {
      u = _mm512_add_epi16(u, u);
      u = _mm512_mask_sub_epi16(u, plane[k], u, _mm512_set1_epi16(-1));
    }
    plane += p;
    const __m512i magnitude = _mm512_srli_epi16(_mm512_add_epi16(u, _mm512_set1_epi16(1)), 1);
    const __mmask32 is_positive = _mm512_test_epi16_mask(u, _mm512_set1_epi16(1));
    return _mm512_mask_sub_epi16(magnitude, ~is_positive, _mm512_setzero_si512(), magnitude);
  }
};

__m512i half_of(__m512i codes, int half) {
  return _mm512_cvtepi16_epi32(half == 0 ? _mm512_castsi512_si256(codes)
                                         : _mm512_extracti64x4_epi64(codes, 1));
}

/** What an owner does with the codes of one rank. */
void add(const Group& group, int32_t* sums) {
  Reader reader(group);
  for (int c = 0; c < kCells; ++c) {
    const __m512i codes = reader.read(c);
    for (int half = 0; half < 2; ++half) {
      int32_t* const sum = sums + c * kCell + half * 16;
      _mm512_store_si512(sum, _mm512_add_epi32(_mm512_load_si512(sum), half_of(codes, half)));
    }
  }
}

void dequantize(const Group& group, float step, float* values) {
  Reader reader(group);
  for (int c = 0; c < kCells; ++c) {
    const __m512i codes = reader.read(c);
    for (int half = 0; half < 2; ++half) {
      const __m512 numbers = _mm512_cvtepi32_ps(half_of(codes, half));
      _mm512_store_ps(values + c * kCell + half * 16,
                      _mm512_mul_ps(_mm512_set1_ps(step), numbers));
    }
  }
}

/** Expected bits of all unary parts, in 1/64, for one step: what the search for a step does. */
uint64_t expected_bits(const float* values, float inverse_step, const uint8_t* parameters) {
  __m512i total = _mm512_setzero_si512();
  const __m512i one = _mm512_set1_epi32(1), two = _mm512_set1_epi32(2);
  for (int k = 0; k < kValues; k += 16) {
    const __m128i p = _mm_cvtsi32_si128(parameters[k / kCell] & 15);
    const __m512 value = _mm512_load_ps(values + k);
    const __m512 scaled = _mm512_mul_ps(_mm512_abs_ps(value), _mm512_set1_ps(64 * inverse_step));
    const __m512i fixed = _mm512_cvtps_epi32(scaled);
    const __m512i code = _mm512_srli_epi32(fixed, 6);
    const __m512i fraction = _mm512_and_si512(fixed, _mm512_set1_epi32(63));
    const __m512i sign = _mm512_srli_epi32(_mm512_castps_si512(value), 31);
    const __m512i twice = _mm512_add_epi32(code, code);
    const __m512i above = _mm512_add_epi32(twice, _mm512_add_epi32(one, sign));
    const __m512i below = _mm512_max_epi32(_mm512_sub_epi32(above, two), _mm512_setzero_si512());
    const __m512i least = _mm512_srl_epi32(below, p);
    const __m512i more = _mm512_sub_epi32(_mm512_srl_epi32(above, p), least);
    total = _mm512_add_epi32(total, _mm512_slli_epi32(least, 6));
    total = _mm512_add_epi32(total, _mm512_mullo_epi32(fraction, more));
  }
  return static_cast<uint64_t>(_mm512_reduce_add_epi32(total));
}

/** Nanoseconds a value, the least of many. */
double time_of(const std::function<void()>& work) {
  double least = 1e9;
  for (int run = 0; run < 300; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count());
  }
  return least / kValues * 1e9;
}

alignas(64) float values[kValues], decoded[kValues];
alignas(64) uint16_t numbers[kValues];
alignas(64) int32_t sums[kValues];
Group group, plain;

/** Normal values whose cells differ in scale; `spread` is the deviation of its logarithm. */
void make_values(double spread, std::mt19937& random) {
  std::normal_distribution<double> normal;
  for (int c = 0; c < kCells; ++c) {
    const double scale = std::exp(spread * normal(random));
    for (int e = 0; e < kCell; ++e) {
      values[c * kCell + e] = static_cast<float>(scale * normal(random));
    }
  }
}

/** Codes of `bits` a value; 1 / step. */
float quantize(double bits, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform;
  float inverse_step = 1;
  for (int round = 0; round < 40; ++round) {
    for (int k = 0; k < kValues; ++k) {
      numbers[k] = zigzag(static_cast<int>(std::floor(values[k] * inverse_step + uniform(random))));
    }
    write_plainly(numbers, plain);
    inverse_step *= static_cast<float>(std::exp2(bits - plain.bits_per_value()));
  }
  return inverse_step;
}

bool is_right() {
  write_fast(numbers, group);
  std::memset(sums, 0, sizeof sums);
  add(group, sums);
  bool right = group.plane_count == plain.plane_count && group.unary_bits == plain.unary_bits;
  right = right && std::memcmp(group.planes, plain.planes, 4 * plain.plane_count) == 0;
  right = right && std::memcmp(group.unary, plain.unary, plain.unary_bits / 8) == 0;
  for (int k = 0; k < kValues; ++k) right = right && zigzag(sums[k]) == numbers[k];
  return right;
}

}  // namespace

int main() {
  std::mt19937 random(1);
  std::printf("| bits | spread | write | read and add | read to floats | expected bits |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const double bits : {3.0, 4.0, 5.0, 6.0}) {
    for (const double spread : {0.3, 1.2}) {
      make_values(spread, random);
      const float inverse_step = quantize(bits, random);
      if (!is_right()) return std::puts("codes differ"), 1;
      volatile uint64_t kept = 0;
      std::printf("| %.2f | %.1f | %.2f | %.2f | %.2f | %.2f |\n", plain.bits_per_value(), spread,
                  time_of([] { write_fast(numbers, group); }), time_of([] { add(group, sums); }),
                  time_of([&] { dequantize(group, 1 / inverse_step, decoded); }), time_of([&] {
                    kept = kept + expected_bits(values, inverse_step, group.parameter);
                  }));
    }
  }
  return 0;
}
