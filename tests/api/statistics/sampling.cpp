// Drawing samples, and the laws they are held against.
#include "tests/api/statistics/sampling.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "tests/support/allreduce_law.h"

namespace gq::test {
namespace {

Element element_of(const Law& law) {
  Element element{law.mean(), law.variance(), 0, 0};
  for (const Law::Point& point : law.points()) {
    const double distance = point.value - element.mean;
    element.fourth_moment += point.probability * std::pow(distance, 4);
    element.largest = std::max(element.largest, std::fabs(distance));
  }
  return element;
}

}  // namespace

std::string Experiment::name() const {
  return preset + " " + schedule_name(schedule) + ", " + std::to_string(rank_count()) + " ranks";
}

Estimator Experiment::library() const {
  return [this](uint64_t step) {
    return simulate({preset, schedule, GQSGD_MEAN, false, step}, inputs,
                    node_ids.empty() ? "" : nodes_option(node_ids));
  };
}

std::vector<Element> exact_elements(const Experiment& experiment) {
  const Coding coding = coding_of(experiment.preset);
  const double norm = norm_of(experiment.inputs);
  std::vector<Element> elements;
  for (size_t e = 0; e < experiment.value_count(); ++e) {
    double sum = 0;
    for (const Values& input : experiment.inputs) sum += input[e];
    const Law law =
        law_of_mean(coding, experiment.schedule, experiment.inputs, norm, e, experiment.node_ids);
    elements.push_back(element_of(law));
    const double mean = sum / static_cast<double>(experiment.rank_count());
    if (std::fabs(elements[e].mean - mean) > 1e-12 * norm) {
      throw std::logic_error("the exact law of " + experiment.name() + " is biased");
    }
  }
  return elements;
}

Sample draw(const Estimator& estimator, const std::vector<Element>& elements, uint64_t draw_count) {
  Sample sample{draw_count, std::vector<double>(elements.size()),
                std::vector<double>(elements.size())};
  for (uint64_t step = 0; step < draw_count; ++step) {
    const Values result = estimator(step);
    for (size_t e = 0; e < elements.size(); ++e) {
      const double deviation = result[e] - elements[e].mean;
      sample.deviation[e] += deviation;
      sample.square[e] += deviation * deviation;
    }
  }
  return sample;
}

std::vector<Experiment> experiments(int rank_count, size_t value_count) {
  std::vector<Experiment> all;
  for (const char* preset : {"paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4"}) {
    for (gqsgd_schedule schedule : kSchedules) {
      all.push_back({preset, schedule, gradients(rank_count, value_count, 40 + rank_count)});
    }
    if (rank_count < 3) continue;  // no hierarchy
    all.push_back({preset, GQSGD_SCHEDULE_HIERARCHICAL,
                   gradients(rank_count, value_count, 40 + rank_count), uneven_nodes(rank_count)});
  }
  return all;
}

Estimator shifted(Estimator estimator, double shift) {
  return [=](uint64_t step) {
    Values result = estimator(step);
    for (float& value : result) value += static_cast<float>(shift);
    return result;
  };
}

Estimator clamped(Estimator estimator, double limit) {
  return [=](uint64_t step) {
    Values result = estimator(step);
    const float most = static_cast<float>(limit);
    for (float& value : result) value = std::clamp(value, -most, most);
    return result;
  };
}

}  // namespace gq::test
