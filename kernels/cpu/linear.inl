// Linear codes of the values of a tile: what linear_encode() makes of each, a vector of bytes at a
// time where there are vectors.

/** The scale of value e of a tile: one for all, or that of its segment. kOfVectors: no vector of
 *  bytes has values of two. */
struct OneScale {
  static constexpr bool kOfVectors = true;
  Scale scale;
  GQ_INLINE const Scale& operator()(uint32_t) const { return scale; }
};

struct SegmentScales {
  static constexpr bool kOfVectors = GQ_VECTOR_BYTES <= kSegmentValues;
  const ScaleSet& scales;
  SegmentMap map;
  GQ_INLINE size_t index(uint32_t e) const { return map[e / kSegmentValues]; }
  GQ_INLINE Scale operator()(uint32_t e) const { return scales[index(e)]; }
};

/** The steps s of value e of a tile: one number for all, or that of its block (adaptive.inl). */
struct OneSteps {
  uint32_t steps;
  GQ_INLINE uint32_t operator()(uint32_t) const { return steps; }
};

#if GQ_VECTOR_BYTES == 0

/** The scale that values are encoded with. */
Scale encoding_scale(float norm, uint32_t steps) { return linear_scale(norm, steps); }

template <typename ScaleOf, typename StepsOf, typename Uniforms>
void encode_linear(const float* __restrict value, const ScaleOf& scale_of, const StepsOf& steps_of,
                   const Uniforms& uniforms, uint8_t* __restrict lane) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    lane[e] = static_cast<uint8_t>(
        linear_encode<Uniforms::kNearest>(value[e], scale_of(e), steps_of(e), uniforms.bits_of(e)));
  }
}

#else

/** The scale that values are encoded with: one factor where that changes no code. */
GQ_INLINE Scale encoding_scale(float norm, uint32_t steps) {
  return folded_linear_scale(linear_scale(norm, steps));
}

/** A scale whose power is 1. */
struct FoldedScale {
  static constexpr bool kOfVectors = true;
  float factor, target;

  GQ_INLINE const FoldedScale& operator()(uint32_t) const { return *this; }
};

/** Those of segments. */
template <bool kAreOfVectors>
struct FoldedSegments {
  static constexpr bool kOfVectors = kAreOfVectors || SegmentScales::kOfVectors;
  SegmentScales segments;

  GQ_INLINE FoldedScale operator()(uint32_t e) const {
    const size_t k = segments.index(e);
    return FoldedScale{segments.scales.factor[k], segments.scales.target[k]};
  }
};

GQ_INLINE Floats scaled_values(Floats values, const Scale& scale) {
  return lesser(values * scale.power * scale.factor, in_all_lanes(scale.target));
}

GQ_INLINE Floats scaled_values(Floats values, const FoldedScale& scale) {
  return lesser(values * scale.factor, in_all_lanes(scale.target));
}

/** What lies beyond the target is cut before it is rounded, what lies beyond it downwards after
 *  that, in bytes, four times as many at once: no uniform number lifts it back over the target. */
template <typename ScaleOf, typename StepsOf, typename Uniforms>
GQ_INLINE void encode_bytes(const float* __restrict value, const ScaleOf& scale_of,
                            const StepsOf& steps_of, const Uniforms& uniforms,
                            uint8_t* __restrict lane) {
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    const Bytes offset = Bytes{} + static_cast<uint8_t>(steps_of(e));
    Integers code[4];
    GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t first = e + k * (GQ_VECTOR_BYTES / 4);
      Floats values;
      memcpy(&values, value + first, sizeof values);
      const Floats scaled = scaled_values(values, scale_of(ScaleOf::kOfVectors ? e : first));
      const Integers uniform = reinterpret_cast<Integers>(uniforms_at(uniforms, first));
      code[k] = (nearest_integers(scaled) + uniform) >> kUniformBits;
    }
    const Bytes codes = saturated(code[0], code[1], code[2], code[3]);
    const Bytes lanes = larger_signed(codes, -offset) + offset;
    memcpy(lane + e, &lanes, sizeof lanes);
  }
}

/** Not in line, and encode_bytes() in it: scales that are copied through memory, part by part, hold
 *  up what reads all of them at once. */
template <typename StepsOf, typename Uniforms>
__attribute__((noinline)) void encode_linear(const float* value, const SegmentScales& scales,
                                             const StepsOf& steps_of, const Uniforms& uniforms,
                                             uint8_t* lane) {
  if (!scales.scales.are_folded) return encode_bytes(value, scales, steps_of, uniforms, lane);
  if (scales.map.shift >= block_log2(GQ_VECTOR_BYTES)) {
    return encode_bytes(value, FoldedSegments<true>{scales}, steps_of, uniforms, lane);
  }
  encode_bytes(value, FoldedSegments<false>{scales}, steps_of, uniforms, lane);
}

template <typename StepsOf, typename Uniforms>
void encode_linear(const float* value, const OneScale& scale, const StepsOf& steps_of,
                   const Uniforms& uniforms, uint8_t* lane) {
  const Scale& one = scale.scale;
  if (one.power == 1) {
    return encode_bytes(value, FoldedScale{one.factor, one.target}, steps_of, uniforms, lane);
  }
  encode_bytes(value, scale, steps_of, uniforms, lane);
}

#endif
