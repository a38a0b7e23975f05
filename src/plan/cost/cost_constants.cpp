// Reads and writes cost constants as a string, by one table of names.
#include "src/plan/cost/cost_constants.h"

#include <math.h>
#include <stdio.h>

#include <bitset>
#include <charconv>

#include "src/support/fnv1a.h"
#include "src/support/names.h"
#include "src/support/shown.h"

namespace gq {
namespace {

constexpr const char* kStageList[] = {"norm", "quantize", "reduce", "sum", "add", "dequantize"};
constexpr const char* kRowList[] = {
    "none",   "linear8",    "linear4", "exponential8", "exponential4", "mantissa",
    "bf16",   "fp16",       "adaptive", "rice",        "planes",       "blocks",
    "correlated", "rotated", "rescaled", "subtractive", "averaged"};
static_assert(std::size(kStageList) == kCostStageCount && std::size(kRowList) == kCostRowCount);

struct Scalar {
  const char* name;
  double CostConstants::*field;
};
constexpr Scalar kScalars[] = {{"latency_ns", &CostConstants::latency_ns},
                               {"byte_ns", &CostConstants::byte_ns},
                               {"burst_bytes", &CostConstants::burst_bytes},
                               {"node_latency_ns", &CostConstants::node_latency_ns},
                               {"node_byte_ns", &CostConstants::node_byte_ns},
                               {"message_ns", &CostConstants::message_ns},
                               {"move_ns", &CostConstants::move_ns},
                               {"call_ns", &CostConstants::call_ns},
                               {"header_ns", &CostConstants::header_ns},
                               {"direct_step_ns", &CostConstants::direct_step_ns},
                               {"tree_step_ns", &CostConstants::tree_step_ns},
                               {"butterfly_step_ns", &CostConstants::butterfly_step_ns},
                               {"ring_step_ns", &CostConstants::ring_step_ns},
                               {"cpus", &CostConstants::cpus},
                               {"cache_bytes", &CostConstants::cache_bytes},
                               {"native_step_ns", &CostConstants::native_step_ns},
                               {"native_byte_ns", &CostConstants::native_byte_ns},
                               {"traffic_factor", &CostConstants::traffic_factor},
                               {"enqueue_ns", &CostConstants::enqueue_ns},
                               {"enqueue_nccl_ns", &CostConstants::enqueue_nccl_ns},
                               {"nccl_thread_ns", &CostConstants::nccl_thread_ns},
                               {"device_latency_ns", &CostConstants::device_latency_ns},
                               {"device_byte_ns", &CostConstants::device_byte_ns},
                               {"device_message_ns", &CostConstants::device_message_ns},
                               {"device_link_byte_ns", &CostConstants::device_link_byte_ns}};

// Beyond this nothing is a time any more, and sums stay far from infinity; so do quotients where
// what is not 0 is not less than this.
constexpr double kConstantMax = 1e15;
constexpr double kConstantMin = 1e-15;

constexpr std::string_view kSpace = " \t\r";

std::string_view trim(std::string_view word) {
  const size_t first = word.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return word.substr(first, word.find_last_not_of(kSpace) - first + 1);
}

/** Takes the number at the head of `text`; false if there is none that a constant can be. */
bool take_number(std::string_view* text, double* number) {
  const char* end = text->data() + text->size();
  double read = 0;
  const auto [stop, error] = std::from_chars(text->data(), end, read);
  const bool ends = stop == end || kSpace.find(*stop) != std::string_view::npos;
  if (error != std::errc() || !ends) return false;
  if (read != 0 && !(read >= kConstantMin && read <= kConstantMax)) return false;
  *number = read;
  *text = trim(text->substr(static_cast<size_t>(stop - text->data())));
  return true;
}

double* find_scalar(std::string_view name, CostConstants* constants) {
  for (const Scalar& scalar : kScalars) {
    if (name == scalar.name) return &(constants->*scalar.field);
  }
  return nullptr;
}

/** The cost of "row.stage". */
StageCost* find_stage(std::string_view name, CostConstants* constants) {
  for (size_t row = 0; row < kCostRowCount; ++row) {
    const std::string_view row_name = kRowList[row];
    if (name.substr(0, row_name.size()) != row_name) continue;
    const std::string_view rest = name.substr(row_name.size());
    for (size_t stage = 0; stage < kCostStageCount; ++stage) {
      if (rest.size() > 1 && rest[0] == '.' && rest.substr(1) == kStageList[stage]) {
        return &constants->stages[row][stage];
      }
    }
  }
  return nullptr;
}

constexpr size_t kNamesBytes = 512;

/** The names of all scalars, for an error sentence. */
void list_scalars(char (&names)[kNamesBytes]) {
  size_t used = 0;
  for (const Scalar& scalar : kScalars) {
    used += static_cast<size_t>(
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", scalar.name));
  }
}

/** Which numbers a string has given, in the order of the struct. */
using Given = std::bitset<sizeof(CostConstants) / sizeof(double)>;

size_t index_of(const CostConstants& constants, const void* field) {
  const auto* first = reinterpret_cast<const unsigned char*>(&constants);
  return static_cast<size_t>(static_cast<const unsigned char*>(field) - first) / sizeof(double);
}

/** Writes as much as there is space for, and a 0 behind it; numbers do not depend on the locale. */
class LineWriter {
 public:
  LineWriter(char* text, size_t capacity_bytes) : text_(text), capacity_bytes_(capacity_bytes) {
    if (capacity_bytes_ > 0) text_[0] = '\0';
  }

  void add(std::string_view words) {
    for (const char letter : words) {
      if (size_bytes_ + 1 < capacity_bytes_) {
        text_[size_bytes_] = letter;
        text_[size_bytes_ + 1] = '\0';
      }
      size_bytes_ += 1;
    }
  }
  /** The shortest digits that are read as this number. */
  void add(std::string_view before, double number) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, number);
    add(before);
    add({digits, static_cast<size_t>(end.ptr - digits)});
  }

  size_t size_bytes() const { return size_bytes_; }

 private:
  char* const text_;
  const size_t capacity_bytes_;
  size_t size_bytes_ = 0;
};

Status read_line(std::string_view line, int number, Given* given, CostConstants* constants) {
  const size_t equals = line.find('=');
  const std::string_view name = trim(line.substr(0, equals));
  std::string_view value =
      equals == std::string_view::npos ? std::string_view() : trim(line.substr(equals + 1));
  double* scalar = find_scalar(name, constants);
  StageCost* stage = find_stage(name, constants);
  const Shown shown(name);
  if (scalar == nullptr && stage == nullptr) {
    char names[kNamesBytes];
    list_scalars(names);
    return fail(GQSGD_INVALID_ARGUMENT,
                "line %d of the costs: \"%s\" is not a constant; names are %s and ROW.STAGE such "
                "as linear8.quantize",
                number, shown.text(), names);
  }
  const size_t index =
      scalar != nullptr ? index_of(*constants, scalar) : index_of(*constants, stage);
  if (given->test(index)) {
    return fail(GQSGD_INVALID_ARGUMENT, "line %d of the costs: %s is given twice", number,
                shown.text());
  }
  given->set(index);
  bool good = take_number(&value, scalar != nullptr ? scalar : &stage->cached);
  if (good && stage != nullptr) good = take_number(&value, &stage->streamed);
  if (good && stage != nullptr) good = take_number(&value, &stage->range);
  if (good && value.empty()) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "line %d of the costs: %s is not %s from 0 to 1e15 (1e-15 or more, if not 0); "
              "gqsgd-calibrate writes such a text",
              number, shown.text(),
              scalar != nullptr ? "one number" : "three numbers (cached, streamed, range)");
}

}  // namespace

Status parse_costs(std::string_view text, CostConstants* constants) {
  CostConstants read = built_in_costs();
  Given given;
  for (int number = 1; !text.empty(); ++number) {
    size_t end = text.find_first_of("\n;#");
    const std::string_view entry = trim(text.substr(0, end));
    if (end != std::string_view::npos && text[end] == '#') end = text.find('\n', end);
    if (!entry.empty()) GQ_TRY(read_line(entry, number, &given, &read));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  *constants = read;
  return Status();
}

size_t describe_costs(const CostConstants& constants, char* text, size_t capacity_bytes) {
  size_t used = 0;
  const auto rest = [&] { return used < capacity_bytes ? capacity_bytes - used : 0; };
  const auto at = [&] { return rest() > 0 ? text + used : nullptr; };
  for (const Scalar& scalar : kScalars) {
    used += static_cast<size_t>(
        snprintf(at(), rest(), "%s = %.6g\n", scalar.name, constants.*scalar.field));
  }
  for (size_t row = 0; row < kCostRowCount; ++row) {
    for (size_t stage = 0; stage < kCostStageCount; ++stage) {
      const StageCost& cost = constants.stages[row][stage];
      used +=
          static_cast<size_t>(snprintf(at(), rest(), "%s.%s = %.4g %.4g %.4g\n", kRowList[row],
                                       kStageList[stage], cost.cached, cost.streamed, cost.range));
    }
  }
  return used;
}

size_t describe_costs_exactly(const CostConstants& constants, char* text, size_t capacity_bytes) {
  LineWriter line(text, capacity_bytes);
  for (const Scalar& scalar : kScalars) {
    line.add(scalar.name);
    line.add("=", constants.*scalar.field);
    line.add(";");
  }
  for (size_t row = 0; row < kCostRowCount; ++row) {
    for (size_t stage = 0; stage < kCostStageCount; ++stage) {
      const StageCost& cost = constants.stages[row][stage];
      line.add(kRowList[row]);
      line.add(".");
      line.add(kStageList[stage]);
      line.add("=", cost.cached);
      line.add(" ", cost.streamed);
      line.add(" ", cost.range);
      line.add(";");
    }
  }
  return line.size_bytes();
}

/** Over the bits of every number. */
uint32_t digest_of(const CostConstants& constants) {
  Fnv1a64 digest;
  digest.add_bytes(&constants, sizeof constants);
  return 1 + static_cast<uint32_t>(digest.hash() % 65535);
}

}  // namespace gq
