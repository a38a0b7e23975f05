// Stages of the C ABI: one stage at a time, for custom schedules, tests and other implementations.
#include "kernels/stages.h"

#include <inttypes.h>

#include <algorithm>

#include "kernels/codec/global_norm.h"
#include "src/api/call_scope.h"
#include "src/api/config.h"
#include "src/api/stages/device_stages.h"
#include "src/api/stages/group_stages.h"
#include "src/api/stages/norm_grid.h"
#include "src/api/stages/rice_stages.h"
#include "src/api/stages/stage_call.h"

namespace gq {
namespace {

constexpr uint32_t kWeightMax = 1u << 20;

Status check_values(const StageCall& call, const void* values, int32_t dtype) {
  GQ_TRY(check_dtype(dtype));
  return call.check({"values", values, call.range.value_count, dtype_size_bytes(dtype)});
}

/** Present, and numbers that stages know; those on a device are not looked at. */
Status check_norms(const StageCall& call, const char* name, const float* norms) {
  GQ_TRY(call.check(call.norms(name, norms)));
  if (call.coding.block == 0 || call.on_device()) return Status();
  return check_norm_grid(name, norms, call.norm_count());
}

/** The output of a stage does not overlap its other inputs. */
Status check_norms_apart(const StageCall& call, const char* name, const float* norms,
                         const Buffer& other) {
  return check_overlap(call.norms(name, norms), other, false);
}

/** Norms for a stage, one piece of a range at a time, so that their codes fit the stack.
 */
constexpr size_t kNormsAtOnce = 512;

/** One piece of a range, where it begins in the buffers, and its norms as a stage takes them. */
struct Piece {
  Range range;
  size_t offset;
  NormView norms;
};

/** Calls `work` for each piece; for the whole range if it has one norm. Norms have been checked. */
template <typename Work>
Status for_each_piece(const StageCall& call, const float* norms, Work work) {
  const size_t block = call.coding.block;
  if (call.on_device()) return work(Piece{call.device_range(), 0, norms_on_device(call, norms)});
  if (block == 0) return work(Piece{call.range, 0, {norms, nullptr}});
  uint16_t codes[kNormsAtOnce];
  const size_t step = kNormsAtOnce * block;
  for (size_t offset = 0; offset < call.range.value_count; offset += step) {
    const size_t count = std::min(step, call.range.value_count - offset);
    const Range range{call.range.first_value + offset, count};
    const uint64_t blocks = norm_count(call.coding.block, call.coding.rotated, count);
    codes_from_norms(norms + offset / block, static_cast<size_t>(blocks), codes);
    GQ_TRY(work(Piece{range, offset, {nullptr, codes}}));
  }
  return Status();
}

static_assert(kNormsAtOnce * kValueAlignment % kRotationValues == 0, "pieces are aligned");

size_t word_offset(uint32_t bits, size_t value_offset) {
  return static_cast<size_t>(words_for(bits, value_offset));
}

template <typename Bytes>
Bytes* values_at(Bytes* values, int32_t dtype, size_t offset) {
  return values + offset * dtype_size_bytes(dtype);
}

Status norm(gqsgd_quantizer quantizer, const gqsgd_site* site, const void* values,
            size_t value_count, int32_t dtype, float* norms, const Workspace& workspace,
            void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  GQ_TRY(check_values(call, values, dtype));
  GQ_TRY(call.check(call.norms("norms", norms)));
  GQ_TRY(check_norms_apart(call, "norms", norms,
                           {"values", values, value_count, dtype_size_bytes(dtype)}));
  if (call.on_device()) return norm_on_device(call, values, dtype, norms, workspace);
  NormWords stage_out;
  NormArgs args{call.format.q, call.coding.block, call.coding.rotated,
                call.random,   call.range,        values,
                dtype,         &stage_out,        stream};
  if (call.coding.block != 0) {
    uint16_t* codes = reinterpret_cast<uint16_t*>(norms);
    args.out = codes;
    GQ_TRY(Status(call.stages->norm(args)));
    norms_from_codes(codes, call.norm_count(), norms, CodesAt::kHead);
    return Status();
  }
  *norms = 0;
  if (!has_norm(call.format.levels)) return Status();
  GQ_TRY(Status(call.stages->norm(args)));
  // The norm of a single rank is the global norm of one: p has nothing to add.
  GlobalNorm merged(call.format.q, NormOrder::inf);
  merged.merge(merged.to_wire(stage_out));
  *norms = merged.result();
  return Status();
}

Status quantize(gqsgd_quantizer quantizer, const gqsgd_site* site, const void* values,
                size_t value_count, int32_t dtype, const float* norms, uint32_t* words,
                void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  GQ_TRY(check_values(call, values, dtype));
  GQ_TRY(check_norms(call, "norms", norms));
  const Buffer from{"values", values, value_count, dtype_size_bytes(dtype)};
  const Buffer to = call.words("words", words);
  GQ_TRY(call.check(to));
  GQ_TRY(check_overlap(from, to, false));
  GQ_TRY(check_norms_apart(call, "norms", norms, to));
  if (call.coding.grouped() && !call.on_device()) {
    return call.coding.adaptive() ? quantize_groups(call, values, dtype, norms, words)
                                  : quantize_rice(call, values, dtype, words);
  }
  return for_each_piece(call, norms, [&](const Piece& piece) {
    return Status(call.stages->quantize(
        {call.coding, call.random, piece.range,
         values_at(static_cast<const unsigned char*>(values), dtype, piece.offset), dtype,
         piece.norms, words + word_offset(call.coding.bits, piece.offset), stream}));
  });
}

Status reduce(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* a,
              uint32_t* b_inout, size_t value_count, void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  if (call.coding.wide && call.coding.levels != Levels::none) {
    return fail(
        GQSGD_INVALID_ARGUMENT,
        "site: reduction_depth is 0, so codes are added by reduce_many; for a reduction in code "
        "form give the longest chain of the schedule");
  }
  const bool average = call.coding.combine == Combine::average;
  const bool too_large =
      site->weight_a > kWeightMax || site->weight_b > kWeightMax - site->weight_a;
  if (average && (site->weight_a < 1 || site->weight_b < 1 || too_large)) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: weights are %" PRIu64 " and %" PRIu64
                "; each is at least 1, their sum at "
                "most %u",
                site->weight_a, site->weight_b, kWeightMax);
  }
  const Buffer from = call.words("a", a);
  const Buffer to = call.words("b_inout", b_inout);
  GQ_TRY(call.check(from));
  GQ_TRY(call.check(to));
  GQ_TRY(check_overlap(from, to, false));
  return Status(call.stages->reduce({call.coding, call.random, call.range,
                                     static_cast<uint32_t>(site->weight_a),
                                     static_cast<uint32_t>(site->weight_b), a, b_inout, stream}));
}

Status reduce_many(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* const* words,
                   size_t value_count, const float* norms, uint32_t* out_words, float* out_scales,
                   const Workspace& workspace, void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  if (!call.coding.wide) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: reduction_depth is %" PRIu64
                "; reduce_many adds codes that were quantised with "
                "reduction_depth = 0",
                site->reduction_depth);
  }
  if (words == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "words is NULL");
  const Buffer to = call.result_words("out_words", out_words);
  GQ_TRY(call.check(to));
  const bool same_bits = call.coding.packing() == call.coding.packing_down();
  GQ_TRY(check_norms(call, "norms", norms));
  GQ_TRY(call.check(call.norms("out_scales", out_scales)));
  GQ_TRY(check_norms_apart(call, "norms", norms, to));
  GQ_TRY(check_norms_apart(call, "out_scales", out_scales, to));
  for (uint64_t rank = 0; rank < site->size; ++rank) {
    const Buffer from = call.words("words[rank]", words[rank]);
    GQ_TRY(call.check(from));
    GQ_TRY(check_overlap(from, to, same_bits));
    GQ_TRY(check_norms_apart(call, "out_scales", out_scales, from));
  }
  GQ_TRY(check_overlap(call.norms("norms", norms), call.norms("out_scales", out_scales), true));
  if (call.on_device()) {
    return reduce_many_on_device(call, words, norms, out_words, out_scales, workspace);
  }
  if (call.coding.adaptive()) {
    return reduce_many_groups(call, words, norms, out_words, out_scales);
  }
  if (call.coding.grouped()) {
    GQ_TRY(reduce_many_rice(call, words, out_words));
    *out_scales = *norms;  // after what may lack memory, and then writes nothing
    return Status();
  }
  ReduceManyArgs args{call.coding,      call.random, call.range, words,
                      {norms, nullptr}, out_words,   nullptr,    stream};
  if (call.coding.block == 0) {
    *out_scales = *norms;
    return Status(call.stages->reduce_many(args));
  }
  // Codes are half as long as numbers: out_scales holds those of the norms, and behind them
  // for those of the scales.
  uint16_t* codes = reinterpret_cast<uint16_t*>(out_scales);
  const size_t count = call.norm_count();
  codes_from_norms(norms, count, codes);
  args.norms = {nullptr, codes};
  if (call.coding.rescale) args.out_scales = codes + count;
  GQ_TRY(Status(call.stages->reduce_many(args)));
  if (call.coding.rescale) {
    norms_from_codes(codes + count, count, out_scales, CodesAt::kTail);
  } else {
    norms_from_codes(codes, count, out_scales, CodesAt::kHead);
  }
  return Status();
}

/** What both kinds of dequantize check. */
Status begin_dequantize(const StageCall& call, const uint32_t* words, const float* scales,
                        int32_t dtype, int32_t op, const void* values) {
  GQ_TRY(check_op(op));
  GQ_TRY(check_values(call, values, dtype));
  GQ_TRY(check_norms(call, "scales", scales));
  const Buffer from = call.result_words("words", words);
  GQ_TRY(call.check(from));
  const Buffer to{"values", values, call.range.value_count, dtype_size_bytes(dtype)};
  GQ_TRY(check_overlap(from, to, false));
  return check_norms_apart(call, "scales", scales, to);
}

Status check_adaptive(const StageCall& call, bool adaptive, const char* function,
                      const char* other) {
  if (call.coding.adaptive() == adaptive) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "%s is for width=%s; use %s", function,
              adaptive ? "adaptive" : "fixed", other);
}

Status dequantize_adaptive(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* words,
                           const float* norms, const float* scales, size_t value_count,
                           int32_t dtype, int32_t op, void* values, void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  GQ_TRY(check_adaptive(call, true, "gqsgd_dequantize_adaptive", "gqsgd_dequantize"));
  GQ_TRY(begin_dequantize(call, words, scales, dtype, op, values));
  GQ_TRY(check_norms(call, "norms", norms));
  GQ_TRY(check_norms_apart(call, "norms", norms,
                           {"values", values, value_count, dtype_size_bytes(dtype)}));
  if (call.on_device()) {
    return dequantize_groups_on_device(call, words, norms, scales, dtype, op, values);
  }
  return dequantize_groups(call, words, norms, scales, dtype, op, values);
}

Status find_widths(gqsgd_quantizer quantizer, const gqsgd_site* site, const float* norms,
                   size_t value_count, uint8_t* widths, void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  GQ_TRY(check_adaptive(call, true, "gqsgd_widths", "bits"));
  GQ_TRY(check_norms(call, "norms", norms));
  const Buffer to{"widths", widths, call.norm_count(), 1};
  GQ_TRY(call.check(to));
  GQ_TRY(check_norms_apart(call, "norms", norms, to));
  return call.on_device() ? find_group_widths_on_device(call, norms, widths)
                          : find_group_widths(call, norms, widths);
}

Status dequantize(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* words,
                  const float* scales, size_t value_count, int32_t dtype, int32_t op, void* values,
                  void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  GQ_TRY(check_adaptive(call, false, "gqsgd_dequantize", "gqsgd_dequantize_adaptive"));
  GQ_TRY(begin_dequantize(call, words, scales, dtype, op, values));
  if (call.coding.grouped() && !call.on_device()) {
    return dequantize_rice(call, words, dtype, op, values);
  }
  return for_each_piece(call, scales, [&](const Piece& piece) {
    return Status(call.stages->dequantize(
        {call.coding, call.random, piece.range,
         words + word_offset(call.coding.bits_down, piece.offset), piece.norms, dtype, op,
         values_at(static_cast<unsigned char*>(values), dtype, piece.offset), stream, {}, {},
         has_nontemporal_results(call.range.value_count, dtype)}));
  });
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_norm(gqsgd_quantizer quantizer, const gqsgd_site* site, const void* values,
                        size_t value_count, gqsgd_dtype dtype, float* norms, void* workspace,
                        size_t workspace_size_bytes, void* stream) {
  return gq::in_call_scope([&] {
    return gq::norm(quantizer, site, values, value_count, gq::number_of(dtype), norms,
                    {workspace, workspace_size_bytes}, stream);
  });
}

gqsgd_status gqsgd_quantize(gqsgd_quantizer quantizer, const gqsgd_site* site, const void* values,
                            size_t value_count, gqsgd_dtype dtype, const float* norms,
                            uint32_t* words, void*, size_t, void* stream) {
  return gq::in_call_scope([&] {
    return gq::quantize(quantizer, site, values, value_count, gq::number_of(dtype), norms, words,
                        stream);
  });
}

gqsgd_status gqsgd_reduce(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* a,
                          uint32_t* b_inout, size_t value_count, void* stream) {
  return gq::in_call_scope(
      [&] { return gq::reduce(quantizer, site, a, b_inout, value_count, stream); });
}

gqsgd_status gqsgd_reduce_many(gqsgd_quantizer quantizer, const gqsgd_site* site,
                               const uint32_t* const* words, size_t value_count, const float* norms,
                               uint32_t* out_words, float* out_scales, void* workspace,
                               size_t workspace_size_bytes, void* stream) {
  return gq::in_call_scope([&] {
    return gq::reduce_many(quantizer, site, words, value_count, norms, out_words, out_scales,
                           {workspace, workspace_size_bytes}, stream);
  });
}

gqsgd_status gqsgd_dequantize(gqsgd_quantizer quantizer, const gqsgd_site* site,
                              const uint32_t* words, const float* scales, size_t value_count,
                              gqsgd_dtype dtype, gqsgd_op op, void* values, void* stream) {
  return gq::in_call_scope([&] {
    return gq::dequantize(quantizer, site, words, scales, value_count, gq::number_of(dtype),
                          gq::number_of(op), values, stream);
  });
}

gqsgd_status gqsgd_widths(gqsgd_quantizer quantizer, const gqsgd_site* site, const float* norms,
                          size_t value_count, uint8_t* widths, void* stream) {
  return gq::in_call_scope(
      [&] { return gq::find_widths(quantizer, site, norms, value_count, widths, stream); });
}

gqsgd_status gqsgd_dequantize_adaptive(gqsgd_quantizer quantizer, const gqsgd_site* site,
                                       const uint32_t* words, const float* norms,
                                       const float* scales, size_t value_count, gqsgd_dtype dtype,
                                       gqsgd_op op, void* values, void* stream) {
  return gq::in_call_scope([&] {
    return gq::dequantize_adaptive(quantizer, site, words, norms, scales, value_count,
                                   gq::number_of(dtype), gq::number_of(op), values, stream);
  });
}
