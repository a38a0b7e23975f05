// The bytes of one run of a fuzz target, taken from front to back; 0 once they are used up.
#ifndef GQ_TESTS_FUZZ_FUZZ_INPUT_H
#define GQ_TESTS_FUZZ_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memory>

namespace gq::test {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* bytes, size_t size_bytes) : next_(bytes), left_bytes_(size_bytes) {}

  uint8_t byte() {
    uint8_t taken = 0;
    fill(&taken, 1);
    return taken;
  }
  template <typename Number>
  Number take() {
    Number taken{};
    fill(&taken, sizeof taken);
    return taken;
  }

  void fill(void* out, size_t size_bytes) {
    memset(out, 0, size_bytes);
    const size_t taken_bytes = size_bytes < left_bytes_ ? size_bytes : left_bytes_;
    if (taken_bytes > 0) memcpy(out, next_, taken_bytes);
    next_ += taken_bytes;
    left_bytes_ -= taken_bytes;
  }

  /** Changes up to three bytes of a correct message: inputs of zeros are correct ones. */
  void edit(void* message, size_t size_bytes) {
    auto* const bytes = static_cast<unsigned char*>(message);
    for (uint32_t edits = byte() % 4; edits > 0; --edits) {
      const size_t place = take<uint16_t>() % size_bytes;
      bytes[place] = static_cast<unsigned char>(bytes[place] ^ byte());
    }
  }

  /** What is left, with a 0 behind it, in a block of its own: sanitizers see its ends. */
  std::unique_ptr<char[]> rest_as_string() {
    std::unique_ptr<char[]> string(new char[left_bytes_ + 1]);
    const size_t size_bytes = left_bytes_;
    fill(string.get(), size_bytes);
    string[size_bytes] = '\0';
    return string;
  }

  size_t left_bytes() const { return left_bytes_; }

 private:
  const uint8_t* next_;
  size_t left_bytes_;
};

/** Ends the program where a result is wrong although no sanitizer sees it. */
inline void require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "fuzz target: %s\n", what);
  abort();
}

}  // namespace gq::test

#endif
