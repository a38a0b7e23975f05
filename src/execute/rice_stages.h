// The stages of calls with Rice codes. A code is part of its group: values of a group are gathered
// as float32 and encoded, codes are decoded to float32, and these are added or scattered.
#ifndef GQ_EXECUTE_RICE_STAGES_H
#define GQ_EXECUTE_RICE_STAGES_H

#include "src/execute/endpoint.h"
#include "src/execute/pieces.h"
#include "src/execute/stage_arguments.h"
#include "src/plan/plan.h"

namespace gq {

/** What each thread needs: the values of a group. */
inline constexpr size_t kRiceScratchBytes = kGroupBlocks * kAdaptiveBlock * sizeof(float);

/** Whole groups of a move at a time, several by several threads. */
class RiceStages {
 public:
  RiceStages(Endpoint& endpoint, const Call& call, const Plan& plan,
             const StageArguments& arguments)
      : endpoint_(endpoint), call_(call), plan_(plan), arguments_(arguments) {}

  /** Counts the cells of this rank's values that are poisoned. */
  Status quantize(const Move& move) const;
  /** `chunks`: where the codes of the move begin, of each of its operands. */
  Status reduce_many(const Move& move, const uint32_t* const* chunks) const;
  /** Decodes the sum of all ranks to float32, in place of sums in codes. */
  Status add_values(const Move& move, const uint32_t* const* chunks) const;
  /** `chunk`: where the codes or sums begin. *digest, if not null, grows by that of their words. */
  Status dequantize(const Move& move, const unsigned char* chunk, uint64_t* digest) const;

 private:
  /** Values of one group. Without segments they lie granule by granule, stride_values() apart. */
  struct Group {
    const Move& move;
    Move part;             ///< of the move: what is the group
    uint64_t skipped;      ///< values of the move before it, in the order of groups
    uint64_t first_value;  ///< in the call
    uint32_t value_count;
  };

  Group group_of(const Move& move, uint32_t number) const;
  Packing packing_of(Content content) const;
  uint32_t planes_of_group(Content content, const Group& group) const;
  uint32_t* own_words(Content content, const Group& group) const;

  /** Calls work(group, scratch) for each group of the move; scratch has space for its values. */
  template <typename Work>
  Status each_group(const Move& move, const Work& work) const;
  /** Calls work(tile) for granules of one segment each, or the parts of them. */
  template <typename Work>
  StageError each_tile(const Group& group, const Work& work) const;

  StageError gather(const Group& group, float* values) const;
  StageError scatter(const Group& group, const float* values) const;
  /** Results of a group are decoded to where the call has them, or to scratch, to be scattered. */
  DecodeRiceArgs place_of(const Group& group, float* scratch) const;
  StageError add(Content content, const Group& group, const uint32_t* const* chunks,
                 uint32_t count, float* values) const;
  /** With what `args` has of values. */
  StageError encode(Content content, const Group& group, EncodeRiceArgs args) const;
  StageError decode(Content content, const Group& group, const uint32_t* chunk,
                    DecodeRiceArgs args) const;
  ValuesAhead values_behind(const Group& group) const;

  Endpoint& endpoint_;
  const Call& call_;
  const Plan& plan_;
  const StageArguments& arguments_;
};

}  // namespace gq

#endif
