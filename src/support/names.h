// The words users write and read for each choice; index = enumerator. One table for the quantizer's
// specification, for messages and for the control message's fields.
#ifndef GQ_SUPPORT_NAMES_H
#define GQ_SUPPORT_NAMES_H

#include <stddef.h>

namespace gq {

struct Names {
  const char* const* list;
  size_t count;
};

template <size_t kCount>
constexpr Names names_of(const char* const (&list)[kCount]) {
  return {list, kCount};
}

inline constexpr const char* kDtypeList[] = {"float32", "float16", "bfloat16", "float64"};
inline constexpr const char* kOpList[] = {"sum", "mean"};
inline constexpr const char* kScheduleList[] = {"auto",   "ring",         "tree",   "butterfly",
                                                "direct", "hierarchical", "native", "sparse"};
inline constexpr const char* kOperationList[] = {"none",      "allreduce",      "reduce_scatter",
                                                 "allgather", "allreduce_many", "measure_costs"};
inline constexpr const char* kLevelsList[] = {"linear", "exponential", "none",
                                              "bf16",   "fp16",        "rice"};
inline constexpr const char* kBitsList[] = {"4", "8", "32", "16"};
inline constexpr const char* kWidthList[] = {"fixed", "adaptive"};
inline constexpr const char* kNormOrderList[] = {"inf", "1", "2"};
inline constexpr const char* kRoundingList[] = {"independent", "correlated", "nearest"};
inline constexpr const char* kRoundingDownList[] = {"random", "subtractive"};
inline constexpr const char* kRotateList[] = {"none", "hadamard"};
inline constexpr const char* kCombineList[] = {"exact", "sum", "average"};
inline constexpr const char* kBoolList[] = {"false", "true"};
inline constexpr const char* kNonfiniteList[] = {"poison", "error"};

/** The word for a value; "?" outside the table. */
constexpr const char* name_in(Names names, size_t index) {
  return index < names.count ? names.list[index] : "?";
}

}  // namespace gq

#endif
