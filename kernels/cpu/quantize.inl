// Quantize stage: values to codes. The encoders here serve the re-encode of wide sums too.

template <uint32_t kCodeBits>
struct LinearEncoder {
  static constexpr uint32_t kBits = kCodeBits;
  Scale scale;
  uint32_t steps;

  uint32_t zero_lane() const { return steps; }

  template <bool kNearest>
  void encode(const float* __restrict value, const BitsTile& __restrict random,
              uint8_t* __restrict lane) const {
    for (uint32_t e = 0; e < kTileValues; ++e) {
      lane[e] =
          static_cast<uint8_t>(linear_encode<kNearest>(value[e], scale, steps, random.bits[e]));
    }
  }
};

template <uint32_t kCodeBits>
struct ExponentialEncoder {
  static constexpr uint32_t kBits = kCodeBits;
  Scale scale;

  uint32_t zero_lane() const { return 0; }

  template <bool kNearest>
  void encode(const float* __restrict value, const BitsTile& __restrict random,
              uint8_t* __restrict lane) const {
    for (uint32_t e = 0; e < kTileValues; ++e) {
      lane[e] = exponential_round<kBits, kNearest>(value[e], scale, random.bits[e]);
    }
    for (uint32_t e = 0; e < kTileValues; ++e) lane[e] = without_negative_zero<kBits>(lane[e]);
  }
};

template <bool kNearest, typename Encoder>
void encode_tile(const Encoder& encoder, const float* value, const BitsTile& random,
                 uint8_t* octet) {
  if (Encoder::kBits == 8) return encoder.template encode<kNearest>(value, random, octet);
  CodeTile lanes;
  encoder.template encode<kNearest>(value, random, lanes.octet);
  pack_nibbles(lanes.octet, octet);
}

/** Where a tile's octets are formed: in place, or in `local` for a last tile. */
template <uint32_t kBits>
uint8_t* code_target(uint32_t* words, const Tile& tile, CodeTile& local) {
  return is_full(tile) ? octets_at<kBits>(words, tile) : local.octet;
}

/** Encodes a range whose values `load(tile, local)` hands out. */
template <bool kNearest, typename Encoder, typename Load>
void encode_tiles(const Encoder& encoder, const Range& range, const RandomStream& stream,
                  uint32_t* words, Load load) {
  for_each_tile(range, [&](const Tile& tile) {
    BitsTile bits;
    if (!kNearest) fill_bits(stream, range.first_value + tile.offset, bits);
    ValueTile values;
    CodeTile codes;
    encode_tile<kNearest>(encoder, load(tile, values), bits,
                          code_target<Encoder::kBits>(words, tile, codes));
    if (!is_full(tile)) store_tail<Encoder::kBits>(codes, words, tile);
  });
}

template <typename Encoder, typename Load>
void encode_range(const Encoder& encoder, const Range& range, const RandomStream& stream,
                  Rounding rounding, uint32_t* words, Load load) {
  if (rounding == Rounding::nearest) {
    encode_tiles<true>(encoder, range, stream, words, load);
  } else {
    encode_tiles<false>(encoder, range, stream, words, load);
  }
}

/** Zero codes: for a norm of zero, and for one that is not finite, whatever the values are. */
template <typename Encoder>
void encode_zeros(const Encoder& encoder, const Range& range, uint32_t* words) {
  const uint32_t lane = encoder.zero_lane();
  const int octet = static_cast<int>(Encoder::kBits == 8 ? lane : lane * 0x11);
  for_each_tile(range, [&](const Tile& tile) {
    CodeTile codes;
    memset(code_target<Encoder::kBits>(words, tile, codes), octet, kTileOctets<Encoder::kBits>);
    if (!is_full(tile)) store_tail<Encoder::kBits>(codes, words, tile);
  });
}

bool has_codes(float norm) { return norm > 0 && is_finite(norm); }

template <typename Encoder>
void quantize_range(Encoder encoder, Scale (*scale_of)(float, const Coding&),
                    const QuantizeArgs& args) {
  const float norm = *args.norms.one;
  if (!has_codes(norm)) return encode_zeros(encoder, args.range, args.words);
  encoder.scale = scale_of(norm, args.coding);
  encode_range(encoder, args.range, stream_of(args.random, Draw::quantize), args.coding.rounding,
               args.words, [&](const Tile& tile, ValueTile& local) {
                 return load_values(args.values, args.dtype, tile, local);
               });
}

Scale linear_scale_of(float norm, const Coding& coding) { return linear_scale(norm, coding.steps); }

Scale exponential_scale_of(float norm, const Coding& coding) {
  return exponential_scale(norm, coding.bits, coding.headroom);
}

/** Without levels a code is the value's own pattern. */
void quantize_none(const QuantizeArgs& args) {
  if (args.dtype == GQSGD_FLOAT32) {
    memcpy(args.words, args.values, args.range.value_count * sizeof(float));
    return;
  }
  for_each_tile(args.range, [&](const Tile& tile) {
    ValueTile local;
    const float* value = load_values(args.values, args.dtype, tile, local);
    memcpy(args.words + tile.offset, value, tile.count * sizeof(float));
  });
}

__attribute__((noinline)) gqsgd_status quantize_any(const QuantizeArgs& args) {
  const Coding& coding = args.coding;
  const bool byte_codes = coding.bits == 8;
  if (coding.levels == Levels::none) {
    quantize_none(args);
  } else if (coding.levels == Levels::linear && byte_codes) {
    quantize_range(LinearEncoder<8>{{}, coding.steps}, linear_scale_of, args);
  } else if (coding.levels == Levels::linear) {
    quantize_range(LinearEncoder<4>{{}, coding.steps}, linear_scale_of, args);
  } else if (byte_codes) {
    quantize_range(ExponentialEncoder<8>{{}}, exponential_scale_of, args);
  } else {
    quantize_range(ExponentialEncoder<4>{{}}, exponential_scale_of, args);
  }
  return GQSGD_OK;
}

gqsgd_status quantize(const QuantizeArgs& args) {
  if (args.range.value_count == 0) return GQSGD_OK;  // Then pointers may be null.
  const FloatEnvironment environment;
  return quantize_any(args);
}
