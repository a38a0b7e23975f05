// The table of control message fields; see docs/FORMAT.md, section 11.
#include "src/call/control_fields.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/plan/plan.h"
#include "src/support/names.h"
#include "src/support/rank_list.h"

namespace gq {
namespace {

struct Field {
  const char* name;
  ControlWord word;
  uint32_t shift;
  uint32_t bits;
  bool wide;    // the next word holds the bits above 32
  Names names;  // empty: the value is a number
};

constexpr Names kNumber{nullptr, 0};
// The control message has the logarithm of a block, 0 standing for none: users know its length.
constexpr const char* kBlockList[] = {"0",    "2",    "4",     "8",     "16",   "32",
                                      "64",   "128",  "256",   "512",   "1024", "2048",
                                      "4096", "8192", "16384", "32768", "65536"};

// Of the levels: bits 0 and 1 of kControlFields have the rest.
constexpr uint32_t kLevelsLowBits = 2;

constexpr const char* kMemoryList[] = {"host", "device"};
// From 2.5 on, in halves (bits_fields): in place of the bits of codes of one width.
constexpr const char* kMeanBitsList[] = {"?",   "2.5", "3",   "3.5", "4",   "4.5", "5",
                                         "5.5", "6",   "6.5", "7",   "7.5", "8"};
constexpr uint32_t kBitsShift = 2, kMeanBits = 4;
constexpr const char* kChecksumList[] = {"off", "crc32c"};

constexpr Field kCount{"count", kControlCountLow, 0, 48, true, kNumber};

constexpr Field kFields[] = {
    {"operation", kControlOperation, 0, 8, false, names_of(kOperationList)},
    {"memory", kControlFields, kControlDeviceShift, 1, false, names_of(kMemoryList)},
    {"memory of the step", kControlFields, kControlStepOnDeviceShift, 1, false,
     names_of(kMemoryList)},
    {"communicator", kControlTag, 0, 32, false, kNumber},
    kCount,
    {"dtype", kControlOperation, 8, 8, false, names_of(kDtypeList)},
    {"op", kControlOperation, 16, 8, false, names_of(kOpList)},
    {"levels", kControlFields, 0, kLevelsLowBits, false, names_of(kLevelsList)},
    {"width", kControlFields, kAdaptiveShift, 1, false, names_of(kWidthList)},
    {"mean_bits", kControlFields, kBitsShift, kMeanBits, false, names_of(kMeanBitsList)},
    {"bits", kControlFields, kBitsShift, 2, false, names_of(kBitsList)},
    {"bits_down", kControlFields, 4, 2, false, names_of(kBitsList)},
    {"norm q", kControlFields, 6, 2, false, names_of(kNormOrderList)},
    {"norm p", kControlFields, 8, 2, false, names_of(kNormOrderList)},
    {"block", kControlFields, 10, 5, false, names_of(kBlockList)},
    {"rounding", kControlFields, 15, 2, false, names_of(kRoundingList)},
    {"rounding_down", kControlFields, 17, 1, false, names_of(kRoundingDownList)},
    {"rotate", kControlFields, 18, 1, false, names_of(kRotateList)},
    {"combine", kControlFields, 19, 2, false, names_of(kCombineList)},
    {"rescale", kControlFields, 21, 1, false, names_of(kBoolList)},
    {"mantissa_bits", kControlFields, 22, 2, false, kNumber},
    {"nonfinite", kControlFields, 24, 1, false, names_of(kNonfiniteList)},
    {"uncompressed=never", kControlFields, kControlUncompressedNeverShift, 1, false,
     names_of(kBoolList)},
    {"seed", kControlSeedLow, 0, 64, true, kNumber},
    {"stream_id", kControlStreamId, 0, 32, false, kNumber},
    {"step", kControlStep, 0, 32, false, kNumber},
    {"index", kControlIndex, 0, kControlCostsShift, false, kNumber},
    {"digest of costs", kControlIndex, kControlCostsShift, 16, false, kNumber},
    {"chunk_value_count", kControlChunk, 0, 32, false, kNumber},
    {"checksum", kControlChecksumKind, 0, 32, false, names_of(kChecksumList)},
    // Of operations in segments only: an allreduce has its norm there.
    {"hash of counts", kControlNormLow, 0, 64, true, kNumber},
    // What auto chooses follows from all of the above and from nodes.
    {"config.schedule", kControlOperation, 24, 8, false, names_of(kScheduleList)},
    {"nodes", kControlCountHigh, kControlNodesShift, 16, false, kNumber},
    {"float32 by auto", kControlFields, kControlAsFloat32Shift, 1, false, names_of(kBoolList)},
    {"bf16 by auto", kControlFields, kControlAsBf16Shift, 1, false, names_of(kBoolList)},
};

uint64_t value_of(const Field& field, const ControlMessage& control) {
  uint64_t bits = control.words[field.word];
  if (field.wide) bits |= static_cast<uint64_t>(control.words[field.word + 1]) << 32;
  const uint64_t value = (bits >> field.shift) & (UINT64_MAX >> (64 - field.bits));
  const bool is_levels = field.word == kControlFields && field.shift == 0;
  return is_levels ? value | (bits >> kLevelsHighShift & 1) << kLevelsLowBits : value;
}

void print_value(const Field& field, const ControlMessage& control, char* text,
                 size_t capacity_bytes) {
  const uint64_t value = value_of(field, control);
  if (value < field.names.count) {
    snprintf(text, capacity_bytes, "%s", field.names.list[value]);
  } else {
    snprintf(text, capacity_bytes, "%" PRIu64, value);
  }
}

/** The first word with bits that no field has; kControlWordCount if there is none. All bits of the
 *  words before the digest belong to fields. */
uint32_t first_spare_word(const ControlMessage& control, bool has_digests) {
  for (const uint32_t word : {kControlDigestLow, kControlDigestHigh}) {
    if (!has_digests && control.words[word] != 0) return word;
  }
  if (control.words[kControlChecksumKind] >= names_of(kChecksumList).count) {
    return kControlChecksumKind;
  }
  return is_intact(control) ? kControlWordCount : kControlChecksum;
}

/** A norm, a digest and a checksum are each rank's own. */
bool may_differ(uint32_t word) {
  return word == kControlNormLow || word == kControlNormHigh || word == kControlDigestLow ||
         word == kControlDigestHigh || word == kControlChecksum;
}

/** Both messages have one kind of width by then: the mean of one, or the bits of the other. */
bool is_of_other_width(const Field& field, const ControlMessage& control) {
  const bool adaptive = (control.words[kControlFields] >> kAdaptiveShift & 1) != 0;
  const bool is_mean = field.bits == kMeanBits && field.shift == kBitsShift;
  const bool is_bits = field.names.list == kBitsList;
  return field.word == kControlFields && (adaptive ? is_bits : is_mean);
}

Operation operation_of(const ControlMessage& control) {
  return static_cast<Operation>(control.words[kControlOperation] & 0xff);
}

/** One rank measures costs before its call, the other one does not. */
Status describe_measuring(uint64_t sequence, uint32_t rank_a, const ControlMessage& a,
                          uint32_t rank_b, const ControlMessage& b) {
  const bool a_measures = operation_of(a) == Operation::measure_costs;
  const uint32_t measures = a_measures ? rank_a : rank_b, other = a_measures ? rank_b : rank_a;
  const auto operation = static_cast<size_t>(operation_of(a_measures ? b : a));
  return fail(GQSGD_MISMATCH,
              "call %" PRIu64
              ": costs differ: rank %u measures them first (costs=measure, schedule auto), rank %u "
              "makes its %s without; every rank must have the same option costs, or GQSGD_COSTS, "
              "and make the same calls in the same order",
              sequence, measures, other, name_in(names_of(kOperationList), operation));
}

constexpr uint32_t kShownNodes = 4;

/** Two ranks have other nodes: each rank shows its own, so that sentences may be compared. */
Status describe_nodes(uint64_t sequence, const char* operation, uint32_t rank_a, uint32_t rank_b,
                      const Nodes& nodes) {
  char shown[kShownNodes * (RankList::kBytes + 2)] = "";
  size_t used = 0;
  for (uint32_t node = 0; node < nodes.count() && node < kShownNodes; ++node) {
    RankList ranks;
    for (uint32_t local = 0; local < nodes.size_of(node); ++local) {
      ranks.add(nodes.rank_of(node, local));
    }
    const int length = snprintf(shown + used, sizeof shown - used, "%s%s", node == 0 ? "" : "; ",
                                ranks.text());
    used += static_cast<size_t>(length);
  }
  return fail(GQSGD_MISMATCH,
              "call %" PRIu64
              ", %s: nodes differ: rank %u and rank %u group the ranks differently; this rank "
              "has %u node%s: ranks %s%s; every rank must have the same option nodes",
              sequence, operation, rank_a, rank_b, nodes.count(), nodes.count() == 1 ? "" : "s",
              shown, nodes.count() > kShownNodes ? "; .." : "");
}

/** The counts of tensors or slices, of which messages have the sum and a hash. */
Status describe_counts(uint64_t sequence, const char* operation, uint32_t rank_a, uint64_t sum_a,
                       uint32_t rank_b, uint64_t sum_b) {
  constexpr char kHint[] = "every rank must pass the same list of counts";
  if (sum_a == sum_b) {
    return fail(GQSGD_MISMATCH,
                "call %" PRIu64
                ", %s: counts differ: the lists of rank %u and rank %u are not the same, though "
                "both have the sum %" PRIu64 "; %s",
                sequence, operation, rank_a, rank_b, sum_a, kHint);
  }
  return fail(GQSGD_MISMATCH,
              "call %" PRIu64 ", %s: counts differ: their sum is %" PRIu64
              " on rank %u and %" PRIu64 " on rank %u; %s",
              sequence, operation, sum_a, rank_a, sum_b, rank_b, kHint);
}

const char* hint_for(const Field& field) {
  if (field.word == kControlIndex && field.shift == kControlCostsShift) {
    return "auto chooses schedules by costs: every rank must have the same option costs, or "
           "GQSGD_COSTS";
  }
  if (field.names.list == names_of(kScheduleList).list) {
    return "every rank must make the same calls in the same order; auto also chooses by the option "
           "nodes, which must be the same";
  }
  return "every rank must make the same calls in the same order";
}

}  // namespace

bool has_spare_bits(const ControlMessage& control, bool has_digests) {
  return first_spare_word(control, has_digests) < kControlWordCount;
}

bool has_segments(const ControlMessage& control) {
  return operation_of(control) != Operation::allreduce;
}

bool same_request(const ControlMessage& a, const ControlMessage& b) {
  if (a.words[kControlMagicVersion] != b.words[kControlMagicVersion]) return false;
  for (uint32_t word = kControlOperation; word < kControlWordCount; ++word) {
    if (!may_differ(word) && a.words[word] != b.words[word]) return false;
  }
  if (!has_segments(a)) return true;
  return a.words[kControlNormLow] == b.words[kControlNormLow] &&
         a.words[kControlNormHigh] == b.words[kControlNormHigh];
}

Status describe_mismatch(uint64_t sequence, uint32_t rank_a, const ControlMessage& a,
                         uint32_t rank_b, const ControlMessage& b, bool has_digests,
                         const Nodes& nodes) {
  const uint32_t version_a = a.words[kControlMagicVersion];
  const uint32_t version_b = b.words[kControlMagicVersion];
  if (version_a != version_b) {
    return fail(GQSGD_VERSION,
                "call %" PRIu64
                ": wire version differs: rank %u speaks %u.%u, rank %u speaks %u.%u; "
                "install one version of libgqsgd on all ranks",
                sequence, rank_a, version_a >> 16, version_a & 0xffff, rank_b, version_b >> 16,
                version_b & 0xffff);
  }
  const bool a_measures = operation_of(a) == Operation::measure_costs;
  if (a_measures != (operation_of(b) == Operation::measure_costs)) {
    return describe_measuring(sequence, rank_a, a, rank_b, b);
  }
  for (const Field& field : kFields) {
    const bool is_norm = field.word == kControlNormLow && !has_segments(a);
    if (is_norm || is_of_other_width(field, a)) continue;
    if (value_of(field, a) == value_of(field, b)) continue;
    const char* const operation =
        name_in(names_of(kOperationList), a.words[kControlOperation] & 0xff);
    if (field.shift == kControlNodesShift && field.word == kControlCountHigh) {
      return describe_nodes(sequence, operation, rank_a, rank_b, nodes);
    }
    const bool is_count = field.word == kControlCountLow || field.word == kControlNormLow;
    if (is_count && has_segments(a)) {
      return describe_counts(sequence, operation, rank_a, value_of(kCount, a), rank_b,
                             value_of(kCount, b));
    }
    char text_a[32], text_b[32];
    print_value(field, a, text_a, sizeof text_a);
    print_value(field, b, text_b, sizeof text_b);
    return fail(GQSGD_MISMATCH,
                "call %" PRIu64
                ", %s: %s differs: rank %u has %s, rank %u has %s; %s",
                sequence, operation, field.name, rank_a, text_a, rank_b, text_b,
                hint_for(field));
  }
  const bool is_a = has_spare_bits(a, has_digests);
  const uint32_t culprit = is_a ? rank_a : rank_b;
  const ControlMessage& spoilt = is_a ? a : b;
  const uint32_t word = first_spare_word(spoilt, has_digests);
  return fail(
      GQSGD_PROTOCOL,
      "call %" PRIu64
      ": the control message of rank %u has word %u as 0x%08x, with bits that no field has and no "
      "correct rank sets: it was changed on its way or in memory",
      sequence, culprit, word, spoilt.words[word]);
}

}  // namespace gq
