#include "tests/gpu/ptx/global_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace gq::ptx {
namespace {

struct Areas {
  std::mutex mutex;
  std::map<uint64_t, Area> by_begin;
  std::atomic<uint64_t> generation{1};  // changes with every area
};

Areas& areas() {
  static Areas* const all = new Areas;
  return *all;
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

std::string sentence(const char* what, uint64_t address, uint64_t size_bytes) {
  char text[160];
  snprintf(text, sizeof text, "%llu bytes at %#llx: %s",
           static_cast<unsigned long long>(size_bytes), static_cast<unsigned long long>(address),
           what);
  return text;
}

/** Null if none has the address. */
const Area* find(const Areas& all, uint64_t address) {
  auto area = all.by_begin.upper_bound(address);
  if (area == all.by_begin.begin()) return nullptr;
  --area;
  return address < area->second.end ? &area->second : nullptr;
}

/** Null where memory is of no area. */
const Area* area_of_span(const Areas& all, const void* begin, size_t size_bytes) {
  const Area* const area = size_bytes == 0 ? nullptr : find(all, number(begin));
  if (area != nullptr && number(begin) + size_bytes > area->end) {
    throw Finding(sentence("beyond the end of an allocation", number(begin), size_bytes));
  }
  return area;
}

}  // namespace

void add_area(const void* begin, size_t size_bytes, Use use) {
  Area area{number(begin), number(begin) + size_bytes, nullptr, nullptr};
  if (use == Use::device) area.written = std::make_shared<test::Zeroed<uint8_t>>(size_bytes);
  const bool ordered = use != Use::host && order_is_checked();
  if (ordered) area.order = std::make_shared<AreaOrder>(size_bytes);
  Areas& all = areas();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.by_begin[area.begin] = std::move(area);
  ++all.generation;
}

void remove_area(const void* begin) {
  Areas& all = areas();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.by_begin.erase(number(begin));
  ++all.generation;
}

void read_span(const void* begin, size_t size_bytes, const Actor& actor) {
  Areas& all = areas();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Area* const area = area_of_span(all, begin, size_bytes);
  if (area == nullptr || !area->order) return;
  area->order->touch(number(begin) - area->begin, size_bytes, false, actor);
}

void write_span(const void* begin, size_t size_bytes, const Actor& actor) {
  Areas& all = areas();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Area* const area = area_of_span(all, begin, size_bytes);
  if (area == nullptr) return;
  const size_t offset = number(begin) - area->begin;
  if (area->written) memset(area->written->data() + offset, 1, size_bytes);
  if (area->order) area->order->touch(offset, size_bytes, true, actor);
}

const void* area_begin(const void* address) {
  Areas& all = areas();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Area* const area = find(all, number(address));
  return area == nullptr ? nullptr : reinterpret_cast<const void*>(area->begin);
}

const Area& Reach::area_of(uint64_t address, uint32_t size_bytes) {
  Areas& all = areas();
  const uint64_t generation = all.generation.load(std::memory_order_acquire);
  if (generation != generation_) known_.clear();
  generation_ = generation;
  for (size_t k = 0; k < known_.size(); ++k) {
    if (address < known_[k].begin || address + size_bytes > known_[k].end) continue;
    if (k > 0) std::swap(known_[0], known_[k]);
    return known_[0];
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Area* const area = find(all, address);
  if (area == nullptr || address + size_bytes > area->end) {
    throw Finding(sentence("outside of all memory", address, size_bytes));
  }
  known_.insert(known_.begin(), *area);
  return known_[0];
}

void* Reach::place(uint64_t address, uint32_t size_bytes, Access access) {
  if (address % size_bytes != 0) throw Finding(sentence("not aligned", address, size_bytes));
  const Area& area = area_of(address, size_bytes);
  const uint64_t offset = address - area.begin;
  uint8_t* const written = area.written ? area.written->data() + offset : nullptr;
  if (written != nullptr && (access == Access::write || access == Access::release)) {
    memset(written, 1, size_bytes);
  } else if (written != nullptr && memchr(written, 0, size_bytes) != nullptr) {
    throw Finding(sentence("read, but was never written", address, size_bytes));
  }
  const bool plain = access == Access::read || access == Access::write;
  if (plain && area.order) area.order->touch(offset, size_bytes, access == Access::write, *actor_);
  return reinterpret_cast<void*>(address);
}

}  // namespace gq::ptx
