#include "tests/gpu/stages/image.h"

#include <string.h>

#include "tests/gpu/cuda_call.h"
#include "tests/gpu/stages/device_memory.h"

namespace gq::test {
namespace {

constexpr size_t kArenaBytes = 256 << 20;
constexpr size_t kAlignment = 256;
constexpr uint8_t kCanary = 0xCA;

uint8_t* arena() {
  static void* memory = nullptr;
  if (memory == nullptr) done(cudaMalloc(&memory, kArenaBytes));
  return static_cast<uint8_t*>(memory);
}

}  // namespace

Image::Image() : bytes_(kAlignment, kCanary) {}

const void* Image::add(const void* host, size_t size_bytes, void* back) {
  if (host == nullptr) return nullptr;
  for (Part& part : parts_) {
    if (part.host == host && part.size_bytes == size_bytes) {
      if (back != nullptr) part.back = back;
      return arena() + part.offset;
    }
  }
  const size_t offset = bytes_.size() + reinterpret_cast<uintptr_t>(host) % kAlignment;
  const size_t end = (offset + size_bytes + 2 * kAlignment) / kAlignment * kAlignment;
  if (end > kArenaBytes) throw std::runtime_error("a stage call larger than the arena of tests");
  bytes_.resize(end, kCanary);
  if (size_bytes > 0) memcpy(&bytes_[offset], host, size_bytes);
  parts_.push_back({host, back, offset, size_bytes, false});
  return arena() + offset;
}

void* Image::scratch(size_t size_bytes) {
  static const std::vector<uint8_t> canaries(1 << 20, kCanary);
  if (size_bytes > canaries.size()) throw std::runtime_error("scratch larger than in any test");
  const void* const place = add(canaries.data(), size_bytes, nullptr);
  parts_.back().is_scratch = true;
  return const_cast<void*>(place);
}

void Image::run(const std::function<void(void* stream)>& enqueue) {
  const auto stream = static_cast<cudaStream_t>(test_stream());
  std::vector<uint8_t> after(bytes_.size());
  done(cudaMemcpyAsync(arena(), bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice, stream));
  enqueue(stream);
  done(cudaMemcpyAsync(after.data(), arena(), after.size(), cudaMemcpyDeviceToHost, stream));
  done(cudaStreamSynchronize(stream));
  for (const Part& part : parts_) {
    if (part.back != nullptr) memcpy(part.back, &after[part.offset], part.size_bytes);
  }
  check_untouched(after);
}

void Image::check_untouched(const std::vector<uint8_t>& after) const {
  std::vector<uint8_t> expected = bytes_;
  for (const Part& part : parts_) {
    if (part.back == nullptr && !part.is_scratch) continue;
    if (part.size_bytes > 0) memcpy(&expected[part.offset], &after[part.offset], part.size_bytes);
  }
  if (after != expected) throw std::runtime_error("a kernel wrote outside its buffers");
}

}  // namespace gq::test
