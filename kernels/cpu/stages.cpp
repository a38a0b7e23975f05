// The CPU stages of one instruction set: this file is compiled once per GQ_ISA, with that set's
// flags. Everything is in an unnamed namespace, so that no copy made for a newer processor can be
// linked into code for an older one; only the table is seen from outside.
#include "kernels/stages.h"

#include <string.h>

#include <type_traits>
#include <utility>

#include "kernels/codec/block_norm.h"
#include "kernels/codec/exponential.h"
#include "kernels/codec/exponential_words.h"
#include "kernels/codec/groups.h"
#include "kernels/codec/linear.h"
#include "kernels/codec/narrow.h"
#include "kernels/codec/narrow_codes.h"
#include "kernels/codec/norm.h"
#include "kernels/codec/planes.h"
#include "kernels/codec/random.h"
#include "kernels/codec/rice.h"
#include "kernels/codec/rotate.h"
#include "kernels/codec/sparse.h"
#include "kernels/codec/strata.h"
#include "kernels/codec/widths.h"
#include "kernels/codec/words.h"
#include "kernels/cpu/float_environment.h"
#include "kernels/cpu/tables.h"
#include "kernels/cpu/vector.h"
#include "kernels/rounding_strata.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lanes are addressed as bytes of words");

namespace gq {
namespace {

// Each uses what the ones before it define.
// clang-format off
#include "kernels/cpu/tile.inl"
#include "kernels/cpu/nontemporal.inl"
#include "kernels/cpu/segments.inl"
#include "kernels/cpu/random.inl"
#include "kernels/cpu/strata.inl"
#include "kernels/cpu/linear.inl"
#include "kernels/cpu/rotate.inl"
#include "kernels/cpu/norm.inl"
#include "kernels/cpu/narrow_codes.inl"
#include "kernels/cpu/quantize.inl"
#include "kernels/cpu/reduce.inl"
#include "kernels/cpu/sums/bytes.inl"
#include "kernels/cpu/sums/exponential.inl"
#include "kernels/cpu/sums/powers.inl"
#include "kernels/cpu/sums/power_matrices.inl"
#include "kernels/cpu/sums/means.inl"
#include "kernels/cpu/reduce_many.inl"
#include "kernels/cpu/dequantize.inl"
#include "kernels/cpu/sparse.inl"
#include "kernels/cpu/planes.inl"
#include "kernels/cpu/bit_matrices.inl"
#include "kernels/cpu/adaptive/widths.inl"
#include "kernels/cpu/adaptive/granules.inl"
#include "kernels/cpu/adaptive/quantize.inl"
#include "kernels/cpu/adaptive/sums.inl"
#include "kernels/cpu/adaptive/dequantize.inl"
#include "kernels/cpu/rice/plain.inl"
#include "kernels/cpu/rice/vectors.inl"
#include "kernels/cpu/rice/cells.inl"
#include "kernels/cpu/rice/look.inl"
#include "kernels/cpu/rice/round.inl"
#include "kernels/cpu/rice/unary.inl"
#include "kernels/cpu/rice/write.inl"
#include "kernels/cpu/rice/read.inl"
#include "kernels/cpu/rice/stages.inl"
// clang-format on

}  // namespace

#define GQ_JOIN(a, b) a##b
#define GQ_TABLE(isa) GQ_JOIN(stages_, isa)
#define GQ_QUOTED(text) #text
#define GQ_NAME(isa) GQ_QUOTED(isa)

const Stages GQ_TABLE(GQ_ISA) = {
    GQ_NAME(GQ_ISA), norm,          merge_norms, quantize,   reduce, reduce_many,
    dequantize,      count_entries, select,      add_sparse, widths, encode_rice,
    decode_rice,
};

}  // namespace gq
