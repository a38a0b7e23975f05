// The calls of gqsgd_comm_verify: what each of them takes, and the digest of what the reference
// gets.
#ifndef GQ_API_VERIFY_VERIFY_CASES_H
#define GQ_API_VERIFY_VERIFY_CASES_H

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

#include "include/gqsgd.h"

namespace gq {

struct VerifyCase {
  const char* preset;
  gqsgd_schedule schedule;
  gqsgd_dtype dtype;
  uint64_t digest;  ///< the reference's, of kReferenceRanks ranks on kReferenceNodes
};

inline constexpr uint32_t kReferenceRanks = 3;
inline constexpr const char* kReferenceNodes = "nodes=0:0:1";
/** Several blocks, a rest, and shards of unequal lengths. */
inline constexpr size_t kVerifyValueCount = 4133;

/** Every combination that the format has, but floats added by a transport (native). */
extern const VerifyCase kVerifyCases[];
extern const uint32_t kVerifyCaseCount;

/** Of case `number`: "blocks-8, direct, float32". May throw std::bad_alloc, as all below. */
std::string verify_name(uint32_t number);
gqsgd_op verify_op(uint32_t number);
gqsgd_config verify_config(uint32_t number);

/** What `rank` brings to a call: finite values of several magnitudes, by integer arithmetic. Of the
 *  sparse schedule one in 16 is not zero. */
std::vector<unsigned char> verify_values(uint32_t number, uint32_t rank);

/** Sum of (2 k + 1) * pattern k, modulo 2^64. */
uint64_t verify_digest(gqsgd_dtype dtype, const std::vector<unsigned char>& values);

}  // namespace gq

#endif
