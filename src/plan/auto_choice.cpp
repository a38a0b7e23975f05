// A direct-mapped table of choices: a call of another kind takes the place of one before it.
#include "src/plan/auto_choice.h"

#include <utility>

namespace gq {

void AutoChoice::set(const AutoOptions& options) {
  options_ = options;
  digest_ = options.costs ? digest_of(*options.costs) : 0;
  seen_costs_.store(options.costs.get(), std::memory_order_release);
}

void AutoChoice::set_measured(std::shared_ptr<const CostConstants> costs) {
  AutoOptions options = options_;
  options.costs = std::move(costs);
  set(options);
}

Status AutoChoice::take(const CostQuestion& question, Choice* choice) {
  *choice = kUnmeasuredChoice;
  if (!options_.costs) return Status();
  const uint32_t fields = fields_word(question.format);
  const uint64_t mixed = (question.value_count ^ uint64_t{fields} << 20 ^
                          static_cast<uint64_t>(question.dtype) << 50) *
                         UINT64_C(0x9E3779B97F4A7C15);
  Kept& kept = kept_[(mixed >> 32) % kKeptCount];
  const bool known = kept.value_count == question.value_count && kept.fields == fields &&
                     kept.dtype == question.dtype && kept.is_short == question.is_short;
  if (!known) {
    double time_ns = 0;
    kept.dtype = -1;
    GQ_TRY(choose(question, *options_.costs, may_be_uncompressed(), &kept.choice, &time_ns));
    kept.value_count = question.value_count;
    kept.fields = fields;
    kept.dtype = question.dtype;
    kept.is_short = question.is_short;
  }
  *choice = kept.choice;
  return Status();
}

Status AutoChoice::explain(CostQuestion question, AutoReason* reason) const {
  Choice choice{};
  double chosen_ns = 0, direct_ns = 0;
  GQ_TRY(choose(question, *options_.costs, may_be_uncompressed(), &choice, &chosen_ns));
  question.schedule_id = GQSGD_SCHEDULE_DIRECT;
  GQ_TRY(predict_time(question, *options_.costs, &direct_ns));
  *reason = {static_cast<uint64_t>(chosen_ns), static_cast<uint64_t>(direct_ns)};
  return Status();
}

}  // namespace gq
