// Floats of 16 bits (bf16, fp16) through the C ABI: what is exact, what overflows, what a mean over
// many steps is, and what the counters and predictions say.
#include <gqsgd_model.h>
#include <gqsgd_stages.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr const char* kNarrow[] = {"bf16", "fp16"};

Values mean_of(const char* quantizer, const std::vector<Values>& inputs, uint64_t step = 0) {
  return simulate({quantizer, GQSGD_SCHEDULE_DIRECT, GQSGD_MEAN, false, step}, inputs);
}

Values sum_of(const char* quantizer, const std::vector<Values>& inputs) {
  return simulate({quantizer, GQSGD_SCHEDULE_DIRECT, GQSGD_SUM}, inputs);
}

/** Every sum has few enough bits, and so has every value. */
TEST(Narrow, SmallIntegers_ExactSums) {
  for (const char* quantizer : kNarrow) {
    for (const int rank_count : {1, 2, 3, 5, 8, 17}) {
      std::vector<Values> inputs(rank_count, Values(1001));
      Values expected(1001, 0);
      for (int rank = 0; rank < rank_count; ++rank) {
        for (size_t e = 0; e < expected.size(); ++e) {
          inputs[rank][e] = static_cast<float>((e * 7 + static_cast<size_t>(rank) * 5) % 15) - 7;
          expected[e] += inputs[rank][e];
        }
      }
      EXPECT_EQ(difference(sum_of(quantizer, inputs), expected), "") << quantizer << rank_count;
    }
  }
}

TEST(Narrow, BeyondFp16_InfiniteOnAllRanks_OppositeInfinitiesNan) {
  std::vector<Values> inputs(3, Values(5, 1));
  inputs[0] = {65504, 65505, -1e6f, 65505, 1};
  inputs[2] = {65504, 1, 1, -INFINITY, NAN};
  for (const Values& mean : simulate_all({"fp16", GQSGD_SCHEDULE_DIRECT}, inputs)) {
    EXPECT_NEAR(mean[0], (65504 * 2 + 1) / 3.0, 64);
    EXPECT_EQ(mean[1], INFINITY);
    EXPECT_EQ(mean[2], -INFINITY);
    EXPECT_TRUE(std::isnan(mean[3]) && std::isnan(mean[4]));
  }
  EXPECT_NEAR(mean_of("bf16", inputs)[1], 65507 / 3.0, 3 * 65507 / 128.0);
}

/** Each step's error is below 2^-7 (bf16) or 2^-10 of the values, twice; the mean of all steps'
 *  shrinks as steps grow, which that of a rounding to nearest does not. */
TEST(Narrow, MeanOverSteps_ApproachesTheMean_NearestDoesNot) {
  constexpr uint64_t kSteps = 4000;
  const std::vector<Values> inputs(2, Values(64, 1 + 0x1p-12f));
  for (const char* quantizer : kNarrow) {
    double total = 0;
    for (uint64_t step = 0; step < kSteps; ++step) {
      for (const float value : mean_of(quantizer, inputs, step)) total += value - 1;
    }
    const double unit = std::string(quantizer) == "bf16" ? 0x1p-7 : 0x1p-10;
    const double p = 0x1p-12 / unit, draws = 64 * kSteps;
    // Two roundings of ranks, halved, and that of the sum: below twice the variance of one.
    const double deviation = unit * std::sqrt(2 * p * (1 - p) / draws);
    EXPECT_NEAR(total / draws, 0x1p-12, 6 * deviation) << quantizer;
    const std::string nearest = std::string(quantizer) + ",rounding=nearest";
    EXPECT_EQ(mean_of(nearest.c_str(), inputs)[0], 1) << quantizer;
  }
}

/** sum |G - mean|^2 over many draws, at most theta / n of the squared values. */
TEST(Narrow, ExpectedError_WithinItsBound_AndNotFarBelow) {
  const std::vector<Values> inputs = gradients(4, 2000, 9);
  std::vector<const void*> send;
  double squares = 0, mean_squares = 0;
  for (const Values& values : inputs) {
    send.push_back(values.data());
    for (const float value : values) squares += static_cast<double>(value) * value;
  }
  for (size_t e = 0; e < 2000; ++e) {
    double mean = 0;
    for (const Values& values : inputs) mean += values[e] / 4.0;
    mean_squares += mean * mean;
  }
  const Config config = config_of(Operation{"", GQSGD_SCHEDULE_DIRECT});
  for (const char* name : kNarrow) {
    const Quantizer quantizer(name);
    double theta = 0, error = 0;
    ASSERT_EQ(gqsgd_variance_bound(quantizer.get(), 4, 2000, GQSGD_SCHEDULE_DIRECT, &theta),
              GQSGD_OK);
    ASSERT_EQ(gqsgd_expected_error(quantizer.get(), 4, send.data(), 2000, GQSGD_FLOAT32, config, 10,
                                   nullptr, &error),
              GQSGD_OK);
    EXPECT_LE(error * mean_squares, theta / 4 * squares) << name;
    EXPECT_GT(error * mean_squares, theta / 4 * squares / 20) << name;
    const Quantizer nearest(std::string(name) + ",rounding=nearest");
    EXPECT_EQ(gqsgd_variance_bound(nearest.get(), 4, 2000, GQSGD_SCHEDULE_DIRECT, &theta),
              GQSGD_UNSUPPORTED);
  }
}

TEST(Narrow, MeasuredError_OnRanks) {
  const std::vector<Values> inputs = gradients(3, 5000, 5);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    for (const char* name : kNarrow) {
      const Quantizer quantizer(name);
      double error = -1;
      const gqsgd_status status = gqsgd_measured_error(comm, quantizer.get(), inputs[rank].data(),
                                                       5000, GQSGD_FLOAT32, nullptr, &error);
      if (status != GQSGD_OK) return gqsgd_last_error();
      const double least = std::string(name) == "bf16" ? 1e-6 : 1e-8;
      if (!(error > least && error < 50 * least)) return name + std::to_string(error);
    }
    return "";
  };
  EXPECT_EQ(run_threads(3, "", body), "");
}

TEST(Narrow, Predictions_BetweenFloatsAndCodesOnASlowLink) {
  const auto time_ns = [](const char* name) {
    const Quantizer quantizer(name);
    double time = 0;
    EXPECT_EQ(gqsgd_predict_time(quantizer.get(), GQSGD_SCHEDULE_DIRECT, 4, size_t{25} << 20,
                                 GQSGD_FLOAT32, "byte_ns = 8", &time),
              GQSGD_OK);
    return time;
  };
  for (const char* name : kNarrow) {
    EXPECT_NEAR(time_ns(name) / time_ns("none"), 0.5, 0.05) << name;
    EXPECT_NEAR(time_ns(name) / time_ns("paper-gl8"), 2, 0.2) << name;
  }
}

TEST(Narrow, Stages_HostAlone_OnlyTheOwnersSum) {
  const Quantizer quantizer("bf16");
  size_t size_bytes = 0;
  ASSERT_EQ(gqsgd_packed_size(quantizer.get(), 5, &size_bytes), GQSGD_OK);
  EXPECT_EQ(size_bytes, 12u);
  gqsgd_site site{};
  site.size = 2;
  const float values[5] = {1, -2, 0.5f, 3, 65};
  float norm = -1, results[5];
  uint32_t words[3], sums[3];
  ASSERT_EQ(
      gqsgd_norm(quantizer.get(), &site, values, 5, GQSGD_FLOAT32, &norm, nullptr, 0, nullptr),
      GQSGD_OK);
  EXPECT_EQ(norm, 0);
  ASSERT_EQ(gqsgd_quantize(quantizer.get(), &site, values, 5, GQSGD_FLOAT32, &norm, words, nullptr,
                           0, nullptr),
            GQSGD_OK);
  void* const stream = words;  // never looked at
  EXPECT_EQ(gqsgd_quantize(quantizer.get(), &site, values, 5, GQSGD_FLOAT32, &norm, words, nullptr,
                           0, stream),
            GQSGD_UNSUPPORTED);
  EXPECT_NE(std::string(gqsgd_last_error()).find("levels=bf16 has no stages on a device"),
            std::string::npos)
      << gqsgd_last_error();
  EXPECT_EQ(words[2], 0x4282u);  // 65, and half a word that is free
  EXPECT_EQ(gqsgd_reduce(quantizer.get(), &site, words, sums, 5, nullptr), GQSGD_INVALID_ARGUMENT);
  site.reduction_depth = 1;
  EXPECT_EQ(gqsgd_reduce(quantizer.get(), &site, words, sums, 5, nullptr), GQSGD_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gqsgd_last_error()).find("levels=bf16 needs codes that are added by"),
            std::string::npos)
      << gqsgd_last_error();
  site.reduction_depth = 0;
  const uint32_t* operands[] = {words, words};
  ASSERT_EQ(gqsgd_reduce_many(quantizer.get(), &site, operands, 5, &norm, sums, &norm, nullptr, 0,
                              nullptr),
            GQSGD_OK);
  ASSERT_EQ(gqsgd_dequantize(quantizer.get(), &site, sums, &norm, 5, GQSGD_FLOAT32, GQSGD_MEAN,
                             results, nullptr),
            GQSGD_OK);
  for (size_t e = 0; e < 5; ++e) EXPECT_EQ(results[e], values[e]);
}

}  // namespace
}  // namespace gq::test
