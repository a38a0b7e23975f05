#include "tests/api/elastic/simulated_allreduce.h"

#include <gqsgd_model.h>

#include <vector>

#include "tests/support/operation.h"

namespace gq::test {
namespace {

std::string failure(const char* call, gqsgd_status status) {
  return std::string(call) + ": " + gqsgd_status_name(status) + ": " + gqsgd_last_error();
}

}  // namespace

std::string allreduce_as_simulated(gqsgd_comm comm, const Simulated& expected,
                                   gqsgd_status* ended) {
  if (ended != nullptr) *ended = GQSGD_OK;
  int32_t rank = 0, ranks = 0;
  gqsgd_comm_rank(comm, &rank);
  gqsgd_comm_size(comm, &ranks);
  const size_t count = expected.value_count;
  const std::vector<Values> inputs = gradients(ranks, count, expected.step + 1);
  std::vector<const void*> send;
  for (const Values& values : inputs) send.push_back(values.data());
  Values simulated(count), result(count);
  std::vector<void*> recv(static_cast<size_t>(ranks));
  recv[0] = simulated.data();
  const Quantizer quantizer(expected.format);
  gqsgd_status status = gqsgd_simulate(
      quantizer.get(), ranks, send.data(), recv.data(), count, GQSGD_FLOAT32, GQSGD_MEAN,
      config_at(expected.step, 0), expected.options.c_str());
  if (status != GQSGD_OK) return failure("simulate", status);
  status = gqsgd_allreduce(comm, quantizer.get(), send[static_cast<size_t>(rank)], result.data(),
                           count, GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
  if (ended != nullptr) *ended = status;
  if (status != GQSGD_OK) return failure("allreduce", status);
  if (result == simulated) return "";
  return "step " + std::to_string(expected.step) + ": other bits than simulated";
}

}  // namespace gq::test
