// Rice codes through the C ABI: their error beside that of adaptive widths, messages of one size,
// all types, lengths from 1 value on, cells that are poisoned, nodes, and what is refused.
#include <gqsgd_model.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr size_t kCell = 32;

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/** Squares of the distances from the mean of all ranks, over its own squares. */
double error_of(const Values& result, const std::vector<Values>& inputs) {
  double error = 0, signal = 0;
  for (size_t e = 0; e < result.size(); ++e) {
    double mean = 0;
    for (const Values& values : inputs) mean += static_cast<double>(values[e]);
    mean /= static_cast<double>(inputs.size());
    error += std::pow(static_cast<double>(result[e]) - mean, 2);
    signal += mean * mean;
  }
  return error / signal;
}

/** Gradients whose size changes from cell to cell, as those of layers and rows do. */
std::vector<Values> uneven_gradients(int rank_count, size_t value_count, uint64_t seed) {
  std::vector<Values> inputs = gradients(rank_count, value_count, seed);
  for (size_t e = 0; e < value_count; ++e) {
    const float scale = static_cast<float>(std::exp(1.5 * normal_at(seed + 77, e / kCell)));
    for (Values& values : inputs) values[e] *= scale;
  }
  return inputs;
}

Values mean_of(const std::string& quantizer, const std::vector<Values>& inputs, uint64_t step = 0) {
  return simulate({quantizer, GQSGD_SCHEDULE_DIRECT, GQSGD_MEAN, false, step}, inputs);
}

TEST(Rice, UnevenGradients_AThirdOfTheErrorOfAdaptiveWidths) {
  for (const int rank_count : {1, 4, 9}) {
    const std::vector<Values> inputs = uneven_gradients(rank_count, 100003, 5);
    for (const char* mean : {"3", "4", "5", "6"}) {
      const double rice = error_of(mean_of(std::string("rice-") + mean, inputs), inputs);
      const double adaptive = error_of(mean_of(std::string("adaptive-") + mean, inputs), inputs);
      EXPECT_LT(rice, adaptive / 3) << mean << " bits, " << rank_count << " ranks";
    }
  }
}

/** What a rank sends in a call of so many values. */
uint64_t sent_bytes(const char* quantizer, const std::vector<Values>& inputs) {
  uint64_t bytes = 0;
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const Operation operation{quantizer, GQSGD_SCHEDULE_DIRECT};
    const std::string failure = allreduce(comm, operation, inputs[rank], &result);
    if (rank == 0) gqsgd_comm_stat(comm, "payload_bytes_sent", &bytes);
    return failure;
  };
  EXPECT_EQ(run_threads(static_cast<int>(inputs.size()), "", body), "");
  return bytes;
}

TEST(Rice, Messages_OneSizeWhateverTheValues_NoMoreThanAdaptive) {
  const std::vector<Values> normal = gradients(4, 200000, 1);
  const std::vector<Values> uneven = uneven_gradients(4, 200000, 2);
  const std::vector<Values> zeros(4, Values(200000, 0.0f));
  for (const char* mean : {"3", "4.5", "8"}) {
    const std::string rice = std::string("rice-3,mean_bits=") + mean;
    const std::string adaptive = std::string("adaptive-3,mean_bits=") + mean;
    const uint64_t sent = sent_bytes(rice.c_str(), normal);
    EXPECT_EQ(sent_bytes(rice.c_str(), uneven), sent);
    EXPECT_EQ(sent_bytes(rice.c_str(), zeros), sent);
    EXPECT_LE(sent, sent_bytes(adaptive.c_str(), normal)) << mean;
  }
}

TEST(Rice, AnyLength_MostOfTheMeanIsThere) {
  for (const int rank_count : {1, 2, 5}) {
    for (const size_t count : {1, 2, 31, 32, 33, 127, 129, 1023, 1025, 8191, 8193, 32769, 65600}) {
      const std::vector<Values> inputs = gradients(rank_count, count, count);
      for (const Values& result : simulate_all({"rice-4", GQSGD_SCHEDULE_DIRECT}, inputs)) {
        EXPECT_LT(error_of(result, inputs), 0.3) << count << " values, " << rank_count << " ranks";
      }
    }
  }
}

// A bias would stay however many steps there are; the errors of a step do not.
TEST(Rice, MeanOverSteps_ApproachesTheMean_NearestDoesNot) {
  constexpr uint64_t kSteps = 600;
  const std::vector<Values> inputs = uneven_gradients(3, 2000, 8);
  const auto error_of_means = [&](const char* quantizer) {
    std::vector<double> sum(inputs[0].size(), 0);
    for (uint64_t step = 0; step < kSteps; ++step) {
      const Values mean = mean_of(quantizer, inputs, step);
      for (size_t e = 0; e < sum.size(); ++e) sum[e] += mean[e];
    }
    Values mean(sum.size());
    for (size_t e = 0; e < sum.size(); ++e) mean[e] = static_cast<float>(sum[e] / kSteps);
    return error_of(mean, inputs);
  };
  for (const char* quantizer : {"rice-3", "rice-4,rounding=independent"}) {
    const double one = error_of(mean_of(quantizer, inputs), inputs);
    EXPECT_LT(error_of_means(quantizer), 2 * one / kSteps) << quantizer;
  }
  const double nearest = error_of(mean_of("rice-3,rounding=nearest", inputs), inputs);
  EXPECT_NEAR(error_of_means("rice-3,rounding=nearest"), nearest, 1e-6 * nearest);
}

TEST(Rice, PoisonedCells_NanOnAllRanks_OthersAsIfTheyWereZero) {
  const std::vector<Values> clean = gradients(3, 5000, 3);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<Values> inputs = clean, zeros = clean;
    inputs[1][777] = bad;
    for (size_t e = 777 / kCell * kCell; e < (777 / kCell + 1) * kCell; ++e) zeros[1][e] = 0;
    const Values expected = mean_of("rice-4", zeros);
    for (const Values& result : simulate_all({"rice-4", GQSGD_SCHEDULE_DIRECT}, inputs)) {
      for (size_t e = 0; e < result.size(); ++e) {
        if (e / kCell == 777 / kCell) {
          ASSERT_EQ(bits_of(result[e]), 0x7fc00000u) << e;
        } else {
          ASSERT_TRUE(std::isfinite(result[e])) << e;
        }
      }
    }
  }
}

TEST(Rice, NonfiniteCells_Counted_ErrorNamesThem) {
  std::vector<Values> inputs = gradients(2, 4000, 4);
  inputs[1][5] = inputs[1][6] = NAN;
  inputs[1][3999] = INFINITY;
  const Quantizer quantizer("rice-4,nonfinite=error");
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const Operation operation{"rice-4", GQSGD_SCHEDULE_DIRECT};
    const std::string failure = allreduce(comm, operation, inputs[rank], &result);
    if (!failure.empty()) return failure;
    uint64_t cells = 0;
    gqsgd_comm_stat(comm, "nonfinite_blocks", &cells);
    if (cells != (rank == 1 ? 2u : 0u)) return std::to_string(cells) + " poisoned cells";
    const gqsgd_status status =
        gqsgd_allreduce(comm, quantizer.get(), inputs[rank].data(), result.data(), result.size(),
                        GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
    const std::string sentence = gqsgd_last_error();
    if (status != GQSGD_NONFINITE) return gqsgd_status_name(status) + (": " + sentence);
    return sentence.find("rank 1") != std::string::npos ? "" : sentence;
  };
  EXPECT_EQ(run_threads(2, "", body), "");
}

TEST(Rice, ZerosHugeAndTinyValues) {
  const std::vector<Values> zeros(3, Values(999, -0.0f));
  for (const Values& result : simulate_all({"rice-4", GQSGD_SCHEDULE_DIRECT}, zeros)) {
    for (const float value : result) ASSERT_EQ(bits_of(value), 0u);
  }
  for (const float scale : {1e-37f, 1e-30f, 1e30f, 1e34f}) {
    std::vector<Values> inputs = gradients(3, 3000, 6);
    for (Values& values : inputs) {
      for (float& value : values) value *= scale;
    }
    EXPECT_LT(error_of(mean_of("rice-5", inputs), inputs), 0.05) << scale;
  }
  // No step is so large that codes of these fit: they are poisoned, and not wrong.
  const std::vector<Values> huge(2, Values(3000, FLT_MAX));
  for (const float value : mean_of("rice-4", huge)) {
    ASSERT_TRUE(std::isnan(value) || value > FLT_MAX / 2) << value;
  }
}

/** Values of one magnitude, of which codes are longest, with any signs. */
std::vector<Values> alike(float magnitude, size_t value_count) {
  Values values(value_count, magnitude);
  for (size_t e = 0; e < value_count; ++e) values[e] *= mix(e) % 2 == 0 ? 1.0f : -1.0f;
  return {values};
}

bool any_is_nan(const Values& values) {
  return std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

// docs/PRESETS.md, values near the ends of float32: 2^118 is 2^-8 of the largest step.
TEST(Rice, ValuesUpTo2To118_AnyBits_Finite) {
  for (const char* bits : {"2.5", "3", "4", "5.5", "8"}) {
    for (const size_t count : {1, 31, 33, 96, 128, 1000, 8200}) {
      const std::string spec = std::string("levels=rice,mean_bits=") + bits;
      EXPECT_FALSE(any_is_nan(mean_of(spec, alike(0x1p118f, count)))) << spec << ", " << count;
    }
  }
}

TEST(Rice, ValuesAbove2To126_FewBits_GroupIsNan) {
  for (const char* preset : {"rice-3", "rice-4"}) {
    for (const float value : mean_of(preset, alike(0x1.8p127f, 1000))) {
      ASSERT_TRUE(std::isnan(value)) << preset;
    }
  }
  EXPECT_FALSE(any_is_nan(mean_of("levels=rice,mean_bits=8", alike(0x1.8p127f, 1000))));
}

/** Results of float64 or bfloat16 elements, as float32. */
template <typename Element>
Values simulate_as(gqsgd_dtype dtype, gqsgd_op op, const std::vector<std::vector<Element>>& inputs,
                   float (*number_of)(Element)) {
  const size_t count = inputs[0].size();
  std::vector<const void*> send;
  for (const std::vector<Element>& values : inputs) send.push_back(values.data());
  std::vector<Element> result(count);
  std::vector<void*> recv(inputs.size(), nullptr);
  recv[0] = result.data();
  const Quantizer quantizer("rice-4");
  const Config config = config_of({"rice-4", GQSGD_SCHEDULE_DIRECT});
  EXPECT_EQ(gqsgd_simulate(quantizer.get(), static_cast<int32_t>(inputs.size()), send.data(),
                           recv.data(), count, dtype, op, config, nullptr),
            GQSGD_OK)
      << gqsgd_last_error();
  Values values;
  for (const Element element : result) values.push_back(number_of(element));
  return values;
}

float number_of_bfloat(uint16_t element) {
  const uint32_t bits = uint32_t{element} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/** The values of all types are equal: few bits. float16 is tested from Python. */
TEST(Rice, OtherTypesAndOps_ResultOfFloat32Rounded) {
  std::vector<Values> inputs = gradients(3, 40001, 7);
  std::vector<std::vector<double>> doubles(inputs.size());
  std::vector<std::vector<uint16_t>> bfloats(inputs.size());
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    for (float& value : inputs[rank]) {
      value = number_of_bfloat(static_cast<uint16_t>(bits_of(value) >> 16));
      doubles[rank].push_back(static_cast<double>(value));
      bfloats[rank].push_back(static_cast<uint16_t>(bits_of(value) >> 16));
    }
  }
  for (const gqsgd_op op : {GQSGD_MEAN, GQSGD_SUM}) {
    const Values expected = simulate({"rice-4", GQSGD_SCHEDULE_DIRECT, op}, inputs);
    const Values as_double = simulate_as<double>(
        GQSGD_FLOAT64, op, doubles, [](double value) { return static_cast<float>(value); });
    EXPECT_EQ(difference(as_double, expected), "");
    const Values as_bfloat = simulate_as<uint16_t>(GQSGD_BFLOAT16, op, bfloats, number_of_bfloat);
    for (size_t e = 0; e < expected.size(); ++e) {
      ASSERT_NEAR(as_bfloat[e], expected[e], std::fabs(expected[e]) * 0x1p-7) << e;
    }
  }
}

TEST(Rice, Hierarchical_EqualOnAllRanks_SmallError) {
  const std::vector<Values> inputs = uneven_gradients(6, 70001, 9);
  const double direct = error_of(mean_of("rice-4", inputs), inputs);
  const std::vector<Values> results =
      simulate_all({"rice-4", GQSGD_SCHEDULE_HIERARCHICAL}, inputs, "nodes=0:0:1:1:1:2");
  for (const Values& result : results) EXPECT_EQ(difference(result, results[0]), "");
  EXPECT_LT(error_of(results[0], inputs), 4 * direct);
  const Values flat =
      simulate({"rice-4", GQSGD_SCHEDULE_HIERARCHICAL}, inputs, "nodes=0:1:2:3:4:5");
  EXPECT_EQ(difference(flat, mean_of("rice-4", inputs)), "");
}

TEST(Rice, OtherSchedules_Refused) {
  const std::vector<Values> inputs = gradients(2, 100, 1);
  const Quantizer quantizer("rice-4");
  const void* send[] = {inputs[0].data(), inputs[1].data()};
  Values result(100);
  void* recv[] = {result.data(), nullptr};
  for (const gqsgd_schedule schedule :
       {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_NATIVE,
        GQSGD_SCHEDULE_SPARSE}) {
    EXPECT_EQ(gqsgd_simulate(quantizer.get(), 2, send, recv, 100, GQSGD_FLOAT32, GQSGD_MEAN,
                             config_of({"rice-4", schedule}), nullptr),
              GQSGD_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gqsgd_last_error()).find("levels=rice"), std::string::npos)
        << gqsgd_last_error();
  }
}

TEST(Rice, Model_ErrorOfGivenValues_NoBoundFromANorm) {
  const std::vector<Values> inputs = gradients(2, 3000, 2);
  const void* send[] = {inputs[0].data(), inputs[1].data()};
  const Quantizer quantizer("rice-4");
  double number = 0;
  EXPECT_EQ(gqsgd_variance_bound(quantizer.get(), 2, 3000, GQSGD_SCHEDULE_DIRECT, &number),
            GQSGD_UNSUPPORTED);
  EXPECT_NE(std::string(gqsgd_last_error()).find("gqsgd_expected_error"), std::string::npos)
      << gqsgd_last_error();
  ASSERT_EQ(gqsgd_expected_error(quantizer.get(), 2, send, 3000, GQSGD_FLOAT32,
                                 config_of({"", GQSGD_SCHEDULE_DIRECT}), 3, nullptr, &number),
            GQSGD_OK);
  EXPECT_GT(number, 0.005);
  EXPECT_LT(number, 0.1);
  ASSERT_EQ(gqsgd_sparsity_bound(quantizer.get(), 2, 3000, GQSGD_SCHEDULE_DIRECT, &number),
            GQSGD_OK);
  EXPECT_EQ(number, 6000);
  double rice_ns = 0, adaptive_ns = 0;
  const Quantizer adaptive("adaptive-4");
  for (const auto& [one, time_ns] : {std::pair{&quantizer, &rice_ns}, {&adaptive, &adaptive_ns}}) {
    ASSERT_EQ(gqsgd_predict_time(one->get(), GQSGD_SCHEDULE_DIRECT, 4, size_t{25} << 20,
                                 GQSGD_FLOAT32, "byte_ns = 100", time_ns),
              GQSGD_OK);
  }
  EXPECT_NEAR(rice_ns / adaptive_ns, 1, 0.02) << "bytes decide";
}

}  // namespace
}  // namespace gq::test
