// Stages of Rice codes as timed cases. The C ABI has none of them: a call's groups are not ranges.
#ifndef GQ_BENCH_STAGES_RICE_CASES_H
#define GQ_BENCH_STAGES_RICE_CASES_H

#include "bench/stages/cases.h"

namespace gq::bench {

/** Encoding of values, sums of four operands, and decoding, of whole groups whose values lie as a
 *  call has them in its scratch; with codes of 3, 4 and 6 bits a value. */
std::vector<Case> rice_cases(Buffers& buffers);

}  // namespace gq::bench

#endif
