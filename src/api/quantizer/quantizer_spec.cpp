// The grammar of quantizers: presets, fields, and what follows from them.
#include "src/api/quantizer/quantizer_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "src/api/quantizer/presets.h"
#include "src/api/quantizer/quantizer_rules.h"
#include "src/api/quantizer/spec_items.h"

namespace gq {
namespace {

// In the order of the described specification, which has bits or mean_bits, and of Draft::given.
enum FieldIndex {
  kLevels,
  kBits,
  kBitsDown,
  kWidth,
  kMeanBits,
  kNorm,
  kBlock,
  kRounding,
  kRoundingDown,
  kRotate,
  kCombine,
  kRescale,
  kMantissaBits,
  kNonfinite,
  kSeed,
  kFieldCount
};
constexpr const char* kFieldList[] = {
    "levels",        "bits",   "bits_down", "width",   "mean_bits",     "norm",      "block",
    "rounding",      "rounding_down", "rotate", "combine", "rescale", "mantissa_bits", "nonfinite",
    "seed"};
static_assert(sizeof kFieldList / sizeof kFieldList[0] == kFieldCount);

constexpr uint8_t kBitsOfIndex[] = {4, 8, 32, 16};
constexpr uint32_t kBlockMin = 32, kBlockMax = 65536;

/** A format being read: which fields the user named decides what is derived. */
struct Draft {
  Format format;
  bool adaptive = false;
  bool given[kFieldCount] = {};

  bool is_rice() const { return format.levels == Levels::rice; }
};

Status choose(const char* field, Names names, std::string_view value, int* index) {
  *index = find_name(names, value);
  if (*index >= 0) return Status();
  char allowed[128];
  list_names(names, allowed, sizeof allowed);
  return fail(GQSGD_INVALID_ARGUMENT, "%s=%s is not known; allowed are %s", field,
              Shown(value).text(), allowed);
}

template <typename Enum>
Status choose_enum(const char* field, Names names, std::string_view value, Enum* choice) {
  int index = 0;
  GQ_TRY(choose(field, names, value, &index));
  *choice = static_cast<Enum>(index);
  return Status();
}

Status read_number(const char* field, std::string_view value, uint64_t most, uint64_t* number) {
  if (parse_unsigned(value, number) && *number <= most) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "%s=%s is not an integer from 0 to %" PRIu64, field,
              Shown(value).text(), most);
}

Status read_norm(std::string_view value, Format* format) {
  const size_t colon = value.find(':');
  if (colon == std::string_view::npos) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "norm=%s is not of the form q:p, with q the norm inside a rank and p over ranks, "
                "each 1, 2 or inf",
                Shown(value).text());
  }
  GQ_TRY(choose_enum("norm q", names_of(kNormOrderList), value.substr(0, colon), &format->q));
  return choose_enum("norm p", names_of(kNormOrderList), value.substr(colon + 1), &format->p);
}

Status read_block(std::string_view value, uint32_t* block) {
  uint64_t number = 0;
  GQ_TRY(read_number("block", value, kBlockMax, &number));
  *block = static_cast<uint32_t>(number);
  const bool power = (number & (number - 1)) == 0;
  if (number == 0 || (power && number >= kBlockMin)) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "block=%" PRIu64 " is not 0 or a power of two from %u to %u",
              number, kBlockMin, kBlockMax);
}

Status read_bits(const char* field, std::string_view value, uint8_t* bits) {
  int index = 0;
  const Status chosen = choose(field, names_of(kBitsList), value, &index);
  if (!chosen.ok() && (value == "3" || value == "5" || value == "6")) {
    const char digit = value[0];
    return fail(GQSGD_INVALID_ARGUMENT,
                "%s; hint: presets adaptive-%c and rice-%c have %c bits on average",
                chosen.sentence(), digit, digit, digit);
  }
  GQ_TRY(chosen);
  *bits = kBitsOfIndex[index];
  return Status();
}

/** A number of bits, in halves. */
Status read_mean_bits(std::string_view value, uint8_t* half_bits) {
  const size_t point = std::min(value.find('.'), value.size());
  const std::string_view fraction = value.substr(point);
  uint64_t whole = 0;
  const bool is_number = parse_unsigned(value.substr(0, point), &whole) && whole <= kWidthMax &&
                         (fraction.empty() || fraction == ".0" || fraction == ".5");
  const uint64_t halves = 2 * whole + (fraction == ".5" ? 1 : 0);
  if (is_number && halves >= kMeanHalfBitsMin && halves <= kMeanHalfBitsMax) {
    *half_bits = static_cast<uint8_t>(halves);
    return Status();
  }
  return fail(GQSGD_INVALID_ARGUMENT, "mean_bits=%s is not a number from 2.5 to 8 in steps of 0.5",
              Shown(value).text());
}

Status read_mantissa_bits(std::string_view value, uint8_t* mantissa_bits) {
  static constexpr const char* kAllowed[] = {"0", "2"};
  int index = 0;
  GQ_TRY(choose("mantissa_bits", names_of(kAllowed), value, &index));
  *mantissa_bits = static_cast<uint8_t>(2 * index);
  return Status();
}

Status read_field(int field, std::string_view value, Draft* draft) {
  const char* name = kFieldList[field];
  Format* const format = &draft->format;
  switch (field) {
    case kWidth:
      return choose_enum(name, names_of(kWidthList), value, &draft->adaptive);
    case kMeanBits:
      return read_mean_bits(value, &format->mean_half_bits);
    case kLevels:
      return choose_enum(name, names_of(kLevelsList), value, &format->levels);
    case kBits:
      return read_bits(name, value, &format->bits);
    case kBitsDown:
      return read_bits(name, value, &format->bits_down);
    case kNorm:
      return read_norm(value, format);
    case kBlock:
      return read_block(value, &format->block);
    case kRounding:
      return choose_enum(name, names_of(kRoundingList), value, &format->rounding);
    case kRoundingDown:
      return choose_enum(name, names_of(kRoundingDownList), value, &format->rounding_down);
    case kRotate:
      return choose_enum(name, names_of(kRotateList), value, &format->rotate);
    case kCombine:
      return choose_enum(name, names_of(kCombineList), value, &format->combine);
    case kRescale:
      return choose_enum(name, names_of(kBoolList), value, &format->rescale);
    case kMantissaBits:
      return read_mantissa_bits(value, &format->mantissa_bits);
    case kNonfinite:
      return choose_enum(name, names_of(kNonfiniteList), value, &format->nonfinite);
    default:
      return read_number(name, value, UINT64_MAX, &format->seed);
  }
}

Status read_fields(std::string_view text, Draft* draft);

/** The preset nearest to a misspelt name, by two edits at most and a third of its length. Null
 *  where there is none, or more than one. */
const char* nearest_preset(std::string_view name) {
  const char* nearest = nullptr;
  size_t edits = std::min<size_t>(2, name.size() / 3) + 1;
  for (const Preset& preset : kPresets) {
    const size_t found = edit_count(name, preset.name);
    if (found > edits) continue;
    nearest = found < edits ? preset.name : nullptr;
    edits = found;
  }
  return nearest;
}

Status read_preset(std::string_view name, Draft* draft) {
  size_t used = 0;
  char known[256] = "";
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return read_fields(preset.text, draft);
    used += static_cast<size_t>(
        snprintf(known + used, sizeof known - used, used == 0 ? "%s" : ", %s", preset.name));
  }
  const char* const near = nearest_preset(name);
  return fail(GQSGD_INVALID_ARGUMENT,
              "preset \"%s\" is not known;%s%s%s there are %s; fields are set as field=value",
              Shown(name).text(), near == nullptr ? "" : " did you mean ",
              near == nullptr ? "" : near, near == nullptr ? "" : "?", known);
}

Status read_fields(std::string_view text, Draft* draft) {
  SpecItem item;
  while (next_item(&text, &item)) {
    const int field = find_name(names_of(kFieldList), item.name);
    if (field < 0 || !item.has_value) {
      char known[192];
      list_names(names_of(kFieldList), known, sizeof known);
      return fail(GQSGD_INVALID_ARGUMENT, "%s\"%s\" is not %s; fields are %s",
                  item.has_value ? "field " : "", Shown(item.name).text(),
                  item.has_value ? "known" : "field=value (a preset comes first)", known);
    }
    GQ_TRY(read_field(field, item.value, draft));
    draft->given[field] = true;
  }
  return Status();
}

Status refuse_repeats(std::string_view text) {
  bool seen[kFieldCount] = {};
  SpecItem item;
  while (next_item(&text, &item)) {
    const int field = find_name(names_of(kFieldList), item.name);
    if (field < 0) continue;
    if (seen[field]) {
      return fail(GQSGD_INVALID_ARGUMENT, "field %s is given twice", kFieldList[field]);
    }
    seen[field] = true;
  }
  return Status();
}

bool names_field(std::string_view text, FieldIndex field) {
  SpecItem item;
  while (next_item(&text, &item)) {
    if (item.name == kFieldList[field]) return true;
  }
  return false;
}

/** Rice codes have a mean of bits, and no width that a field could choose. */
Status check_rice_width(const Draft& draft, std::string_view text) {
  const char* field = names_field(text, kBits)       ? "bits"
                      : names_field(text, kBitsDown) ? "bits_down"
                      : draft.adaptive               ? "width=adaptive"
                                                     : nullptr;
  if (field != nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "levels=rice has codes of any length, whose mean is mean_bits, and does not go "
                "with %s; leave it out, or use levels=linear",
                field);
  }
  if (draft.format.mean_half_bits != 0) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "levels=rice needs mean_bits, a number from 2.5 to 8");
}

/** Bits are those of all codes, or their mean. `text`: what the user has named. */
Status check_width(const Draft& draft, std::string_view text) {
  if (draft.is_rice()) return check_rice_width(draft, text);
  if (draft.adaptive && (names_field(text, kBits) || names_field(text, kBitsDown))) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "bits and bits_down are those of codes of one width and do not go with "
                "width=adaptive, whose mean is mean_bits; use mean_bits, or width=fixed");
  }
  if (draft.adaptive && draft.format.mean_half_bits == 0) {
    return fail(GQSGD_INVALID_ARGUMENT, "width=adaptive needs mean_bits, a number from 2.5 to 8");
  }
  if (!draft.adaptive && names_field(text, kMeanBits)) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "mean_bits is the mean of codes of different widths and does not go with "
                "width=fixed; use width=adaptive, levels=rice, or bits");
  }
  return Status();
}

/** Fields that follow from others unless the user named them. */
void derive(Draft* draft) {
  Format& format = draft->format;
  if (draft->adaptive || draft->is_rice()) {
    format.bits = format.bits_down = 8;  // of a lane, before codes are packed
    draft->given[kBits] = draft->given[kBitsDown] = true;
  } else {
    format.mean_half_bits = 0;
  }
  if (!has_norm(format.levels) && !draft->given[kBits]) {
    format.bits = is_narrow(format.levels) ? 16 : 32;
  }
  if (!draft->given[kBitsDown]) format.bits_down = format.bits;
  if (draft->given[kCombine]) return;
  format.combine = format.bits == 4                       ? Combine::average
                   : format.levels == Levels::exponential ? Combine::sum
                                                          : Combine::exact;
}

}  // namespace

Status parse_quantizer(const char* text, Format* format) {
  Draft draft;
  std::string_view rest(text), after_first(text);
  SpecItem first;
  const bool is_empty = rest.find_first_not_of(' ') == std::string_view::npos;
  if (!is_empty && next_item(&after_first, &first) && !first.has_value) {
    GQ_TRY(read_preset(first.name, &draft));
    rest = after_first;
  } else if (!names_field(rest, kLevels)) {
    GQ_TRY(read_preset(kDefaultPreset, &draft));
  }
  if (is_empty) rest = {};
  GQ_TRY(refuse_repeats(rest));
  GQ_TRY(read_fields(rest, &draft));
  GQ_TRY(check_width(draft, rest));
  derive(&draft);
  GQ_TRY(check_combination(draft.format));
  *format = draft.format;
  return Status();
}

size_t describe_quantizer(const Format& f, char* text, size_t capacity_bytes) {
  const auto word = [](Names names, auto value) {
    return name_in(names, static_cast<size_t>(value));
  };
  char bits[40];
  if (f.mean_half_bits != 0) {
    snprintf(bits, sizeof bits, "%smean_bits=%d%s",
             f.levels == Levels::rice ? "" : "width=adaptive,", f.mean_half_bits / 2,
             f.mean_half_bits % 2 == 0 ? "" : ".5");
  } else {
    snprintf(bits, sizeof bits, "bits=%d,bits_down=%d", f.bits, f.bits_down);
  }
  return static_cast<size_t>(snprintf(
      text, capacity_bytes,
      "levels=%s,%s,norm=%s:%s,block=%u,rounding=%s,rounding_down=%s,rotate=%s,"
      "combine=%s,rescale=%s,mantissa_bits=%d,nonfinite=%s,seed=%" PRIu64,
      word(names_of(kLevelsList), f.levels), bits,
      word(names_of(kNormOrderList), f.q), word(names_of(kNormOrderList), f.p), f.block,
      word(names_of(kRoundingList), f.rounding), word(names_of(kRoundingDownList), f.rounding_down),
      word(names_of(kRotateList), f.rotate), word(names_of(kCombineList), f.combine),
      word(names_of(kBoolList), f.rescale), f.mantissa_bits,
      word(names_of(kNonfiniteList), f.nonfinite), f.seed));
}

namespace {

using SpecText = char[256];

/** Appends the fields in which two full specifications differ, and, where levels or bits do, those
 *  that would follow from them. Returns how many. */
size_t append_differences(std::string_view spec, std::string_view base, SpecText* text) {
  size_t used = strlen(*text), count = 0;
  bool derives = false;
  SpecItem item, base_item;
  while (next_item(&spec, &item) && next_item(&base, &base_item)) {
    const int field = find_name(names_of(kFieldList), item.name);
    const bool differs = item.name != base_item.name || item.value != base_item.value;
    derives = derives || (differs && (field == kLevels || field == kBits));
    if (!differs && !(derives && (field == kBitsDown || field == kCombine))) continue;
    used +=
        static_cast<size_t>(snprintf(*text + used, sizeof *text - used, ",%s=", kFieldList[field]));
    if (used + item.value.size() >= sizeof *text) break;  // longer than any specification is
    memcpy(*text + used, item.value.data(), item.value.size());
    used += item.value.size();
    (*text)[used] = '\0';
    ++count;
  }
  return count;
}

}  // namespace

size_t write_short_spec(const Format& format, char* spec, size_t capacity_bytes) {
  SpecText full, base, candidate, shortest = "";
  describe_quantizer(format, full, sizeof full);
  size_t least = kFieldCount + 1;
  for (const Preset& preset : kPresets) {
    Format preset_format;
    if (!parse_quantizer(preset.name, &preset_format).ok()) continue;
    const bool grouped = preset_format.mean_half_bits != 0;
    const bool rice = preset_format.levels == Levels::rice;
    if (grouped != (format.mean_half_bits != 0)) continue;
    if (rice != (format.levels == Levels::rice)) continue;
    describe_quantizer(preset_format, base, sizeof base);
    snprintf(candidate, sizeof candidate, "%s", preset.name);
    const size_t count = append_differences(full, base, &candidate);
    if (count >= least) continue;
    least = count;
    memcpy(shortest, candidate, sizeof shortest);
  }
  return static_cast<size_t>(snprintf(spec, capacity_bytes, "%s", shortest));
}

}  // namespace gq
