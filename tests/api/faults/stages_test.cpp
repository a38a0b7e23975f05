// Buffers of stages that overlap, and numbers that are no norms: refused, and nothing is written.
#include <gqsgd_stages.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/api/faults/support/call.h"

namespace gq::test {
namespace {

constexpr size_t kValueCount = 5120;
constexpr size_t kNormCount = kValueCount / 128;

/** Buffers for every stage of a format with norms of blocks, one after the other. */
class Stages : public testing::Test {
 protected:
  Stages() {
    call_.use("blocks-8");
    for (size_t k = 0; k < kValueCount; ++k) values()[k] = static_cast<float>(k % 7);
    EXPECT_EQ(gqsgd_norm(call_.quantizer, &site_, values(), kValueCount, GQSGD_FLOAT32, norms(),
                         nullptr, 0, nullptr),
              GQSGD_OK);
    EXPECT_EQ(quantize(norms(), words()), GQSGD_OK);
  }

  gqsgd_status quantize(const float* norms, uint32_t* words) {
    return gqsgd_quantize(call_.quantizer, &site_, values(), kValueCount, GQSGD_FLOAT32, norms,
                          words, nullptr, 0, nullptr);
  }
  gqsgd_status reduce_many(const float* norms, uint32_t* out, float* out_scales) {
    const uint32_t* const list[] = {words()};
    return gqsgd_reduce_many(call_.quantizer, &site_, list, kValueCount, norms, out, out_scales,
                             nullptr, 0, nullptr);
  }

  float* values() { return memory_.data(); }
  float* norms() { return values() + kValueCount; }
  uint32_t* words() { return reinterpret_cast<uint32_t*>(norms() + kValueCount); }
  uint32_t* sums() { return words() + kValueCount; }
  float* scales() { return reinterpret_cast<float*>(sums() + kValueCount); }
  static float* in(uint32_t* words) { return reinterpret_cast<float*>(words + 3); }

  Values memory_ = Values(5 * kValueCount, 0.0f);
  Call call_{0};
  gqsgd_site site_ = {0, 1, 0, 0, 0, 0, 0, 1, 1};
};

TEST_F(Stages, OverlappingBuffers_Refused) {
  const struct {
    const char* sentence;
    std::function<gqsgd_status()> stage;
  } cases[] = {
      {"norms and values overlap in 160 bytes",
       [&] {
         return gqsgd_norm(call_.quantizer, &site_, values(), kValueCount, GQSGD_FLOAT32,
                           values() + 5, nullptr, 0, nullptr);
       }},
      {"norms and words overlap in 160 bytes", [&] { return quantize(in(sums()), sums()); }},
      {"norms and out_words overlap", [&] { return reduce_many(in(sums()), sums(), scales()); }},
      {"out_scales and out_words overlap",
       [&] { return reduce_many(norms(), sums(), in(sums())); }},
      {"out_scales and words.rank. overlap",
       [&] { return reduce_many(norms(), sums(), in(words())); }},
      {"scales and values overlap in 160 bytes",
       [&] {
         return gqsgd_dequantize(call_.quantizer, &site_, words(), values() + 70, kValueCount,
                                 GQSGD_FLOAT32, GQSGD_MEAN, values(), nullptr);
       }},
  };
  for (const auto& one : cases) {
    const Values before = memory_;  // zeros, where norms are to be read, are norms
    EXPECT_TRUE(is(outcome_of(one.stage()), GQSGD_INVALID_ARGUMENT, one.sentence));
    EXPECT_EQ(memcmp(memory_.data(), before.data(), before.size() * sizeof(float)), 0)
        << one.sentence;
    memory_ = before;
  }
}

TEST_F(Stages, ScalesInPlaceOfNorms_Accepted) {
  EXPECT_EQ(reduce_many(norms(), sums(), scales()), GQSGD_OK) << gqsgd_last_error();
  EXPECT_EQ(reduce_many(norms(), words(), norms()), GQSGD_OK) << gqsgd_last_error();
  EXPECT_EQ(memcmp(norms(), scales(), kNormCount * sizeof(float)), 0);
  EXPECT_EQ(memcmp(words(), sums(), kValueCount), 0);
}

constexpr float kLargest = std::numeric_limits<float>::max();

TEST_F(Stages, NumberOffTheGridOfNorms_RefusedWithItsIndex) {
  const float numbers[] = {-1, -0.0f, std::nextafter(1.0f, 2.0f), 1.00390625f,
                           std::nextafter(kLargest, 0.0f)};
  for (size_t k = 0; k < kNormCount; ++k) {
    const std::string sentence = "norms." + std::to_string(k) + ". is ";
    const float before = norms()[k];
    for (const float number : numbers) {
      norms()[k] = number;
      EXPECT_TRUE(is(outcome_of(quantize(norms(), words())), GQSGD_INVALID_ARGUMENT, sentence));
    }
    norms()[k] = before;
  }
}

TEST_F(Stages, LargestNumberAndPoisonedNorms_Accepted) {
  const float numbers[] = {0, kLargest, INFINITY, -INFINITY, NAN, -NAN};
  for (size_t k = 0; k < kNormCount; ++k) {
    const float before = norms()[k];
    for (const float number : numbers) {
      norms()[k] = number;
      EXPECT_EQ(quantize(norms(), words()), GQSGD_OK) << gqsgd_last_error();
    }
    norms()[k] = before;
  }
}

// A count of -1, as an error code that was not looked at gives it, is no count.
TEST_F(Stages, CountsBeyondAllElements_Refused) {
  for (const char* spec :
       {"paper-gl8", "paper-gl4,rotate=hadamard", "blocks-8", "bf16", "rice-4"}) {
    call_.use(spec);
    for (const size_t count : {SIZE_MAX, SIZE_MAX / 2 + 1, (size_t{1} << 44) + 1}) {
      const uint32_t* const list[] = {words()};
      EXPECT_TRUE(is(outcome_of(gqsgd_reduce_many(call_.quantizer, &site_, list, count, norms(),
                                                  sums(), scales(), nullptr, 0, nullptr)),
                     GQSGD_INVALID_ARGUMENT, "value_count is .*; the largest is 17592186044416"))
          << spec;
    }
  }
  site_ = {0, 2, 1, 0, 0, 0, 1, 1, 1};
  call_.use("paper-gl8");
  EXPECT_TRUE(is(outcome_of(gqsgd_reduce(call_.quantizer, &site_, words(), sums(), SIZE_MAX,
                                         nullptr)),
                 GQSGD_INVALID_ARGUMENT, "value_count is"));
  site_.first_value = uint64_t{1} << 44;
  EXPECT_TRUE(is(outcome_of(gqsgd_reduce(call_.quantizer, &site_, words(), sums(), 1, nullptr)),
                 GQSGD_INVALID_ARGUMENT, "first_value . value_count is 17592186044417"));
}

TEST_F(Stages, WeightsWhoseSumOverflows_Refused) {
  call_.use("paper-gl4");
  const uint64_t weights[][2] = {{UINT64_MAX, 2}, {2, UINT64_MAX}, {1, 1 << 20}, {0, 1}};
  for (const auto& [a, b] : weights) {
    site_ = {0, 2, 1, 0, 0, 0, 1, a, b};
    EXPECT_TRUE(is(outcome_of(gqsgd_reduce(call_.quantizer, &site_, words(), sums(), 32, nullptr)),
                   GQSGD_INVALID_ARGUMENT, "site: weights are " + std::to_string(a)));
  }
}

TEST_F(Stages, UnknownDtypeOfAWorkspace_Refused) {
  size_t size_bytes = 0;
  EXPECT_TRUE(is(outcome_of(gqsgd_workspace_size(call_.quantizer, 32,
                                                 static_cast<gqsgd_dtype>(4), &size_bytes)),
                 GQSGD_INVALID_ARGUMENT, "dtype is 4"));
}

}  // namespace
}  // namespace gq::test
