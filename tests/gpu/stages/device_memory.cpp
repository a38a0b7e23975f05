// Memory and the stream of the real device under test.
#include "tests/gpu/stages/device_memory.h"

#include "tests/gpu/cuda_call.h"

namespace gq::test {

DeviceBytes::DeviceBytes(const std::vector<uint8_t>& bytes, size_t offset_bytes)
    : size_bytes_(bytes.size()), offset_bytes_(offset_bytes) {
  void* memory = nullptr;
  done(cudaMalloc(&memory, offset_bytes + size_bytes_ + 1));
  memory_ = std::shared_ptr<uint8_t>(static_cast<uint8_t*>(memory),
                                     [](uint8_t* freed) { (void)cudaFree(freed); });
  done(cudaMemcpy(data(), bytes.data(), size_bytes_, cudaMemcpyHostToDevice));
}

std::vector<uint8_t> DeviceBytes::bytes() const {
  std::vector<uint8_t> copy(size_bytes_);
  done(cudaStreamSynchronize(static_cast<cudaStream_t>(test_stream())));
  done(cudaMemcpy(copy.data(), data(), size_bytes_, cudaMemcpyDeviceToHost));
  return copy;
}

void* test_stream() {
  static cudaStream_t stream = nullptr;
  if (stream == nullptr) done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

}  // namespace gq::test
