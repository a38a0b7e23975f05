// Strings of a caller in error sentences and log lines: no control character of theirs reaches a
// terminal, and every sentence is UTF-8.
#include <cstdlib>
#include <fstream>

#include "include/gqsgd_log.h"
#include "include/gqsgd_model.h"
#include "include/gqsgd_nccl.h"
#include "include/gqsgd_transport.h"
#include "tests/api/faults/support/call.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

// Clears a terminal, rings, breaks the line, is no UTF-8, and is a control character of two bytes.
const std::string kHostile = "\x1b[2J\a\r\n\xff\xc2\x9b";
const std::string kEscaped = "\\x1b[2J\\x07\\x0d\\x0a\\xff\\xc2\\x9b";

testing::AssertionResult shows_escaped(const std::string& sentence) {
  for (const char byte : sentence) {
    if (byte < 0x20 || byte == 0x7f) {  // as a signed char: no control character, no byte above 127
      return testing::AssertionFailure() << "byte " << int{byte} << " in: " << sentence;
    }
  }
  if (sentence.find(kEscaped) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "not shown in: " << sentence;
}

TEST(ForeignStrings, QuantizerSpecification_Escaped) {
  for (const char* before : {"", "levels=", "seed=", "norm=", "norm=1:", "bits=", "block=",
                             "rotated-8,", "mantissa_bits=", "rescale="}) {
    gqsgd_quantizer quantizer = nullptr;
    const std::string spec = before + kHostile;
    const Outcome outcome = outcome_of(gqsgd_quantizer_create(spec.c_str(), &quantizer));
    EXPECT_EQ(outcome.status, GQSGD_INVALID_ARGUMENT);
    EXPECT_TRUE(shows_escaped(outcome.text())) << before;
  }
}

TEST(ForeignStrings, OptionsOfCommunicators_Escaped) {
  for (const char* before : {"", "timeout_ms=", "uncompressed=", "nodes=0:", "costs=/nowhere/"}) {
    gqsgd_comm comm = nullptr;
    const std::string options = before + kHostile;
    const Outcome outcome = outcome_of(gqsgd_comm_create_local(1, options.c_str(), &comm));
    EXPECT_EQ(outcome.status, GQSGD_INVALID_ARGUMENT);
    EXPECT_TRUE(shows_escaped(outcome.text())) << before;
  }
  for (const char* before : {"nccl=", "nccl=/nowhere/"}) {
    gqsgd_unique_id id;
    const std::string options = before + kHostile;
    EXPECT_TRUE(
        shows_escaped(outcome_of(gqsgd_nccl_unique_id_create(options.c_str(), &id)).text()));
    gqsgd_comm comm = nullptr;
    int thing = 0;
    EXPECT_TRUE(shows_escaped(
        outcome_of(gqsgd_comm_create_from_nccl(&thing, options.c_str(), &comm)).text()));
  }
}

TEST(ForeignStrings, Environment_EscapedInErrorsAndLogLines) {
  for (const char* name : {"GQSGD_TIMEOUT_MS", "GQSGD_COSTS", "GQSGD_FORCE_ISA"}) {
    Child child([name] {
      setenv(name, kHostile.c_str(), 1);
      static std::string warnings;
      gqsgd_set_log(
          GQSGD_LOG_WARN, [](void*, gqsgd_log_level, const char* line) { warnings += line; },
          nullptr);
      gqsgd_comm comm = nullptr;
      return outcome_of(gqsgd_comm_create_local(1, "", &comm)).text() + warnings;
    });
    EXPECT_TRUE(shows_escaped(child.line())) << name;
  }
}

TEST(ForeignStrings, LinesOfAFileOfCosts_Escaped) {
  const std::string hostile = "\x1b[2J\a\xff\xc2\x9b";  // a line feed ends a line
  const std::string escaped = "\\x1b[2J\\x07\\xff\\xc2\\x9b";
  double time_ns = 0;
  gqsgd_quantizer quantizer = nullptr;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_quantizer_create("", &quantizer))));
  const std::string sentence =
      outcome_of(gqsgd_predict_time(quantizer, GQSGD_SCHEDULE_AUTO, 4, 1000, GQSGD_FLOAT32,
                                    (hostile + " = 3\n").c_str(), &time_ns))
          .text();
  gqsgd_quantizer_destroy(quantizer);
  EXPECT_NE(sentence.find("\"" + escaped + "\" is not a constant"), std::string::npos) << sentence;
}

TEST(ForeignStrings, NamesOfStats_Escaped) {
  Group group(1, "");
  uint64_t value = 0;
  EXPECT_TRUE(
      shows_escaped(outcome_of(gqsgd_comm_stat(group.comm(0), kHostile.c_str(), &value)).text()));
}

TEST(ForeignStrings, ForcedInstructionSet_NamesThoseThatRunHere) {
  Child child([] {
    setenv("GQSGD_FORCE_ISA", "avx9000", 1);
    gqsgd_comm comm = nullptr;
    return outcome_of(gqsgd_comm_create_local(1, "", &comm)).text();
  });
  EXPECT_TRUE(found(child.line(),
                    "^UNSUPPORTED: GQSGD_FORCE_ISA=avx9000 is no instruction set that this "
                    "library and this machine have; they have ([a-z0-9]+, )*scalar$"));
}

}  // namespace
}  // namespace gq::test
