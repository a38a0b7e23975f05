#include "tests/gpu/ptx/shared_memory.h"

#include <string>

#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

constexpr uint32_t kWordBytes = 2;  // a half word: threads share words by halves
constexpr uint32_t kSeveral = ~0u;
constexpr uint8_t kGarbage = 0xCA;

Finding race(uint32_t other, const char* does) {
  const std::string who =
      other == kSeveral ? "several threads " : "thread " + std::to_string(other) + " ";
  return Finding("a race in shared memory: " + who + does + " the word, no barrier between");
}

}  // namespace

SharedMemory::SharedMemory(uint32_t size_bytes)
    : bytes_(size_bytes, kGarbage), words_((size_bytes + kWordBytes - 1) / kWordBytes) {}

uint8_t* SharedMemory::place(uint64_t offset, uint32_t size_bytes, uint32_t thread, Access access) {
  const auto where = [&] {
    return std::to_string(size_bytes) + " bytes at " + std::to_string(offset) + " of shared memory";
  };
  if (offset % size_bytes != 0) throw Finding(where() + ": not aligned");
  if (offset + size_bytes > bytes_.size()) throw Finding(where() + ": there is no such place");
  for (uint64_t at = offset; at < offset + size_bytes; at += kWordBytes) {
    touch(&words_[at / kWordBytes], thread, access);
  }
  return &bytes_[offset];
}

bool SharedMemory::is_ordered(const Touch& before, uint32_t thread) const {
  if (before.phase != phase_) return true;
  const uint32_t warp = thread / kWarpThreads;
  return before.warp == warp && before.warp_phase != warp_phases_[warp];
}

void SharedMemory::note(Touch* touch, uint32_t thread, bool together) const {
  const uint32_t warp = thread / kWarpThreads;
  const bool beside_others = together && touch->thread != thread;
  touch->warp = together && touch->warp != warp ? kSeveral : warp;
  touch->thread = beside_others ? kSeveral : thread;
  touch->phase = phase_;
  touch->warp_phase = warp_phases_[warp];
}

void SharedMemory::touch(Word* word, uint32_t thread, Access access) {
  Touch &written = word->written, &read = word->read;
  const bool written_now = !is_ordered(written, thread), read_now = !is_ordered(read, thread);
  const bool with_others = access == Access::atomic && word->atomic;
  if (written_now && written.thread != thread && !with_others) throw race(written.thread, "wrote");
  if (access != Access::write && written.phase == 0) {
    throw Finding("a word of shared memory is read that was never written");
  }
  if (access == Access::read) return note(&read, thread, read_now);
  if (read_now && read.thread != thread) throw race(read.thread, "read");
  note(&written, thread, access == Access::atomic && written_now);
  word->atomic = access == Access::atomic;
}

}  // namespace gq::ptx
