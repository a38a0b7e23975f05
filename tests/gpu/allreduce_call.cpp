// Buffers on the device, calls on a stream, results back on the host.
#include "tests/gpu/allreduce_call.h"

#include <memory>

#include "tests/gpu/device_values.h"

namespace gq::test {
namespace {

// What a stream may take to get through once its group is aborted.
constexpr int kAbortedMs = 5000;

/** "" if the stream is through; else it is freed, and memory that it uses can be given back. */
std::string wait(const DeviceQueue& queue, gqsgd_comm comm, int timeout_ms) {
  if (queue.wait(timeout_ms)) return "";
  gqsgd_comm_abort(comm);
  const bool freed = queue.wait(kAbortedMs);
  return "the stream is not through after " + std::to_string(timeout_ms) + " ms" +
         (freed ? "" : ", nor when its group is aborted");
}

}  // namespace

DeviceCalls::DeviceCalls(int rank_count, const std::vector<std::string>& formats,
                         size_t value_count, bool adds_natively)
    : DeviceCalls(gradients(rank_count, value_count, 12)) {
  for (const std::string& format : formats) {
    const bool wide = format.find("paper") != 0 && format != "none";
    for (const int32_t schedule : kSchedules) {
      if (!wide || schedule == GQSGD_SCHEDULE_DIRECT) add(format, schedule);
    }
    const bool one_norm = format.find("block") == std::string::npos;
    if (!wide && one_norm && format != "none") add(format, GQSGD_SCHEDULE_SPARSE);
    const bool exact = format.find("paper-gl8") == 0;
    if (exact && adds_natively) add(format, GQSGD_SCHEDULE_NATIVE);
  }
}

void DeviceCalls::add(const std::string& format, int32_t schedule) {
  Operation call;
  call.quantizer = format;
  call.schedule = schedule;
  call.op = operations_.size() % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
  call.step = operations_.size();
  operations_.push_back(call);
  expected_.push_back(simulate(call, inputs_));
}

DirectCalls::DirectCalls(int rank_count, const std::vector<std::string>& formats,
                         size_t value_count, size_t repeats)
    : DeviceCalls(gradients(rank_count, value_count, 12)) {
  for (size_t k = 0; k < repeats * formats.size(); ++k) {
    add(formats[k % formats.size()], GQSGD_SCHEDULE_DIRECT);
  }
}

std::string DeviceCalls::make_and_compare(int rank, gqsgd_comm comm, int timeout_ms) const {
  const DeviceQueue queue;
  std::string failure;
  std::vector<std::unique_ptr<DeviceValues>> values;
  for (const Operation& call : operations_) {
    const Values& input = inputs_[static_cast<size_t>(rank)];
    values.push_back(std::make_unique<DeviceValues>(input.size()));
    values.back()->put(input, queue);
    const Quantizer quantizer(call.quantizer);
    const uint64_t at[2] = {call.step, call.index};
    float* const place = values.back()->data();
    if (gqsgd_allreduce(comm, quantizer.get(), place, place, input.size(), GQSGD_FLOAT32, call.op,
                        call.schedule, at, queue.get()) != GQSGD_OK) {
      failure = describe(call) + ": " + gqsgd_last_error();
      break;
    }
  }
  const std::string late = wait(queue, comm, timeout_ms);
  if (!late.empty() || !failure.empty()) return failure.empty() ? late : failure;
  for (size_t k = 0; k < values.size() && failure.empty(); ++k) {
    failure = difference(values[k]->values(queue), expected_[k]);
    if (!failure.empty()) failure = describe(operations_[k]) + ": " + failure;
  }
  return failure;
}

ReplayedCall::ReplayedCall(int rank_count, const Operation& operation, size_t value_count)
    : operation_(operation), inputs_(gradients(rank_count, value_count, 13)) {
  for (uint64_t step = 0; step < kSteps; ++step) {
    Operation call = operation;
    call.step = step;
    expected_.push_back(simulate(call, inputs_));
  }
}

std::string ReplayedCall::make_and_compare(int rank, gqsgd_comm comm, StreamGraph* graph,
                                           int timeout_ms) const {
  const Values& input = inputs_[static_cast<size_t>(rank)];
  const Quantizer quantizer(operation_.quantizer);
  const DeviceQueue queue;
  DeviceValues given(input.size()), result(input.size());
  const auto make = [&] {
    const gqsgd_status status =
        gqsgd_allreduce(comm, quantizer.get(), given.data(), result.data(), input.size(),
                        GQSGD_FLOAT32, operation_.op, operation_.schedule, nullptr, queue.get());
    return status == GQSGD_OK ? std::string() : gqsgd_last_error();
  };
  given.put(input, queue);
  std::string failure =
      gqsgd_comm_set_counter(comm, 0) == GQSGD_OK ? make() : std::string(gqsgd_last_error());
  for (uint64_t step = 0; step < kSteps && failure.empty(); ++step) {
    if (step == 1) {
      graph->begin_capture(queue.get());
      failure = make();
      const std::string captured = graph->end_capture(queue.get());
      if (failure.empty()) failure = captured;
      if (!failure.empty()) break;
    }
    if (step == 1 || step == 2) graph->replay(queue.get());
    if (step == 3) failure = make();
    if (failure.empty()) failure = wait(queue, comm, timeout_ms);
    if (failure.empty()) failure = difference(result.values(queue), expected_[step]);
    if (!failure.empty()) failure = "step " + std::to_string(step) + ": " + failure;
  }
  if (failure.empty()) return "";
  gqsgd_comm_abort(comm);
  (void)queue.wait(kAbortedMs);
  return describe(operation_) + ", replayed: " + failure;
}

}  // namespace gq::test
