// Random numbers that take finitely many values, and the roundings of docs/FORMAT.md as such
// numbers. Real arithmetic, no random words and no float32.
#ifndef GQ_TESTS_SUPPORT_LAW_H
#define GQ_TESTS_SUPPORT_LAW_H

#include <cstddef>
#include <vector>

namespace gq::test {

/** A random number that takes finitely many values. */
class Law {
 public:
  struct Point {
    double value;
    double probability;
  };

  static Law certain(double value) { return Law({{value, 1.0}}); }
  /** Takes points in any order; equal values are merged. */
  explicit Law(std::vector<Point> points);

  const std::vector<Point>& points() const { return points_; }  ///< by rising value
  double mean() const;
  double variance() const;
  double lowest() const { return points_.front().value; }
  double highest() const { return points_.back().value; }
  Law scaled(double factor) const;

  /** The sum of independent numbers. */
  friend Law operator+(const Law& a, const Law& b);

  /** The law of a random function of this number: `make(value)` is the law given the value. */
  template <typename Make>
  Law then(Make make) const {
    std::vector<Point> points;
    for (const Point& point : points_) {
      const Law outcomes = make(point.value);
      for (const Point& outcome : outcomes.points()) {
        points.push_back({outcome.value, point.probability * outcome.probability});
      }
    }
    return Law(std::move(points));
  }

 private:
  std::vector<Point> points_;
};

/** A linear code in units of its step: floor(t) or the next integer (section 5). */
Law linear_code(double t);

/** An exponential level in units of the smallest one: 0 or a power of two beside y (section 5). */
Law exponential_level(double y);

/** Algorithm 2 of the paper on two independent levels in units of the smallest one (section 6). */
Law exponential_sum(const Law& a, const Law& b);

}  // namespace gq::test

#endif
