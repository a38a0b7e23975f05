// Arguments of the stages of one call on one rank: what follows from the call, its plan and the
// rank. Callers add what only they know: operands of other ranks, workspace, a gate.
#ifndef GQ_EXECUTE_STAGE_ARGUMENTS_H
#define GQ_EXECUTE_STAGE_ARGUMENTS_H

#include "src/execute/endpoint.h"
#include "src/execute/pieces.h"
#include "src/plan/plan.h"

namespace gq {

/** The same on host memory and on a stream, where addresses are a device's. Holds pointers only:
 *  endpoint, call, plan and norms outlive it. */
class StageArguments {
 public:
  StageArguments() = default;
  /** `norms`: the global norms where blocks have none; one for each segment of the call, or one. */
  StageArguments(const Endpoint& endpoint, const Call& call, const Plan& plan, unsigned char* arena,
                 const float* norms)
      : endpoint_(&endpoint), call_(&call), plan_(&plan), arena_(arena), norms_(norms) {}

  /** Where the packed codes of a piece are in the chunk of its move. */
  const uint32_t* words_in(const unsigned char* chunk, Content content, const Piece& piece) const;
  /** The same for codes or sums of this rank. */
  uint32_t* own_words(Content content, const Move& move, const Piece& piece) const;
  /** The norms of a piece, or of its group. */
  uint16_t* own_norms(const Move& move, const Piece& piece) const;

  /** One norm of a range. */
  NormArgs norm(Range range, const void* values, void* out) const;
  /** Of a segment without values on this rank: the norm of no values. */
  NormArgs segment_norm(size_t segment, void* out) const;
  NormArgs block_norms(const Move& move, const Piece& piece) const;
  MergeNormsArgs merge_norms(const Move& move, const uint16_t* received) const;

  QuantizeArgs quantize(const Move& move, const Piece& piece) const;
  ReduceArgs reduce(const Move& move, const Piece& piece, const uint32_t* operand) const;
  ReduceManyArgs reduce_many(const Move& move, const Piece& piece,
                             const uint32_t* const* operands) const;
  /** Sums of values: operand_values decodes the codes of one rank to float32, add_values adds the
   *  two float32 arrays at `pair` into the sums of the piece, which are the first of them. */
  DequantizeArgs operand_values(const Move& move, const Piece& piece) const;
  ReduceManyArgs add_values(const Move& move, const Piece& piece,
                            const uint32_t* const* pair) const;
  /** `chunk` is where the packed codes of the move begin. */
  DequantizeArgs dequantize(const Move& move, const Piece& piece, const unsigned char* chunk) const;

  // Sparse entries: calls in one piece, with one norm.
  QuantizeArgs quantize(Range range) const;
  CountEntriesArgs count_entries(Range range) const;
  SelectArgs select() const;
  AddSparseArgs add_sparse(Range range) const;

 private:
  RandomSite random(uint32_t hop) const { return random_site(*endpoint_, *call_, hop); }
  NormView norms_of(const Move& move, const Piece& piece) const;
  uint16_t* own_norms(uint64_t first_value) const;
  const uint16_t* scales_in(const unsigned char* chunk, const Move& move, const Piece& piece) const;
  /** In a chunk of sums, from the first word of a piece to its first scale. */
  size_t scales_behind_words(const Move& move, const Piece& piece) const;

  const Endpoint* endpoint_ = nullptr;
  const Call* call_ = nullptr;
  const Plan* plan_ = nullptr;
  unsigned char* arena_ = nullptr;
  const float* norms_ = nullptr;
};

}  // namespace gq

#endif
