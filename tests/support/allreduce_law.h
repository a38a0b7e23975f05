// The exact probability law of one element of a whole allreduce, composed from the laws of its
// roundings as docs/FORMAT.md orders them: a second, independent reading of sections 5 to 10
// against which the library is held. Single roundings are law.h's matter.
#ifndef GQ_TESTS_SUPPORT_ALLREDUCE_LAW_H
#define GQ_TESTS_SUPPORT_ALLREDUCE_LAW_H

#include <gqsgd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/inputs.h"
#include "tests/support/law.h"

namespace gq::test {

enum class Combine { exact, sum, average };

/** What the law of a format depends on. */
struct Coding {
  bool is_exponential;
  int bits;
  Combine combine;
};

/** The coding of "paper-gl8" and its like. */
Coding coding_of(const std::string& preset);

/** One reduction: the codes of rank `from` are merged into those of rank `into`. */
struct Merge {
  size_t from;
  size_t into;
};

/** The reductions in code form of the part that holds `element`, in an order that respects theirs,
 * and none for the direct and hierarchical ones (section 10). The last merge is made by the part's
 * owner. */
std::vector<Merge> merges_of(gqsgd_schedule schedule, size_t rank_count, size_t element,
                             size_t value_count);

/** The longest chain of reductions in code form. */
int reduction_depth_of(gqsgd_schedule schedule, size_t rank_count);

/** The number of codes between 0 and the norm, inclusive: s of linear levels, by section 5. */
double linear_levels(const Coding& coding, gqsgd_schedule schedule, size_t rank_count);

/** The law of element `element` of the mean over ranks; `norm` is norm_of(inputs) and not zero.
 *  node_ids: of the hierarchical schedule; then there are several nodes, not all of one rank. */
Law law_of_mean(const Coding& coding, gqsgd_schedule schedule, const std::vector<Values>& inputs,
                double norm, size_t element, const std::vector<int32_t>& node_ids = {});

}  // namespace gq::test

#endif
