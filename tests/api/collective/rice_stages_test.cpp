// Single stages of Rice codes through the C ABI: the direct schedule put together from them, each
// owner with its own groups, has the bits of gqsgd_allreduce; sizes; what is refused.
#include <gqsgd_stages.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

using Bytes = std::vector<uint8_t>;
using Words = std::vector<uint32_t>;

constexpr uint64_t kStep = 7, kIndex = 3;
constexpr size_t kWordBytes = sizeof(uint32_t);

size_t bytes_of(gqsgd_dtype dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

/** A call, and what all ranks know of it. */
struct Call {
  const char* spec;
  int ranks;
  size_t value_count;
  gqsgd_dtype dtype = GQSGD_FLOAT32;
  gqsgd_op op = GQSGD_MEAN;
  bool special = false;  ///< values that are not finite

  size_t bytes() const { return value_count * bytes_of(dtype); }
  std::string text() const {
    return std::string(spec) + ", " + std::to_string(ranks) + " ranks, " +
           std::to_string(value_count) + " values of type " + std::to_string(dtype) + ", op " +
           std::to_string(op);
  }
  gqsgd_site site(int rank, uint64_t hop = 0) const {
    gqsgd_site site = {};
    site.rank = static_cast<uint64_t>(rank);
    site.size = static_cast<uint64_t>(ranks);
    site.step = kStep;
    site.index = kIndex;
    site.hop = hop;
    return site;
  }
};

/** Halves are any numbers that are finite; the others normal, cells of different sizes. */
void put_element(const Call& call, int rank, size_t e, uint8_t* to) {
  double value = normal_at(static_cast<uint64_t>(rank) + 1, e) * std::exp2(mix(e / 32) % 9);
  if (e / 32 % 11 == 3) value = 0;
  if (call.special && rank == call.ranks - 1 && e % 5003 == 300) value = e % 2 ? NAN : -INFINITY;
  const float narrow = static_cast<float>(value);
  uint16_t half = static_cast<uint16_t>(mix(e + 1000 * static_cast<size_t>(rank)));
  if ((half & 0x7c00) == 0x7c00) half &= 0x83ff;
  if (call.special && e == 77) half = 0x7e00;
  if (call.dtype == GQSGD_BFLOAT16) {
    std::memcpy(&half, reinterpret_cast<const uint8_t*>(&narrow) + 2, 2);
  }
  if (call.dtype == GQSGD_FLOAT64) return (void)std::memcpy(to, &value, 8);
  if (call.dtype == GQSGD_FLOAT32) return (void)std::memcpy(to, &narrow, 4);
  std::memcpy(to, &half, 2);
}

std::vector<Bytes> inputs_of(const Call& call) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < call.ranks; ++rank) {
    inputs.emplace_back(call.bytes());
    for (size_t e = 0; e < call.value_count; ++e) {
      put_element(call, rank, e, &inputs.back()[e * bytes_of(call.dtype)]);
    }
  }
  return inputs;
}

/** The result of gqsgd_allreduce, which is the same on all ranks. */
Bytes allreduced(const Call& call, const std::vector<Bytes>& inputs) {
  const Quantizer quantizer(call.spec);
  std::vector<Bytes> results(inputs.size(), Bytes(call.bytes()));
  gqsgd_config config = GQSGD_CONFIG_INIT;
  config.schedule = GQSGD_SCHEDULE_DIRECT;
  config.step_source = GQSGD_STEP_GIVEN;
  config.step = kStep;
  config.index = kIndex;
  const auto body = [&](int rank, gqsgd_comm comm) {
    return failure_of(
        gqsgd_allreduce(comm, quantizer.get(), inputs[rank].data(), results[rank].data(),
                        call.value_count, call.dtype, call.op, &config, nullptr),
        "allreduce");
  };
  EXPECT_EQ(run_threads(call.ranks, "", body), "");
  for (const Bytes& result : results) EXPECT_EQ(result, results[0]);
  return results[0];
}

void expect_ok(gqsgd_status status, const char* stage) {
  ASSERT_EQ(status, GQSGD_OK) << stage << ": " << gqsgd_last_error();
}

/** The direct schedule by stages, in memory of one thread: what ranks would send each other are
 *  copies of just the words that belong to the other. */
class DirectByHand {
 public:
  explicit DirectByHand(const Call& call) : call_(call), quantizer_(call.spec) {
    const gqsgd_site site = call.site(0);
    expect_ok(gqsgd_rice_groups(quantizer_.get(), &site, call.value_count, &groups_, &codes_bytes_,
                                &sums_bytes_),
              "rice_groups");
    owned_ = (groups_ + static_cast<size_t>(call.ranks) - 1) / static_cast<size_t>(call.ranks);
  }

  size_t groups() const { return groups_; }

  Words quantize(int rank, const Bytes& values) const {
    Words words(groups_ * codes_bytes_ / kWordBytes, 0xA5A5A5A5u);
    const gqsgd_site site = call_.site(rank);
    expect_ok(gqsgd_quantize(quantizer_.get(), &site, values.data(), call_.value_count, call_.dtype,
                             &norm_, words.data(), nullptr, 0, nullptr),
              "quantize");
    return words;
  }

  /** The sums of groups first .. end - 1, from copies of their codes. */
  Words reduce(int rank, const std::vector<Words>& codes, size_t first, size_t end) const {
    const size_t group_words = codes_bytes_ / kWordBytes;
    std::vector<Words> received;
    std::vector<const uint32_t*> operands;
    for (const Words& words : codes) {
      received.emplace_back(words.begin() + static_cast<ptrdiff_t>(first * group_words),
                            words.begin() + static_cast<ptrdiff_t>(end * group_words));
    }
    for (const Words& words : received) operands.push_back(words.data());
    Words sums((end - first) * sums_bytes_ / kWordBytes, 0x5A5A5A5Au);
    const gqsgd_site site = call_.site(rank, 1);
    expect_ok(gqsgd_reduce_rice(quantizer_.get(), &site, operands.data(), call_.value_count, first,
                                end - first, sums.data(), nullptr, 0, nullptr),
              "reduce_rice");
    return sums;
  }

  /** What each owner makes, one group at a time or all of its own at once. */
  Words reduce_all(const std::vector<Words>& codes, bool one_at_a_time) const {
    Words sums;
    for (int rank = 0; rank < call_.ranks; ++rank) {
      const size_t begin = std::min(groups_, static_cast<size_t>(rank) * owned_);
      const size_t end = std::min(groups_, begin + owned_);
      const size_t step = one_at_a_time ? 1 : std::max<size_t>(1, end - begin);
      if (begin == end) {
        EXPECT_TRUE(reduce(rank, codes, begin, end).empty());
      }
      for (size_t first = begin; first < end; first += step) {
        const Words own = reduce(rank, codes, first, std::min(end, first + step));
        sums.insert(sums.end(), own.begin(), own.end());
      }
    }
    return sums;
  }

  Bytes dequantize(int rank, const Words& sums) const {
    Bytes result(call_.bytes());
    const gqsgd_site site = call_.site(rank);
    expect_ok(gqsgd_dequantize(quantizer_.get(), &site, sums.data(), &norm_, call_.value_count,
                               call_.dtype, call_.op, result.data(), nullptr),
              "dequantize");
    return result;
  }

  std::vector<Words> quantize_all(const std::vector<Bytes>& inputs) const {
    std::vector<Words> codes;
    for (int rank = 0; rank < call_.ranks; ++rank) codes.push_back(quantize(rank, inputs[rank]));
    return codes;
  }

 private:
  Call call_;
  Quantizer quantizer_;
  size_t groups_ = 0, codes_bytes_ = 0, sums_bytes_ = 0, owned_ = 0;
  float norm_ = 0;
};

void expect_bits_of_allreduce(const Call& call) {
  const std::vector<Bytes> inputs = inputs_of(call);
  const Bytes expected = allreduced(call, inputs);
  const DirectByHand stages(call);
  const std::vector<Words> codes = stages.quantize_all(inputs);
  const Words sums = stages.reduce_all(codes, false);
  EXPECT_TRUE(stages.reduce_all(codes, true) == sums) << call.text();
  for (const int rank : {0, call.ranks - 1}) {
    EXPECT_TRUE(stages.dequantize(rank, sums) == expected) << call.text();
  }
}

TEST(RiceStages, DirectByHand_AnyTypeAndRanks_BitsOfAllreduce) {
  for (const int ranks : {1, 2, 5, 16}) {
    for (const gqsgd_dtype dtype : {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64}) {
      expect_bits_of_allreduce({"rice-4", ranks, 21001, dtype, GQSGD_SUM});
      expect_bits_of_allreduce({"rice-3,seed=9", ranks, 9000, dtype, GQSGD_MEAN, true});
    }
  }
}

TEST(RiceStages, DirectByHand_AnyLength_BitsOfAllreduce) {
  for (const size_t count : {0, 1, 31, 33, 1023, 1025, 8192, 8193, 32769, 70003, 140001}) {
    expect_bits_of_allreduce({"rice-5", 3, count});
    expect_bits_of_allreduce({"rice-4", 2, count, GQSGD_BFLOAT16, GQSGD_SUM, true});
  }
}

TEST(RiceStages, DirectByHand_EveryRoundingAndMean_BitsOfAllreduce) {
  for (const char* spec : {"rice-6,rounding=independent", "rice-3,rounding=nearest",
                           "rice-4,mean_bits=2.5", "rice-4,mean_bits=8"}) {
    expect_bits_of_allreduce({spec, 5, 20001, GQSGD_FLOAT16});
  }
}

TEST(RiceStages, PoisonedCells_NanInTheResult) {
  const Call call{"rice-4", 2, 6000, GQSGD_FLOAT32, GQSGD_MEAN, true};
  const std::vector<Bytes> inputs = inputs_of(call);
  const DirectByHand stages(call);
  const Bytes result = stages.dequantize(0, stages.reduce_all(stages.quantize_all(inputs), false));
  for (size_t e = 0; e < call.value_count; ++e) {
    float value;
    std::memcpy(&value, &result[e * sizeof value], sizeof value);
    ASSERT_EQ(std::isnan(value), e / 32 == 300 / 32 || e / 32 == 5303 / 32) << e;
  }
}

TEST(RiceStages, ReduceMany_AllGroupsByOneRank) {
  const Call call{"rice-4", 3, 50001};
  const Quantizer quantizer(call.spec);
  const DirectByHand stages(call);
  const std::vector<Words> codes = stages.quantize_all(inputs_of(call));
  const Words expected = stages.reduce(2, codes, 0, stages.groups());
  const uint32_t* const operands[] = {codes[0].data(), codes[1].data(), codes[2].data()};
  Words sums(expected.size());
  const gqsgd_site site = call.site(2, 1);
  const float norm = 5;
  float scale = 0;
  expect_ok(gqsgd_reduce_many(quantizer.get(), &site, operands, call.value_count, &norm,
                              sums.data(), &scale, nullptr, 0, nullptr),
            "reduce_many");
  EXPECT_TRUE(sums == expected);
  EXPECT_EQ(scale, norm);
}

TEST(RiceStages, Norm_OneThatIsZero) {
  const Call call{"rice-4", 2, 100, GQSGD_FLOAT32, GQSGD_MEAN, true};
  const Quantizer quantizer(call.spec);
  size_t norms = 0;
  EXPECT_EQ(gqsgd_norm_count(quantizer.get(), call.value_count, &norms), GQSGD_OK);
  EXPECT_EQ(norms, 1u);
  const gqsgd_site site = call.site(0);
  float norm = 7;
  expect_ok(gqsgd_norm(quantizer.get(), &site, inputs_of(call)[0].data(), call.value_count,
                       call.dtype, &norm, nullptr, 0, nullptr),
            "norm");
  EXPECT_EQ(norm, 0);
}

TEST(RiceStages, Sizes_EnoughForAnyRanks_WithinAPlaneForEachGroup) {
  constexpr size_t kPlaneBytes = 16;
  for (const char* spec : {"rice-4,mean_bits=2.5", "rice-3", "rice-4", "rice-4,mean_bits=8"}) {
    const Quantizer quantizer(spec);
    for (size_t count = 0; count < 40'000'000; count = count * 5 / 4 + 97) {
      size_t packed = 0, result = 0;
      EXPECT_EQ(gqsgd_packed_size(quantizer.get(), count, &packed), GQSGD_OK);
      EXPECT_EQ(gqsgd_result_size(quantizer.get(), count, &result), GQSGD_OK);
      for (const int ranks : {1, 2, 3, 7, 16, 100, 4096}) {
        const gqsgd_site site = Call{spec, ranks, count}.site(0);
        size_t groups = 0, codes = 0, sums = 0;
        ASSERT_EQ(gqsgd_rice_groups(quantizer.get(), &site, count, &groups, &codes, &sums),
                  GQSGD_OK);
        ASSERT_LE(groups * codes, packed) << spec << ": " << count << " values, " << ranks;
        ASSERT_LE(groups * sums, result) << spec << ": " << count << " values, " << ranks;
        ASSERT_GT(groups * (codes + kPlaneBytes) + 1, packed) << count;
        ASSERT_GT(groups * (sums + kPlaneBytes) + 1, result) << count;
      }
    }
  }
}

/** A call of each stage with arguments that a test changes first. */
struct Refusals : testing::Test {
  Quantizer rice{"rice-4"}, blocks{"blocks-8"};
  gqsgd_quantizer quantizer = rice.get();
  gqsgd_site site = Call{"", 2, 0}.site(0, 1);
  size_t value_count = 20000, first_group = 0, group_count = 2;
  Words codes_a = Words(5000), codes_b = Words(5000), sums = Words(5000);
  const uint32_t* words[2] = {codes_a.data(), codes_b.data()};
  uint32_t* out_words = sums.data();
  size_t groups = 0, codes_bytes = 0, sums_bytes = 0;
  std::vector<float> values = std::vector<float>(20000);
  float norm = 0, scale = 0;

  std::string groups_refused() {
    return refused(gqsgd_rice_groups(quantizer, &site, value_count, &groups, &codes_bytes,
                                     &sums_bytes));
  }
  std::string reduce_refused(void* stream = nullptr) {
    return refused(gqsgd_reduce_rice(quantizer, &site, words, value_count, first_group, group_count,
                                     out_words, nullptr, 0, stream));
  }
  std::string quantize_refused() {
    return refused(gqsgd_quantize(quantizer, &site, values.data(), value_count, GQSGD_FLOAT32,
                                  &norm, out_words, nullptr, 0, nullptr));
  }

 private:
  static std::string refused(gqsgd_status status) {
    const std::string sentence = gqsgd_last_error();
    return status == GQSGD_OK ? "" : gqsgd_status_name(status) + (": " + sentence);
  }
};

bool begins(const std::string& sentence, const char* with) {
  return sentence.rfind(with, 0) == 0;
}

TEST_F(Refusals, NothingChanged_Accepted) {
  EXPECT_EQ(groups_refused(), "");
  EXPECT_EQ(groups, 2u);
  EXPECT_EQ(quantize_refused(), "");
  EXPECT_EQ(reduce_refused(), "");
  first_group = 2, group_count = 0, out_words = nullptr;
  EXPECT_EQ(reduce_refused(), "") << "no groups, no words";
}

TEST_F(Refusals, GroupsBeyondTheCall) {
  const std::pair<size_t, size_t> ranges[] = {{0, 3}, {2, 1}, {3, 0}, {1, SIZE_MAX}};
  for (const auto& [first, count] : ranges) {
    first_group = first, group_count = count;
    const std::string sentence = reduce_refused();
    EXPECT_NE(sentence.find("the call has 2 groups (gqsgd_rice_groups)"), std::string::npos)
        << sentence;
    EXPECT_TRUE(begins(sentence, "INVALID_ARGUMENT: first_group is ")) << sentence;
  }
}

TEST_F(Refusals, OtherLevels) {
  quantizer = blocks.get();
  EXPECT_TRUE(begins(reduce_refused(), "INVALID_ARGUMENT: gqsgd_reduce_rice is for levels=rice"))
      << reduce_refused();
  EXPECT_TRUE(begins(groups_refused(), "INVALID_ARGUMENT: gqsgd_rice_groups is for levels=rice"))
      << groups_refused();
}

TEST_F(Refusals, PartOfACall_ReductionsInCodeForm_Lengths) {
  site.first_value = 1024;
  const char* const part = "INVALID_ARGUMENT: site: first_value is 1024; with levels=rice groups";
  EXPECT_TRUE(begins(quantize_refused(), part)) << quantize_refused();
  EXPECT_TRUE(begins(groups_refused(), part)) << groups_refused();
  site.first_value = 0, site.reduction_depth = 1;
  EXPECT_NE(reduce_refused().find("levels=rice needs codes that are added by reduce_many"),
            std::string::npos)
      << reduce_refused();
  site.reduction_depth = 0;
  for (const size_t count : {SIZE_MAX, SIZE_MAX - 1023, (size_t{1} << 44) + 1}) {
    value_count = count;
    EXPECT_TRUE(begins(groups_refused(), "INVALID_ARGUMENT: value_count is ")) << groups_refused();
    EXPECT_TRUE(begins(quantize_refused(), "INVALID_ARGUMENT: value_count is "));
    EXPECT_TRUE(begins(reduce_refused(), "INVALID_ARGUMENT: value_count is "));
  }
}

TEST_F(Refusals, MissingAndOverlappingBuffers_NothingWritten) {
  out_words = const_cast<uint32_t*>(words[1]) + 8;
  EXPECT_NE(reduce_refused().find("words[rank] and out_words overlap"), std::string::npos)
      << reduce_refused();
  out_words = const_cast<uint32_t*>(words[1]);
  EXPECT_NE(reduce_refused().find("overlap"), std::string::npos) << "sums are longer than codes";
  EXPECT_TRUE(codes_b == Words(codes_b.size()));
  out_words = nullptr;
  EXPECT_TRUE(begins(reduce_refused(), "INVALID_ARGUMENT: out_words is NULL")) << reduce_refused();
  out_words = sums.data(), words[1] = nullptr;
  EXPECT_NE(reduce_refused().find("words[rank] is NULL"), std::string::npos) << reduce_refused();
  EXPECT_EQ(gqsgd_rice_groups(quantizer, &site, 1, &groups, nullptr, &sums_bytes),
            GQSGD_INVALID_ARGUMENT);
  EXPECT_STREQ(gqsgd_last_error(), "gqsgd_rice_groups: codes_size_bytes is NULL");
}

}  // namespace
}  // namespace gq::test
