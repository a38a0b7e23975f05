// Values of each type from bits that are never NaN or infinite.
#include "tests/gpu/streams/typed_call.h"

#include <gqsgd_model.h>

#include <cstring>

#include "tests/support/host_device/host_device.h"

namespace gq::test {
namespace {

/** Sign and mantissa as they come, exponents around 1. */
uint16_t half_at(gqsgd_dtype dtype, uint64_t place) {
  const uint64_t bits = mix(place);
  const auto sign_and_mantissa = static_cast<uint16_t>(bits);
  if (dtype == GQSGD_FLOAT16) {
    return static_cast<uint16_t>((sign_and_mantissa & 0x83ff) | (8 + bits / 65536 % 8) << 10);
  }
  return static_cast<uint16_t>((sign_and_mantissa & 0x807f) | (120 + bits / 65536 % 8) << 7);
}

}  // namespace

Bytes typed_values(gqsgd_dtype dtype, size_t value_count, int rank) {
  const size_t element_bytes = dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
  Bytes bytes(value_count * element_bytes);
  for (size_t k = 0; k < value_count; ++k) {
    const uint64_t place = k * 64 + static_cast<uint64_t>(rank);
    const double value = normal_at(7, place);
    const float rounded = static_cast<float>(value);
    const uint16_t half = half_at(dtype, place);
    const void* from = &half;
    if (dtype == GQSGD_FLOAT64) from = &value;
    if (dtype == GQSGD_FLOAT32) from = &rounded;
    std::memcpy(&bytes[k * element_bytes], from, element_bytes);
  }
  return bytes;
}

std::string compare_typed(gqsgd_comm comm, int rank, int rank_count, const Operation& operation,
                          gqsgd_dtype dtype, size_t value_count) {
  const Quantizer quantizer(operation.quantizer);
  const Config config = config_of(operation);
  std::vector<Bytes> inputs, results;
  std::vector<const void*> send;
  std::vector<void*> recv;
  for (int k = 0; k < rank_count; ++k) {
    inputs.push_back(typed_values(dtype, value_count, k));
    results.push_back(inputs.back());
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    send.push_back(inputs[k].data());
    recv.push_back(results[k].data());
  }
  if (gqsgd_simulate(quantizer.get(), rank_count, send.data(), recv.data(), value_count, dtype,
                     operation.op, config, "") != GQSGD_OK) {
    return gqsgd_last_error();
  }
  const Bytes& own = inputs[static_cast<size_t>(rank)];
  const DeviceMemory there(2 * own.size());
  const OwnStream stream;
  auto* const values = there.as<unsigned char>();
  std::memcpy(values, own.data(), own.size());
  if (gqsgd_allreduce(comm, quantizer.get(), values, values + own.size(), value_count, dtype,
                      operation.op, config, stream.get()) != GQSGD_OK) {
    return gqsgd_last_error();
  }
  if (!stream.synchronize()) return "the stream does not get through";
  const bool same = std::memcmp(values + own.size(), results[0].data(), own.size()) == 0;
  return same ? "" : describe(operation) + ", dtype " + std::to_string(dtype) + ": other bits";
}

}  // namespace gq::test
