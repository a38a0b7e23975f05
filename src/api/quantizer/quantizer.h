// The quantizer behind a handle, and how a call gets at it.
#ifndef GQ_API_QUANTIZER_QUANTIZER_H
#define GQ_API_QUANTIZER_QUANTIZER_H

#include "kernels/codec/formats.h"
#include "src/support/status.h"

namespace gq {

/** The format of a handle, by value: a quantizer never changes. */
Status find_format(gqsgd_quantizer quantizer, Format* format);

}  // namespace gq

#endif
