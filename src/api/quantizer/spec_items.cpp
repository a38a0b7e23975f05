// Items, words and integers of options strings.
#include "src/api/quantizer/spec_items.h"

#include <stdio.h>

#include <algorithm>
#include <charconv>

namespace gq {
namespace {

std::string_view trim(std::string_view word) {
  while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
  while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
  return word;
}

template <typename Integer>
bool parse_integer(std::string_view word, Integer* value) {
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, *value);
  return error == std::errc() && stop == end && !word.empty();
}

}  // namespace

bool next_item(std::string_view* text, SpecItem* item) {
  if (text->data() == nullptr) return false;
  const size_t comma = text->find(',');
  const std::string_view whole = text->substr(0, comma);
  *text = comma == std::string_view::npos ? std::string_view() : text->substr(comma + 1);
  const size_t equals = whole.find('=');
  item->has_value = equals != std::string_view::npos;
  item->name = trim(whole.substr(0, equals));
  item->value = item->has_value ? trim(whole.substr(equals + 1)) : std::string_view();
  return true;
}

int find_name(Names names, std::string_view word) {
  for (size_t i = 0; i < names.count; ++i) {
    if (word == names.list[i]) return static_cast<int>(i);
  }
  return -1;
}

void list_names(Names names, char* text, size_t capacity_bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < names.count && used < capacity_bytes; ++i) {
    used += static_cast<size_t>(
        snprintf(text + used, capacity_bytes - used, i == 0 ? "%s" : ", %s", names.list[i]));
  }
}

size_t edit_count(std::string_view a, std::string_view b) {
  constexpr size_t kLengthMax = 31;
  if (std::max(a.size(), b.size()) > kLengthMax) return std::max(a.size(), b.size());
  size_t row[kLengthMax + 1];  // edits from the first i characters of a to those of each j of b
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

bool parse_unsigned(std::string_view word, uint64_t* value) { return parse_integer(word, value); }

bool parse_signed(std::string_view word, int64_t* value) { return parse_integer(word, value); }

}  // namespace gq
