// Instructions that read and write memory.
#include <sstream>
#include <vector>

#include "tests/gpu/ptx/block.h"
#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

enum class Space { global, shared, parameter };
enum class Order { plain, relaxed, ordered };

/** Of the thread at hand. */
uint64_t address_of(const Instruction& made, Warp& warp) {
  return read<uint64_t>(warp, made.in[0], warp.thread) + static_cast<uint64_t>(made.offset);
}

template <Space kSpace>
uint8_t* place_of(uint64_t address, Warp& warp, uint32_t size_bytes, Access access) {
  if constexpr (kSpace == Space::shared) {  // where addresses have 32 bits
    return warp.block->shared().place(static_cast<uint32_t>(address), size_bytes,
                                      warp.first + warp.thread, access);
  } else if constexpr (kSpace == Space::parameter) {
    std::vector<uint8_t>& all = warp.block->launch().parameters;
    if (address + size_bytes > all.size()) throw Finding("beyond the parameters");
    return &all[address];
  } else {
    Reach& reach = warp.block->launch().reach;
    return static_cast<uint8_t*>(reach.place(address, size_bytes, access));
  }
}

template <Space kSpace>
void count(bool loads, const Instruction& made, Warp& warp, Mask threads, uint32_t size_bytes) {
  TrafficCounter& traffic = warp.block->launch().traffic;
  if (kSpace == Space::parameter || !traffic.counts()) return;
  uint64_t address[kWarp] = {};
  for_each(threads, [&](uint32_t thread) {
    warp.thread = thread;
    address[thread] = address_of(made, warp);
  });
  if constexpr (kSpace == Space::shared) {
    traffic.shared(address, threads, size_bytes);
  } else {
    traffic.global(loads, address, threads, size_bytes);
  }
}

template <typename Word, Space kSpace, Order kOrder>
void load(const Instruction& made, Warp& warp, Mask threads) {
  const uint32_t size_bytes = sizeof(Word) * made.value_count;
  count<kSpace>(true, made, warp, threads, size_bytes);
  constexpr bool kChecksThreads = kSpace == Space::shared;  // else one look at a place is for all
  uint64_t last = 0;
  const uint8_t* from = nullptr;
  for_each(threads, [&](uint32_t thread) {
    warp.thread = thread;
    constexpr Access kAccess = kOrder == Order::plain ? Access::read : Access::acquire;
    const uint64_t address = address_of(made, warp);
    if (kChecksThreads || from == nullptr || address != last) {
      from = place_of<kSpace>(address, warp, size_bytes, kAccess);
      last = address;
    }
    for (uint32_t k = 0; k < made.value_count; ++k) {
      const auto* const place = reinterpret_cast<const Word*>(from + k * sizeof(Word));
      Word word;
      if constexpr (kOrder == Order::plain) {
        memcpy(&word, place, sizeof word);
      } else {
        word =
            __atomic_load_n(place, kOrder == Order::relaxed ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE);
      }
      write(warp, made.out[k], thread, word);
    }
    Actor* const actor = &warp.block->launch().reach.actor();
    if constexpr (kOrder == Order::ordered) acquire(address, actor);
    if constexpr (kOrder == Order::relaxed) poll(address, actor);
  });
}

template <typename Word, Space kSpace, Order kOrder>
void store(const Instruction& made, Warp& warp, Mask threads) {
  const uint32_t size_bytes = sizeof(Word) * made.value_count;
  count<kSpace>(false, made, warp, threads, size_bytes);
  for_each(threads, [&](uint32_t thread) {
    warp.thread = thread;
    constexpr Access kAccess = kOrder == Order::plain ? Access::write : Access::release;
    const uint64_t address = address_of(made, warp);
    uint8_t* const to = place_of<kSpace>(address, warp, size_bytes, kAccess);
    if constexpr (kOrder == Order::ordered) {
      release(address, &warp.block->launch().reach.actor());
    }
    for (uint32_t k = 0; k < made.value_count; ++k) {
      auto* const place = reinterpret_cast<Word*>(to + k * sizeof(Word));
      const Word word = read<Word>(warp, made.in[1 + k], thread);
      if constexpr (kOrder == Order::plain) {
        memcpy(place, &word, sizeof word);
      } else {
        __atomic_store_n(place, word,
                         kOrder == Order::relaxed ? __ATOMIC_RELAXED : __ATOMIC_RELEASE);
      }
    }
  });
}

uint32_t swapped_for_greatest(uint32_t* place, uint32_t value) {
  uint32_t before = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (before < value && !__atomic_compare_exchange_n(place, &before, value, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}
uint32_t swapped_for_sum(uint32_t* place, uint32_t value) {
  return __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
}

uint32_t swapped(uint32_t* place, uint32_t value) {
  return __atomic_exchange_n(place, value, __ATOMIC_RELAXED);
}

template <Space kSpace, uint32_t (*kChange)(uint32_t* place, uint32_t value)>
void change(const Instruction& made, Warp& warp, Mask threads) {
  for_each(threads, [&](uint32_t thread) {
    warp.thread = thread;
    auto* const place = reinterpret_cast<uint32_t*>(
        place_of<kSpace>(address_of(made, warp), warp, sizeof(uint32_t), Access::atomic));
    write(warp, made.out[0], thread, kChange(place, read<uint32_t>(warp, made.in[1], thread)));
  });
}

/** Orders nothing else. */
void compare_and_swap_relaxed(const Instruction& made, Warp& warp, Mask threads) {
  for_each(threads, [&](uint32_t thread) {
    warp.thread = thread;
    auto* const place = reinterpret_cast<uint32_t*>(
        place_of<Space::global>(address_of(made, warp), warp, sizeof(uint32_t), Access::atomic));
    uint32_t expected = read<uint32_t>(warp, made.in[1], thread);
    __atomic_compare_exchange_n(place, &expected, read<uint32_t>(warp, made.in[2], thread), false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    write(warp, made.out[0], thread, expected);
  });
}

void compare_and_swap(const Instruction& made, Warp& warp, Mask threads) {
  for_each(threads, [&](uint32_t thread) {
    warp.thread = thread;
    const uint64_t address = address_of(made, warp);
    auto* const place = reinterpret_cast<uint64_t*>(
        place_of<Space::global>(address, warp, sizeof(uint64_t), Access::atomic));
    Actor* const actor = &warp.block->launch().reach.actor();
    acquire(address, actor);
    release(address, actor);
    uint64_t expected = read<uint64_t>(warp, made.in[1], thread);
    __atomic_compare_exchange_n(place, &expected, read<uint64_t>(warp, made.in[2], thread), false,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    write(warp, made.out[0], thread, expected);
  });
}

template <typename Word, Space kSpace, Order kOrder>
Operation moved(bool loads) {
  return loads ? load<Word, kSpace, kOrder> : store<Word, kSpace, kOrder>;
}

template <Space kSpace, Order kOrder>
Operation of_size(bool loads, const std::string& type) {
  const std::string bits = type.substr(1);
  if (type[0] == 's' && loads) return nullptr;  // would spread signs
  if (bits == "8" && kOrder == Order::plain) return moved<uint8_t, kSpace, Order::plain>(loads);
  if (bits == "16" && kOrder == Order::plain) return moved<uint16_t, kSpace, Order::plain>(loads);
  if (bits == "32") return moved<uint32_t, kSpace, kOrder>(loads);
  if (bits == "64") return moved<uint64_t, kSpace, kOrder>(loads);
  return nullptr;
}

/** ld.global.nc.u32 and the like, part by part. */
Operation find_move(const std::string& name) {
  std::istringstream parts(name);
  std::string part, type;
  std::getline(parts, part, '.');
  const bool loads = part == "ld";
  Space space = Space::global;  // or no kind: shared memory is never meant
  Order order = Order::plain;
  while (std::getline(parts, part, '.')) {
    if (part == "shared") space = Space::shared;
    if (part == "param") space = Space::parameter;
    if (part == "volatile" || part == "relaxed") order = Order::relaxed;
    if (part == "acquire" || part == "release") order = Order::ordered;
    type = part;
  }
  if (space == Space::parameter && !loads) return nullptr;
  if (order != Order::plain && space != Space::global) return nullptr;
  if (space == Space::shared) return of_size<Space::shared, Order::plain>(loads, type);
  if (space == Space::parameter) return of_size<Space::parameter, Order::plain>(loads, type);
  if (order == Order::relaxed) return of_size<Space::global, Order::relaxed>(loads, type);
  if (order == Order::ordered) return of_size<Space::global, Order::ordered>(loads, type);
  return of_size<Space::global, Order::plain>(loads, type);
}

}  // namespace

Operation find_access(const std::string& name) {
  if (name.rfind("ld.", 0) == 0 || name.rfind("st.", 0) == 0) return find_move(name);
  if (name == "atom.shared.max.u32") return change<Space::shared, swapped_for_greatest>;
  if (name == "atom.shared.add.u32") return change<Space::shared, swapped_for_sum>;
  if (name == "atom.global.max.u32") return change<Space::global, swapped_for_greatest>;
  if (name == "atom.global.add.u32") return change<Space::global, swapped_for_sum>;
  if (name == "atom.global.exch.b32") return change<Space::global, swapped>;
  if (name == "atom.global.cas.b32") return compare_and_swap_relaxed;
  if (name == "atom.acq_rel.gpu.cas.b64") return compare_and_swap;
  return nullptr;
}

}  // namespace gq::ptx
