// Handles as tokens: index, generation and type in 64 bits. A token is looked up, never
// dereferenced, so that a stale, foreign or invented one is an error and not a crash.
#ifndef GQ_API_HANDLES_H
#define GQ_API_HANDLES_H

#include <stdint.h>

#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "src/support/status.h"

namespace gq {

enum class HandleType : uint8_t { communicator = 0xC5, quantizer = 0x9B, request = 0x5E };

/** Registers both locks of a table around fork(), so that a child never inherits one that is held.
 */
void hold_across_fork(std::mutex* mutex);

/** The objects of one type that are alive. A looked-up object stays alive while it is used, even if
 *  another thread destroys its handle meanwhile. */
template <typename Object, HandleType kType>
class HandleTable {
 public:
  HandleTable() { hold_across_fork(&mutex_); }

  /** 0 if memory is short. */
  uintptr_t add(std::shared_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
      if (free_.empty()) {
        slots_.emplace_back();
        free_.reserve(slots_.size());  // so that remove() cannot fail
        free_.push_back(static_cast<uint32_t>(slots_.size() - 1));
      }
    } catch (const std::bad_alloc&) {
      return 0;
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    slots_[index].object = std::move(object);
    return token_of(index, slots_[index].generation);
  }

  std::shared_ptr<Object> find(uintptr_t token) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = slot_of(token);
    return slot == nullptr ? nullptr : slot->object;
  }

  /** The same without a share in it: note(object) is called before another thread can take it out,
   *  and says that it may not end yet. */
  template <typename Note>
  Object* find_and(uintptr_t token, Note note) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = slot_of(token);
    if (slot == nullptr) return nullptr;
    note(*slot->object);
    return slot->object.get();
  }

  /** The object leaves the table; its handle is stale from now on. */
  std::shared_ptr<Object> remove(uintptr_t token) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = slot_of(token);
    if (slot == nullptr) return nullptr;
    std::shared_ptr<Object> object = std::move(slot->object);
    slot->generation = (slot->generation + 1) & kGenerationMask;
    free_.push_back(static_cast<uint32_t>(slot - slots_.data()));
    return object;
  }

 private:
  struct Slot {
    std::shared_ptr<Object> object;
    uint32_t generation = 1;
  };
  static constexpr uint32_t kGenerationMask = 0xffffff;

  static uintptr_t token_of(uint32_t index, uint32_t generation) {
    return static_cast<uintptr_t>(kType) << 56 | static_cast<uintptr_t>(generation) << 32 | index;
  }

  Slot* slot_of(uintptr_t token) {
    const uint32_t index = static_cast<uint32_t>(token);
    if (index >= slots_.size() || !slots_[index].object) return nullptr;
    return token_of(index, slots_[index].generation) == token ? &slots_[index] : nullptr;
  }

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

static_assert(sizeof(uintptr_t) == 8, "tokens need 64 bits");

}  // namespace gq

#endif
