// Part 6 of the C ABI: one stage at a time, for custom schedules, tests and other implementations.
#include "kernels/stages.h"

#include <inttypes.h>

#include "kernels/codec/global_norm.h"
#include "src/api/check.h"
#include "src/api/quantizer.h"
#include "src/execute/endpoint.h"

namespace gq {
namespace {

constexpr uint64_t kFirstValueMax = UINT64_C(1) << 44;  // as in a collective
constexpr uint32_t kWeightMax = 1u << 20;

/** What every stage begins with: format, coding, random site, and the table that runs it. */
struct StageCall {
  Format format;
  Coding coding;
  RandomSite random;
  Range range;
  const Stages* stages = nullptr;

  uint64_t word_count() const { return words_for(coding.bits, range.value_count); }
  Buffer words(const char* name, const void* data) const {
    return {name, data, static_cast<size_t>(word_count()), sizeof(uint32_t)};
  }
};

Status check_site(const gqsgd_site& site) {
  if (site.size < 1 || site.size > kRanksMax || site.rank >= site.size) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: rank %" PRIu64 " of size %" PRIu64 "; size is 1 to %u, rank below size",
                site.rank, site.size, kRanksMax);
  }
  if (site.combines >= site.size && site.combines > 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: combines is %" PRIu64 "; %" PRIu64 " ranks are at most %" PRIu64
                " reductions in a chain",
                site.combines, site.size, site.size - 1);
  }
  if (site.first_value % kValueAlignment != 0 || site.first_value > kFirstValueMax) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: first_value is %" PRIu64 "; it must be a multiple of %u, at most %" PRIu64,
                site.first_value, kValueAlignment, kFirstValueMax);
  }
  return check_step(site.step, site.index);
}

Status begin_stage(gqsgd_quantizer quantizer, const gqsgd_site* site, size_t value_count,
                   const void* stream, StageCall* call) {
  GQ_TRY(find_format(quantizer, &call->format));
  if (site == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "site is NULL");
  GQ_TRY(check_site(*site));
  GQ_TRY(check_stream(stream));
  call->coding = coding_of(call->format, static_cast<uint32_t>(site->size),
                           static_cast<uint32_t>(site->combines));
  if (call->coding.levels == Levels::linear && call->coding.steps == 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "combine=exact with %d bits has no level left for %" PRIu64
                " ranks; use combine=average, or combines = 0 and reduce_many",
                static_cast<int>(call->format.bits), site->size);
  }
  call->random = RandomSite{call->format.seed, static_cast<uint32_t>(site->step),
                            static_cast<uint32_t>(site->index), static_cast<uint32_t>(site->rank),
                            static_cast<uint32_t>(site->hop)};
  call->range = Range{site->first_value, value_count};
  const char* refused = nullptr;
  call->stages = cpu_stages(&refused);
  if (call->stages != nullptr) return Status();
  return fail(GQSGD_UNSUPPORTED, "GQSGD_FORCE_ISA=%.40s is not available on this machine", refused);
}

Status check_values(const char* name, const void* values, size_t value_count, int32_t dtype) {
  GQ_TRY(check_dtype(dtype));
  return check_buffer({name, values, value_count, dtype_size_bytes(dtype)});
}

Status check_norms(const char* name, const float* norms) {
  return check_buffer({name, norms, 1, sizeof(float)});
}

Status norm(gqsgd_quantizer quantizer, const gqsgd_site* site, const void* values,
            size_t value_count, int32_t dtype, float* norms, void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  GQ_TRY(check_values("values", values, value_count, dtype));
  GQ_TRY(check_norms("norms", norms));
  *norms = 0;
  if (call.format.levels == Levels::none) return Status();
  NormWords stage_out;
  const NormArgs args{call.format.q, call.format.block, call.coding.rotated,
                      call.random,   call.range,        values,
                      dtype,         &stage_out,        stream};
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
  GQ_TRY(check_values("values", values, value_count, dtype));
  GQ_TRY(check_norms("norms", norms));
  const Buffer from{"values", values, value_count, dtype_size_bytes(dtype)};
  const Buffer to = call.words("words", words);
  GQ_TRY(check_buffer(to));
  GQ_TRY(check_overlap(from, to, false));
  return Status(call.stages->quantize(
      {call.coding, call.random, call.range, values, dtype, {norms, nullptr}, words, stream}));
}

Status reduce(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* a,
              uint32_t* b_inout, size_t value_count, void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  if (call.coding.wide && call.coding.levels != Levels::none) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: combines is 0, so codes are added by reduce_many; for a reduction in code "
                "form give the longest chain of the schedule");
  }
  const uint64_t weights = site->weight_a + site->weight_b;
  const bool average = call.coding.combine == Combine::average;
  if (average && (site->weight_a < 1 || site->weight_b < 1 || weights > kWeightMax)) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: weights are %" PRIu64 " and %" PRIu64
                "; each is at least 1, their sum at "
                "most %u",
                site->weight_a, site->weight_b, kWeightMax);
  }
  const Buffer from = call.words("a", a);
  const Buffer to = call.words("b_inout", b_inout);
  GQ_TRY(check_buffer(from));
  GQ_TRY(check_buffer(to));
  GQ_TRY(check_overlap(from, to, false));
  return Status(call.stages->reduce({call.coding, call.random, call.range,
                                     static_cast<uint32_t>(site->weight_a),
                                     static_cast<uint32_t>(site->weight_b), a, b_inout, stream}));
}

Status reduce_many(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* const* words,
                   size_t value_count, const float* norms, uint32_t* out_words, float* out_scales,
                   void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  if (!call.coding.wide) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: combines is %" PRIu64
                "; reduce_many adds codes that were quantised with "
                "combines = 0",
                site->combines);
  }
  if (words == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "words is NULL");
  const Buffer to = call.words("out_words", out_words);
  GQ_TRY(check_buffer(to));
  for (uint64_t rank = 0; rank < site->size; ++rank) {
    const Buffer from = call.words("words[rank]", words[rank]);
    GQ_TRY(check_buffer(from));
    GQ_TRY(check_overlap(from, to, true));
  }
  GQ_TRY(check_norms("norms", norms));
  GQ_TRY(check_norms("out_scales", out_scales));
  *out_scales = *norms;
  return Status(call.stages->reduce_many(
      {call.coding, call.random, call.range, words, {norms, nullptr}, out_words, nullptr, stream}));
}

Status dequantize(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* words,
                  const float* scales, size_t value_count, int32_t dtype, int32_t op, void* values,
                  void* stream) {
  StageCall call;
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, &call));
  GQ_TRY(check_op(op));
  GQ_TRY(check_values("values", values, value_count, dtype));
  GQ_TRY(check_norms("scales", scales));
  const Buffer from = call.words("words", words);
  GQ_TRY(check_buffer(from));
  GQ_TRY(check_overlap(from, {"values", values, value_count, dtype_size_bytes(dtype)}, false));
  DequantizeArgs args{};
  args.coding = call.coding;
  args.random = call.random;
  args.range = call.range;
  args.words = words;
  args.scales = {scales, nullptr};
  args.dtype = dtype;
  args.op = op;
  args.values = values;
  args.stream = stream;
  return Status(call.stages->dequantize(args));
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_norm(gqsgd_quantizer quantizer, const gqsgd_site* site, const void* values,
                        size_t value_count, int32_t dtype, float* norms, void*, size_t,
                        void* stream) {
  return gq::norm(quantizer, site, values, value_count, dtype, norms, stream).code();
}

gqsgd_status gqsgd_quantize(gqsgd_quantizer quantizer, const gqsgd_site* site, const void* values,
                            size_t value_count, int32_t dtype, const float* norms, uint32_t* words,
                            void*, size_t, void* stream) {
  return gq::quantize(quantizer, site, values, value_count, dtype, norms, words, stream).code();
}

gqsgd_status gqsgd_reduce(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* a,
                          uint32_t* b_inout, size_t value_count, void* stream) {
  return gq::reduce(quantizer, site, a, b_inout, value_count, stream).code();
}

gqsgd_status gqsgd_reduce_many(gqsgd_quantizer quantizer, const gqsgd_site* site,
                               const uint32_t* const* words, size_t value_count, const float* norms,
                               uint32_t* out_words, float* out_scales, void*, size_t,
                               void* stream) {
  return gq::reduce_many(quantizer, site, words, value_count, norms, out_words, out_scales, stream)
      .code();
}

gqsgd_status gqsgd_dequantize(gqsgd_quantizer quantizer, const gqsgd_site* site,
                              const uint32_t* words, const float* scales, size_t value_count,
                              int32_t dtype, int32_t op, void* values, void* stream) {
  return gq::dequantize(quantizer, site, words, scales, value_count, dtype, op, values, stream)
      .code();
}
