// All memory of one stage call, as an image of it on the host: goes to the device in one copy and
// comes back in one, so that whatever a kernel writes where it must not is seen.
#ifndef GQ_TESTS_GPU_STAGES_IMAGE_H
#define GQ_TESTS_GPU_STAGES_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <functional>
#include <vector>

namespace gq::test {

class Image {
 public:
  Image();

  /** Where the device will have these bytes, as far from aligned memory as they are here. The same
   *  memory twice is one place. */
  template <typename Element>
  Element* input(Element* host, size_t size_bytes) {
    return static_cast<Element*>(const_cast<void*>(add(host, size_bytes, nullptr)));
  }
  template <typename Element>
  Element* output(Element* host, size_t size_bytes) {
    return static_cast<Element*>(const_cast<void*>(add(host, size_bytes, host)));
  }
  /** Memory that may be left as it comes. */
  void* scratch(size_t size_bytes);

  /** Copies to the device, enqueues, copies outputs back; throws where anything else changed. */
  void run(const std::function<void(void* stream)>& enqueue);

 private:
  struct Part {
    const void* host;
    void* back;  ///< where an output goes; null for an input
    size_t offset, size_bytes;
    bool is_scratch;
  };
  const void* add(const void* host, size_t size_bytes, void* back);
  void check_untouched(const std::vector<uint8_t>& after) const;

  std::vector<uint8_t> bytes_;
  std::vector<Part> parts_;
};

}  // namespace gq::test

#endif
