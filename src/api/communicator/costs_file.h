// Constants of the cost model from a file, as communicators are given them.
#ifndef GQ_API_COMMUNICATOR_COSTS_FILE_H
#define GQ_API_COMMUNICATOR_COSTS_FILE_H

#include <memory>
#include <string_view>

#include "src/plan/cost/cost_constants.h"

namespace gq {

/** Reads the file at `path`; "builtin" stands for the built-in constants. INVALID_ARGUMENT naming
 *  the file and what is wrong with it. */
Status read_costs(std::string_view path, std::shared_ptr<const CostConstants>* costs);

/** The constants that GQSGD_COSTS names; none, with one line to the log, if it is malformed. */
std::shared_ptr<const CostConstants> costs_of_environment();

}  // namespace gq

#endif
