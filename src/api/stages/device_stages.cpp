// What stages on device memory do before and after those of kernels/cuda.
#include "src/api/stages/device_stages.h"

#include <algorithm>

#include "kernels/codec/norm.h"

namespace gq {
namespace {

/** The sums of groups that a norm of q = 1 or 2 is made from. */
size_t norm_workspace_bytes(const Format& format, uint64_t first_value, uint64_t codes) {
  const bool sums = format.q != NormOrder::inf && has_norm(format.levels);
  return sums ? static_cast<size_t>(norm_group_count(first_value, codes)) * sizeof(double) : 0;
}

/** The array of operands, and behind it the scales' codes: numbers may take the place of the norms
 *  from which the codes are made. */
size_t list_bytes(size_t ranks) { return ranks * sizeof(void*); }

size_t scale_codes_bytes(bool rescale, size_t norm_count) {
  return rescale ? (norm_count * sizeof(uint16_t) + 7) / 8 * 8 : 0;
}

/** Sums of Rice codes lie as float32 until they are encoded. Whatever the number of ranks: each
 *  group lacks less than one granule, and there is one group for 8 granules at most. */
size_t float_sums_bytes(uint64_t value_count) {
  const uint64_t granules = divided_up(value_count, kGranuleValues);
  const uint64_t places = granules + divided_up(granules, kGroupGranulesMin);
  return static_cast<size_t>(places) * kGranuleValues * sizeof(float);
}

size_t reduce_many_workspace_bytes(const StageCall& call) {
  const Coding& coding = call.coding;
  const size_t behind = coding.levels == Levels::rice
                            ? static_cast<size_t>(call.grouped_count()) * sizeof(float)
                            : scale_codes_bytes(coding.rescale, call.norm_count());
  return list_bytes(coding.ranks) + behind;
}

Status check_workspace(const StageCall& call, const Workspace& workspace, size_t needed_bytes) {
  if (needed_bytes == 0) return Status();
  if (workspace.data != nullptr && workspace.size_bytes < needed_bytes) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "workspace_size_bytes is %zu; this call needs %zu on a device; hint: "
                "gqsgd_workspace_size",
                workspace.size_bytes, needed_bytes);
  }
  return call.check({"workspace", workspace.data, needed_bytes / 8, 8});
}

}  // namespace

size_t device_workspace_bytes(const Format& format, size_t value_count) {
  const bool rotated = format.rotate == Rotate::hadamard;
  const uint64_t codes = code_count(rotated, value_count);
  const size_t norms = static_cast<size_t>(norm_count(format.block, rotated, value_count));
  // A range may begin in the middle of a group, and then has one more.
  const size_t behind_list = format.levels == Levels::rice
                                 ? float_sums_bytes(value_count)
                                 : scale_codes_bytes(format.rescale, norms);
  return std::max(norm_workspace_bytes(format, kNormGroupValues - 1, codes),
                  list_bytes(kListedRanks) + behind_list);
}

Status norm_on_device(const StageCall& call, const void* values, int32_t dtype, float* norms,
                      const Workspace& workspace) {
  NormArgs args{
      call.format.q, call.coding.block, call.coding.rotated, call.random, call.range, values, dtype,
      norms,         call.stream};
  args.workspace = workspace.data;
  args.as_numbers = true;
  if (!has_norm(call.format.levels)) {  // A norm of no values: zero.
    args.q = NormOrder::inf;
    args.range.value_count = 0;
  }
  const uint64_t codes = code_count(call.coding.rotated, call.range.value_count);
  GQ_TRY(check_workspace(call, workspace,
                         norm_workspace_bytes(call.format, call.range.first_value, codes)));
  return Status(call.stages->norm(args));
}

Status reduce_many_on_device(const StageCall& call, const uint32_t* const* words,
                             const float* norms, uint32_t* out_words, float* out_scales,
                             const Workspace& workspace) {
  const Coding& coding = call.coding;
  GQ_TRY(check_workspace(call, workspace, reduce_many_workspace_bytes(call)));
  const void** const list = static_cast<const void**>(workspace.data);
  GQ_TRY(Status(call.device->numbers->write_list(
      {reinterpret_cast<const void* const*>(words), coding.ranks, list, call.stream})));
  ReduceManyArgs args{coding,
                      call.random,
                      call.device_range(),
                      reinterpret_cast<const uint32_t* const*>(list),
                      norms_on_device(call, norms),
                      out_words,
                      nullptr,
                      call.stream};
  args.operands = words;
  NormView scales = args.norms;
  if (coding.levels == Levels::rice) {
    args.sums = reinterpret_cast<float*>(list + coding.ranks);
  } else if (coding.rescale) {
    args.out_scales = reinterpret_cast<uint16_t*>(list + coding.ranks);
    scales = {nullptr, args.out_scales};
  }
  GQ_TRY(Status(call.stages->reduce_many(args)));
  if (out_scales == nullptr) return Status();
  const size_t count = call.norm_count();
  return Status(call.device->numbers->write_numbers({scales, count, out_scales, call.stream}));
}

Status dequantize_groups_on_device(const StageCall& call, const uint32_t* words, const float* norms,
                                   const float* scales, int32_t dtype, int32_t op, void* values) {
  DequantizeArgs args{
      call.coding, call.random, call.device_range(), words, norms_on_device(call, scales), dtype,
      op,          values,      call.stream};
  args.norms = norms_on_device(call, norms);
  return Status(call.stages->dequantize(args));
}

Status find_group_widths_on_device(const StageCall& call, const float* norms, uint8_t* widths) {
  return Status(call.device->numbers->write_widths(
      {call.device_range(), call.coding.mean_half_bits, norms, widths, call.stream}));
}

}  // namespace gq
