// Which fields of a quantizer go together, whatever it is used for. What a schedule can do with
// them is decided at the call (src/plan).
#ifndef GQ_API_QUANTIZER_QUANTIZER_RULES_H
#define GQ_API_QUANTIZER_QUANTIZER_RULES_H

#include "kernels/codec/formats.h"
#include "src/support/status.h"

namespace gq {

/** INVALID_ARGUMENT with the fields that do not go together and what would work. */
Status check_combination(const Format& format);

}  // namespace gq

#endif
