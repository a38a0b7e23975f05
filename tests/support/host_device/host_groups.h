// Stages of whole groups (GroupedValues in kernels/stages.h), as devices have them, by the stages
// of a CPU, which take a run of granules at a time.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_GROUPS_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_GROUPS_H

#include "kernels/stages.h"

namespace gq::test {

void run_groups(const Stages& stages, const NormArgs& args);
void run_groups(const Stages& stages, const QuantizeArgs& args);
void run_groups(const Stages& stages, const ReduceManyArgs& args);
void run_groups(const Stages& stages, const DequantizeArgs& args);

// The same of Rice codes.
void run_rice(const Stages& stages, const QuantizeArgs& args);
void run_rice(const Stages& stages, const ReduceManyArgs& args);
void run_rice(const Stages& stages, const DequantizeArgs& args);

/** A copy of what a range has, whose owner may be gone when the stage runs. */
template <typename Args>
GroupedValues grouped_of(const Args& args) {
  if constexpr (requires { args.range; }) {
    if (args.range.grouped != nullptr) return *args.range.grouped;
  }
  return {};
}

/** A stage, of a range or of whole groups. */
template <auto kStage, typename Args>
void run_stage(const Stages& stages, Args args, const GroupedValues& grouped) {
  if constexpr (requires { run_groups(stages, args); }) {
    if (args.range.grouped != nullptr) {
      args.range.grouped = &grouped;
      if constexpr (requires { run_rice(stages, args); }) {
        if (args.coding.levels == Levels::rice) return run_rice(stages, args);
      }
      return run_groups(stages, args);
    }
  }
  (void)(stages.*kStage)(args);
}

}  // namespace gq::test

#endif
