// Escapes character by character, and never cuts one.
#include "src/support/shown.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>

namespace gq {
namespace {

struct Character {
  uint32_t code = 0;
  size_t size_bytes = 0;  ///< 0: the bytes are not UTF-8
};

/** The first character of `string`, which is not empty. */
Character decode(std::string_view string) {
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // a longer form is not UTF-8
  const auto byte_at = [&](size_t i) { return static_cast<unsigned char>(string[i]); };
  const uint32_t first = byte_at(0);
  if (first < 0x80) return {first, 1};
  const size_t size_bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc0 || first >= 0xf8 || string.size() < size_bytes) return {};
  uint32_t code = first & (0x7fu >> size_bytes);
  for (size_t i = 1; i < size_bytes; ++i) {
    if ((byte_at(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte_at(i) & 0x3fu);
  }
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[size_bytes] || code > 0x10ffff || is_surrogate) return {};
  return {code, size_bytes};
}

/** What moves a terminal's cursor, breaks a line or reverses the order of what follows. */
bool is_control(uint32_t code) {
  const bool is_c0 = code < 0x20 || code == 0x7f, is_c1 = code >= 0x80 && code < 0xa0;
  const bool is_line_end = code == 0x2028 || code == 0x2029;
  const bool is_direction = code == 0x061c || code == 0x200e || code == 0x200f ||
                            (code >= 0x202a && code <= 0x202e) ||
                            (code >= 0x2066 && code <= 0x2069);
  return is_c0 || is_c1 || is_line_end || is_direction;
}

}  // namespace

Shown::Shown(std::string_view string, size_t most_bytes) {
  const size_t capacity_bytes = std::min(most_bytes, kPathBytes);
  size_t used = 0;
  while (!string.empty()) {
    const Character character = decode(string);
    const size_t taken = std::max<size_t>(character.size_bytes, 1);
    char piece[17];  // four escaped bytes
    size_t piece_bytes = taken;
    memcpy(piece, string.data(), taken);
    if (character.size_bytes == 0 || is_control(character.code)) {
      piece_bytes = 0;
      for (size_t i = 0; i < taken; ++i, piece_bytes += 4) {
        snprintf(piece + piece_bytes, 5, "\\x%02x", static_cast<unsigned char>(string[i]));
      }
    } else if (character.code == '\\') {
      piece[piece_bytes++] = '\\';
    }
    if (used + piece_bytes > capacity_bytes) break;
    memcpy(text_ + used, piece, piece_bytes);
    used += piece_bytes;
    string.remove_prefix(taken);
  }
  snprintf(text_ + used, sizeof text_ - used, "%s", string.empty() ? "" : "...");
}

}  // namespace gq
