// Instructions that compute registers from registers, made of functions of values.
#ifndef GQ_TESTS_GPU_PTX_COMPUTE_H
#define GQ_TESTS_GPU_PTX_COMPUTE_H

#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "tests/gpu/ptx/warp.h"

namespace gq::ptx {

using Table = std::unordered_map<std::string, Operation>;

/** Null if there is none of that name. */
inline Operation find_in(const Table& all, const std::string& name) {
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

/** An operation that reads arguments of a function's types and writes its result. */
template <auto kFunction>
struct Of;
template <typename Result, typename... Values, Result (*kFunction)(Values...)>
struct Of<kFunction> {
  template <size_t... kNumbers>
  static void call(const Instruction& made, Warp& warp, Mask threads,
                   std::index_sequence<kNumbers...>) {
    const uint64_t* const in[] = {warp.words(made.in[kNumbers])...};
    uint64_t* const out = warp.words(made.out[0]);
    const auto result = [&](uint32_t thread) {
      return kFunction(value_in<Values>(in[kNumbers], thread)...);
    };
    if constexpr (std::is_same_v<Result, bool>) {
      uint64_t found = 0;
      for_each(threads, [&](uint32_t thread) { found |= uint64_t{result(thread)} << thread; });
      out[0] = (out[0] & ~uint64_t{threads}) | found;
    } else {
      for_each(threads, [&](uint32_t thread) { put_value(out, thread, result(thread)); });
    }
  }
  static void run(const Instruction& made, Warp& warp, Mask threads) {
    call(made, warp, threads, std::index_sequence_for<Values...>{});
  }
};
template <auto kFunction>
constexpr Operation of = Of<kFunction>::run;

// What words and floats have in common.

template <typename V>
V copied(V a) {
  return a;
}
template <typename V>
V chosen(V a, V b, bool first) {
  return first ? a : b;
}
template <typename V>
bool eq(V a, V b) {
  return a == b;
}
/** Of floats: both are numbers. */
template <typename V>
bool ne(V a, V b) {
  return a < b || a > b;
}
template <typename V>
bool lt(V a, V b) {
  return a < b;
}
template <typename V>
bool le(V a, V b) {
  return a <= b;
}
template <typename V>
bool gt(V a, V b) {
  return a > b;
}
template <typename V>
bool ge(V a, V b) {
  return a >= b;
}

template <typename V>
void add_compares(const std::string& type, Table* table) {
  Table& all = *table;
  all["setp.eq." + type] = of<eq<V>>;
  all["setp.ne." + type] = of<ne<V>>;
  all["setp.lt." + type] = of<lt<V>>;
  all["setp.le." + type] = of<le<V>>;
  all["setp.gt." + type] = of<gt<V>>;
  all["setp.ge." + type] = of<ge<V>>;
}

}  // namespace gq::ptx

#endif
