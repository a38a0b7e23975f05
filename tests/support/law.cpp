// Laws of roundings, reductions and whole allreduces at 8 bits, written from docs/FORMAT.md.
#include "tests/support/law.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gq::test {
namespace {

constexpr int kTopCode = 127;  // 2^(bits - 1) - 1

/** The largest level that is not above y > 0, in units of the smallest: 0, 1, 2, 4, .. */
double level_below(double y) { return y < 1 ? 0.0 : std::exp2(std::ilogb(y)); }

/** Algorithm 2 on two known levels; the probability is 2^-d, or 2^-(d-1) for opposite signs. */
Law add_levels(double a, double b) {
  if (a == 0 || b == 0) return Law::certain(a + b);
  if (std::fabs(a) < std::fabs(b)) std::swap(a, b);
  const double ratio = std::fabs(b / a);  // 2^-d
  const bool same_sign = (a > 0) == (b > 0);
  if (!same_sign && ratio == 1) return Law::certain(0);
  const double other = same_sign ? 2 * a : a / 2;
  const double probability = same_sign ? ratio : 2 * ratio;
  return Law({{other, probability}, {a, 1 - probability}});
}

}  // namespace

Law::Law(std::vector<Point> points) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.value < b.value; });
  for (const Point& point : points) {
    if (point.probability == 0) continue;
    if (!points_.empty() && points_.back().value == point.value) {
      points_.back().probability += point.probability;
    } else {
      points_.push_back(point);
    }
  }
}

double Law::mean() const {
  double sum = 0;
  for (const Point& point : points_) sum += point.probability * point.value;
  return sum;
}

double Law::variance() const {
  const double centre = mean();
  double sum = 0;
  for (const Point& point : points_) {
    sum += point.probability * (point.value - centre) * (point.value - centre);
  }
  return sum;
}

Law Law::scaled(double factor) const {
  std::vector<Point> points = points_;
  for (Point& point : points) point.value *= factor;
  return Law(std::move(points));
}

Law operator+(const Law& a, const Law& b) {
  return a.then([&](double value) {
    std::vector<Law::Point> points = b.points_;
    for (Law::Point& point : points) point.value += value;
    return Law(std::move(points));
  });
}

Law linear_code(double t) {
  const double below = std::floor(t);
  return Law({{below, 1 - (t - below)}, {below + 1, t - below}});
}

Law exponential_level(double y) {
  const double magnitude = std::fabs(y);
  const double below = level_below(magnitude);
  const double above = below == 0 ? 1 : 2 * below;
  const double up = (magnitude - below) / (above - below);
  return Law({{std::copysign(below, y), 1 - up}, {std::copysign(above, y), up}});
}

Law exponential_sum(const Law& a, const Law& b) {
  return a.then(
      [&](double left) { return b.then([&](double right) { return add_levels(left, right); }); });
}

Law linear_ring(const std::vector<double>& values, double norm) {
  const double top = std::floor(kTopCode / static_cast<double>(values.size()));
  Law codes = Law::certain(0);
  for (double value : values) codes = codes + linear_code(value / norm * top);
  return codes.scaled(norm / top);
}

Law linear_direct(const std::vector<double>& values, double norm) {
  const double rank_count = static_cast<double>(values.size());
  Law codes = Law::certain(0);
  for (double value : values) codes = codes + linear_code(value / norm * kTopCode);
  const auto encode_once = [&](double sum) { return linear_code(sum / rank_count); };
  return codes.then(encode_once).scaled(norm * rank_count / kTopCode);
}

Law exponential_ring(const std::vector<double>& values, double norm, size_t first_rank) {
  const size_t rank_count = values.size();
  const int headroom = static_cast<int>(std::min<size_t>(rank_count - 1, 64));
  const double unit = norm * std::exp2(-(kTopCode - 1 - headroom));
  Law sum = exponential_level(values[first_rank] / unit);
  for (size_t hop = 1; hop < rank_count; ++hop) {
    const double value = values[(first_rank + hop) % rank_count];
    sum = exponential_sum(sum, exponential_level(value / unit));
  }
  return sum.scaled(unit);
}

Law exponential_direct(const std::vector<double>& values, double norm) {
  const double unit = norm * std::exp2(-(kTopCode - 1));
  Law sum = Law::certain(0);
  for (double value : values) sum = sum + exponential_level(value / unit);
  const double wide_unit = unit * static_cast<double>(values.size());
  return sum.scaled(unit)
      .then([&](double wide) { return exponential_level(wide / wide_unit); })
      .scaled(wide_unit);
}

size_t ring_start(size_t element, size_t value_count, size_t rank_count) {
  const size_t even = (value_count + rank_count - 1) / rank_count;
  const size_t shard = (even + 31) / 32 * 32;
  return (element / shard + 1) % rank_count;
}

}  // namespace gq::test
