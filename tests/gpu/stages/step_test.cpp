// A step and index that kernels read from memory, as those of captured calls do, give the bits of
// the same passed by value.
#include "tests/gpu/stages/stages_under_test.h"
#include "tests/unit/kernels/support/outcome.h"

namespace gq::test {
namespace {

template <auto kStage, typename Args>
StageError with_step_in_memory(const Args& args) {
  const uint32_t in_memory[2] = {args.random.step, args.random.index};
  Args changed = args;
  changed.random.step += 1;
  changed.random.index ^= 5;
  changed.random.step_at = in_memory;
  return (stages_under_test.*kStage)(changed);
}

Stages stages_with_step_in_memory() {
  Stages stages = stages_under_test;
  stages.name = "step in memory";
  stages.norm = with_step_in_memory<&Stages::norm, NormArgs>;
  stages.quantize = with_step_in_memory<&Stages::quantize, QuantizeArgs>;
  stages.reduce = with_step_in_memory<&Stages::reduce, ReduceArgs>;
  stages.reduce_many = with_step_in_memory<&Stages::reduce_many, ReduceManyArgs>;
  stages.dequantize = with_step_in_memory<&Stages::dequantize, DequantizeArgs>;
  return stages;
}

/** Every draw of a format: own words, strata, signs, subtractive, output. */
void run_all(const Coding& coding, Outcome* outcome) {
  const Place place{4096, 3000, 0};
  outcome->norm(NormOrder::inf, coding.block, coding.rotated, GQSGD_FLOAT32, place);
  outcome->quantize(coding, GQSGD_FLOAT32, place, 2.5f);
  if (coding.wide) {
    outcome->reduce_many(coding, place, false);
  } else {
    outcome->reduce(coding, place, 2, 1);
  }
  outcome->dequantize(coding, GQSGD_BFLOAT16, GQSGD_MEAN, place, 2.5f);
}

/** Of more ranks than the site's own, 13, which has a stratum of its own among them. */
std::vector<Coding> codings() {
  std::vector<Coding> all = code_formats(16, 2, Rounding::correlated);
  for (const Rounding rounding : {Rounding::independent, Rounding::correlated}) {
    Coding wide = coding_for(Levels::linear, 8, Combine::average, 16, 0, rounding);
    all.push_back(wide);
    wide.rotated = true;
    wide.block = 128;
    wide.rescale = true;
    wide.rounding_down = RoundingDown::subtractive;
    all.push_back(wide);
  }
  return all;
}

TEST(Step, ReadFromMemory_BitsOfTheSameByValue) {
  const Stages stages = stages_with_step_in_memory();
  for (const Coding& coding : codings()) {
    Outcome by_value(scalar_stages()), in_memory(stages);
    run_all(coding, &by_value);
    run_all(coding, &in_memory);
    EXPECT_TRUE(in_memory.intact()) << describe(coding);
    EXPECT_TRUE(in_memory.bytes() == by_value.bytes()) << describe(coding);
  }
}

}  // namespace
}  // namespace gq::test
