// Specifications of quantizers and options of communicators that are wrong: the sentence names the
// field and what is allowed, and nothing is made.
#include <gqsgd.h>

#include <cstdint>

#include "tests/api/faults/support/outcome.h"

namespace gq::test {
namespace {

struct Wrong {
  const char* string;
  gqsgd_status status;
  const char* sentence;
};

TEST(QuantizerSpec, UnknownFieldsAndValues_RefusedByName) {
  const Wrong strings[] = {
      {"bits=0", GQSGD_INVALID_ARGUMENT, "bits=0 is not known; allowed are 4, 8, 32"},
      {"bits=3", GQSGD_INVALID_ARGUMENT, "bits=3"},
      {"bits=6", GQSGD_INVALID_ARGUMENT,
       "bits=6 is not known; allowed are 4, 8, 32, 16; hint: presets adaptive-6 and rice-6 have 6 "
       "bits on average"},
      {"bits=9", GQSGD_INVALID_ARGUMENT, "bits=9"},
      {"block=100", GQSGD_INVALID_ARGUMENT, "block=100 is not 0 or a power of two"},
      {"block=-1", GQSGD_INVALID_ARGUMENT, "block=-1"},
      {"blok=128", GQSGD_INVALID_ARGUMENT, "blok"},
      {"paper-gl9", GQSGD_INVALID_ARGUMENT, "paper-gl9"},
      {"block8", GQSGD_INVALID_ARGUMENT, "is not known; did you mean blocks-8. there are none, "},
      {"Rotated-4-8,seed=1", GQSGD_INVALID_ARGUMENT, "did you mean rotated-4-8."},
      {"rice-8", GQSGD_INVALID_ARGUMENT, "preset \"rice-8\" is not known; there are none, "},
      {"int8", GQSGD_INVALID_ARGUMENT, "preset \"int8\" is not known; there are none, "},
      {"a preset whose name has many letters", GQSGD_INVALID_ARGUMENT, "is not known; there are"},
      {"mantissa_bits=1", GQSGD_INVALID_ARGUMENT, "mantissa_bits=1 is not known; allowed are 0, 2"},
      {"seed=18446744073709551616", GQSGD_INVALID_ARGUMENT, "seed=18446744073709551616"},
      {"levels=cubic", GQSGD_INVALID_ARGUMENT, "levels=cubic is not known; allowed are linear"},
  };
  for (const Wrong& wrong : strings) {
    auto quantizer = reinterpret_cast<gqsgd_quantizer>(uintptr_t{1});
    const Outcome outcome = outcome_of(gqsgd_quantizer_create(wrong.string, &quantizer));
    EXPECT_TRUE(is(outcome, wrong.status, wrong.sentence)) << wrong.string;
    EXPECT_EQ(quantizer, nullptr) << wrong.string;
  }
  EXPECT_TRUE(is(outcome_of(gqsgd_quantizer_create("", nullptr)), GQSGD_INVALID_ARGUMENT, "NULL"));
}

TEST(QuantizerSpec, FieldsThatDoNotGoTogether_RefusedWithAlternative) {
  const struct {
    const char* string;
    const char* sentence;
  } strings[] = {
      {"block=128,norm=2:2", "block=128 does not go with norm=2:2; use norm=inf:inf, or block=0"},
      {"block=128,norm=inf:1", "block=128 does not go with norm=inf:1"},
      {"paper-gl8,rescale=true", "does not go with block=0; use block=128, or rescale=false"},
      {"blocks-8,block=0", "rescale=true"},
      {"levels=exponential,rounding_down=subtractive",
       "rounding_down=subtractive .* levels=exponential; use levels=linear"},
      {"rounding=nearest,rounding_down=subtractive", "rounding=nearest .* rounding_down=random"},
      {"mantissa_bits=2", "mantissa_bits=2 needs levels=exponential, .* not levels=linear"},
      {"levels=exponential,bits=4,mantissa_bits=2", "bits=4"},
      {"relative-8,bits_down=4", "bits_down=4"},
      {"bits_down=32", "bits_down=32 belongs to levels=none; use 8 or 4"},
      {"bits=32", "bits=32 belongs to levels=none; use 8 or 4"},
      {"bits=16", "bits=16 belongs to levels=bf16 and fp16; use 8 or 4"},
      {"bits_down=16", "bits_down=16 belongs to levels=bf16 and fp16; use 8 or 4"},
      {"bf16,bits=8", "levels=bf16 has bits=16, not 8"},
      {"none,bits=16", "levels=none has bits=32, not 16"},
      {"fp16,bits_down=8", "levels=fp16 sends values as floats of 16 bits and takes no bits_down"},
      {"fp16,block=128", "levels=fp16 .* takes no block"},
      {"bf16,rounding=correlated", "levels=bf16 .* takes no rounding=correlated"},
      {"bf16,nonfinite=error", "nonfinite=error needs a norm and levels=bf16 takes none"},
      {"none,block=128", "takes no block"},
      {"none,combine=average", "takes no combine other than exact"},
      {"bf16,norm=2:2", "takes no norm other than inf:inf"},
      {"none,bits_down=8", "takes no bits_down"},
      {"none,rounding=correlated", "takes no rounding=correlated"},
      {"none,rounding_down=subtractive", "takes no rounding_down=subtractive"},
      {"none,rotate=hadamard", "takes no rotate=hadamard"},
      {"none,rescale=true", "takes no rescale=true"},
      {"none,mantissa_bits=2", "takes no mantissa_bits"},
      {"none,nonfinite=error", "nonfinite=error needs a norm"},
      {"levels=rice", "levels=rice needs mean_bits, a number from 2.5 to 8"},
      {"rice-4,mean_bits=2", "mean_bits=2 is not a number from 2.5 to 8"},
      {"rice-4,bits=8", "levels=rice .* mean_bits, and does not go with bits; leave it out"},
      {"rice-4,bits_down=8", "does not go with bits_down; leave it out"},
      {"rice-4,width=adaptive", "does not go with width=adaptive; leave it out"},
      {"rice-4,block=128", "levels=rice has steps .* takes no block; leave it out"},
      {"rice-4,norm=2:2", "takes no norm other than inf:inf"},
      {"rice-4,rotate=hadamard", "takes no rotate=hadamard"},
      {"rice-4,rescale=true", "takes no rescale=true"},
      {"rice-4,rounding_down=subtractive", "takes no rounding_down=subtractive"},
      {"rice-4,combine=average", "takes no combine other than exact"},
      {"rice-4,mantissa_bits=2", "takes no mantissa_bits"},
      {"blocks-8,mean_bits=4", "mean_bits .* use width=adaptive, levels=rice, or bits"},
      {"paper-gl8,combine=sum", "combine=sum .* use exact or average"},
      {"paper-ge4,combine=sum", "combine=sum .* use average"},
  };
  for (const auto& wrong : strings) {
    auto quantizer = reinterpret_cast<gqsgd_quantizer>(uintptr_t{1});
    const Outcome outcome = outcome_of(gqsgd_quantizer_create(wrong.string, &quantizer));
    EXPECT_TRUE(is(outcome, GQSGD_INVALID_ARGUMENT, wrong.sentence)) << wrong.string;
    EXPECT_EQ(quantizer, nullptr) << wrong.string;
  }
}

TEST(OptionsString, WrongOptions_RefusedByName) {
  const Wrong strings[] = {
      {"timeout_ms=-2", GQSGD_INVALID_ARGUMENT, "timeout_ms is -2; allowed are -1"},
      {"timeout_ms=9223372036854775807", GQSGD_INVALID_ARGUMENT,
       "timeout_ms is 9223372036854775807"},
      {"timeout_ms=9223372036854775808", GQSGD_INVALID_ARGUMENT, "not an integer"},
      {"costs=/nowhere", GQSGD_INVALID_ARGUMENT, "costs=/nowhere cannot be read: No such file"},
      {"costs=/dev/zero", GQSGD_INVALID_ARGUMENT, "costs=/dev/zero cannot be read: it is a device"},
      {"nccl_blocking=yes", GQSGD_INVALID_ARGUMENT, "nccl_blocking=yes is neither on nor off"},
      {"uncompressed=always", GQSGD_INVALID_ARGUMENT, "uncompressed=always is neither auto nor"},
      {"chunk_value_count=0", GQSGD_INVALID_ARGUMENT, "chunk_value_count=0 is outside 1 to"},
      {"stream_id=4294967296", GQSGD_INVALID_ARGUMENT, "stream_id=4294967296 is outside 0 to"},
      {"colour=red", GQSGD_INVALID_ARGUMENT, "colour.* options are timeout_ms"},
      {"timeout_ms=100,stream_id=1,timeout_ms=100", GQSGD_INVALID_ARGUMENT,
       "option timeout_ms is given twice"},
      {"nodes=0:0, nodes = 0:1", GQSGD_INVALID_ARGUMENT, "option nodes is given twice"},
  };
  for (const Wrong& wrong : strings) {
    gqsgd_comm comms[2] = {};
    const Outcome outcome = outcome_of(gqsgd_comm_create_local(2, wrong.string, comms));
    EXPECT_TRUE(is(outcome, wrong.status, wrong.sentence)) << wrong.string;
    EXPECT_EQ(comms[0], nullptr);
    EXPECT_EQ(comms[1], nullptr);
  }
}

}  // namespace
}  // namespace gq::test
