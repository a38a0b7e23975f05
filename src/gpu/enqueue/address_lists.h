// Memory for arrays of addresses that kernels read: allocated in a few pieces, which the execution
// plans of many kinds of calls share.
#ifndef GQ_GPU_ENQUEUE_ADDRESS_LISTS_H
#define GQ_GPU_ENQUEUE_ADDRESS_LISTS_H

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "src/gpu/device/buffer.h"

namespace gq {

/** Memory for one array, on the device and, to be copied from, on the host. */
struct AddressList {
  const unsigned char** staged = nullptr;
  const unsigned char** there = nullptr;
  size_t count = 0;
};

class AddressListMemory {
 public:
  explicit AddressListMemory(const Device& device) : device_(device) {}

  /** Makes sure that arrays of `count` addresses in all, in any number, need no more memory. */
  Status reserve(size_t count) {
    for (const auto& block : blocks_) {
      if (block->count - block->used >= count) return Status();
    }
    return add_block(count);
  }

  Status take(size_t count, AddressList* list) {
    const auto fits = [count](const AddressList& left) { return left.count >= count; };
    if (const auto left = std::find_if(left_.begin(), left_.end(), fits); left != left_.end()) {
      *list = *left;
      left_.erase(left);
      return Status();
    }
    Block* block = nullptr;
    for (const auto& known : blocks_) {
      if (known->count - known->used >= count) block = known.get();
    }
    if (block == nullptr) {
      GQ_TRY(add_block(std::max(count, kBlockCount)));
      block = blocks_.back().get();
    }
    *list = {block->staged.as<const unsigned char*>() + block->used,
             block->there.as<const unsigned char*>() + block->used, count};
    block->used += count;
    return Status();
  }

  /** No kernel reads it any more. */
  void give_back(const AddressList& list) {
    if (list.count > 0 && left_.size() < left_.capacity()) left_.push_back(list);
  }

  /** Leaves all of it to a device that may still read it. */
  void forget() {
    for (const auto& block : blocks_) {
      block->staged.forget();
      block->there.forget();
    }
  }

 private:
  static constexpr size_t kBlockCount = 8192;
  static constexpr size_t kLeftMax = 64;

  struct Block {
    PinnedBuffer staged;
    DeviceBuffer there;
    size_t count = 0;
    size_t used = 0;
  };

  Status add_block(size_t count) {
    try {
      left_.reserve(kLeftMax);
      blocks_.reserve(blocks_.size() + 1);
      auto block = std::make_unique<Block>();
      GQ_TRY(block->staged.reserve(device_, count * sizeof(void*)));
      GQ_TRY(block->there.reserve(device_, count * sizeof(void*)));
      block->count = count;
      blocks_.push_back(std::move(block));
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for lists of operands");
    }
    return Status();
  }

  const Device& device_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<AddressList> left_;
};

/** The array of one execution plan, freed at its end. */
class OwnAddressList {
 public:
  OwnAddressList() = default;
  OwnAddressList(OwnAddressList&& other) noexcept { *this = std::move(other); }
  OwnAddressList& operator=(OwnAddressList&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(list_, other.list_);
    return *this;
  }
  ~OwnAddressList() {
    if (memory_ != nullptr) memory_->give_back(list_);
  }

  Status take(AddressListMemory* memory, size_t count) {
    if (memory_ != nullptr) return Status();
    GQ_TRY(memory->take(count, &list_));
    memory_ = memory;
    return Status();
  }
  const AddressList& list() const { return list_; }

 private:
  AddressListMemory* memory_ = nullptr;
  AddressList list_;
};

}  // namespace gq

#endif
