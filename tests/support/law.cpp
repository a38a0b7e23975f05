// Arithmetic on laws, and the laws of single roundings.
#include "tests/support/law.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gq::test {
namespace {

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

}  // namespace gq::test
