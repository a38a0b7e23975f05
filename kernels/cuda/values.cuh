// Values of all element types as a thread loads and stores them: sixteen that follow each other.
#ifndef GQ_KERNELS_CUDA_VALUES_CUH
#define GQ_KERNELS_CUDA_VALUES_CUH

#include <type_traits>

#include "include/gqsgd.h"
#include "kernels/codec/global_norm.h"
#include "kernels/codec/narrow.h"
#include "kernels/codec/norm.h"
#include "kernels/cuda/keyed_stream.cuh"
#include "kernels/cuda/launch/warp_tile.cuh"

namespace gq::cuda {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

GQ_DEVICE float widened(Half value) { return half_to_float(value.bits); }
GQ_DEVICE float widened(Bfloat value) { return bfloat_to_float(value.bits); }
GQ_DEVICE float widened(float value) { return value; }
GQ_DEVICE float widened(double value) { return static_cast<float>(value); }

GQ_DEVICE void keep_largest(float value, uint32_t& largest) {
  const uint32_t magnitude = magnitude_bits(value);
  largest = magnitude > largest ? magnitude : largest;
}
GQ_DEVICE void keep_largest_of(const float (&value)[kThreadValues], uint32_t& largest) {
  GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) keep_largest(value[e], largest);
}

/** The element types that a kernel is made for. One for all needs some twice as many registers as
 *  one for float32, so that a processor has half as many warps at once to hide the latency of its
 *  loads (docs/results/gpu-changes.md). */
enum class Dtypes { any, float32, narrow, float64 };

/** Blocks that a processor has at once of a kernel which has `most` of them for float32. */
constexpr uint32_t blocks_of(Dtypes dtypes, uint32_t most) {
  return dtypes == Dtypes::float32 ? most : dtypes == Dtypes::narrow ? 3 : 2;
}

/** Calls `run` with the types that a kernel of a call's values is made for. */
template <typename Run>
auto with_dtypes(int32_t dtype, Run run) {
  if (dtype == GQSGD_FLOAT32) return run.template operator()<Dtypes::float32>();
  if (dtype == GQSGD_FLOAT64) return run.template operator()<Dtypes::float64>();
  return run.template operator()<Dtypes::narrow>();
}

/** Calls `run` with an element of the dtype. */
#pragma nv_exec_check_disable
template <Dtypes kDtypes = Dtypes::any, typename Run>
GQ_HD auto with_element(int32_t dtype, Run run) {
  if constexpr (kDtypes == Dtypes::float32) return run(float{});
  if constexpr (kDtypes == Dtypes::float64) return run(double{});
  if constexpr (kDtypes == Dtypes::any) {
    if (dtype == GQSGD_FLOAT32) return run(float{});
    if (dtype == GQSGD_FLOAT64) return run(double{});
  }
  if (dtype == GQSGD_FLOAT16) return run(Half{});
  return run(Bfloat{});
}

/** A thread's elements, in memory or as vectors. */
template <typename Element>
union ThreadElements {
  using Vectors = WarpVectors<kThreadValues * sizeof(Element) / 16>;
  Element element[kThreadValues];
  typename Vectors::Own vector;

  /** Whether the lanes of a warp exchange vectors of elements. */
  GQ_DEVICE static bool in_vectors(bool aligned, const Place& place) {
    return aligned && place.warp_is_full;
  }
};

/** A thread's elements as float32, and zeros. */
template <uint32_t kThreads, typename Element>
GQ_DEVICE void load_elements(const Element* from, bool aligned, const Place& place,
                             float (&value)[kThreadValues]) {
  using Elements = ThreadElements<Element>;
  Elements loaded;
  if (Elements::in_vectors(aligned, place)) {
    Elements::Vectors::template load<kThreads>(from + first_of_warp(place.offset), loaded.vector);
  } else {
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      loaded.element[e] = e < place.value_count ? from[place.offset + e] : Element{};
    }
  }
  GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = widened(loaded.element[e]);
}

/** Writes what `make(e)` gives for a thread's elements. */
template <uint32_t kThreads, typename Element, typename Make>
GQ_DEVICE void store_elements(Element* to, bool aligned, const Place& place, Make make) {
  using Elements = ThreadElements<Element>;
  Elements made;
  GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) made.element[e] = make(e);
  if (Elements::in_vectors(aligned, place)) {
    Elements::Vectors::template store<kThreads>(to + first_of_warp(place.offset), made.vector);
    return;
  }
  GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
    if (e < place.value_count) to[place.offset + e] = made.element[e];
  }
}

template <Dtypes kDtypes = Dtypes::any>
struct ValueSource {
  const void* values;
  int32_t dtype;
  bool vectors;

  template <typename Args>
  explicit ValueSource(const Args& args)
      : values(args.values), dtype(args.dtype), vectors(is_aligned(values, 16)) {}

  GQ_HD void set(const void* other) {
    values = other;
    vectors = is_aligned(other, 16);
  }
  GQ_DEVICE ValueSource at(const void* other) const {
    ValueSource there = *this;
    there.set(other);
    return there;
  }

  template <uint32_t kThreads = kBlockThreads>
  GQ_DEVICE void load(const Place& place, float (&value)[kThreadValues]) const {
    with_element<kDtypes>(dtype, [&]<typename Element>(Element) {
      load_elements<kThreads>(static_cast<const Element*>(values), vectors, place, value);
    });
  }
};

/** Sums of float32, or values without levels: the words of their patterns. */
struct PatternBuffer {
  float* patterns;
  bool vectors;

  explicit GQ_HD PatternBuffer(const void* words) { set(words); }
  GQ_HD void set(const void* words) {
    patterns = static_cast<float*>(const_cast<void*>(words));
    vectors = is_aligned(words, 16);
  }

  GQ_DEVICE void load(const Place& place, float (&value)[kThreadValues]) const {
    load_elements<kBlockThreads>(patterns, vectors, place, value);
  }
  GQ_DEVICE void store(const Place& place, const float (&value)[kThreadValues]) const {
    store_elements<kBlockThreads>(patterns, vectors, place, [&](uint32_t e) { return value[e]; });
  }
};

/** R(e) of the values of a thread. */
GQ_DEVICE void fill_bits(const KeyedStream& stream, uint64_t first_value,
                         uint32_t (&bits)[kThreadValues]) {
  const PhiloxBlock block = random_group(stream, first_value / kGroupValues);
  GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
    bits[e] = value_bits(block.word[e / kWordValues], e);
  }
}

/** A value as an element; random `bits` round one that is narrower. NaN of float64 has one pattern:
 *  which one a conversion makes depends on the machine. */
template <typename Element, bool kNearest>
GQ_DEVICE Element rounded_to(float value, uint32_t bits) {
  if constexpr (std::is_same_v<Element, float>) return value;
  if constexpr (std::is_same_v<Element, Half>) return {float_to_half<kNearest>(value, bits)};
  if constexpr (std::is_same_v<Element, Bfloat>) return {float_to_bfloat<kNearest>(value, bits)};
  if constexpr (std::is_same_v<Element, double>) {
    return value == value ? static_cast<double>(value) : double_from_bits(kDoubleNanBits);
  }
}

/** A caller's output, and how values are rounded where it is narrower than they are. */
template <Dtypes kDtypes = Dtypes::any>
struct ValueTarget {
  void* values;
  int32_t dtype;
  bool vectors;
  bool nearest;
  KeyedStream stream;

  template <typename Args>
  explicit ValueTarget(const Args& args)
      : values(args.values),
        dtype(args.dtype),
        vectors(is_aligned(values, 16)),
        nearest(args.coding.rounding == Rounding::nearest),
        stream(shared_stream(args.random, Draw::output)) {}

  GQ_HD void set(const void* other) {
    values = const_cast<void*>(other);
    vectors = is_aligned(other, 16);
  }
  GQ_DEVICE ValueTarget at(const void* other) const {
    ValueTarget there = *this;
    there.set(other);
    return there;
  }

  GQ_DEVICE void store(uint64_t first_value, const Place& place,
                       const float (&value)[kThreadValues]) const {
    uint32_t bits[kThreadValues] = {};
    with_element<kDtypes>(dtype, [&]<typename Element>(Element) {
      if constexpr (sizeof(Element) >= sizeof(float)) {
        store_as<Element, true>(place, value, bits);
      } else if (nearest) {
        store_as<Element, true>(place, value, bits);
      } else {
        fill_bits(stream, first_value + place.offset, bits);
        store_as<Element, false>(place, value, bits);
      }
    });
  }

 private:
  template <typename Element, bool kNearest>
  GQ_DEVICE void store_as(const Place& place, const float (&value)[kThreadValues],
                          const uint32_t (&bits)[kThreadValues]) const {
    store_elements<kBlockThreads>(
        static_cast<Element*>(values), vectors, place,
        [&](uint32_t e) { return rounded_to<Element, kNearest>(value[e], bits[e]); });
  }
};

}  // namespace gq::cuda

#endif
