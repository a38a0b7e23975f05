// Quantize stage: values to codes. The encoders here serve the re-encode of wide sums too.

template <uint32_t kCodeBits>
struct LinearEncoder {
  static constexpr uint32_t kBits = kCodeBits;
  Scale scale;
  uint32_t steps;
  uint32_t zero_lane() const { return steps; }
  GQ_HD uint32_t encode(float value, uint32_t uniform, uint32_t) const {
    return linear_encode(value, scale, steps, uniform);
  }
};

template <uint32_t kCodeBits>
struct ExponentialEncoder {
  static constexpr uint32_t kBits = kCodeBits;
  Scale scale;
  uint32_t zero_lane() const { return 0; }
  GQ_HD uint32_t encode(float value, uint32_t uniform, uint32_t mirror_mask) const {
    return exponential_encode<kBits>(value, scale, uniform, mirror_mask);
  }
};

/** R(e) for nearest: its 23 low bits are the middle. */
void fill_nearest(BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; ++e) tile.bits[e] = kUniformHalf;
}

template <typename Encoder>
void encode_lanes(const Encoder& encoder, const float* __restrict value,
                  const BitsTile& __restrict random, uint32_t mirror_mask,
                  uint8_t* __restrict lane) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    const uint32_t uniform = random.bits[e] & kUniformMask;
    lane[e] = static_cast<uint8_t>(encoder.encode(value[e], uniform, mirror_mask));
  }
}

template <typename Encoder>
void encode_tile(const Encoder& encoder, const float* value, const BitsTile& random,
                 uint32_t mirror_mask, uint8_t* octet) {
  if (Encoder::kBits == 8) return encode_lanes(encoder, value, random, mirror_mask, octet);
  CodeTile lanes;
  encode_lanes(encoder, value, random, mirror_mask, lanes.octet);
  pack_nibbles(lanes.octet, octet);
}

/** Where a tile's octets are formed: in place, or in `local` for a last tile. */
template <uint32_t kBits>
uint8_t* code_target(uint32_t* words, const Tile& tile, CodeTile& local) {
  return is_full(tile) ? octets_at<kBits>(words, tile) : local.octet;
}

/** Encodes a range whose values `load(tile, local)` hands out. */
template <typename Encoder, typename Load>
void encode_range(const Encoder& encoder, const Range& range, const RandomStream& stream,
                  Rounding rounding, uint32_t* words, Load load) {
  const bool nearest = rounding == Rounding::nearest;
  const uint32_t mirror_mask = nearest ? 0 : kUniformMask;
  RandomTile random;
  BitsTile bits;
  if (nearest) fill_nearest(bits);
  for_each_tile(range, [&](const Tile& tile) {
    if (!nearest) {
      fill_random(stream, range.first_value + tile.offset, random);
      spread_bits(random, bits);
    }
    ValueTile values;
    CodeTile codes;
    encode_tile(encoder, load(tile, values), bits, mirror_mask,
                code_target<Encoder::kBits>(words, tile, codes));
    if (!is_full(tile)) store_tail<Encoder::kBits>(codes, words, tile);
  });
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
  const float norm = *args.norms;
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
  const FloatEnvironment environment;
  return quantize_any(args);
}
