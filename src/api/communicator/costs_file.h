// Constants of the cost model as communicators are given them: a file, a string, or by measuring.
#ifndef GQ_API_COMMUNICATOR_COSTS_FILE_H
#define GQ_API_COMMUNICATOR_COSTS_FILE_H

#include <string_view>

#include "src/plan/auto_choice.h"

namespace gq {

/** Reads the file at `value`. "builtin" stands for the built-in constants, "measure" leaves them to
 *  the ranks, and what has a ';' is the constants themselves. INVALID_ARGUMENT naming the file and
 *  what is wrong with it. */
Status read_costs(std::string_view value, AutoOptions* options);

/** The same of GQSGD_COSTS; nothing, with one line to the log, if it is malformed. */
void read_costs_of_environment(AutoOptions* options);

}  // namespace gq

#endif
