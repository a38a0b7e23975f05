// Dequantize stage: codes back to values of any element type.

struct LinearDecoder {
  uint32_t top;
  float step;

  void decode(const uint8_t* __restrict lane, float* __restrict value) const {
    const uint32_t around = top;
    const float scale = step;
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] = linear_decode(lane[e], around, scale);
  }
};

template <uint32_t kBits>
struct ExponentialDecoder {
  uint32_t one;
  float unit;

  void decode(const uint8_t* __restrict lane, float* __restrict value) const {
    alignas(64) uint16_t upper[kTileValues];
    fill_levels<kBits>(lane, one, upper);
    const float scale = unit;
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] = float_from_upper(upper[e]) * scale;
  }
};

template <uint32_t kBits, typename Decoder>
void decode_tile(const Decoder& decoder, const uint8_t* octet, float* value) {
  CodeTile lanes;
  decoder.decode(lanes_of<kBits>(octet, lanes), value);
}

template <typename Element, typename Narrow>
void narrow_tile(const ValueTile& values, const BitsTile& random, void* buffer, const Tile& tile,
                 Narrow narrow) {
  alignas(64) Element local[kTileValues];
  for (uint32_t e = 0; e < kTileValues; ++e) {
    local[e] = narrow(values.value[e], random.bits[e]);
  }
  memcpy(static_cast<Element*>(buffer) + tile.offset, local, tile.count * sizeof(Element));
}

/** Writes decoded values as elements narrower than float32. */
template <bool kNearest>
void store_narrow(const DequantizeArgs& args, const Tile& tile, const ValueTile& values) {
  BitsTile bits;
  const RandomSite& site = args.random;
  const RandomStream stream = random_stream(site.key, site.step, site.index, Draw::output, 0, 0);
  if (!kNearest) fill_bits(stream, args.range.first_value + tile.offset, bits);
  if (args.dtype == GQSGD_FLOAT16) {
    narrow_tile<uint16_t>(values, bits, args.values, tile, [](float value, uint32_t bits) {
      return float_to_half<kNearest>(value, bits);
    });
  } else {
    narrow_tile<uint16_t>(values, bits, args.values, tile, [](float value, uint32_t bits) {
      return float_to_bfloat<kNearest>(value, bits);
    });
  }
}

void store_values(const DequantizeArgs& args, const Tile& tile, const ValueTile& values) {
  if (args.dtype == GQSGD_FLOAT32) {
    memcpy(static_cast<float*>(args.values) + tile.offset, values.value,
           tile.count * sizeof(float));
  } else if (args.dtype == GQSGD_FLOAT64) {
    double* target = static_cast<double*>(args.values) + tile.offset;
    for (uint32_t e = 0; e < tile.count; ++e) target[e] = static_cast<double>(values.value[e]);
  } else if (args.coding.rounding == Rounding::nearest) {
    store_narrow<true>(args, tile, values);
  } else {
    store_narrow<false>(args, tile, values);
  }
}

/** A scale of zero, or one that is not finite, says it all. */
void dequantize_constant(const DequantizeArgs& args, float value) {
  ValueTile values;
  for (uint32_t e = 0; e < kTileValues; ++e) values.value[e] = value;
  for_each_tile(args.range, [&](const Tile& tile) { store_values(args, tile, values); });
}

template <uint32_t kBits, typename Decoder>
void dequantize_range(const Decoder& decoder, const DequantizeArgs& args) {
  for_each_tile_apart(args.range, [&](const Tile& tile) {
    CodeTile codes;
    const uint8_t* octet = load_codes<kBits>(args.words, tile, codes);
    if (args.dtype == GQSGD_FLOAT32 && is_full(tile)) {
      decode_tile<kBits>(decoder, octet, static_cast<float*>(args.values) + tile.offset);
      return;
    }
    ValueTile values;
    decode_tile<kBits>(decoder, octet, values.value);
    store_values(args, tile, values);
  });
}

void dequantize_linear(const DequantizeArgs& args) {
  const Coding& coding = args.coding;
  const bool exact = coding.combine == Combine::exact && !coding.wide;
  const uint32_t top = exact ? coding.steps * coding.ranks : coding.steps;
  const uint32_t multiplier = args.op == GQSGD_SUM ? coding.ranks : 1;
  const LinearDecoder decoder{top, linear_step(*args.scales.one, multiplier, top)};
  if (coding.bits == 8) return dequantize_range<8>(decoder, args);
  dequantize_range<4>(decoder, args);
}

void dequantize_exponential(const DequantizeArgs& args) {
  const Coding& coding = args.coding;
  const bool added = coding.combine == Combine::sum && !coding.wide;
  const float unit = exponential_unit(*args.scales.one, added, args.op == GQSGD_MEAN, coding.ranks);
  const uint32_t one = code_max(coding.bits) - coding.headroom;
  if (coding.bits == 8) return dequantize_range<8>(ExponentialDecoder<8>{one, unit}, args);
  dequantize_range<4>(ExponentialDecoder<4>{one, unit}, args);
}

void divide_sums(const uint32_t* __restrict word, float divisor, float* __restrict value) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    value[e] = canonical(float_from_bits(word[e]) / divisor);
  }
}

void dequantize_none(const DequantizeArgs& args) {
  const float divisor = args.op == GQSGD_MEAN ? static_cast<float>(args.coding.ranks) : 1.0f;
  for_each_tile(args.range, [&](const Tile& tile) {
    if (args.dtype == GQSGD_FLOAT32 && is_full(tile)) {
      divide_sums(args.words + tile.offset, divisor,
                  static_cast<float*>(args.values) + tile.offset);
      return;
    }
    alignas(64) uint32_t sums[kTileValues] = {};
    memcpy(sums, args.words + tile.offset, tile.count * sizeof(uint32_t));
    ValueTile values;
    divide_sums(sums, divisor, values.value);
    store_values(args, tile, values);
  });
}

__attribute__((noinline)) void dequantize_any(const DequantizeArgs& args) {
  if (args.coding.levels == Levels::none) return dequantize_none(args);
  const float scale = *args.scales.one;
  if (!is_finite(scale)) return dequantize_constant(args, float_from_bits(kFloatNanBits));
  if (scale == 0) return dequantize_constant(args, 0);
  if (args.coding.levels == Levels::linear) return dequantize_linear(args);
  dequantize_exponential(args);
}

gqsgd_status dequantize(const DequantizeArgs& args) {
  if (args.range.value_count == 0) return GQSGD_OK;  // Then pointers may be null.
  const FloatEnvironment environment;
  dequantize_any(args);
  return GQSGD_OK;
}
