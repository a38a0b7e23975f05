// An array in memory that forked processes share with their parent; nothing else about processes.
#ifndef GQ_TESTS_SUPPORT_SHARED_MEMORY_H
#define GQ_TESTS_SUPPORT_SHARED_MEMORY_H

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace gq::test {

/** `count` zeroed elements, shared by every process forked while it lives. */
template <typename T>
class SharedArray {
  static_assert(std::is_trivially_destructible_v<T>, "no destructor runs across processes");

 public:
  explicit SharedArray(size_t count) : count_(count) {
    void* memory =
        mmap(nullptr, size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
  }
  ~SharedArray() { munmap(data_, size_bytes()); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  T* data() const { return data_; }
  size_t count() const { return count_; }
  T& operator[](size_t index) const { return data_[index]; }

 private:
  // mmap refuses a length of zero.
  size_t size_bytes() const { return (count_ == 0 ? 1 : count_) * sizeof(T); }

  size_t count_;
  T* data_;
};

}  // namespace gq::test

#endif
