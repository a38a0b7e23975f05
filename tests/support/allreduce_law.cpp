// Schedules as orders of merges, and merges as arithmetic on laws.
#include "tests/support/allreduce_law.h"

#include <gqsgd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace gq::test {
namespace {

/** The part that holds an element: parts are rounded up to 32 elements. */
size_t part_of(size_t element, size_t value_count, size_t part_count) {
  const size_t even = (value_count + part_count - 1) / part_count;
  return element / ((even + 31) / 32 * 32);
}

std::vector<Merge> ring_merges(size_t rank_count, size_t part) {
  std::vector<Merge> merges;
  for (size_t hop = 1; hop < rank_count; ++hop) {
    merges.push_back({(part + hop) % rank_count, (part + hop + 1) % rank_count});
  }
  return merges;
}

std::vector<Merge> tree_merges(size_t rank_count) {
  std::vector<Merge> merges;
  for (size_t half = 1; half < rank_count; half *= 2) {
    for (size_t rank = 0; rank + half < rank_count; rank += 2 * half) {
      merges.push_back({rank + half, rank});
    }
  }
  return merges;
}

size_t power_of_two_at_most(size_t count) {
  size_t power = 1;
  while (2 * power <= count) power *= 2;
  return power;
}

/** Halves shrink towards the part: after each exchange only ranks that agree with it in one more
 *  leading bit still hold it. */
std::vector<Merge> butterfly_merges(size_t rank_count, size_t part) {
  const size_t core = power_of_two_at_most(rank_count);
  std::vector<Merge> merges;
  for (size_t rank = core; rank < rank_count; ++rank) merges.push_back({rank, rank - core});
  for (size_t distance = core / 2; distance >= 1; distance /= 2) {
    for (size_t rank = 0; rank < core; ++rank) {
      if (rank / distance == part / distance) merges.push_back({rank ^ distance, rank});
    }
  }
  return merges;
}

/** The law of a rank's codes (linear) or levels in units of the smallest (exponential). */
Law quantized(const Coding& coding, double y) {
  return coding.is_exponential ? exponential_level(y) : linear_code(y);
}

/** One reduction in code form of operands that stand for `weight_a` and `weight_b` ranks. */
Law reduced(const Coding& coding, const Law& a, const Law& b, double weight_a, double weight_b) {
  if (coding.combine == Combine::exact) return a + b;
  if (coding.combine == Combine::sum) return exponential_sum(a, b);
  const double weight = weight_a + weight_b;
  const Law sum = a.scaled(weight_a) + b.scaled(weight_b);
  return sum.then([&](double value) { return quantized(coding, value / weight); });
}

/** The codes of all ranks, merged in the order of the schedule. */
Law merged(const Coding& coding, const std::vector<Merge>& merges, std::vector<Law> codes) {
  std::vector<double> weights(codes.size(), 1);
  size_t owner = 0;
  for (const Merge& merge : merges) {
    codes[merge.into] = reduced(coding, codes[merge.from], codes[merge.into], weights[merge.from],
                                weights[merge.into]);
    weights[merge.into] += weights[merge.from];
    owner = merge.into;
  }
  return codes[owner];
}

/** The wide sum of the direct schedule, encoded once. */
Law encoded_sum(const Coding& coding, const std::vector<Law>& codes) {
  Law sum = Law::certain(0);
  for (const Law& one : codes) sum = sum + one;
  const double rank_count = static_cast<double>(codes.size());
  return sum.then([&](double wide) { return quantized(coding, wide / rank_count); });
}

bool adds_wide(gqsgd_schedule schedule) {
  return schedule == GQSGD_SCHEDULE_DIRECT || schedule == GQSGD_SCHEDULE_HIERARCHICAL;
}

/** The mean of each node with several ranks, encoded; then the sum of these, each as often as its
 *  node has ranks. */
Law encoded_sum_of_nodes(const Coding& coding, const std::vector<Law>& codes,
                         const std::vector<int32_t>& node_ids) {
  std::map<int32_t, std::vector<Law>> nodes;
  for (size_t rank = 0; rank < codes.size(); ++rank) nodes[node_ids[rank]].push_back(codes[rank]);
  Law sum = Law::certain(0);
  for (const auto& [id, members] : nodes) {
    const double count = static_cast<double>(members.size());
    sum = sum + (members.size() == 1 ? members[0] : encoded_sum(coding, members).scaled(count));
  }
  const double rank_count = static_cast<double>(codes.size());
  return sum.then([&](double wide) { return quantized(coding, wide / rank_count); });
}

}  // namespace

Coding coding_of(const std::string& preset) {
  if (preset == "paper-gl8") return {false, 8, Combine::exact};
  if (preset == "paper-gl4") return {false, 4, Combine::average};
  if (preset == "paper-ge8") return {true, 8, Combine::sum};
  if (preset == "paper-ge4") return {true, 4, Combine::average};
  if (preset == "levels=linear,bits=8,combine=average") return {false, 8, Combine::average};
  throw std::invalid_argument("no law for " + preset);
}

std::vector<Merge> merges_of(gqsgd_schedule schedule, size_t rank_count, size_t element,
                             size_t value_count) {
  switch (schedule) {
    case GQSGD_SCHEDULE_RING:
      return ring_merges(rank_count, part_of(element, value_count, rank_count));
    case GQSGD_SCHEDULE_TREE:
      return tree_merges(rank_count);
    case GQSGD_SCHEDULE_BUTTERFLY: {
      const size_t part_count = power_of_two_at_most(rank_count);
      return butterfly_merges(rank_count, part_of(element, value_count, part_count));
    }
    default:
      return {};
  }
}

int reduction_depth_of(gqsgd_schedule schedule, size_t rank_count) {
  if (adds_wide(schedule)) return 0;
  if (schedule == GQSGD_SCHEDULE_RING) return static_cast<int>(rank_count) - 1;
  int height = 0;
  while ((size_t{1} << height) < rank_count) ++height;
  return height;
}

double linear_levels(const Coding& coding, gqsgd_schedule schedule, size_t rank_count) {
  const double top = std::exp2(coding.bits - 1) - 1;
  const bool is_shared = coding.combine == Combine::exact && !adds_wide(schedule);
  return is_shared ? std::floor(top / static_cast<double>(rank_count)) : top;
}

Law law_of_mean(const Coding& coding, gqsgd_schedule schedule, const std::vector<Values>& inputs,
                double norm, size_t element, const std::vector<int32_t>& node_ids) {
  const size_t rank_count = inputs.size();
  const double top_code = std::exp2(coding.bits - 1) - 1;
  const int reduction_depth = reduction_depth_of(schedule, rank_count);
  const int headroom = coding.combine == Combine::sum ? std::min(reduction_depth, 64) : 0;
  const double levels = coding.is_exponential ? std::exp2(top_code - 1 - headroom)
                                              : linear_levels(coding, schedule, rank_count);
  const double unit = norm / levels;
  std::vector<Law> codes;
  for (const Values& values : inputs) codes.push_back(quantized(coding, values[element] / unit));

  if (schedule == GQSGD_SCHEDULE_DIRECT) return encoded_sum(coding, codes).scaled(unit);
  if (schedule == GQSGD_SCHEDULE_HIERARCHICAL) {
    return encoded_sum_of_nodes(coding, codes, node_ids).scaled(unit);
  }
  const auto merges = merges_of(schedule, rank_count, element, inputs[0].size());
  const bool is_mean = coding.combine == Combine::average;
  return merged(coding, merges, codes)
      .scaled(is_mean ? unit : unit / static_cast<double>(rank_count));
}

}  // namespace gq::test
