// Tables for any machine, and the instruction where there is one: it takes one word of 8 bytes in a
// cycle, but its result three cycles later. So three parts of a block are read at the same time,
// and their checksums are joined. Where a processor multiplies polynomials in vectors of 32 bytes,
// a fourth part is folded beside them, by other units of the processor. Vectors of 64 bytes fold
// faster than both together, and read memory from one end to the other.
#include "kernels/checksum/crc32c.h"

#include <string.h>

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace gq {
namespace {

// The polynomial, its coefficients from the lowest bit up to that of x^0: a checksum is a
// polynomial of degree below 32 in the same order.
constexpr uint32_t kPolynomial = 0x82f63b78;

/** A checksum times x, modulo the polynomial. */
constexpr uint32_t times_x(uint32_t crc) { return crc >> 1 ^ (crc & 1 ? kPolynomial : 0); }

using ByteTable = std::array<uint32_t, 256>;

/** Linear in its argument: the sum of the entries of its bits. */
constexpr ByteTable linear_table(const std::array<uint32_t, 8>& of_bits) {
  ByteTable table{};
  for (uint32_t byte = 1; byte < 256; ++byte) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      if (byte >> bit & 1) table[byte] ^= of_bits[bit];
    }
  }
  return table;
}

constexpr uint32_t times_x_to(uint32_t crc, uint32_t power) {
  for (; power > 0; --power) crc = times_x(crc);
  return crc;
}

/** [k][byte]: what a byte adds with k bytes behind it. */
constexpr std::array<ByteTable, 8> byte_tables() {
  std::array<ByteTable, 8> tables{};
  for (uint32_t k = 0; k < 8; ++k) {
    std::array<uint32_t, 8> of_bits{};
    for (uint32_t bit = 0; bit < 8; ++bit) of_bits[bit] = times_x_to(1u << bit, 8 * (k + 1));
    tables[k] = linear_table(of_bits);
  }
  return tables;
}
constexpr std::array<ByteTable, 8> kBytes = byte_tables();

uint32_t word_at(const unsigned char* bytes) {
  uint32_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

uint32_t of_word(uint32_t word, uint32_t bytes_behind) {
  return kBytes[bytes_behind + 3][word & 0xff] ^ kBytes[bytes_behind + 2][word >> 8 & 0xff] ^
         kBytes[bytes_behind + 1][word >> 16 & 0xff] ^ kBytes[bytes_behind][word >> 24];
}

uint32_t by_tables(uint32_t crc, const void* data, size_t size_bytes) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; size_bytes >= 8; size_bytes -= 8, bytes += 8) {
    crc = of_word(crc ^ word_at(bytes), 4) ^ of_word(word_at(bytes + 4), 0);
  }
  for (; size_bytes > 0; --size_bytes) crc = crc >> 8 ^ kBytes[0][(crc ^ *bytes++) & 0xff];
  return ~crc;
}

#if defined(__x86_64__) || defined(__aarch64__)

inline uint64_t word8_at(const unsigned char* bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

/** What a checksum becomes by `size_bytes` zero bytes behind it, for each byte of it. */
struct ZeroBytes {
  constexpr explicit ZeroBytes(size_t size_bytes) : tables{} {
    // x^(8 size_bytes), then that times each bit of the checksum.
    std::array<uint32_t, 32> of_bits{};
    of_bits[31] = times_x_to(1u << 31, static_cast<uint32_t>(8 * size_bytes));
    for (uint32_t bit = 31; bit-- > 0;) of_bits[bit] = times_x(of_bits[bit + 1]);
    for (uint32_t k = 0; k < 4; ++k) {
      std::array<uint32_t, 8> part{};
      for (uint32_t bit = 0; bit < 8; ++bit) part[bit] = of_bits[8 * k + bit];
      tables[k] = linear_table(part);
    }
  }
  uint32_t behind(uint32_t crc) const {
    return tables[0][crc & 0xff] ^ tables[1][crc >> 8 & 0xff] ^ tables[2][crc >> 16 & 0xff] ^
           tables[3][crc >> 24];
  }

  std::array<ByteTable, 4> tables;
};

// Bytes of each of the three parts: long ones for messages, short ones for what is left of them.
constexpr size_t kLongPart = 2048;
constexpr size_t kShortPart = 256;
constexpr ZeroBytes kBehindLong(kLongPart);
constexpr ZeroBytes kBehindShort(kShortPart);

#if defined(__x86_64__)
#define GQ_CRC_TARGET __attribute__((target("sse4.2")))
GQ_CRC_TARGET inline uint64_t step8(uint64_t crc, const unsigned char* bytes) {
  return _mm_crc32_u64(crc, word8_at(bytes));
}
GQ_CRC_TARGET inline uint64_t step1(uint64_t crc, unsigned char byte) {
  return _mm_crc32_u8(static_cast<uint32_t>(crc), byte);
}
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }
#else
#define GQ_CRC_TARGET __attribute__((target("+crc")))
GQ_CRC_TARGET inline uint64_t step8(uint64_t crc, const unsigned char* bytes) {
  return __crc32cd(static_cast<uint32_t>(crc), word8_at(bytes));
}
GQ_CRC_TARGET inline uint64_t step1(uint64_t crc, unsigned char byte) {
  return __crc32cb(static_cast<uint32_t>(crc), byte);
}
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#endif

/** Blocks of three parts, as many as there are; returns what is left of the bytes. */
template <size_t kPart>
GQ_CRC_TARGET inline const unsigned char* take_blocks(uint64_t* crc, const unsigned char* bytes,
                                                      size_t* size_bytes,
                                                      const ZeroBytes& behind) {
  while (*size_bytes >= 3 * kPart) {
    uint64_t first = *crc, second = 0, third = 0;
    for (size_t k = 0; k < kPart; k += 8) {
      first = step8(first, bytes + k);
      second = step8(second, bytes + kPart + k);
      third = step8(third, bytes + 2 * kPart + k);
    }
    second ^= behind.behind(static_cast<uint32_t>(first));
    *crc = third ^ behind.behind(static_cast<uint32_t>(second));
    bytes += 3 * kPart;
    *size_bytes -= 3 * kPart;
  }
  return bytes;
}

GQ_CRC_TARGET uint32_t by_instruction(uint32_t start, const void* data, size_t size_bytes) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t crc = static_cast<uint32_t>(~start);
  bytes = take_blocks<kLongPart>(&crc, bytes, &size_bytes, kBehindLong);
  bytes = take_blocks<kShortPart>(&crc, bytes, &size_bytes, kBehindShort);
  for (; size_bytes >= 8; size_bytes -= 8, bytes += 8) crc = step8(crc, bytes);
  for (; size_bytes > 0; --size_bytes) crc = step1(crc, *bytes++);
  return ~static_cast<uint32_t>(crc);
}

#if defined(__x86_64__)

constexpr uint64_t power_in_high_half(uint32_t power) {
  return static_cast<uint64_t>(times_x_to(1u << 31, power)) << 32;
}

/** Four vectors hold the remainder of all bytes so far: in each step of, say, 128 bytes that
 *  remainder moves by as many, a multiplication by x^1024, and the next ones are added. As long as
 *  nothing is reduced, each part of 16 bytes is a polynomial of its own, whose lower 8 bytes (the
 *  higher powers) move by 64 bits more. Multiplying two numbers of reversed order gives their
 *  product times x. */
struct FoldFactors {
  constexpr explicit FoldFactors(uint32_t step_bytes)
      : low(static_cast<int64_t>(power_in_high_half(8 * step_bytes + 63))),
        high(static_cast<int64_t>(power_in_high_half(8 * step_bytes - 1))) {}

  int64_t low, high;
};

/** Of bytes that folding has left. */
template <size_t kSize>
GQ_CRC_TARGET inline uint64_t of_left(const unsigned char (&left)[kSize]) {
  uint64_t crc = 0;
  for (size_t k = 0; k < kSize; k += 8) crc = step8(crc, left + k);
  return crc;
}

constexpr size_t kFoldBytes = 128;
constexpr FoldFactors kFold(kFoldBytes);

// In a step of folding, three words of 8 bytes fit beside it five times on processors of 2021.
constexpr size_t kStepWords = 5;
constexpr size_t kSteps = 48;
constexpr size_t kFolded = kFoldBytes * kSteps;
constexpr size_t kBesidePart = 8 * kStepWords * (kSteps - 1);
constexpr size_t kMixedBlock = kFolded + 3 * kBesidePart;
constexpr ZeroBytes kBehindBeside(kBesidePart);

#define GQ_FOLD_TARGET __attribute__((target("avx2,sse4.2,pclmul,vpclmulqdq")))

bool has_fold() {
  return has_instruction() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
         __builtin_cpu_supports("vpclmulqdq");
}

GQ_FOLD_TARGET inline __m256i load32(const unsigned char* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

GQ_FOLD_TARGET inline __m256i fold(__m256i sum, __m256i by, const unsigned char* next) {
  const __m256i low = _mm256_clmulepi64_epi128(sum, by, 0x00);
  const __m256i high = _mm256_clmulepi64_epi128(sum, by, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(low, high), load32(next));
}

/** A block: the folded part first, then three parts by the instruction. */
GQ_FOLD_TARGET inline uint64_t mixed_block(uint64_t crc, const unsigned char* bytes) {
  const unsigned char* beside = bytes + kFolded;
  const __m256i by = _mm256_set_epi64x(kFold.high, kFold.low, kFold.high, kFold.low);
  // The checksum so far is added to the first bytes.
  __m256i sums[4] = {
      _mm256_xor_si256(load32(bytes), _mm256_set_epi64x(0, 0, 0, static_cast<int64_t>(crc))),
      load32(bytes + 32), load32(bytes + 64), load32(bytes + 96)};
  uint64_t first = 0, second = 0, third = 0;
  for (size_t step = 1; step < kSteps; ++step, beside += 8 * kStepWords) {
    const unsigned char* const next = bytes + kFoldBytes * step;
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) sums[k] = fold(sums[k], by, next + 32 * k);
#pragma GCC unroll 5
    for (size_t k = 0; k < kStepWords; ++k) {
      first = _mm_crc32_u64(first, word8_at(beside + 8 * k));
      second = _mm_crc32_u64(second, word8_at(beside + kBesidePart + 8 * k));
      third = _mm_crc32_u64(third, word8_at(beside + 2 * kBesidePart + 8 * k));
    }
  }
  alignas(32) unsigned char left[kFoldBytes];
  for (size_t k = 0; k < 4; ++k) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(left + 32 * k), sums[k]);
  }
  first ^= kBehindBeside.behind(static_cast<uint32_t>(of_left(left)));
  second ^= kBehindBeside.behind(static_cast<uint32_t>(first));
  return third ^ kBehindBeside.behind(static_cast<uint32_t>(second));
}

GQ_FOLD_TARGET uint32_t by_folding(uint32_t start, const void* data, size_t size_bytes) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t crc = static_cast<uint32_t>(~start);
  for (; size_bytes >= kMixedBlock; size_bytes -= kMixedBlock, bytes += kMixedBlock) {
    crc = mixed_block(crc, bytes);
  }
  return by_instruction(~static_cast<uint32_t>(crc), bytes, size_bytes);
}

#define GQ_WIDE_TARGET __attribute__((target("avx512f,sse4.2,pclmul,vpclmulqdq")))

constexpr size_t kWide = 64;
constexpr size_t kWideBytes = 4 * kWide;
constexpr FoldFactors kFoldByOne(kWide);
constexpr FoldFactors kFoldByFour(kWideBytes);

bool has_wide_fold() { return has_fold() && __builtin_cpu_supports("avx512f"); }

GQ_WIDE_TARGET inline __m512i in_all_parts(const FoldFactors& factors) {
  return _mm512_set4_epi64(factors.high, factors.low, factors.high, factors.low);
}

GQ_WIDE_TARGET inline __m512i fold(__m512i sum, __m512i by, __m512i next) {
  constexpr int kSumOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, by, 0x00),
                                   _mm512_clmulepi64_epi128(sum, by, 0x11), next, kSumOfThree);
}

GQ_WIDE_TARGET uint32_t by_wide_folding(uint32_t start, const void* data, size_t size_bytes) {
  if (size_bytes < kWideBytes) return by_instruction(start, data, size_bytes);
  const auto* bytes = static_cast<const unsigned char*>(data);
  const auto* const end = bytes + size_bytes;
  __m512i sums[4];
  for (size_t k = 0; k < 4; ++k) sums[k] = _mm512_loadu_si512(bytes + kWide * k);
  // The checksum so far is added to the first bytes.
  sums[0] = _mm512_xor_si512(sums[0],
                             _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, static_cast<uint32_t>(~start)));
  bytes += kWideBytes;
  const __m512i by_four = in_all_parts(kFoldByFour), by_one = in_all_parts(kFoldByOne);
  for (; bytes + kWideBytes <= end; bytes += kWideBytes) {
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) {
      sums[k] = fold(sums[k], by_four, _mm512_loadu_si512(bytes + kWide * k));
    }
  }
  for (size_t k = 1; k < 4; ++k) sums[0] = fold(sums[0], by_one, sums[k]);
  for (; bytes + kWide <= end; bytes += kWide) {
    sums[0] = fold(sums[0], by_one, _mm512_loadu_si512(bytes));
  }
  alignas(kWide) unsigned char left[kWide];
  _mm512_store_si512(left, sums[0]);
  const uint32_t crc = static_cast<uint32_t>(of_left(left));
  return by_instruction(~crc, bytes, static_cast<size_t>(end - bytes));
}

#endif

#endif

constexpr Crc32cImplementation kImplementations[] = {
#if defined(__x86_64__)
    {"folding by 64 bytes", by_wide_folding},
    {"folding by 32 bytes", by_folding},
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    {"instruction", by_instruction},
#endif
    {"tables", by_tables},
    {nullptr, nullptr}};

/** How many of these do not run here. */
size_t missing() {
#if defined(__x86_64__)
  if (!has_instruction()) return 3;
  if (!has_fold()) return 2;
  return has_wide_fold() ? 0 : 1;
#elif defined(__aarch64__)
  return has_instruction() ? 0 : 1;
#else
  return 0;
#endif
}

}  // namespace

const Crc32cImplementation* crc32c_implementations() {
  static const size_t first = missing();
  return kImplementations + first;
}

uint32_t crc32c(uint32_t crc, const void* bytes, size_t size_bytes) {
  return crc32c_implementations()->checksum(crc, bytes, size_bytes);
}

}  // namespace gq
