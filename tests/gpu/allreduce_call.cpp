// Buffers on the device, calls on a stream, results back on the host.
#include "tests/gpu/allreduce_call.h"

#include <memory>

#include "tests/gpu/cuda_call.h"

namespace gq::test {
namespace {

/** Values on the device for as long as it lives. */
class DeviceValues {
 public:
  DeviceValues(const Values& values, cudaStream_t stream) : size_bytes_(4 * values.size()) {
    done(cudaMalloc(&memory_, size_bytes_));
    done(cudaMemcpyAsync(memory_, values.data(), size_bytes_, cudaMemcpyHostToDevice, stream));
    done(cudaStreamSynchronize(stream));
  }
  ~DeviceValues() { (void)cudaFree(memory_); }
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;

  float* data() const { return static_cast<float*>(memory_); }
  Values values(cudaStream_t stream) const {
    Values copy(size_bytes_ / 4);
    done(cudaMemcpyAsync(copy.data(), memory_, size_bytes_, cudaMemcpyDeviceToHost, stream));
    done(cudaStreamSynchronize(stream));
    return copy;
  }

 private:
  size_t size_bytes_;
  void* memory_ = nullptr;
};

}  // namespace

DeviceCalls::DeviceCalls(int rank_count, const std::vector<std::string>& formats,
                         size_t value_count)
    : inputs_(gradients(rank_count, value_count, 12)) {
  for (const std::string& format : formats) {
    const bool wide = format.find("paper") != 0 && format != "none";
    for (const int32_t schedule : kSchedules) {
      if (wide && schedule != GQSGD_SCHEDULE_DIRECT) continue;
      Operation call;
      call.quantizer = format;
      call.schedule = schedule;
      call.op = operations_.size() % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
      call.step = operations_.size();
      operations_.push_back(call);
      expected_.push_back(simulate(call, inputs_));
    }
  }
}

std::string DeviceCalls::make_and_compare(int rank, gqsgd_comm comm) const {
  cudaStream_t stream = nullptr;
  done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::string failure;
  std::vector<std::unique_ptr<DeviceValues>> values;
  for (const Operation& call : operations_) {
    values.push_back(std::make_unique<DeviceValues>(inputs_[static_cast<size_t>(rank)], stream));
    const Quantizer quantizer(call.quantizer);
    const uint64_t at[2] = {call.step, call.index};
    float* const place = values.back()->data();
    if (gqsgd_allreduce(comm, quantizer.get(), place, place, inputs_[0].size(), GQSGD_FLOAT32,
                        call.op, call.schedule, at, stream) != GQSGD_OK) {
      failure = describe(call) + ": " + gqsgd_last_error();
      break;
    }
  }
  for (size_t k = 0; k < values.size() && failure.empty(); ++k) {
    failure = difference(values[k]->values(stream), expected_[k]);
    if (!failure.empty()) failure = describe(operations_[k]) + ": " + failure;
  }
  done(cudaStreamSynchronize(stream));
  done(cudaStreamDestroy(stream));
  return failure;
}

}  // namespace gq::test
