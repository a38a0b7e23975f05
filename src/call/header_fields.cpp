// The table of header fields; see docs/FORMAT.md, section 11.
#include "src/call/header_fields.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/plan/plan.h"
#include "src/support/names.h"

namespace gq {
namespace {

struct Field {
  const char* name;
  HeaderWord word;
  uint32_t shift;
  uint32_t bits;
  bool wide;    // the next word holds the bits above 32
  Names names;  // empty: the value is a number
};

constexpr Names kNumber{nullptr, 0};
// The header has the logarithm of a block, 0 standing for none: users know its length.
constexpr const char* kBlockList[] = {"0",    "2",    "4",     "8",     "16",   "32",
                                      "64",   "128",  "256",   "512",   "1024", "2048",
                                      "4096", "8192", "16384", "32768", "65536"};

constexpr const char* kMemoryList[] = {"host", "device"};

constexpr Field kFields[] = {
    {"operation", kHeaderOperation, 0, 8, false, names_of(kOperationList)},
    {"memory", kHeaderFields, kHeaderDeviceShift, 1, false, names_of(kMemoryList)},
    {"memory of the step", kHeaderFields, kHeaderStepOnDeviceShift, 1, false,
     names_of(kMemoryList)},
    {"communicator", kHeaderTag, 0, 32, false, kNumber},
    {"count", kHeaderCountLow, 0, 48, true, kNumber},
    {"dtype", kHeaderOperation, 8, 8, false, names_of(kDtypeList)},
    {"op", kHeaderOperation, 16, 8, false, names_of(kOpList)},
    {"config.schedule", kHeaderOperation, 24, 8, false, names_of(kScheduleList)},
    {"nodes (digest)", kHeaderCountHigh, kHeaderNodesShift, 16, false, kNumber},
    {"levels", kHeaderFields, 0, 2, false, names_of(kLevelsList)},
    {"bits", kHeaderFields, 2, 2, false, names_of(kBitsList)},
    {"bits_down", kHeaderFields, 4, 2, false, names_of(kBitsList)},
    {"norm q", kHeaderFields, 6, 2, false, names_of(kNormOrderList)},
    {"norm p", kHeaderFields, 8, 2, false, names_of(kNormOrderList)},
    {"block", kHeaderFields, 10, 5, false, names_of(kBlockList)},
    {"rounding", kHeaderFields, 15, 2, false, names_of(kRoundingList)},
    {"rounding_down", kHeaderFields, 17, 1, false, names_of(kRoundingDownList)},
    {"rotate", kHeaderFields, 18, 1, false, names_of(kRotateList)},
    {"combine", kHeaderFields, 19, 2, false, names_of(kCombineList)},
    {"rescale", kHeaderFields, 21, 1, false, names_of(kBoolList)},
    {"mantissa_bits", kHeaderFields, 22, 2, false, kNumber},
    {"nonfinite", kHeaderFields, 24, 1, false, names_of(kNonfiniteList)},
    {"uncompressed by auto", kHeaderFields, kHeaderUncompressedShift, 1, false,
     names_of(kBoolList)},
    {"uncompressed=never", kHeaderFields, kHeaderUncompressedNeverShift, 1, false,
     names_of(kBoolList)},
    {"seed", kHeaderSeedLow, 0, 64, true, kNumber},
    {"stream_id", kHeaderStreamId, 0, 32, false, kNumber},
    {"step", kHeaderStep, 0, 32, false, kNumber},
    {"index", kHeaderIndex, 0, kHeaderCostsShift, false, kNumber},
    {"digest of costs", kHeaderIndex, kHeaderCostsShift, 16, false, kNumber},
    {"chunk_value_count", kHeaderChunk, 0, 32, false, kNumber},
    // Of operations in segments only: an allreduce has its norm there.
    {"hash of counts", kHeaderNormLow, 0, 64, true, kNumber},
};

uint64_t value_of(const Field& field, const Header& header) {
  uint64_t bits = header.words[field.word];
  if (field.wide) bits |= static_cast<uint64_t>(header.words[field.word + 1]) << 32;
  return (bits >> field.shift) & (UINT64_MAX >> (64 - field.bits));
}

void print_value(const Field& field, const Header& header, char* text, size_t capacity_bytes) {
  const uint64_t value = value_of(field, header);
  if (value < field.names.count) {
    snprintf(text, capacity_bytes, "%s", field.names.list[value]);
  } else {
    snprintf(text, capacity_bytes, "%" PRIu64, value);
  }
}

// Of kHeaderFields; all bits of the other words that are compared belong to fields.
constexpr uint32_t kSpareBits = UINT32_MAX << (kHeaderStepOnDeviceShift + 1);

}  // namespace

bool has_spare_bits(const Header& header) {
  return (header.words[kHeaderFields] & kSpareBits) != 0;
}

bool has_segments(const Header& header) {
  const auto operation = static_cast<Operation>(header.words[kHeaderOperation] & 0xff);
  return operation != Operation::allreduce;
}

bool same_request(const Header& a, const Header& b) {
  if (a.words[kHeaderMagicVersion] != b.words[kHeaderMagicVersion]) return false;
  for (uint32_t word = kHeaderOperation; word <= kHeaderChunk; ++word) {
    if (a.words[word] != b.words[word]) return false;
  }
  if (!has_segments(a)) return true;
  return a.words[kHeaderNormLow] == b.words[kHeaderNormLow] &&
         a.words[kHeaderNormHigh] == b.words[kHeaderNormHigh];
}

Status describe_mismatch(uint64_t sequence, uint32_t rank_a, const Header& a, uint32_t rank_b,
                         const Header& b) {
  const uint32_t version_a = a.words[kHeaderMagicVersion];
  const uint32_t version_b = b.words[kHeaderMagicVersion];
  if (version_a != version_b) {
    return fail(GQSGD_VERSION,
                "call %" PRIu64
                ": wire version differs: rank %u speaks %u.%u, rank %u speaks %u.%u; "
                "install one version of libgqsgd on all ranks",
                sequence, rank_a, version_a >> 16, version_a & 0xffff, rank_b, version_b >> 16,
                version_b & 0xffff);
  }
  for (const Field& field : kFields) {
    const bool is_norm = field.word == kHeaderNormLow && !has_segments(a);
    if (is_norm || value_of(field, a) == value_of(field, b)) continue;
    char text_a[32], text_b[32];
    print_value(field, a, text_a, sizeof text_a);
    print_value(field, b, text_b, sizeof text_b);
    return fail(GQSGD_MISMATCH,
                "call %" PRIu64
                ", %s: %s differs: rank %u has %s, rank %u has %s; "
                "every rank must make the same calls in the same order",
                sequence, name_in(names_of(kOperationList), a.words[kHeaderOperation] & 0xff),
                field.name, rank_a, text_a, rank_b, text_b);
  }
  const uint32_t culprit = has_spare_bits(a) ? rank_a : rank_b;
  const Header& spoilt = has_spare_bits(a) ? a : b;
  return fail(GQSGD_PROTOCOL,
              "call %" PRIu64
              ": the header of rank %u has word %u as 0x%08x, with bits that no field has and no "
              "correct rank sets: it was changed on its way or in memory",
              sequence, culprit, kHeaderFields, spoilt.words[kHeaderFields]);
}

}  // namespace gq
