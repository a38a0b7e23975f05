// The agreement of ranks without a host: stages that write this rank's header, compare those of all
// ranks, merge their norms, and close the gate before a call's results where they differ.
#ifndef GQ_KERNELS_AGREEMENT_H
#define GQ_KERNELS_AGREEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "include/gqsgd.h"
#include "kernels/codec/formats.h"
#include "kernels/stage_error.h"

namespace gq {

/** Words of a header; where in it a rank's norm stands, low word first; and the first reserved
 *  word, behind the norm. */
inline constexpr uint32_t kAgreementWords = 20;
inline constexpr uint32_t kAgreementNormWord = 14;
inline constexpr uint32_t kAgreementReservedWord = 16;

/** The first disagreement that a device finds: host memory, which the host reads once `found` is
 *  not 0. A later one does not replace it until the host has set `found` to 0. */
struct Disagreement {
  uint32_t found;
  uint32_t rank;                        ///< the first whose header differs from rank 0's
  uint32_t reference[kAgreementWords];  ///< rank 0's
  uint32_t differing[kAgreementWords];  ///< that rank's
};

/** Writes the words to device memory. keep_norm: but those of the norm, where a norm stage has
 *  written already. */
struct WriteHeaderArgs {
  uint32_t words[kAgreementWords];
  bool keep_norm;
  uint32_t* header;
  void* stream;
  /** If not null: where the step and, behind it, the index are when the stream reaches it. They are
   *  written to the words of these numbers, the index into the low half; where it is above
   *  kIndexMax, word `status_word` is GQSGD_INVALID_ARGUMENT. */
  const uint32_t* step_at;
  uint32_t step_word;
  uint32_t index_word;
  uint32_t status_word;
  /** Words that become 0: norms of segments, which norm stages raise. */
  uint64_t* cleared = nullptr;
  size_t cleared_count = 0;
};

/** step[0] = *counter, a number in host memory, which grows by one; step[1], the index, is 0. */
struct TakeStepArgs {
  uint64_t* counter;
  uint32_t* step;
  void* stream;
};

/** norms: those of the segments of a call as stages wrote them, 8 bytes each, of all ranks: rank
 * r's begin `stride_bytes` times r later. global[k] becomes the norm of segment k over all ranks.
 */
struct MergeRankNormsArgs {
  const unsigned char* norms;
  size_t stride_bytes;
  uint32_t ranks;
  size_t segment_count;
  NormOrder q;
  NormOrder p;
  float* global;
  void* stream;
};

/** headers: those of all ranks in rank order, `stride_words` apart. `compared` has bit k if word k
 *  has to be the same on all ranks; word `status_word` has to be 0. *norm becomes the global norm
 *  of the norms as stages wrote them. *gate (kernels/stages.h) is left undecided if the headers
 *  agree, else closed. segments: norms that are merged as well; may be none. */
struct AgreeArgs {
  const uint32_t* headers;
  size_t stride_words;
  uint32_t ranks;
  uint32_t compared;
  uint32_t status_word;
  NormOrder q;
  NormOrder p;
  float* norm;
  uint32_t* gate;
  Disagreement* disagreement;
  void* stream;
  MergeRankNormsArgs segments;
};

/** A backend's: they enqueue on args.stream, as other stages do. */
struct AgreementStages {
  StageError (*take_step)(const TakeStepArgs& args);
  StageError (*write_header)(const WriteHeaderArgs& args);
  StageError (*agree)(const AgreeArgs& args);
  StageError (*merge_rank_norms)(const MergeRankNormsArgs& args);
};

/** Those of CUDA devices, where the build has them. */
const AgreementStages& cuda_agreement_stages();

}  // namespace gq

#endif
