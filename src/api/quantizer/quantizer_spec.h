// The specification of a quantizer: "paper-ge8,seed=7" in, every field named out. Presets live
// here.
#ifndef GQ_API_QUANTIZER_QUANTIZER_SPEC_H
#define GQ_API_QUANTIZER_QUANTIZER_SPEC_H

#include <stddef.h>

#include "kernels/codec/formats.h"
#include "src/support/status.h"

namespace gq {

Status parse_quantizer(const char* text, Format* format);

/** The full specification; returns its length without the final 0, as snprintf does. */
size_t describe_quantizer(const Format& format, char* text, size_t capacity_bytes);

/** The same as the nearest preset and the fields that differ: "blocks-8,seed=7". */
size_t write_short_spec(const Format& format, char* spec, size_t capacity_bytes);

}  // namespace gq

#endif
