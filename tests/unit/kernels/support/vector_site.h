// Where a record of the test vectors says that its stage stands.
#ifndef GQ_TESTS_UNIT_KERNELS_SUPPORT_VECTOR_SITE_H
#define GQ_TESTS_UNIT_KERNELS_SUPPORT_VECTOR_SITE_H

#include "kernels/codec/random.h"
#include "kernels/stages.h"
#include "tests/support/vectors.h"

namespace gq::test {

/** A field that records leave out where it is 0. */
inline uint32_t small(const VectorRecord& record, const char* key) {
  return record.has(key) ? static_cast<uint32_t>(record.integer(key)) : 0;
}

inline RandomSite site_of(const VectorRecord& record) {
  RandomSite site;
  site.key = random_key(record.integer("seed"), small(record, "stream_id"));
  site.step = small(record, "step");
  site.index = small(record, "index");
  site.rank = small(record, "rank");
  site.hop = small(record, "hop");
  return site;
}

}  // namespace gq::test

#endif
