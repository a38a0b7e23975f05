// Handles as tokens: index, generation and type in 64 bits. A token is looked up, never
// dereferenced, so that a stale, foreign or invented one is an error and not a crash.
#ifndef GQ_API_HANDLES_H
#define GQ_API_HANDLES_H

#include <stdint.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "src/support/posix/fork.h"
#include "src/support/status.h"

namespace gq {

enum class HandleType : uint8_t { communicator = 0xC5, quantizer = 0x9B, request = 0x5E };

/** The objects of one type that are alive. A looked-up object stays alive while it is used, even if
 *  another thread destroys its handle meanwhile. */
template <typename Object, HandleType kType>
class HandleTable {
 public:
  HandleTable() { hold_across_fork(&mutex_); }

  /** 0 if memory is short. */
  uintptr_t add(std::shared_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty() && !add_slot()) return 0;
    const uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = *slot_at(index);
    slot.object = std::move(object);
    const uintptr_t token = token_of(index, slot.generation);
    slot.token.store(token, std::memory_order_release);
    return token;
  }

  std::shared_ptr<Object> find(uintptr_t token) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot* slot = slot_of(token);
    return slot == nullptr ? nullptr : slot->object;
  }

  /** The same without a lock and without a share, for signal handlers too: remove() does not return
   *  the object before **shared_accesses, which this adds 1 to, is back at 0. Null, and nothing to
   * give back, if there is no such object. */
  Object* access(uintptr_t token, std::atomic<uint32_t>** shared_accesses) {
    Slot* slot = slot_at(static_cast<uint32_t>(token));
    if (slot == nullptr || token == 0) return nullptr;
    // In one order with remove(), which changes the token before it looks at the count: either it
    // sees this one, or this one sees its change.
    slot->shared_accesses.fetch_add(1, std::memory_order_seq_cst);
    if (slot->token.load(std::memory_order_seq_cst) == token) {
      *shared_accesses = &slot->shared_accesses;
      return slot->object.get();
    }
    slot->shared_accesses.fetch_sub(1, std::memory_order_release);
    return nullptr;
  }

  /** The object leaves the table once no thread has shared access to it; its handle is stale from
   *  now on. Null if another thread has taken it. */
  std::shared_ptr<Object> remove(uintptr_t token) {
    Slot* slot = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      slot = slot_of(token);
      if (slot == nullptr) return nullptr;
      slot->token.store(0, std::memory_order_seq_cst);
    }
    // No new access begins, and those under way do not wait. This thread sleeps, which lets a
    // thread of lower priority finish.
    while (slot->shared_accesses.load(std::memory_order_seq_cst) != 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(10));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<Object> object = std::move(slot->object);
    slot->generation = slot->generation % kGenerationMax + 1;
    free_.push_back(static_cast<uint32_t>(token));
    return object;
  }

 private:
  struct Slot {
    std::atomic<uintptr_t> token{0};  ///< of what it holds now; 0 for nothing
    std::atomic<uint32_t> shared_accesses{0};
    uint32_t generation = 1;
    std::shared_ptr<Object> object;
  };
  static_assert(std::atomic<uintptr_t>::is_always_lock_free, "for signal handlers");
  static constexpr uint32_t kGenerationMax = 0xffffff;

  // Slots stay where they are: chunk k has 64 * 2^k of them.
  static constexpr uint64_t kFirstChunk = 64;
  static constexpr int kChunks = 27;

  static uintptr_t token_of(uint32_t index, uint32_t generation) {
    return static_cast<uintptr_t>(kType) << 56 | static_cast<uintptr_t>(generation) << 32 | index;
  }

  static int chunk_of(uint32_t index) { return std::bit_width((index + kFirstChunk) >> 6) - 1; }

  /** Null where there is none. */
  Slot* slot_at(uint32_t index) const {
    const int chunk = chunk_of(index);
    Slot* const slots = chunks_[chunk].load(std::memory_order_acquire);
    return slots == nullptr ? nullptr : slots + (index + kFirstChunk - (kFirstChunk << chunk));
  }

  Slot* slot_of(uintptr_t token) const {
    Slot* const slot = token == 0 ? nullptr : slot_at(static_cast<uint32_t>(token));
    return slot != nullptr && slot->token.load(std::memory_order_relaxed) == token ? slot : nullptr;
  }

  /** With the lock. False if memory is short. */
  bool add_slot() {
    std::atomic<Slot*>& chunk = chunks_[chunk_of(slot_count_)];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      Slot* const slots = new (std::nothrow) Slot[kFirstChunk << chunk_of(slot_count_)];
      if (slots == nullptr) return false;
      chunk.store(slots, std::memory_order_release);
    }
    try {
      free_.reserve(slot_count_ + 1);  // so that remove() cannot fail
    } catch (const std::bad_alloc&) {
      return false;
    }
    free_.push_back(slot_count_++);
    return true;
  }

  std::mutex mutex_;
  std::atomic<Slot*> chunks_[kChunks] = {};
  uint32_t slot_count_ = 0;
  std::vector<uint32_t> free_;
};

static_assert(sizeof(uintptr_t) == 8, "tokens need 64 bits");

}  // namespace gq

#endif
