// The calls that gqsgd-verify makes: every preset, schedule and type of values, and what each gives
// on virtual ranks.
#ifndef GQ_TOOLS_VERIFY_CASES_H
#define GQ_TOOLS_VERIFY_CASES_H

#include <gqsgd.h>
#include <gqsgd_model.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gq::tools {

struct Case {
  const char* preset;
  gqsgd_schedule schedule;
  gqsgd_dtype dtype;
  uint32_t number;  ///< in the order of all_cases(); decides step and op

  /** "blocks-8, ring, float32". */
  std::string name() const;
  gqsgd_op op() const { return number % 2 == 0 ? GQSGD_SUM : GQSGD_MEAN; }
  gqsgd_config config() const;
};

std::vector<Case> all_cases();

using Bytes = std::vector<unsigned char>;

/** Values per call: several blocks, a rest, and shards of unequal lengths. */
inline constexpr size_t kValueCount = 4133;

/** What a rank brings to a call, of finite values of several magnitudes; no bit depends on the
 *  machine. */
Bytes values_of(const Case& one, int32_t rank);
size_t value_bytes(gqsgd_dtype dtype);

/** The option by which pairs of ranks share a node: "nodes=0:0:1:1". */
std::string nodes_of_pairs(int32_t rank_count);

/** The result of `rank_count` virtual ranks on this thread; *status is not OK where the library
 *  does not support the combination. */
Bytes simulated(const Case& one, gqsgd_quantizer quantizer, int32_t rank_count,
                gqsgd_status* status);

}  // namespace gq::tools

#endif
