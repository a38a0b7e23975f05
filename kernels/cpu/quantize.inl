// Quantize stage: values to codes. The encoders here serve the re-encode of wide sums too.

template <uint32_t kCodeBits>
struct LinearEncoder {
  static constexpr uint32_t kBits = kCodeBits;
  using OwnUniforms = SpreadUniforms;
  using RankUniforms = FieldUniforms;
  uint32_t steps;

  Scale scale_for_norm(float norm) const { return encoding_scale(norm, steps); }

  template <typename ScaleOf, typename Uniforms>
  void encode(const float* __restrict value, const ScaleOf& scale_of, const Uniforms& uniforms,
              uint8_t* __restrict lane) const {
    encode_linear(value, scale_of, OneSteps{steps}, uniforms, lane);
  }
};

template <uint32_t kCodeBits, uint32_t kMantissaBits>
struct ExponentialEncoder {
  static constexpr uint32_t kBits = kCodeBits;
  using OwnUniforms = StoredUniforms;
  using RankUniforms = StoredUniforms;
  uint32_t headroom;

  Scale scale_for_norm(float norm) const {
    return exponential_scale(norm, kBits, headroom, kMantissaBits);
  }

  template <typename Uniforms>
  void encode(const float* value, const OneScale& scale, const Uniforms& uniforms,
              uint8_t* lane) const {
    encode_part<kTileValues>(value, scale.scale, uniforms, 0, lane);
  }

  template <typename Uniforms>
  void encode(const float* value, const SegmentScales& scales, const Uniforms& uniforms,
              uint8_t* lane) const {
    for (uint32_t e = 0; e < kTileValues; e += kSegmentValues) {
      encode_part<kSegmentValues>(value + e, scales(e), uniforms, e, lane + e);
    }
  }

 private:
  /** kCount values from value `first` of the tile on. */
  template <uint32_t kCount, typename Uniforms>
  void encode_part(const float* __restrict value, const Scale& scale,
                   const Uniforms& __restrict uniforms, uint32_t first,
                   uint8_t* __restrict lane) const {
    for (uint32_t e = 0; e < kCount; ++e) {
      lane[e] = exponential_round<kBits, kMantissaBits, Uniforms::kNearest>(
          value[e], scale, uniforms.bits_of(first + e));
    }
    for (uint32_t e = 0; e < kCount; ++e) lane[e] = without_negative_zero<kBits>(lane[e]);
  }
};

/** Encodes whole ranges. `Source` hands out values, in a type that the encoder takes: load(tile,
 *  local, scales) returns those of a tile and sets their scales where the tile before had others;
 *  map(tile) maps scales to values; prefetch(tile, first, end) prefetches such a part of what is
 *  read after the tile. */
template <typename Encoder, typename Source>
struct RangeEncoder {
  const Encoder& encoder;
  Source& source;
  const Thresholds& thresholds;
  ScaleSet scales;

  template <typename Value, typename Uniforms>
  void encode_lanes(const Value* value, SegmentMap map, const Uniforms& uniforms,
                    uint8_t* lane) const {
    if (map.is_one()) {
      encoder.encode(value, OneScale{scales[map[0]]}, uniforms, lane);
    } else {
      encoder.encode(value, SegmentScales{scales, map}, uniforms, lane);
    }
  }

  template <typename Value, typename Uniforms>
  void encode_tile(const Value* value, SegmentMap map, const Uniforms& uniforms,
                   uint8_t* byte) const {
    if (Encoder::kBits == 8) return encode_lanes(value, map, uniforms, byte);
    CodeTile lanes;
    encode_lanes(value, map, uniforms, lanes.byte);
    pack_nibbles(lanes.byte, byte);
  }

  template <typename Uniforms>
  void run(const Range& range, const OutWords& out) {
    for_each_tile(range, [&](const Tile& tile) {
      ValueTile values;
      const auto* value = source.load(tile, values, scales);
      source.prefetch(tile, 0, kPrefetchedFirst);
      Uniforms uniforms;  // after the scales, whose divisions end meanwhile
      uniforms.fill(thresholds, range.first_value + tile.offset);
      source.prefetch(tile, kPrefetchedFirst, kTileValues);
      write_codes<Encoder::kBits>(
          out, tile, [&](uint8_t* byte) { encode_tile(value, source.map(tile), uniforms, byte); });
    });
  }
};

template <typename Encoder, typename Source>
void encode_range(const Encoder& encoder, Source& source, const Range& range,
                  const Thresholds& thresholds, Rounding rounding, const OutWords& out) {
  RangeEncoder<Encoder, Source> work{encoder, source, thresholds, {}};
  if (rounding == Rounding::nearest) {
    work.template run<NearestUniforms>(range, out);
  } else if (thresholds.are_own()) {
    work.template run<typename Encoder::OwnUniforms>(range, out);
  } else if (thresholds.are_field()) {
    work.template run<typename Encoder::RankUniforms>(range, out);
  } else {
    work.template run<StoredUniforms>(range, out);
  }
}

/** A caller's values, under one norm or those of their blocks. */
template <typename Encoder>
struct ValueSource {
  const Encoder& encoder;
  Norms norms;
  Values values;

  SegmentMap map(const Tile& tile) const { return norms.map(tile); }

  const float* load(const Tile& tile, ValueTile& local, ScaleSet& scales) {
    if (norms.begin_with(tile)) {
      NormSet set;
      norms.load(tile, set);
      fill_scales(encoder, set, scales);
    }
    return values.load(tile, local);
  }

  GQ_INLINE void prefetch(const Tile& tile, uint32_t first, uint32_t end) const {
    values.prefetch(tile, first, end - first);
  }
};

template <typename Encoder>
void quantize_range(const Encoder& encoder, const QuantizeArgs& args) {
  const Coding& coding = args.coding;
  ValueSource<Encoder> source{
      encoder, Norms(args.norms, coding, args.range.value_count),
      Values(args.values, args.dtype, args.range, coding.rotated, args.random,
             Prefetches::by_caller)};
  const Range range = source.values.coded_range();
  encode_range(encoder, source, range, quantize_thresholds(coding, args.random), coding.rounding,
               {args.words, args.nontemporal});
}

/** Without levels a code is the value's own pattern. */
void quantize_none(const QuantizeArgs& args) {
  if (args.dtype == GQSGD_FLOAT32) {
    write_bytes(args.words, args.values, args.range.value_count * sizeof(float), args.nontemporal);
    return;
  }
  for_each_tile(args.range, [&](const Tile& tile) {
    ValueTile local;
    const float* value = load_values(args.values, args.dtype, tile, local);
    write_bytes(args.words + tile.offset, value, tile.count * sizeof(float), args.nontemporal);
  });
}

void quantize_adaptive(const QuantizeArgs& args);

__attribute__((noinline)) StageError quantize_any(const QuantizeArgs& args) {
  const Coding& coding = args.coding;
  if (coding.adaptive()) {
    quantize_adaptive(args);
    return {};
  }
  const bool byte_codes = coding.bits == 8;
  if (coding.levels == Levels::none) {
    quantize_none(args);
  } else if (is_narrow(coding.levels)) {
    quantize_narrow(args);
  } else if (coding.levels == Levels::linear && byte_codes) {
    quantize_range(LinearEncoder<8>{coding.steps}, args);
  } else if (coding.levels == Levels::linear) {
    quantize_range(LinearEncoder<4>{coding.steps}, args);
  } else if (coding.mantissa_bits > 0) {
    quantize_range(ExponentialEncoder<8, 2>{coding.headroom}, args);
  } else if (byte_codes) {
    quantize_range(ExponentialEncoder<8, 0>{coding.headroom}, args);
  } else {
    quantize_range(ExponentialEncoder<4, 0>{coding.headroom}, args);
  }
  return {};
}

StageError quantize(const QuantizeArgs& args) {
  if (args.range.value_count == 0) return {};  // Then pointers may be null.
  const FloatEnvironment environment;
  const StageError error = quantize_any(args);
  if (args.nontemporal) end_nontemporal_stores();
  return error;
}
