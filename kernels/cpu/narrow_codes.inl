// Stages of levels bf16 and fp16, whose codes are floats of 16 bits: no norm and no scale.

struct NarrowTile {
  alignas(64) uint16_t code[kTileValues];
};

void load_narrow(const uint32_t* words, const Tile& tile, NarrowTile& local) {
  memcpy(local.code, bytes_at<16>(words, tile), tile.count * sizeof(uint16_t));
  for (uint32_t e = tile.count; e < kTileValues; ++e) local.code[e] = 0;
}

/** After an odd number of codes half a word is free, and 0. */
void write_narrow(NarrowTile& local, const Tile& tile, const OutWords& out) {
  if (tile.count % 2 != 0) local.code[tile.count] = 0;
  write_bytes(out.words + tile.offset / 2, local.code, bytes_of<16>(tile), out.nontemporal);
}

/** The codec as one type for loops. */
template <Levels kLevels, bool kNearest>
struct NarrowCodec {
  void fill(const TileStream& stream, uint64_t first_value, BitsTile& random) const {
    if (!kNearest) fill_bits(stream, first_value, random);
  }
  void encode(const float* __restrict value, float power, const BitsTile& __restrict random,
              uint16_t* __restrict code) const {
    for (uint32_t e = 0; e < kTileValues; ++e) {
      const uint32_t bits = kNearest ? 0 : random.bits[e];
      code[e] = narrow_encode<kLevels, kNearest>(value[e] * power, bits);
    }
  }
  void decode(const uint16_t* __restrict code, float power, float* __restrict value) const {
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] = narrow_decode<kLevels>(code[e]) * power;
  }
  void add(const uint16_t* __restrict code, float power, float* __restrict value) const {
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] += narrow_decode<kLevels>(code[e]) * power;
  }
};

/** Calls `work(codec)` with the one of the format. */
template <typename Work>
void with_narrow_codec(const Coding& coding, Work work) {
  const bool nearest = coding.rounding == Rounding::nearest;
  if (coding.levels == Levels::bf16) {
    if (nearest) return work(NarrowCodec<Levels::bf16, true>{});
    return work(NarrowCodec<Levels::bf16, false>{});
  }
  if (nearest) return work(NarrowCodec<Levels::fp16, true>{});
  work(NarrowCodec<Levels::fp16, false>{});
}

void quantize_narrow(const QuantizeArgs& args) {
  const TileStream stream(stream_of(args.random, Draw::quantize));
  with_narrow_codec(args.coding, [&](auto codec) {
    for_each_tile(args.range, [&](const Tile& tile) {
      ValueTile local;
      const float* value = load_values(args.values, args.dtype, tile, local);
      BitsTile random;
      codec.fill(stream, args.range.first_value + tile.offset, random);
      NarrowTile codes;
      codec.encode(value, 1, random, codes.code);
      write_narrow(codes, tile, {args.words, args.nontemporal});
    });
  });
}

/** 2^k of section 7 for one operand: a sum over so many ranks, or one rank's code. */
float operand_power(const ReduceManyArgs& args, uint32_t k) {
  const uint32_t ranks = args.weights == nullptr ? 1 : args.weights[k];
  return power_of_two(static_cast<int32_t>(sum_shift(args.coding.levels, ranks)));
}

void reduce_many_narrow(const ReduceManyArgs& args, uint32_t operand_count) {
  const TileStream stream(stream_of(args.random, Draw::encode_again));
  const uint32_t shift = sum_shift(args.coding.levels, args.coding.ranks);
  const float power = power_of_two(-static_cast<int32_t>(shift));
  with_narrow_codec(args.coding, [&](auto codec) {
    for_each_tile(args.range, [&](const Tile& tile) {
      ValueTile sum;
      NarrowTile codes;
      for (uint32_t k = 0; k < operand_count; ++k) {
        load_narrow(args.words[k], tile, codes);
        if (k == 0) {
          codec.decode(codes.code, operand_power(args, k), sum.value);
        } else {
          codec.add(codes.code, operand_power(args, k), sum.value);
        }
      }
      BitsTile random;
      codec.fill(stream, args.range.first_value + tile.offset, random);
      codec.encode(sum.value, power, random, codes.code);
      write_narrow(codes, tile, {args.out_words, args.nontemporal});
    });
  });
}

void divide_values(float divisor, float* __restrict value) {
  for (uint32_t e = 0; e < kTileValues; ++e) value[e] = canonical(value[e] / divisor);
}

/** `store` writes a tile of values as the caller's elements. */
template <typename Store>
void dequantize_narrow(const DequantizeArgs& args, Store store) {
  const uint32_t shift = sum_shift(args.coding.levels, args.coding.ranks);
  const float power = power_of_two(static_cast<int32_t>(shift));
  const float divisor = result_divisor(args.op, args.coding.ranks);
  with_narrow_codec(args.coding, [&](auto codec) {
    for_each_tile(args.range, [&](const Tile& tile) {
      NarrowTile codes;
      load_narrow(args.words, tile, codes);
      ValueTile values;
      codec.decode(codes.code, power, values.value);
      divide_values(divisor, values.value);
      store(args, tile, values.value);
    });
  });
}
