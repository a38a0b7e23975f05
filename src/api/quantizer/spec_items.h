// Walks "name,field=value,.." item by item; the syntax that quantizer specs and options strings
// share.
#ifndef GQ_API_QUANTIZER_SPEC_ITEMS_H
#define GQ_API_QUANTIZER_SPEC_ITEMS_H

#include <stdint.h>

#include <string_view>

#include "src/support/names.h"
#include "src/support/shown.h"
#include "src/support/status.h"

namespace gq {

struct SpecItem {
  std::string_view name;
  std::string_view value;
  bool has_value;
};

/** Removes the next item from `text`, without the spaces around name and value; false at the end.
 *  An empty item (two commas in a row) is returned with an empty name. */
bool next_item(std::string_view* text, SpecItem* item);

/** Index of a word in a table, or -1. */
int find_name(Names names, std::string_view word);

/** The table's words as "a, b, c" for a message. */
void list_names(Names names, char* text, size_t capacity_bytes);

/** Characters to replace, insert or delete until `a` is `b`. Of words of more than 31 characters
 *  the most that it can be. */
size_t edit_count(std::string_view a, std::string_view b);

/** A decimal integer that fills the whole word; false if it is none or does not fit. */
bool parse_unsigned(std::string_view word, uint64_t* value);
bool parse_signed(std::string_view word, int64_t* value);

}  // namespace gq

#endif
