#include "tests/gpu/stages/side.h"

#include <gtest/gtest.h>
#include <string.h>

namespace gq::test {
namespace {

template <typename Count>
size_t asked(Count count, gqsgd_quantizer quantizer, size_t value_count) {
  size_t number = 0;
  EXPECT_EQ(count(quantizer, value_count, &number), GQSGD_OK) << gqsgd_last_error();
  return number;
}

}  // namespace

std::string Subject::text() const {
  return quantizer + ", ranks " + std::to_string(ranks) + ", combines " +
         std::to_string(reduction_depth) + ", dtype " + std::to_string(dtype) + ", " +
         std::to_string(value_count) + " values from " + std::to_string(first_value) + ", offset " +
         std::to_string(offset);
}

size_t dtype_bytes(gqsgd_dtype dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

Side::Side(const Subject& subject, bool on_device)
    : subject_(subject), on_device_(on_device), stream_(on_device ? test_stream() : nullptr) {
  expect_ok(gqsgd_quantizer_create(subject.quantizer.c_str(), &quantizer_), "create");
}

gqsgd_site Side::site(uint32_t rank) const {
  gqsgd_site site = {};
  site.rank = rank;
  site.size = subject_.ranks;
  site.reduction_depth = subject_.reduction_depth;
  site.step = subject_.step;
  site.index = subject_.index;
  site.first_value = subject_.first_value;
  return site;
}

Bytes Side::Place::bytes() const {
  if (!device.empty()) return device[0].bytes();
  return {host.begin() + static_cast<ptrdiff_t>(offset_bytes), host.end()};
}

Side::Place Side::place(const Bytes& bytes, size_t element_bytes) const {
  Place made;
  made.offset_bytes = subject_.offset * element_bytes;
  if (on_device_) {
    made.device.emplace_back(bytes, made.offset_bytes);
  } else {
    made.host.resize(made.offset_bytes);
    made.host.insert(made.host.end(), bytes.begin(), bytes.end());
  }
  return made;
}

Side::Place Side::empty(size_t size_bytes, size_t element_bytes) const {
  return place(Bytes(size_bytes, 0xCA), element_bytes);
}

void Side::expect_ok(gqsgd_status status, const char* stage) const {
  EXPECT_EQ(status, GQSGD_OK) << stage << ", " << subject_.text() << ": " << gqsgd_last_error();
}

size_t Side::workspace_bytes() const {
  size_t size_bytes = 0;
  expect_ok(gqsgd_workspace_size(quantizer_, subject_.value_count, subject_.dtype, &size_bytes),
            "gqsgd_workspace_size");
  return size_bytes;
}

Bytes Side::norm(const Bytes& values) {
  Place in = place(values, dtype_bytes(subject_.dtype));
  const size_t count = asked(gqsgd_norm_count, quantizer_, subject_.value_count);
  Place out = empty(4 * count, 4), workspace = empty(workspace_bytes(), 8);
  const gqsgd_site here = site(0);
  expect_ok(gqsgd_norm(quantizer_, &here, in.as<void>(), subject_.value_count, subject_.dtype,
                       out.as<float>(), workspace.as<void>(), workspace_bytes(), stream_),
            "gqsgd_norm");
  return out.bytes();
}

Bytes Side::quantize(const Bytes& values, const Bytes& norms, uint32_t rank) {
  Place in = place(values, dtype_bytes(subject_.dtype)), scale = place(norms, 4);
  Place out = empty(asked(gqsgd_packed_size, quantizer_, subject_.value_count), 4);
  const gqsgd_site here = site(rank);
  expect_ok(gqsgd_quantize(quantizer_, &here, in.as<void>(), subject_.value_count, subject_.dtype,
                           scale.as<float>(), out.as<uint32_t>(), nullptr, 0, stream_),
            "gqsgd_quantize");
  return out.bytes();
}

Bytes Side::reduce(const Bytes& a, const Bytes& b, uint32_t weight_a, uint32_t weight_b) {
  Place from = place(a, 4), to = place(b, 4);
  gqsgd_site here = site(1);
  here.hop = 1;
  here.weight_a = weight_a;
  here.weight_b = weight_b;
  expect_ok(gqsgd_reduce(quantizer_, &here, from.as<uint32_t>(), to.as<uint32_t>(),
                         subject_.value_count, stream_),
            "gqsgd_reduce");
  return to.bytes();
}

std::vector<Bytes> Side::reduce_many(const std::vector<Bytes>& words, const Bytes& norms,
                                     bool in_place) {
  std::vector<Place> operands;
  std::vector<const uint32_t*> list;
  for (const Bytes& operand : words) operands.push_back(place(operand, 4));
  for (Place& operand : operands) list.push_back(operand.as<uint32_t>());
  Place result = empty(asked(gqsgd_result_size, quantizer_, subject_.value_count), 4);
  Place& out = in_place && subject_.is_adaptive() ? operands[0] : result;
  Place from = place(norms, 4), apart = empty(norms.size(), 4);
  Place& scales = in_place ? from : apart;
  Place workspace = empty(workspace_bytes(), 8);
  const gqsgd_site here = site(2 % subject_.ranks);
  expect_ok(gqsgd_reduce_many(quantizer_, &here, list.data(), subject_.value_count,
                              from.as<float>(), out.as<uint32_t>(), scales.as<float>(),
                              workspace.as<void>(), workspace_bytes(), stream_),
            "gqsgd_reduce_many");
  return {out.bytes(), scales.bytes()};
}

Bytes Side::dequantize(const Bytes& words, const Bytes& norms, const Bytes& scales, gqsgd_op op) {
  Place in = place(words, 4), norm = place(norms, 4), scale = place(scales, 4);
  const size_t width = dtype_bytes(subject_.dtype);
  Place out = empty(subject_.value_count * width, width);
  const gqsgd_site here = site(0);
  const gqsgd_status status =
      subject_.is_adaptive()
          ? gqsgd_dequantize_adaptive(quantizer_, &here, in.as<uint32_t>(), norm.as<float>(),
                                      scale.as<float>(), subject_.value_count, subject_.dtype, op,
                                      out.as<void>(), stream_)
          : gqsgd_dequantize(quantizer_, &here, in.as<uint32_t>(), scale.as<float>(),
                             subject_.value_count, subject_.dtype, op, out.as<void>(), stream_);
  expect_ok(status, "gqsgd_dequantize");
  return out.bytes();
}

Bytes Side::widths(const Bytes& norms) {
  Place from = place(norms, 4), out = empty(norms.size() / 4, 1);
  const gqsgd_site here = site(0);
  expect_ok(gqsgd_widths(quantizer_, &here, from.as<float>(), subject_.value_count,
                         out.as<uint8_t>(), stream_),
            "gqsgd_widths");
  return out.bytes();
}

}  // namespace gq::test
