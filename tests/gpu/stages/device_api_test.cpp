// The stages of the C ABI on device memory: the bits that they have on host memory, and what they
// refuse.
#include <gtest/gtest.h>
#include <string.h>

#include "include/gqsgd_stages.h"
#include "tests/support/inputs.h"
#include "tests/gpu/stages/side.h"

namespace gq::test {
namespace {

/** Values of one rank as elements: gradients, and in some calls a NaN, infinities, denormals. */
Bytes elements(const Subject& subject, uint32_t rank, bool special) {
  Bytes bytes;
  for (size_t e = 0; e < subject.value_count; ++e) {
    double value = normal_at(rank + 1, e) * (e % 9 == 8 ? 0 : e % 32 == 5 ? 0x1p-20 : 1);
    value *= 1u << mix(e / 128) % 12;  // so that norms of blocks differ
    if (special && e % 1999 == 77) value = e % 2 ? 1e-41 : -0.0;
    if (special && e == 300) value = rank == 0 ? NAN : -INFINITY;
    const float narrow = static_cast<float>(value);
    uint8_t element[8];
    uint16_t half = static_cast<uint16_t>(mix(e + 1000 * rank));
    if (subject.dtype == GQSGD_FLOAT16 && (half & 0x7c00) == 0x7c00) half &= 0x83ff;
    if (subject.dtype == GQSGD_BFLOAT16)
      memcpy(&half, reinterpret_cast<const char*>(&narrow) + 2, 2);
    if (subject.dtype == GQSGD_FLOAT64) memcpy(element, &value, 8);
    if (subject.dtype == GQSGD_FLOAT32) memcpy(element, &narrow, 4);
    if (dtype_bytes(subject.dtype) == 2) memcpy(element, &half, 2);
    bytes.insert(bytes.end(), element, element + dtype_bytes(subject.dtype));
  }
  return bytes;
}

/** Element by element the larger norm, NaN before all. */
void merge_norms(Bytes& norms, const Bytes& others) {
  for (size_t k = 0; k < norms.size(); k += 4) {
    uint32_t a, b;
    memcpy(&a, &norms[k], 4);
    memcpy(&b, &others[k], 4);
    a = a > b ? a : b;
    memcpy(&norms[k], &a, 4);
  }
}

/** Every stage on both sides, each fed with what the host made. */
void expect_equal_stages(const Subject& subject, bool special = false) {
  Side host(subject, false), device(subject, true);
  std::vector<Bytes> values, words;
  Bytes norms;
  for (uint32_t rank = 0; rank < subject.ranks; ++rank) {
    values.push_back(elements(subject, rank, special));
    const Bytes own = host.norm(values[rank]);
    EXPECT_TRUE(device.norm(values[rank]) == own) << "norm, " << subject.text();
    if (rank == 0) norms = own;
    merge_norms(norms, own);
  }
  for (uint32_t rank = 0; rank < subject.ranks; ++rank) {
    words.push_back(host.quantize(values[rank], norms, rank));
    EXPECT_TRUE(device.quantize(values[rank], norms, rank) == words[rank])
        << "quantize, " << subject.text();
  }
  Bytes result, scales = norms;
  if (subject.reduction_depth > 0) {
    result = host.reduce(words[0], words[1], 1, 2);
    EXPECT_TRUE(device.reduce(words[0], words[1], 1, 2) == result) << "reduce, " << subject.text();
  } else {
    const std::vector<Bytes> made = host.reduce_many(words, norms, false);
    for (const bool in_place : {false, true}) {
      EXPECT_TRUE(device.reduce_many(words, norms, in_place) == made)
          << "reduce_many, " << subject.text();
    }
    result = made[0];
    scales = made[1];
  }
  for (const gqsgd_op op : {GQSGD_SUM, GQSGD_MEAN}) {
    EXPECT_TRUE(device.dequantize(result, norms, scales, op) ==
                host.dequantize(result, norms, scales, op))
        << "dequantize, " << subject.text();
  }
  if (subject.is_adaptive()) {
    EXPECT_TRUE(device.widths(norms) == host.widths(norms)) << "widths, " << subject.text();
  }
}

const char* const kQuantizers[] = {"none",
                                   "blocks-8",
                                   "rotated-8",
                                   "rotated-4-8",
                                   "rotated-4",
                                   "relative-8",
                                   "paper-gl8",
                                   "paper-ge8",
                                   "paper-gl4",
                                   "paper-ge4",
                                   "paper-gl8,norm=2:2",
                                   "paper-gl4,norm=1:1",
                                   "paper-ge8,norm=2:inf,rotate=hadamard",
                                   "paper-gl8,block=32",
                                   "paper-ge4,block=8192,rescale=true",
                                   "blocks-8,block=65536,rounding=nearest"};

TEST(DeviceApi, EveryFormatAndElementType_BitsOfTheHost) {
  for (const char* quantizer : kQuantizers) {
    for (const gqsgd_dtype dtype : {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64}) {
      expect_equal_stages({quantizer, 3, 0, dtype, 5000});
      expect_equal_stages({quantizer, 3, 0, dtype, 1029, 65536, 1});
    }
    for (const size_t count : {0, 1, 31, 129, 1024})
      expect_equal_stages({quantizer, 2, 0, GQSGD_FLOAT32, count});
  }
}

TEST(DeviceApi, ReductionsInCodeForm_BitsOfTheHost) {
  for (const char* quantizer : {"none", "paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4",
                                "paper-gl8,block=64", "paper-gl8,combine=average"}) {
    for (const size_t count : {1, 4097, 20000}) {
      expect_equal_stages({quantizer, 4, 2, GQSGD_FLOAT32, count, 0, count % 4});
    }
  }
}

TEST(DeviceApi, NormsAndValuesThatAreNotFinite_BitsOfTheHost) {
  for (const char* quantizer : kQuantizers)
    expect_equal_stages({quantizer, 2, 0, GQSGD_FLOAT32, 6000}, true);
}

TEST(DeviceApi, AdaptiveWidths_BitsOfTheHost) {
  for (const gqsgd_dtype dtype : {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64}) {
    expect_equal_stages({"adaptive-4", 3, 0, dtype, 9001, 0, 1});
  }
  for (const char* quantizer :
       {"adaptive-6", "adaptive-3,rounding=nearest", "adaptive-4,mean_bits=4.5,rescale=false",
        "adaptive-5,rounding_down=subtractive"}) {
    for (const size_t count : {0, 1, 129, 1024, 40001}) {
      expect_equal_stages({quantizer, 2, 0, GQSGD_FLOAT32, count});
    }
    expect_equal_stages({quantizer, 2, 0, GQSGD_FLOAT32, 6000}, true);
  }
}

TEST(DeviceApi, ManyRanks_AddressesInParts) {
  for (const char* quantizer : {"blocks-8", "paper-ge8", "adaptive-4"}) {
    expect_equal_stages({quantizer, 300, 0, GQSGD_FLOAT32, 64});
  }
}

/** A call of gqsgd_norm on a device, for refusals. */
struct NormCall {
  gqsgd_quantizer quantizer = nullptr;
  gqsgd_site site = {};
  DeviceBytes values{Bytes(4000), 0}, norms{Bytes(4), 0}, workspace{Bytes(64), 0};
  void *values_at = values.data(), *norms_at = norms.data(), *workspace_at = workspace.data();
  size_t workspace_bytes = 64;

  NormCall() {
    site.size = 1;
    gqsgd_quantizer_create("paper-gl8,norm=2:2", &quantizer);
  }
  ~NormCall() { gqsgd_quantizer_destroy(quantizer); }
  std::string refusal() {
    const gqsgd_status status =
        gqsgd_norm(quantizer, &site, values_at, 1000, GQSGD_FLOAT32, static_cast<float*>(norms_at),
                   workspace_at, workspace_bytes, test_stream());
    return status == GQSGD_INVALID_ARGUMENT ? gqsgd_last_error() : gqsgd_status_name(status);
  }
};

TEST(DeviceApi, HostMemory_RefusedByName) {
  static uint8_t host[4096];
  for (const char* name : {"values", "norms", "workspace"}) {
    NormCall call;
    (name[0] == 'v' ? call.values_at : name[0] == 'n' ? call.norms_at : call.workspace_at) = host;
    EXPECT_EQ(call.refusal().rfind(name, 0), 0u) << name << ": " << call.refusal();
  }
  EXPECT_EQ(NormCall().refusal(), "OK");
}

TEST(DeviceApi, PartOfACallOfAdaptiveWidths_Refused) {
  NormCall call;
  gqsgd_quantizer_destroy(call.quantizer);
  ASSERT_EQ(gqsgd_quantizer_create("adaptive-4", &call.quantizer), GQSGD_OK);
  call.site.first_value = 1024;
  EXPECT_EQ(call.refusal().rfind("site: first_value is 1024; with width=adaptive", 0), 0u)
      << call.refusal();
}

TEST(DeviceApi, WorkspaceMissingShortOrMisaligned_Refused) {
  NormCall missing, small, misaligned;
  missing.workspace_at = nullptr;
  EXPECT_EQ(missing.refusal().rfind("workspace is NULL", 0), 0u) << missing.refusal();
  small.workspace_bytes = 7;
  EXPECT_EQ(small.refusal().rfind("workspace_size_bytes is 7; this call needs 8", 0), 0u)
      << small.refusal();
  misaligned.workspace_at = static_cast<uint8_t*>(misaligned.workspace_at) + 4;
  EXPECT_NE(misaligned.refusal().find("not aligned to its elements of 8"), std::string::npos)
      << misaligned.refusal();
}

}  // namespace
}  // namespace gq::test
