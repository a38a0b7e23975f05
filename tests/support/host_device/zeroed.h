// Arrays of zeros whose pages the system makes once they are touched. What is noted of memory takes
// up to twelve times its bytes, and small calls touch little of what a communicator allocates.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_ZEROED_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_ZEROED_H

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>

namespace gq::test {

template <typename Value>
class Zeroed {
  static_assert(std::is_trivially_copyable_v<Value> && std::is_trivially_destructible_v<Value>,
                "their first state is all zeros, and nothing ends them");

 public:
  explicit Zeroed(size_t count)
      : size_bytes_(count * sizeof(Value)), is_mapped_(size_bytes_ >= kMappedBytesMin) {
    void* memory = is_mapped_ ? mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                              : calloc(count + 1, sizeof(Value));
    if (memory == nullptr || memory == MAP_FAILED) throw std::bad_alloc();
    values_ = static_cast<Value*>(memory);
  }
  Zeroed(const Zeroed&) = delete;
  Zeroed& operator=(const Zeroed&) = delete;
  ~Zeroed() {
    if (is_mapped_) {
      munmap(values_, size_bytes_);
    } else {
      free(values_);
    }
  }

  Value* data() { return values_; }
  Value& operator[](size_t k) { return values_[k]; }

 private:
  static constexpr size_t kMappedBytesMin = 65536;  // less is cheaper from malloc

  const size_t size_bytes_;
  const bool is_mapped_;
  Value* values_ = nullptr;
};

}  // namespace gq::test

#endif
