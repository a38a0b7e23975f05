// Arrays that kernels read, of operands' addresses and of the pieces of batches: allocated in a few
// pieces, which the execution plans of many kinds of calls share.
#ifndef GQ_GPU_ENQUEUE_PLAN_OPERAND_ADDRESSES_H
#define GQ_GPU_ENQUEUE_PLAN_OPERAND_ADDRESSES_H

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "src/gpu/device/buffer.h"

namespace gq {

/** Memory for one array, on the device and, to be copied from or to know what is there, on the
 *  host. */
struct AddressArray {
  const unsigned char** staged = nullptr;
  const unsigned char** on_device = nullptr;
  size_t count = 0;
};

class AddressMemory {
 public:
  explicit AddressMemory(const Device& device) : device_(device) {}

  /** Makes sure that arrays of `count` addresses in all, in any number, need no more memory. */
  Status reserve(size_t count) {
    for (const auto& block : blocks_) {
      if (block->count - block->used >= count) return Status();
    }
    return add_block(count);
  }

  Status take(size_t count, AddressArray* array) {
    const auto fits = [count](const AddressArray& free) { return free.count >= count; };
    if (const auto found = std::find_if(free_.begin(), free_.end(), fits); found != free_.end()) {
      *array = *found;
      free_.erase(found);
      return Status();
    }
    Block* block = nullptr;
    for (const auto& one : blocks_) {
      if (one->count - one->used >= count) block = one.get();
    }
    if (block == nullptr) {
      GQ_TRY(add_block(std::max(count, kBlockCount)));
      block = blocks_.back().get();
    }
    *array = {block->staged.as<const unsigned char*>() + block->used,
              block->on_device.as<const unsigned char*>() + block->used, count};
    block->used += count;
    return Status();
  }

  /** No kernel reads it any more. */
  void give_back(const AddressArray& array) {
    if (array.count > 0 && free_.size() < free_.capacity()) free_.push_back(array);
  }

  /** Leaves all of it to a device that may still read it. */
  void forget() {
    for (const auto& block : blocks_) {
      block->staged.forget();
      block->on_device.forget();
    }
  }

 private:
  static constexpr size_t kBlockCount = 8192;
  static constexpr size_t kFreeMax = 64;

  struct Block {
    PinnedBuffer staged;
    DeviceBuffer on_device;
    size_t count = 0;
    size_t used = 0;
  };

  Status add_block(size_t count) {
    try {
      free_.reserve(kFreeMax);
      blocks_.reserve(blocks_.size() + 1);
      auto block = std::make_unique<Block>();
      GQ_TRY(block->staged.reserve(device_, count * sizeof(void*)));
      GQ_TRY(block->on_device.reserve(device_, count * sizeof(void*)));
      block->count = count;
      blocks_.push_back(std::move(block));
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for addresses of operands");
    }
    return Status();
  }

  const Device& device_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<AddressArray> free_;
};

/** The array of one execution plan, given back at its end. */
class OperandAddresses {
 public:
  OperandAddresses() = default;
  OperandAddresses(OperandAddresses&& other) noexcept { *this = std::move(other); }
  OperandAddresses& operator=(OperandAddresses&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(array_, other.array_);
    return *this;
  }
  ~OperandAddresses() {
    if (memory_ != nullptr) memory_->give_back(array_);
  }

  Status take(AddressMemory* memory, size_t count) {
    if (memory_ != nullptr) return Status();
    GQ_TRY(memory->take(count, &array_));
    memory_ = memory;
    return Status();
  }
  const AddressArray& get() const { return array_; }

 private:
  AddressMemory* memory_ = nullptr;
  AddressArray array_;
};

}  // namespace gq

#endif
