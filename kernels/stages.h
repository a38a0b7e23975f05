// The interface between arithmetic and collectives: what each stage takes, and the table of stages
// that a backend fills. Stages know words and numbers; they know no peer, schedule or transport.
#ifndef GQ_KERNELS_STAGES_H
#define GQ_KERNELS_STAGES_H

#include <stddef.h>
#include <stdint.h>

#include "include/gqsgd.h"
#include "kernels/codec/groups.h"
#include "kernels/stage_error.h"

namespace gq {

/** Bytes of one value of a GQSGD_* dtype. */
constexpr uint32_t dtype_size_bytes(int32_t dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

/** Which random words a stage uses (docs/FORMAT.md, section 2); draws are the stage's own business.
 */
struct RandomSite {
  uint64_t key = 0;  ///< seed, with the stream id mixed in
  uint32_t step = 0;
  uint32_t index = 0;  ///< below 2^16
  uint32_t rank = 0;   ///< the rank that runs the stage
  uint32_t hop = 0;    ///< number of the reduction; 0 for quantize
  /** On a device, if not null: where the step, and behind it the index, are when the stream reaches
   *  the stage. */
  const uint32_t* step_at = nullptr;
  /** Of reduce_many of a node's ranks: the node, and how many there are. Else 0. */
  uint32_t node = 0, nodes = 0;
};

/** Where the values of a range are in their group, if widths are adaptive. The range is then whole
 *  granules of one group (kernels/codec/groups.h), the last perhaps short, that lie stride_values
 *  apart in the call and in the caller's buffer; words, norms and scales begin at the group's own
 *  first ones. */
struct GroupPlace {
  uint32_t block_count = 0;  ///< of the group
  uint32_t plane_count = 0;  ///< of the group, as the mean allows
  uint32_t first_block = 0;  ///< of the range, in the group
  uint64_t stride_values = 0;
};

/** Groups on a device, where a stage takes any number of them at once. Of an allreduce,
 *  whose groups are interleaved, a range is then whole groups, counted in the order of groups, and
 *  the buffer of values is the call's, or null with segments. In a slice the order of groups is
 *  that of values: a range is what others are, and begins with a group. */
struct GroupedValues {
  Groups groups;
  const SegmentPlace* segments = nullptr;  ///< in memory of the device, in the order of values
  uint32_t segment_count = 0;
};

/** Values first_value .. first_value + value_count - 1 of the call. first_value is a multiple of
 *  value_alignment(); buffers start at the range's own first element, norm or scale. */
struct Range {
  uint64_t first_value = 0;
  size_t value_count = 0;
  GroupPlace group = {};
  const GroupedValues* grouped = nullptr;  ///< on a device, in place of `group`
};

/** Norms or scales of a range: one number if block is 0, else a code of 16 bits for each block
 *  (kernels/codec/block_norm.h). The other pointers are null. Devices also take the numbers of
 *  blocks, as the C ABI has them: on the grid of the codes, or rounded up to it. Those of whole
 *  groups are in the order of values, and so are then the scales' codes that reduce_many makes. */
struct NormView {
  const float* one = nullptr;
  const uint16_t* blocks = nullptr;
  const float* numbers = nullptr;
};

/** out: block = 0, q = inf: one uint32_t, the largest magnitude's bits; q = 1, 2: one double, the
 * sum of magnitudes or squares in the order of docs/FORMAT.md, section 4. block > 0 (q is inf): one
 * uint16_t for each block, its norm's code. workspace: for q = 1, 2 on a device, norm_group_count()
 * doubles (kernels/codec/norm.h). running, on a device, for q = inf: null, or two words that are 0
 * before the stage and after it, with which it clears nothing. is_cleared, on a device, for q =
 * inf: out is 0 already. as_numbers, on a device: out is one float, or one for each block, the norm
 * as the C ABI has it. */
struct NormArgs {
  NormOrder q;
  uint32_t block;
  bool rotated;
  RandomSite random;  ///< for the signs of a rotation; rank and hop are not used
  Range range;
  const void* values;
  int32_t dtype;
  void* out;
  void* stream;
  void* workspace = nullptr;
  uint32_t* running = nullptr;
  bool as_numbers = false;
  bool is_cleared = false;
};

/** The largest of each pair of codes becomes b. */
struct MergeNormsArgs {
  size_t norm_count;
  const uint16_t* a;
  uint16_t* b;
  void* stream;
};

/** norms: the global ones. nontemporal, on a CPU: another processor reads the words next, and has
 *  what was here before in its cache (kernels/cpu/nontemporal.inl). */
struct QuantizeArgs {
  Coding coding;
  RandomSite random;
  Range range;
  const void* values;
  int32_t dtype;
  NormView norms;
  uint32_t* words;
  void* stream;
  bool nontemporal = false;
};

/** b becomes a + b in code form, or their weighted mean. */
struct ReduceArgs {
  Coding coding;
  RandomSite random;
  Range range;
  uint32_t weight_a;
  uint32_t weight_b;
  const uint32_t* a;
  uint32_t* b;
  void* stream;
};

inline constexpr uint32_t kOperandArgumentsMax = 32;

/** Wide sum of operands, encoded once with bits_down. With weights they are codes of means,
 *  weights[k] ranks each, coding.ranks of them together; without, one operand for each rank.
 *  Devices take weights of exponential levels and of means with scales alone, in host memory and in
 *  their own: up to kOperandArgumentsMax are arguments of the kernel, but for adaptive widths.
 *  operand_scales_bytes: not 0 if these means have scales of their own (linear levels with rescale,
 *  bits = bits_down): so many bytes behind the first word of each operand is its first
 *  block's scale, and those of other blocks follow. norms are used then for adaptive widths alone.
 *  The operand in the place of out_words may have its scales in that of out_scales.
 *  words: an array that, on a device, it can read. operands, on a device: null, or the same array
 *  in host memory, which may change when the call returns; up to kOperandArgumentsMax are arguments
 *  of the kernel. out_words may be one of the operands if they have as many bits. out_scales: one
 *  for each block with rescale; not touched otherwise, where scales are the norms. */
struct ReduceManyArgs {
  Coding coding;
  RandomSite random;
  Range range;
  const uint32_t* const* words;
  NormView norms;
  uint32_t* out_words;
  uint16_t* out_scales;
  void* stream;
  const uint32_t* weights = nullptr;
  uint32_t weight_count = 0;
  bool nontemporal = false;  ///< as in QuantizeArgs
  const uint64_t* device_weights = nullptr;
  const uint32_t* const* operands = nullptr;
  /** Rice codes, on a device: memory for sums as float32, a whole group for each of the range. If
   *  out_words is null they are all that is made. */
  float* sums = nullptr;
  size_t operand_scales_bytes = 0;
};

/** Whether values may be written, on a device: a word that is kGateUndecided or kGateClosed before
 *  the first stage with this gate, which makes of the former kGateDeciding while it looks, then
 *  kGateClosed if *broken, a word of host memory, is not 0, else kGateOpen. Null: they may. */
struct Gate {
  uint32_t* word = nullptr;
  const uint32_t* broken = nullptr;
};
inline constexpr uint32_t kGateUndecided = 0, kGateClosed = 1, kGateOpen = 2, kGateDeciding = 3;

/** Whether the results of a call find no room in the caches of most processors, or in what a core
 *  has of them, so that only memory has them when they are read. */
constexpr bool has_nontemporal_results(uint64_t value_count, int32_t dtype) {
  return value_count * dtype_size_bytes(dtype) >= uint64_t{16} << 20;
}

/** What sums of `ranks` are divided by. */
constexpr float result_divisor(int32_t op, uint32_t ranks) {
  return op == GQSGD_MEAN ? static_cast<float>(ranks) : 1.0f;
}

/** words: what reduce_many wrote if coding.wide, else codes reduced in code form. scales: what
 *  reduce_many wrote with rescale, else the global norms. gate: values are left alone if it is
 *  closed by then. nontemporal, on a CPU: values may be stored without reading what was there into
 *  a cache first. */
struct DequantizeArgs {
  Coding coding;
  RandomSite random;  ///< shared draws only: rank and hop are not used
  Range range;
  const uint32_t* words;
  NormView scales;
  int32_t dtype;
  int32_t op;
  void* values;
  void* stream;
  Gate gate = {};
  NormView norms = {};  ///< adaptive widths: the global norms, which they follow from
  bool nontemporal = false;
};

/** The widths of the blocks of one group, from the codes of their global norms: one byte each. */
struct WidthsArgs {
  uint32_t block_count;  ///< at most kGroupBlocks
  uint32_t plane_count;  ///< at least kWidthMin for each block
  const uint16_t* norms;
  uint8_t* widths;
};

/** Values of a group as a call has them, which its caller reads or writes next: a stage prefetches
 *  them while it computes. first: null for none; else any address. */
struct ValuesAhead {
  const void* first = nullptr;
  uint32_t value_bytes = 0;
  size_t stride_bytes = 0;  ///< from granule to granule
};

/** Rice codes of one group (kernels/codec/rice.h), of values that lie granule by granule, without
 *  what lies between them in the call. values: 0 where a call has none between its segments.
 *  is_sum: of a wide sum. words: kPlaneWords for each plane, and there are at least
 *  rice_planes_least() planes. poisoned_cells: null, or how many cells became NaN. */
struct EncodeRiceArgs {
  Coding coding;
  RandomSite random;
  bool is_sum;
  uint64_t first_value;    ///< of the group, in the call
  uint64_t stride_values;  ///< from granule to granule, in the call
  uint32_t value_count;    ///< at most kRiceGroupValues
  uint32_t plane_count;
  const float* values;
  uint32_t* words;
  uint32_t* poisoned_cells = nullptr;
  ValuesAhead ahead = {};
};

/** Their values, whatever the words are. add: they are added to what `values` has; cells of zeros
 *  then leave it alone. Else they are divided. */
struct DecodeRiceArgs {
  uint32_t value_count;
  uint32_t plane_count;
  const uint32_t* words;
  float* values;
  bool add;
  ValuesAhead ahead = {};
  uint64_t stride_values = kGranuleValues;  ///< from granule to granule of `values`
  float divisor = 1;                        ///< a number of ranks; 1 where values are added
};

/** To where results of a group belong, `to` being the first one's place in the call: float32 is
 *  decoded there, and divided. Other types become values at `scratch`, to be written from there. */
inline DecodeRiceArgs rice_results(void* to, int32_t dtype, uint64_t stride_values, float divisor,
                                   float* scratch) {
  const uint32_t value_bytes = dtype_size_bytes(dtype);
  DecodeRiceArgs args{};
  args.values = scratch;
  args.ahead = {to, value_bytes, static_cast<size_t>(stride_values) * value_bytes};
  if (dtype != GQSGD_FLOAT32) return args;
  args.values = static_cast<float*>(to);
  args.stride_values = stride_values;
  args.divisor = divisor;
  args.ahead.first = args.values + stride_values;  // a granule further than it writes
  return args;
}

/** Entries of a range's codes that are not zero, and the fillers before them
 * (kernels/codec/sparse.h). Ranges of a call follow each other: *skipped and *entry_count go from
 * one to the next, 0 before the first. workspace, on a device: select_workspace_bytes()
 * (kernels/sparse_workspace.h). */
struct CountEntriesArgs {
  Coding coding;
  Range range;
  const uint32_t* words;
  uint64_t* skipped;      ///< zero codes since the last entry
  uint64_t* entry_count;  ///< grows by the entries of this range
  void* stream;
  void* workspace = nullptr;
};

/** Writes the same entries. counted, on a device: the workspace is as count_entries left it for
 *  this range, *skipped and *entry_count are not used. */
struct SelectArgs {
  Coding coding;
  Range range;
  const uint32_t* words;
  uint32_t* entries;  ///< those of the whole call
  uint64_t* skipped;
  uint64_t* entry_count;  ///< written so far
  void* stream;
  void* workspace = nullptr;
  bool counted = false;
};

/** A rank's entries, and how far they have been added: both 0 before the first range. */
struct RankEntries {
  const uint32_t* entries = nullptr;
  uint64_t entry_count = 0;
  uint64_t next_entry = 0;
  uint64_t next_value = 0;  ///< the one after the last entry added
};

/** Values of a range from the sparse entries of all ranks, added in rank order. Ranges of a call
 * follow each other; entries beyond a range stay for the next, whatever they are. On a device: no
 * rank has more entries than entries_max, and workspace is that of an AddSparseWorkspace
 * (kernels/sparse_workspace.h); gate as for dequantize. */
struct AddSparseArgs {
  Coding coding;
  RandomSite random;  ///< shared draws only: rank and hop are not used
  Range range;
  RankEntries* rank_entries;  ///< coding.ranks of them
  float scale;                ///< the global norm
  int32_t dtype;
  int32_t op;
  void* values;
  void* stream;
  uint64_t entries_max = 0;
  void* workspace = nullptr;
  Gate gate = {};
};

/** One backend's stages. On a CPU they run at once and return {}; on a device they enqueue on
 *  args.stream and return GQSGD_BACKEND, with a sentence, if CUDA refuses; what pointers lead to is
 *  then the device's memory, norms included. Arguments are checked by the caller. Buffers are
 *  element-aligned, any count from 0 on. */
struct Stages {
  const char* name;  ///< "scalar", "avx2", ..
  StageError (*norm)(const NormArgs& args);
  StageError (*merge_norms)(const MergeNormsArgs& args);
  StageError (*quantize)(const QuantizeArgs& args);
  StageError (*reduce)(const ReduceArgs& args);
  StageError (*reduce_many)(const ReduceManyArgs& args);
  StageError (*dequantize)(const DequantizeArgs& args);
  StageError (*count_entries)(const CountEntriesArgs& args);
  StageError (*select)(const SelectArgs& args);
  StageError (*add_sparse)(const AddSparseArgs& args);
  // Null on devices.
  StageError (*widths)(const WidthsArgs& args) = nullptr;
  StageError (*encode_rice)(const EncodeRiceArgs& args) = nullptr;
  StageError (*decode_rice)(const DecodeRiceArgs& args) = nullptr;
};

inline constexpr size_t kBatchArgumentsMax = 32;
inline constexpr size_t kBatchPieceBytes = 64;

/** Where kernels read the pieces of a batch that has more of them than kBatchArgumentsMax:
 *  kBatchPieceBytes for each. */
struct BatchTable {
  void* on_device = nullptr;  ///< nothing else uses it meanwhile; null: some pieces at a time
  /** Host memory with what the table has, or gets on the stream: a batch with the same pieces need
   *  not write them again. kUnwrittenByte in all bytes at first. Null: each batch writes. */
  void* written = nullptr;
};
inline constexpr int kUnwrittenByte = 0xff;

/** Brings the places of segments to memory of a device: as arguments of kernels, so that graphs
 *  keep a copy. */
struct WriteSegmentsArgs {
  const SegmentPlace* segments;
  size_t count;
  SegmentPlace* out;
  void* stream;
};

/** A device's stages for several ranges in one launch. args[0] .. args[count - 1] differ in ranges
 *  and buffers alone; merges differ in `a` alone. */
struct BatchStages {
  StageError (*norm)(const NormArgs* args, size_t count, const BatchTable& table);
  StageError (*merge_norms)(const MergeNormsArgs* args, size_t count);
  StageError (*quantize)(const QuantizeArgs* args, size_t count, const BatchTable& table);
  StageError (*reduce_many)(const ReduceManyArgs* args, size_t count, const BatchTable& table);
  StageError (*dequantize)(const DequantizeArgs* args, size_t count, const BatchTable& table);
  StageError (*write_segments)(const WriteSegmentsArgs& args);
};

/** Where values that are NaN or infinite stand: what nonfinite=error reports. */
struct NonfiniteSite {
  uint64_t first_value = 0;  ///< index of the first one
  uint64_t value_count = 0;  ///< how many there are
};

/** Scans host memory, once a norm has shown that there are some. A float64 beyond the largest
 * float32 counts as infinite, as it does in the norm. */
NonfiniteSite find_nonfinite(const void* values, uint64_t value_count, int32_t dtype);

/** The CPU stages of the best instruction set here, or of GQSGD_FORCE_ISA; nullptr, with the
 *  requested name in *refused, if that one is unknown or missing on this machine. */
const Stages* cpu_stages(const char** refused);

/** The CPU stages of one instruction set by name; nullptr if not built or not runnable here. */
const Stages* cpu_stages_named(const char* name);

/** The CPU stages that run here, fastest first, by a number from 0 on; nullptr beyond the last. */
const Stages* cpu_stages_here(size_t number);

/** The stages of CUDA devices, where the build has them: they run on the current device. */
const Stages& cuda_stages();
const BatchStages& cuda_batch_stages();

/** Loads all of their kernels on the current device, for what remains of the process. CUDA would do
 *  so at each one's first launch, and wait for what runs on the device. */
StageError cuda_load_kernels();

/** The toolkit and the devices that they were compiled for: "13.0.88 for sm_90". */
const char* cuda_build();

}  // namespace gq

#endif
