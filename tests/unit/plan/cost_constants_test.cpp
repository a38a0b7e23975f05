// The string of cost constants: what is written is read back, and what is wrong is refused by name.
#include "src/plan/cost/cost_constants.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/succeeds.h"

namespace gq {
namespace {

std::string text_of(const CostConstants& constants) {
  std::string text(describe_costs(constants, nullptr, 0), '\0');
  describe_costs(constants, text.data(), text.size() + 1);
  return text;
}

TEST(CostConstants, WrittenConstants_ReadBack) {
  CostConstants constants = built_in_costs();
  constants.latency_ns = 1234.5;
  constants.stages[3][2] = {0.125, 7, 300};
  CostConstants read;
  ASSERT_TRUE(test::succeeds(parse_costs(text_of(constants), &read)));
  EXPECT_EQ(text_of(read), text_of(constants));
  EXPECT_EQ(digest_of(read), digest_of(constants));
}

TEST(CostConstants, NamesLeftOut_BuiltInValue) {
  CostConstants read;
  ASSERT_TRUE(parse_costs("# nothing\n\n  byte_ns = 3 # a slow link\r\n", &read).ok());
  EXPECT_EQ(read.byte_ns, 3);
  EXPECT_EQ(read.latency_ns, built_in_costs().latency_ns);
}

// As an option of a communicator: one line without a comma.
TEST(CostConstants, ExactLine_SameBits) {
  CostConstants constants = built_in_costs();
  constants.byte_ns = 1.0 / 3;
  constants.stages[5][1] = {2.0 / 3, 1e15, 1e-15};
  std::string line(describe_costs_exactly(constants, nullptr, 0), '\0');
  describe_costs_exactly(constants, line.data(), line.size() + 1);
  EXPECT_EQ(line.find_first_of(",\n#"), std::string::npos);
  CostConstants read;
  ASSERT_TRUE(test::succeeds(parse_costs(line, &read)));
  EXPECT_EQ(digest_of(read), digest_of(constants));
  EXPECT_EQ(read.byte_ns, 1.0 / 3);
  char cut[20];
  EXPECT_EQ(describe_costs_exactly(constants, cut, sizeof cut), line.size());
  EXPECT_EQ(cut, line.substr(0, sizeof cut - 1));
}

TEST(CostConstants, SemicolonInAComment_EndsNothing) {
  CostConstants read;
  ASSERT_TRUE(
      test::succeeds(parse_costs("# for auto; of all\ncpus = 3; byte_ns = 2 # a; b\n", &read)));
  EXPECT_EQ(read.cpus, 3);
  EXPECT_EQ(read.byte_ns, 2);
}

TEST(CostConstants, EveryNumber_ChangesTheDigest) {
  const CostConstants constants = built_in_costs();
  const uint32_t digest = digest_of(constants);
  EXPECT_GT(digest, 0u);
  EXPECT_LE(digest, 65535u);
  for (size_t i = 0; i < sizeof constants / sizeof(double); ++i) {
    CostConstants changed = constants;
    reinterpret_cast<double*>(&changed)[i] += 1;
    EXPECT_NE(digest_of(changed), digest) << "number " << i;
  }
}

TEST(CostConstants, MalformedLine_RefusedByLineAndName) {
  const struct {
    const char* text;
    const char* sentence;
  } cases[] = {
      {"latency_ns = 1\nlatency = 2", "line 2 of the costs: \"latency\" is not a constant"},
      {"latency_ns", "line 1 of the costs: latency_ns is not one number"},
      {"latency_ns = ", "latency_ns is not one number from 0"},
      {"latency_ns = fast", "latency_ns is not one number from 0"},
      {"latency_ns = -1", "latency_ns is not one number from 0"},
      {"latency_ns = nan", "latency_ns is not one number from 0"},
      {"latency_ns = inf", "latency_ns is not one number from 0"},
      {"latency_ns = 1e16", "latency_ns is not one number from 0"},
      {"latency_ns = 1e999", "latency_ns is not one number from 0"},
      {"latency_ns = 1e-999", "latency_ns is not one number from 0"},
      {"cpus = 1e-16", "cpus is not one number from 0"},
      {"byte_ns = 1\n\nbyte_ns = 1", "line 3 of the costs: byte_ns is given twice"},
      {"linear8.norm = 1 1 1\nlinear8.norm = 1 1 1",
       "line 2 of the costs: linear8.norm is given twice"},
      {"latency_ns = 1 2", "latency_ns is not one number from 0"},
      {"linear8.quantize = 1 2", "linear8.quantize is not three numbers"},
      {"linear8.quantize = 1 2 3 4", "linear8.quantize is not three numbers"},
      {"linear8.quantize = 1.5.5 3", "linear8.quantize is not three numbers"},
      {"linear8quantize = 1 2 3", "\"linear8quantize\" is not a constant"},
      {"linear8. = 1 2", "\"linear8.\" is not a constant"},
      {"= 3", "\"\" is not a constant"},
      {"\x01\xff", "is not a constant"},
  };
  for (const auto& one : cases) {
    CostConstants read = built_in_costs();
    const Status refused = parse_costs(one.text, &read);
    EXPECT_EQ(refused.code(), GQSGD_INVALID_ARGUMENT) << one.text;
    EXPECT_NE(std::string(refused.sentence()).find(one.sentence), std::string::npos)
        << refused.sentence();
    EXPECT_EQ(digest_of(read), digest_of(built_in_costs())) << "changed by " << one.text;
  }
}

}  // namespace
}  // namespace gq
