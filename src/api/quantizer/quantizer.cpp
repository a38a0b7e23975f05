// The quantizer functions of the C ABI, and sizes that follow from a quantizer.
#include "src/api/quantizer/quantizer.h"

#include <algorithm>

#include "include/gqsgd_stages.h"
#include "kernels/codec/groups.h"
#include "src/api/check.h"
#include "src/api/config.h"
#include "src/api/handles.h"
#include "src/api/last_error.h"
#include "src/api/quantizer/quantizer_spec.h"
#include "src/api/stages/device_stages.h"
#include "src/support/immortal.h"

namespace gq {
namespace {

using QuantizerTable = HandleTable<const Format, HandleType::quantizer>;

QuantizerTable& quantizers() { return immortal<QuantizerTable>(); }

Status create(const char* spec, gqsgd_quantizer* out) {
  if (out == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_quantizer_create: out is NULL");
  *out = nullptr;
  if (spec == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "gqsgd_quantizer_create: spec is NULL; \"\" is the default");
  }
  Format format;
  GQ_TRY(parse_quantizer(spec, &format));
  try {
    const uintptr_t token = quantizers().add(std::make_shared<const Format>(format));
    *out = reinterpret_cast<gqsgd_quantizer>(token);
  } catch (const std::bad_alloc&) {
    *out = nullptr;
  }
  if (*out != nullptr) return Status();
  return fail(GQSGD_NO_MEMORY, "gqsgd_quantizer_create: no memory for a quantizer");
}

/** Words that are enough for `value_count` codes, or sums, of any number of ranks: groups share
 *  planes, and each has a whole number of them. */
uint64_t words_of(const Format& format, bool are_sums, uint64_t value_count) {
  const uint64_t codes = code_count(format.rotate == Rotate::hadamard, value_count);
  const uint8_t bits = are_sums ? format.bits_down : format.bits;
  if (format.mean_half_bits == 0) return words_for(bits, codes);
  if (format.levels != Levels::rice) {
    return planes_of(format.mean_half_bits, adaptive_blocks(codes)) * kPlaneWords;
  }
  if (value_count == 0) return 0;
  const uint64_t group_values = std::min<uint64_t>(value_count, kGroupBlocks * kAdaptiveBlock);
  return uint64_t{kPlaneWords} * rice_planes(format.mean_half_bits, adaptive_blocks(value_count), 1,
                                             static_cast<uint32_t>(group_values), are_sums);
}

/** Bytes of `value_count` codes or sums. */
Status packed_size(const char* function, bool are_sums, gqsgd_quantizer quantizer,
                   size_t value_count, size_t* size_bytes) {
  if (size_bytes == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "%s: size_bytes is NULL", function);
  }
  Format format;
  GQ_TRY(find_format(quantizer, &format));
  GQ_TRY(check_count("value_count", value_count));
  *size_bytes = static_cast<size_t>(words_of(format, are_sums, value_count)) * sizeof(uint32_t);
  return Status();
}

Status count_norms(gqsgd_quantizer quantizer, size_t value_count, size_t* count) {
  if (count == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_norm_count: norm_count is NULL");
  }
  Format format;
  GQ_TRY(find_format(quantizer, &format));
  GQ_TRY(check_count("value_count", value_count));
  *count =
      static_cast<size_t>(norm_count(format.block, format.rotate == Rotate::hadamard, value_count));
  return Status();
}

Status workspace_size(gqsgd_quantizer quantizer, size_t value_count, int32_t dtype,
                      size_t* size_bytes) {
  if (size_bytes == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_workspace_size: size_bytes is NULL");
  }
  Format format;
  GQ_TRY(find_format(quantizer, &format));
  GQ_TRY(check_dtype(dtype));
  GQ_TRY(check_count("value_count", value_count));
  *size_bytes = device_workspace_bytes(format, value_count);
  return Status();
}

}  // namespace

Status find_format(gqsgd_quantizer quantizer, Format* format) {
  const std::shared_ptr<const Format> found =
      quantizers().find(reinterpret_cast<uintptr_t>(quantizer));
  if (!found) {
    return fail(GQSGD_BAD_HANDLE,
                "quantizer %p is not a live quantizer of this process: it is NULL, destroyed, or "
                "of another type",
                static_cast<void*>(quantizer));
  }
  *format = *found;
  return Status();
}

}  // namespace gq

gqsgd_status gqsgd_quantizer_create(const char* spec, gqsgd_quantizer* out) {
  return gq::to_caller(gq::create(spec, out));
}

gqsgd_status gqsgd_quantizer_describe(gqsgd_quantizer quantizer, char* spec, size_t capacity_bytes,
                                      size_t* size_bytes) {
  gq::Format format;
  const gq::Status status = gq::find_format(quantizer, &format);
  if (!status.ok()) return gq::to_caller(status);
  if (spec == nullptr && capacity_bytes > 0) {
    return gq::to_caller(
        gq::fail(GQSGD_INVALID_ARGUMENT, "gqsgd_quantizer_describe: spec is NULL"));
  }
  const size_t length = gq::describe_quantizer(format, spec, capacity_bytes);
  if (size_bytes != nullptr) *size_bytes = length + 1;
  return GQSGD_OK;
}

gqsgd_status gqsgd_quantizer_destroy(gqsgd_quantizer quantizer) {
  if (quantizer == nullptr) return GQSGD_OK;
  if (gq::quantizers().remove(reinterpret_cast<uintptr_t>(quantizer))) return GQSGD_OK;
  gq::Format unused;
  return gq::to_caller(gq::find_format(quantizer, &unused));  // the usual sentence
}

gqsgd_status gqsgd_packed_size(gqsgd_quantizer quantizer, size_t value_count, size_t* size_bytes) {
  return gq::to_caller(
      gq::packed_size("gqsgd_packed_size", false, quantizer, value_count, size_bytes));
}

gqsgd_status gqsgd_result_size(gqsgd_quantizer quantizer, size_t value_count, size_t* size_bytes) {
  return gq::to_caller(
      gq::packed_size("gqsgd_result_size", true, quantizer, value_count, size_bytes));
}

gqsgd_status gqsgd_norm_count(gqsgd_quantizer quantizer, size_t value_count, size_t* norm_count) {
  return gq::to_caller(gq::count_norms(quantizer, value_count, norm_count));
}

gqsgd_status gqsgd_workspace_size(gqsgd_quantizer quantizer, size_t value_count, gqsgd_dtype dtype,
                                  size_t* size_bytes) {
  return gq::to_caller(
      gq::workspace_size(quantizer, value_count, gq::number_of(dtype), size_bytes));
}
