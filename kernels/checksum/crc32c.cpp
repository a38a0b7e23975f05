// Tables for any machine, and the instruction where there is one: it takes one word of 8 bytes in a
// cycle, but its result three cycles later. So three parts of a block are read at the same time,
// and their checksums are joined.
#include "kernels/checksum/crc32c.h"

#include <string.h>

#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace gq {
namespace {

// The polynomial, its coefficients from the lowest bit up to that of x^0: a checksum is a polynomial
// of degree below 32 in the same order.
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
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return _mm_crc32_u64(crc, word);
}
GQ_CRC_TARGET inline uint64_t step1(uint64_t crc, unsigned char byte) {
  return _mm_crc32_u8(static_cast<uint32_t>(crc), byte);
}
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }
#else
#define GQ_CRC_TARGET __attribute__((target("+crc")))
GQ_CRC_TARGET inline uint64_t step8(uint64_t crc, const unsigned char* bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return __crc32cd(static_cast<uint32_t>(crc), word);
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

constexpr Crc32cImplementation kImplementations[] = {
    {"instruction", by_instruction}, {"tables", by_tables}, {nullptr, nullptr}};

#else

bool has_instruction() { return true; }
constexpr Crc32cImplementation kImplementations[] = {{"tables", by_tables}, {nullptr, nullptr}};

#endif

}  // namespace

const Crc32cImplementation* crc32c_implementations() {
  return kImplementations + (has_instruction() ? 0 : 1);
}

uint32_t crc32c(uint32_t crc, const void* bytes, size_t size_bytes) {
  return crc32c_implementations()->checksum(crc, bytes, size_bytes);
}

}  // namespace gq
