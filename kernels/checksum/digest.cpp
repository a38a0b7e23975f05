// Products of 32 bits, added in 64.
#include "kernels/checksum/digest.h"

#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gq {
namespace {

// Any odd numbers; these have bits in all places.
constexpr uint32_t kWordKey = 0x9e3779b1;
constexpr uint32_t kScaleKey = 0x85ebca77;

constexpr uint32_t kNotFinite = 0x7fc00000;

constexpr uint32_t key_of(uint64_t place, uint32_t key) {
  return static_cast<uint32_t>(2 * place + 1) * key;
}

/** Keys go up by 2 key from place to place. */
template <typename Word>
[[gnu::always_inline]] inline uint64_t sum(uint64_t first_place, const Word* words, size_t count,
                                           uint32_t key) {
  const uint32_t first_key = key_of(first_place, key);
  uint64_t total = 0;
  for (size_t k = 0; k < count; ++k) {
    total += static_cast<uint64_t>(words[k]) * (first_key + static_cast<uint32_t>(k) * (2 * key));
  }
  return total;
}

using OfWords = uint64_t (*)(uint64_t, const uint32_t*, size_t);

uint64_t words_plainly(uint64_t first_place, const uint32_t* words, size_t count) {
  return sum(first_place, words, count, kWordKey);
}

#if defined(__x86_64__)
/** Eight words at a time: those at even places lie in the low halves of 64-bit lanes, where the
 *  instruction multiplies; those at odd ones are shifted there. */
__attribute__((target("avx2"))) uint64_t words_by_avx2(uint64_t first_place, const uint32_t* words,
                                                       size_t count) {
  const uint32_t first = key_of(first_place, kWordKey);
  alignas(32) uint32_t even[8] = {}, odd[8] = {};
  for (uint32_t lane = 0; lane < 4; ++lane) {
    even[2 * lane] = first + 2 * lane * (2 * kWordKey);
    odd[2 * lane] = first + (2 * lane + 1) * (2 * kWordKey);
  }
  __m256i even_keys = _mm256_load_si256(reinterpret_cast<const __m256i*>(even));
  __m256i odd_keys = _mm256_load_si256(reinterpret_cast<const __m256i*>(odd));
  const __m256i step = _mm256_set1_epi32(static_cast<int>(8 * (2 * kWordKey)));
  __m256i even_sums = _mm256_setzero_si256(), odd_sums = even_sums;
  size_t k = 0;
  for (; k + 8 <= count; k += 8) {
    const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + k));
    even_sums = _mm256_add_epi64(even_sums, _mm256_mul_epu32(eight, even_keys));
    odd_sums =
        _mm256_add_epi64(odd_sums, _mm256_mul_epu32(_mm256_srli_epi64(eight, 32), odd_keys));
    even_keys = _mm256_add_epi32(even_keys, step);
    odd_keys = _mm256_add_epi32(odd_keys, step);
  }
  alignas(32) uint64_t sums[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(sums), _mm256_add_epi64(even_sums, odd_sums));
  return sums[0] + sums[1] + sums[2] + sums[3] +
         sum(first_place + k, words + k, count - k, kWordKey);
}
OfWords fastest() { return __builtin_cpu_supports("avx2") ? words_by_avx2 : words_plainly; }
#else
OfWords fastest() { return words_plainly; }
#endif

}  // namespace

uint64_t digest_of_words(uint64_t first_place, const uint32_t* words, size_t word_count) {
  return fastest()(first_place, words, word_count);
}

uint64_t digest_of_scales(uint64_t first_place, const uint16_t* scales, size_t scale_count) {
  return sum(first_place, scales, scale_count, kScaleKey);
}

uint64_t digest_of_norm(uint64_t place, float norm) {
  const bool is_finite = norm - norm == 0;
  const uint32_t bits = is_finite ? std::bit_cast<uint32_t>(norm) : kNotFinite;
  return sum(place, &bits, 1, kScaleKey);
}

}  // namespace gq
