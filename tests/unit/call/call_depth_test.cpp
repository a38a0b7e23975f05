// How deep the stack is where a blocking call begins to compute. The library's sources on that path
// are compiled without optimization for this test, so that no function disappears from the count.
#include <execinfo.h>
#include <gtest/gtest.h>

#include <vector>

#include "include/gqsgd.h"
#include "src/api/communicator/communicator.h"

namespace gq::test {
namespace {

/** gqsgd_allreduce and the stage included. Two more are in kernels/cpu: the stage sets the
 *  floating-point environment, calls what chooses the format, and that calls the loop. */
constexpr int kFramesToTheStageMax = 10;

[[gnu::noinline]] int frames_here() {
  void* frames[128];
  return backtrace(frames, 128);
}

int frames_at_stage = 0;
StageError (*quantize_here)(const QuantizeArgs&) = nullptr;

StageError quantize(const QuantizeArgs& args) {
  if (frames_at_stage == 0) frames_at_stage = frames_here();
  return quantize_here(args);
}

TEST(CallDepth, BlockingAllreduce_FewFramesToTheFirstQuantize) {
  gqsgd_comm comm = nullptr;
  gqsgd_quantizer quantizer = nullptr;
  ASSERT_EQ(gqsgd_comm_create_local(1, "", &comm), GQSGD_OK) << gqsgd_last_error();
  ASSERT_EQ(gqsgd_quantizer_create("paper-gl8", &quantizer), GQSGD_OK) << gqsgd_last_error();
  Stages counting;
  {
    SharedAccess access;
    ASSERT_TRUE(access.begin(comm).ok());
    counting = *access->endpoint.stages;
    quantize_here = counting.quantize;
    counting.quantize = quantize;
    access->endpoint.stages = &counting;
  }
  std::vector<float> values(1000, 1.0f);
  gqsgd_config config = GQSGD_CONFIG_INIT;
  config.schedule = GQSGD_SCHEDULE_DIRECT;
  const int frames_before = frames_here();
  ASSERT_EQ(gqsgd_allreduce(comm, quantizer, values.data(), values.data(), values.size(),
                            GQSGD_FLOAT32, GQSGD_MEAN, &config, nullptr),
            GQSGD_OK)
      << gqsgd_last_error();
  ASSERT_GT(frames_at_stage, 0) << "nothing was quantized";
  EXPECT_LE(frames_at_stage - frames_before, kFramesToTheStageMax);
  EXPECT_GE(frames_at_stage - frames_before, 8) << "functions were inlined: this is no count";
  gqsgd_quantizer_destroy(quantizer);
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

}  // namespace
}  // namespace gq::test
