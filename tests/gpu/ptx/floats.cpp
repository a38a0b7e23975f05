// Instructions on floats: what the PTX manual says of each, for those that kernels use. All round
// once, to the nearest; subnormal numbers stay what they are.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/gpu/ptx/compute.h"

namespace gq::ptx {
namespace {

/** A device's operations on 32 bits that give no number all give this one. */
template <typename V>
V as_device(V value) {
  return value;
}
template <>
float as_device(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : value;
}

template <typename V>
V added(V a, V b) {
  return as_device<V>(a + b);
}
template <typename V>
V subtracted(V a, V b) {
  return as_device<V>(a - b);
}
template <typename V>
V multiplied(V a, V b) {
  return as_device<V>(a * b);
}
template <typename V>
V added_product(V a, V b, V c) {
  return as_device<V>(std::fma(a, b, c));
}
template <typename V>
V divided(V a, V b) {
  return as_device<V>(a / b);
}
template <typename V>
V reciprocal(V a) {
  return as_device<V>(V(1) / a);
}
template <typename V>
V root(V a) {
  return as_device<V>(std::sqrt(a));
}
template <typename V>
V negated(V a) {
  return -a;
}
template <typename V>
V magnitude(V a) {
  return std::fabs(a);
}
template <typename V>
V least(V a, V b) {
  return as_device<V>(std::fmin(a, b));
}
template <typename V>
V greatest(V a, V b) {
  return as_device<V>(std::fmax(a, b));
}
template <typename To, typename From>
To converted(From a) {
  return as_device<To>(static_cast<To>(a));
}

/** The smaller magnitude with the product of the signs. */
float least_magnitude(float a, float b) {
  const float x = std::fabs(a), y = std::fabs(b);
  const uint32_t sign = (std::bit_cast<uint32_t>(a) ^ std::bit_cast<uint32_t>(b)) & 0x80000000u;
  if (std::isnan(x) && std::isnan(y)) return as_device(x);
  const float smaller = std::isnan(x) || y < x ? y : x;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(smaller) | sign);
}

/** To the nearest whole number, the even one of two; no number is 0, too large is the largest. */
int32_t rounded(float a) {
  if (std::isnan(a)) return 0;
  const double whole = std::nearbyint(a);
  if (whole >= 2147483647.0) return std::numeric_limits<int32_t>::max();
  if (whole <= -2147483648.0) return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(whole);
}

// Compares that are true of what is no number, and those about that.
template <typename V>
bool equ(V a, V b) {
  return !ne(a, b);
}
template <typename V>
bool neu(V a, V b) {
  return !(a == b);
}
template <typename V>
bool ltu(V a, V b) {
  return !(a >= b);
}
template <typename V>
bool leu(V a, V b) {
  return !(a > b);
}
template <typename V>
bool gtu(V a, V b) {
  return !(a <= b);
}
template <typename V>
bool geu(V a, V b) {
  return !(a < b);
}
template <typename V>
bool num(V a, V b) {
  return !std::isnan(a) && !std::isnan(b);
}
template <typename V>
bool nan(V a, V b) {
  return !num(a, b);
}

template <typename V>
void add_floats(const std::string& type, Table* table) {
  Table& all = *table;
  all["mov." + type] = of<copied<V>>;
  all["selp." + type] = of<chosen<V>>;
  all["add.rn." + type] = of<added<V>>;
  all["sub.rn." + type] = of<subtracted<V>>;
  all["mul.rn." + type] = of<multiplied<V>>;
  all["fma.rn." + type] = of<added_product<V>>;
  all["div.rn." + type] = of<divided<V>>;
  all["rcp.rn." + type] = of<reciprocal<V>>;
  all["sqrt.rn." + type] = of<root<V>>;
  all["neg." + type] = of<negated<V>>;
  all["abs." + type] = of<magnitude<V>>;
  all["min." + type] = of<least<V>>;
  all["max." + type] = of<greatest<V>>;
  add_compares<V>(type, table);
  all["setp.equ." + type] = of<equ<V>>;
  all["setp.neu." + type] = of<neu<V>>;
  all["setp.ltu." + type] = of<ltu<V>>;
  all["setp.leu." + type] = of<leu<V>>;
  all["setp.gtu." + type] = of<gtu<V>>;
  all["setp.geu." + type] = of<geu<V>>;
  all["setp.num." + type] = of<num<V>>;
  all["setp.nan." + type] = of<nan<V>>;
}

Table all_operations() {
  Table all = {
      {"min.xorsign.abs.f32", of<least_magnitude>},
      {"cvt.rni.s32.f32", of<rounded>},
      {"cvt.rzi.u32.f32", of<converted<uint32_t, float>>},
      {"cvt.rn.f32.s32", of<converted<float, int32_t>>},
      {"cvt.rn.f32.u32", of<converted<float, uint32_t>>},
      {"cvt.rn.f32.f64", of<converted<float, double>>},
      {"cvt.rn.f64.u32", of<converted<double, uint32_t>>},
      {"cvt.rn.f64.s32", of<converted<double, int32_t>>},
      {"cvt.f64.f32", of<converted<double, float>>},
  };
  add_floats<float>("f32", &all);
  add_floats<double>("f64", &all);
  return all;
}

}  // namespace

Operation find_float(const std::string& name) {
  static const Table all = all_operations();
  return find_in(all, name);
}

}  // namespace gq::ptx
