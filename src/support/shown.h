// How a string that is not this library's own appears in a sentence: a caller's specification, an
// environment variable, a path, another library's message. One line that a terminal shows as it is,
// valid UTF-8, of bounded length.
#ifndef GQ_SUPPORT_SHOWN_H
#define GQ_SUPPORT_SHOWN_H

#include <stddef.h>

#include <string_view>

namespace gq {

class Shown {
 public:
  /** Lengths for a word, and for a path or a message of another library. */
  static constexpr size_t kWordBytes = 80;
  static constexpr size_t kPathBytes = 400;
  /** Capacity for any text(), with "..." and the final 0. */
  static constexpr size_t kTextBytes = kPathBytes + 4;

  /** Control characters and bytes that are not UTF-8 become \x1b and the like, a backslash becomes
   *  two; what is longer than `most_bytes`, at most kPathBytes, ends in "...". */
  explicit Shown(std::string_view string, size_t most_bytes = kWordBytes);

  /** Valid while this object is: to the end of the expression, where it is a temporary. */
  const char* text() const { return text_; }

 private:
  char text_[kTextBytes];
};

}  // namespace gq

#endif
