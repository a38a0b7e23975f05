#include "tests/gpu/ptx/shared_memory.h"

#include <string>

#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

constexpr uint32_t kUnitBytes = 2;  // threads share words by halves, never by bytes
constexpr uint32_t kSeveral = ~0u;
constexpr uint8_t kGarbage = 0xCA;

Finding race(uint32_t other, const char* does) {
  const std::string who =
      other == kSeveral ? "several threads " : "thread " + std::to_string(other) + " ";
  return Finding("a race in shared memory: " + who + does + " the word, no barrier between");
}

}  // namespace

SharedMemory::SharedMemory(uint32_t size_bytes)
    : bytes_(size_bytes, kGarbage), units_((size_bytes + kUnitBytes - 1) / kUnitBytes) {}

uint8_t* SharedMemory::place(uint64_t offset, uint32_t size_bytes, uint32_t thread, Access access) {
  const auto where = [&] {
    return std::to_string(size_bytes) + " bytes at " + std::to_string(offset) + " of shared memory";
  };
  if (offset % size_bytes != 0) throw Finding(where() + ": not aligned");
  if (offset + size_bytes > bytes_.size()) throw Finding(where() + ": there is no such place");
  for (uint64_t at = offset; at < offset + size_bytes; at += kUnitBytes) {
    touch(&units_[at / kUnitBytes], thread, access);
  }
  return &bytes_[offset];
}

void SharedMemory::touch(Unit* unit, uint32_t thread, Access access) {
  const bool written_now = unit->written == phase_, read_now = unit->read == phase_;
  const bool with_others = access == Access::atomic && unit->atomic;
  if (written_now && unit->writer != thread && !with_others) throw race(unit->writer, "wrote");
  if (access != Access::write && unit->written == 0) {
    throw Finding("a word of shared memory is read that was never written");
  }
  if (access == Access::read) {
    unit->reader = read_now && unit->reader != thread ? kSeveral : thread;
    unit->read = phase_;
    return;
  }
  if (read_now && unit->reader != thread) throw race(unit->reader, "read");
  unit->written = phase_;
  unit->writer =
      access == Access::atomic && written_now && unit->writer != thread ? kSeveral : thread;
  unit->atomic = access == Access::atomic;
}

}  // namespace gq::ptx
