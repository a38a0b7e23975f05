// Running one operation through the C ABI, and comparing its bits.
#include "tests/support/operation.h"

#include <gqsgd_model.h>

#include <cstdio>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr size_t kGuardCount = 7;  // Odd, so that results are aligned to elements and no more.
constexpr float kGuard = -1234.5f;

void require_ok(gqsgd_status status, const std::string& what) {
  const std::string failure = failure_of(status, what.c_str());
  if (!failure.empty()) throw std::runtime_error(failure);
}

/** A result buffer between guards. */
class GuardedValues {
 public:
  explicit GuardedValues(size_t value_count)
      : value_count_(value_count), all_(value_count + 2 * kGuardCount, kGuard) {}
  float* data() { return all_.data() + kGuardCount; }
  Values values() { return Values(data(), data() + value_count_); }
  bool intact() const {
    for (size_t i = 0; i < kGuardCount; ++i) {
      if (all_[i] != kGuard || all_[all_.size() - 1 - i] != kGuard) return false;
    }
    return true;
  }

 private:
  size_t value_count_;
  Values all_;
};

void run_simulation(const Operation& operation, const std::vector<const void*>& send,
                    const std::vector<void*>& recv, size_t value_count,
                    const std::string& options) {
  const Quantizer quantizer(operation.quantizer);
  require_ok(gqsgd_simulate(quantizer.get(), static_cast<int32_t>(send.size()), send.data(),
                            recv.data(), value_count, GQSGD_FLOAT32, operation.op,
                            config_of(operation), options.c_str()),
             "gqsgd_simulate of " + describe(operation));
}

std::string lengths_of(const std::vector<size_t>& counts) {
  std::string all = counts.empty() ? "" : ", tensors of";
  for (size_t k = 0; k < counts.size() && k < 20; ++k) {
    all.append(" ").append(std::to_string(counts[k]));
  }
  return all;
}

/** Rank 0's result, on host memory. */
Values make_on_threads(const Operation& operation, const std::vector<Values>& inputs) {
  Values result(inputs[0].size());
  const std::string failures =
      run_threads(static_cast<int>(inputs.size()), "", [&](int rank, gqsgd_comm comm) {
        const Values& input = inputs[static_cast<size_t>(rank)];
        Values made(input.size());
        const gqsgd_status status = enqueue(comm, operation, input.data(), made.data(),
                                            input.size(), config_of(operation), nullptr);
        if (rank == 0) result = made;
        return failure_of(status, "the call on host memory");
      });
  if (!failures.empty()) throw std::runtime_error(describe(operation) + ": " + failures);
  return result;
}

}  // namespace

const char* schedule_name(gqsgd_schedule schedule) {
  switch (schedule) {
    case GQSGD_SCHEDULE_RING:
      return "ring";
    case GQSGD_SCHEDULE_TREE:
      return "tree";
    case GQSGD_SCHEDULE_BUTTERFLY:
      return "butterfly";
    case GQSGD_SCHEDULE_DIRECT:
      return "direct";
    case GQSGD_SCHEDULE_HIERARCHICAL:
      return "hierarchical";
    case GQSGD_SCHEDULE_NATIVE:
      return "native";
    case GQSGD_SCHEDULE_SPARSE:
      return "sparse";
    default:
      return "another schedule";
  }
}

std::string nodes_option(const std::vector<int32_t>& node_ids) {
  std::string options;
  for (const int32_t id : node_ids) {
    options += (options.empty() ? "nodes=" : ":") + std::to_string(static_cast<uint32_t>(id));
  }
  return options;
}

std::vector<int32_t> uneven_nodes(int rank_count) {
  std::vector<int32_t> node_ids;
  for (int rank = 0; rank < rank_count; ++rank) node_ids.push_back(rank * rank % 3);
  return node_ids;
}

Config config_of(const Operation& operation) {
  return config_at(operation.step, operation.index, operation.schedule);
}

std::string describe(const Operation& operation) {
  return operation.quantizer + " " + schedule_name(operation.schedule) +
         (operation.op == GQSGD_MEAN ? " mean" : " sum") + (operation.in_place ? " in place" : "") +
         (operation.at_device ? ", on the device at " : ", at ") + std::to_string(operation.step) +
         "." + std::to_string(operation.index) + lengths_of(operation.counts);
}

size_t total_of(const std::vector<size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

Quantizer::Quantizer(const std::string& spec) {
  require_ok(gqsgd_quantizer_create(spec.c_str(), &handle_), "gqsgd_quantizer_create " + spec);
}

Quantizer::~Quantizer() { gqsgd_quantizer_destroy(handle_); }

gqsgd_status enqueue(gqsgd_comm comm, const Operation& operation, const float* send, float* recv,
                     size_t value_count, const Config& config, void* stream) {
  const Quantizer quantizer(operation.quantizer);
  if (!operation.in_list && operation.counts.empty()) {
    return gqsgd_allreduce(comm, quantizer.get(), send, recv, value_count, GQSGD_FLOAT32,
                           operation.op, config, stream);
  }
  std::vector<size_t> counts = operation.counts;
  if (counts.empty()) counts = {value_count};
  std::vector<const void*> sends;
  std::vector<void*> recvs;
  for (size_t k = 0, offset = 0; k < counts.size(); offset += counts[k++]) {
    sends.push_back(send + offset);
    recvs.push_back(recv + offset);
  }
  return gqsgd_allreduce_many(comm, quantizer.get(), sends.data(), recvs.data(), counts.data(),
                              counts.size(), GQSGD_FLOAT32, operation.op, config, stream);
}

std::vector<Values> simulate_all(const Operation& operation, const std::vector<Values>& inputs,
                                 const std::string& options) {
  std::vector<Values> results(inputs);
  std::vector<const void*> send;
  std::vector<void*> recv;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    send.push_back(operation.in_place ? results[rank].data() : inputs[rank].data());
    recv.push_back(results[rank].data());
  }
  run_simulation(operation, send, recv, inputs[0].size(), options);
  return results;
}

Values simulate(const Operation& operation, const std::vector<Values>& inputs,
                const std::string& options) {
  if (!operation.counts.empty()) return make_on_threads(operation, inputs);
  Values result(inputs[0].size());
  std::vector<const void*> send;
  for (const Values& values : inputs) send.push_back(values.data());
  std::vector<void*> recv(inputs.size(), nullptr);
  recv[0] = result.data();
  run_simulation(operation, send, recv, result.size(), options);
  return result;
}

std::string allreduce(gqsgd_comm comm, const Operation& operation, const Values& input,
                      Values* result, bool use_counter) {
  const Quantizer quantizer(operation.quantizer);
  Values send = input;
  GuardedValues recv(input.size());
  if (operation.in_place && !input.empty()) {
    std::memcpy(recv.data(), input.data(), input.size() * sizeof(float));
  }
  const Config config = use_counter ? config_of(operation.schedule) : config_of(operation);
  const gqsgd_status status =
      gqsgd_allreduce(comm, quantizer.get(), operation.in_place ? recv.data() : send.data(),
                      recv.data(), input.size(), GQSGD_FLOAT32, operation.op, config, nullptr);
  if (status != GQSGD_OK) return failure_of(status, describe(operation).c_str());
  *result = recv.values();
  if (!recv.intact()) return describe(operation) + ": wrote outside the result";
  const std::string change = difference(send, input);
  return change.empty() ? "" : describe(operation) + ": the input was changed: " + change;
}

std::string difference(const Values& result, const Values& expected) {
  if (result.size() != expected.size()) return "the counts differ";
  for (size_t e = 0; e < result.size(); ++e) {
    uint32_t got, want;
    std::memcpy(&got, &result[e], sizeof got);
    std::memcpy(&want, &expected[e], sizeof want);
    if (got == want) continue;
    char text[128];
    std::snprintf(text, sizeof text, "value %zu of %zu is %.9g (%08x), expected %.9g (%08x)", e,
                  result.size(), result[e], got, expected[e], want);
    return text;
  }
  return "";
}

}  // namespace gq::test
