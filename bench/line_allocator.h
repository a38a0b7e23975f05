// Memory that begins a cache line, as that of tensors does in PyTorch and JAX.
#ifndef GQ_BENCH_LINE_ALLOCATOR_H
#define GQ_BENCH_LINE_ALLOCATOR_H

#include <cstddef>
#include <new>
#include <vector>

namespace gq::bench {

template <typename Element>
struct LineAllocator {
  using value_type = Element;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <typename Other>
  LineAllocator(const LineAllocator<Other>&) {}

  Element* allocate(size_t count) {
    return static_cast<Element*>(operator new(count * sizeof(Element), kLine));
  }
  void deallocate(Element* memory, size_t) { operator delete(memory, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};

template <typename Element>
using LineVector = std::vector<Element, LineAllocator<Element>>;

}  // namespace gq::bench

#endif
