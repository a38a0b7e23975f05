// The stages of one rank, in tiles by several threads where a range is long enough: the same bits
// as in one piece.
#ifndef GQ_EXECUTE_SPLIT_STAGES_H
#define GQ_EXECUTE_SPLIT_STAGES_H

#include "src/execute/endpoint.h"
#include "src/execute/workers.h"

namespace gq {

/** The endpoint's stage, with its workers if it has any; the calling thread computes as well. */
Status run_stage(const Endpoint& endpoint, const NormArgs& args);
Status run_stage(const Endpoint& endpoint, const QuantizeArgs& args);
Status run_stage(const Endpoint& endpoint, const ReduceArgs& args);
Status run_stage(const Endpoint& endpoint, const ReduceManyArgs& args);
Status run_stage(const Endpoint& endpoint, const DequantizeArgs& args);
/** The digest of the words and scales of blocks is added to *digest while a cache has them. */
Status run_stage(const Endpoint& endpoint, const DequantizeArgs& args, uint64_t* digest);

}  // namespace gq

#endif
