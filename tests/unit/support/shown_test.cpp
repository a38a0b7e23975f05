// Foreign strings in sentences: one line of valid UTF-8 without control characters, of bounded
// length, from which the bytes can be read back.
#include "src/support/shown.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace gq::test {
namespace {

std::string shown(std::string_view string, size_t most_bytes = Shown::kWordBytes) {
  return Shown(string, most_bytes).text();
}

TEST(Shown, PlainText_Unchanged) {
  for (const char* plain : {"", "paper-ge8", "a b\"c'd%s{}$", "/tmp/x.y",
                            "gr\xc3\xb6\xc3\x9f"
                            "e",
                            "\xe2\x82\xac", "\xf0\x9f\x99\x82", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(shown(plain), plain);
  }
}

TEST(Shown, ControlCharacters_Escaped) {
  EXPECT_EQ(shown("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(shown("a\nb\r\tc"), "a\\x0ab\\x0d\\x09c");
  EXPECT_EQ(shown("\x7f"), "\\x7f");
  EXPECT_EQ(shown(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(shown("\xc2\x9b"
                  "31m"),
            "\\xc2\\x9b31m");  // CSI of 8 bits
  EXPECT_EQ(shown("\xe2\x80\xae"
                  "abc"),
            "\\xe2\\x80\\xaeabc");                      // right to left
  EXPECT_EQ(shown("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");  // line separator
  EXPECT_EQ(shown("\\x1b"), "\\\\x1b");
}

TEST(Shown, InvalidUtf8_EscapedByteByByte) {
  EXPECT_EQ(shown("\x80"), "\\x80");
  EXPECT_EQ(shown("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(shown("\xc3"), "\\xc3");                             // cut
  EXPECT_EQ(shown("\xc3("), "\\xc3(");                           // no continuation
  EXPECT_EQ(shown("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(shown("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");           // overlong
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(shown("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond the last character
  EXPECT_EQ(shown("\xf8\x88\x80\x80\x80"), "\\xf8\\x88\\x80\\x80\\x80");
}

/** `count` letters and what follows them. */
std::string letters(size_t count, const char* end) {
  std::string made(count, 'a');
  made += end;
  return made;
}

TEST(Shown, LongerThanTheLimit_CutBetweenCharacters) {
  EXPECT_EQ(shown(letters(80, "")), letters(80, ""));
  EXPECT_EQ(shown(letters(81, "")), letters(80, "..."));
  EXPECT_EQ(shown(letters(79, "\xc3\xb6")), letters(79, "..."));
  EXPECT_EQ(shown(letters(77, "\x1b")), letters(77, "..."));
  EXPECT_EQ(shown(std::string(100000, '\x1b'), Shown::kPathBytes).size(), Shown::kPathBytes + 3);
  EXPECT_LT(shown(letters(1000, ""), 100000).size(), Shown::kTextBytes);
}

/** The bytes that a string stands for. */
std::string read_back(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
    } else if (text[i + 1] == '\\') {
      bytes += text[++i];
    } else {
      bytes += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    }
  }
  return bytes;
}

TEST(Shown, AnyBytes_OneLineFromWhichTheyCanBeReadBack) {
  std::mt19937 random(20);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 60, '\0');
    const bool is_high = round % 2 == 0;
    for (char& byte : bytes) byte = static_cast<char>(random() % 128 + (is_high ? 128 : 0));
    const std::string text = shown(bytes, Shown::kPathBytes);
    ASSERT_EQ(read_back(text), bytes) << "round " << round;
    for (const char byte : text) {
      ASSERT_TRUE(static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f) << "round " << round;
    }
    ASSERT_EQ(shown(read_back(text), Shown::kPathBytes), text);
  }
}

}  // namespace
}  // namespace gq::test
