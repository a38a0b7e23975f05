// Stages of Rice codes as timed cases.
#ifndef GQ_BENCH_STAGES_RICE_CASES_H
#define GQ_BENCH_STAGES_RICE_CASES_H

#include "bench/stages/cases.h"

namespace gq::bench {

/** quantize of 16 ranks, reduce_many of 4 and dequantize, of whole calls, with codes of 3, 4 and 6
 *  bits a value. */
std::vector<Case> rice_cases(Buffers& buffers);

}  // namespace gq::bench

#endif
