// Stages of levels bf16 and fp16, whose codes are floats of 16 bits: no norm and no scale.

struct NarrowTile {
  alignas(64) uint16_t code[kTileValues];
};

/** A code where words are, two in each. */
using CodeInWord __attribute__((may_alias)) = uint16_t;

/** The codes of a tile where they are, or a padded copy. */
const CodeInWord* load_narrow(const uint32_t* words, const Tile& tile, NarrowTile& local) {
  const uint8_t* const source = bytes_at<16>(words, tile);
  if (is_full(tile)) return reinterpret_cast<const CodeInWord*>(source);
  memcpy(local.code, source, tile.count * sizeof(uint16_t));
  for (uint32_t e = tile.count; e < kTileValues; ++e) local.code[e] = 0;
  return local.code;
}

/** After an odd number of codes half a word is free, and 0. */
void write_narrow(NarrowTile& local, const Tile& tile, const OutWords& out) {
  if (tile.count % 2 != 0) local.code[tile.count] = 0;
  write_bytes(out.words + tile.offset / 2, local.code, bytes_of<16>(tile), out.nontemporal);
}

/** False, and `code` is not complete, where a value of the tile is not finite as bf16. */
template <bool kNearest>
bool narrow_finite(const float* __restrict value, const BitsTile& __restrict random,
                   uint16_t* __restrict code) {
  uint32_t others = 0;
  for (uint32_t e = 0; e < kTileValues; ++e) {
    const uint32_t pattern = float_bits(value[e]);
    code[e] = finite_to_bfloat<kNearest>(pattern, kNearest ? 0 : random.bits[e]);
    others |= static_cast<uint32_t>(!is_finite_as_bfloat<kNearest>(pattern));
  }
  return others == 0;
}

/** A tile of values as floats of 16 bits. */
template <Levels kLevels, bool kNearest>
void narrow_tile(const float* __restrict value, const BitsTile& __restrict random,
                 uint16_t* __restrict code) {
  if (kLevels == Levels::bf16 && narrow_finite<kNearest>(value, random, code)) return;
  for (uint32_t e = 0; e < kTileValues; ++e) {
    code[e] = narrow_encode<kLevels, kNearest>(value[e], kNearest ? 0 : random.bits[e]);
  }
}

/** The codec as one type for loops. */
template <Levels kLevels, bool kNearest>
struct NarrowCodec {
  void fill(const TileStream& stream, uint64_t first_value, BitsTile& random) const {
    if (!kNearest) fill_bits(stream, first_value, random);
  }
  void encode(const float* value, const BitsTile& random, uint16_t* code) const {
    narrow_tile<kLevels, kNearest>(value, random, code);
  }
  void decode(const CodeInWord* __restrict code, float power, float* __restrict value) const {
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] = narrow_decode<kLevels>(code[e]) * power;
  }
  void add(const CodeInWord* __restrict code, float power, float* __restrict value) const {
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
      const size_t next = tile.offset + kTileValues;
      prefetch_elements<kFirstCache>(args.values, args.dtype, next, kTileValues);
      prefetch_codes<1>(args.words, 16, next, next + kTileValues);
      ValueTile local;
      const float* value = load_values(args.values, args.dtype, tile, local);
      BitsTile random;
      codec.fill(stream, args.range.first_value + tile.offset, random);
      NarrowTile codes;
      codec.encode(value, random, codes.code);
      write_narrow(codes, tile, {args.words, args.nontemporal});
    });
  });
}

/** 2^k of section 7 for one operand: a sum over so many ranks, or one rank's code. */
float operand_power(const ReduceManyArgs& args, uint32_t k) {
  const uint32_t ranks = args.weights == nullptr ? 1 : args.weights[k];
  return power_of_two(static_cast<int32_t>(sum_shift(args.coding.levels, ranks)));
}

void scale_values(float factor, float* __restrict value) {
  for (uint32_t e = 0; e < kTileValues; ++e) value[e] *= factor;
}

void reduce_many_narrow(const ReduceManyArgs& args, uint32_t operand_count) {
  const TileStream stream(stream_of(args.random, Draw::encode_again));
  const uint32_t shift = sum_shift(args.coding.levels, args.coding.ranks);
  const float power = power_of_two(-static_cast<int32_t>(shift));
  with_narrow_codec(args.coding, [&](auto codec) {
    for_each_tile(args.range, [&](const Tile& tile) {
      const size_t next = tile.offset + kTileValues;
      prefetch_codes<1>(args.out_words, 16, next, next + kTileValues);
      ValueTile sum;
      NarrowTile codes;
      for (uint32_t k = 0; k < operand_count; ++k) {
        prefetch_codes<0>(args.words[k], 16, next, next + kTileValues);
        const CodeInWord* const code = load_narrow(args.words[k], tile, codes);
        if (k == 0) {
          codec.decode(code, operand_power(args, k), sum.value);
        } else {
          codec.add(code, operand_power(args, k), sum.value);
        }
      }
      if (power != 1) scale_values(power, sum.value);
      BitsTile random;
      codec.fill(stream, args.range.first_value + tile.offset, random);
      codec.encode(sum.value, random, codes.code);
      write_narrow(codes, tile, {args.out_words, args.nontemporal});
    });
  });
}

/** By a power of two faster, with the same results. */
void divide_values(float divisor, float* __restrict value) {
  if ((float_bits(divisor) & 0x7fffffu) == 0) {
    const float factor = 1 / divisor;
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] = canonical(value[e] * factor);
  } else {
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] = canonical(value[e] / divisor);
  }
}

/** `store` writes a tile of values as the caller's elements. */
template <typename Store>
void dequantize_narrow(const DequantizeArgs& args, Store store) {
  const uint32_t shift = sum_shift(args.coding.levels, args.coding.ranks);
  const float power = power_of_two(static_cast<int32_t>(shift));
  const float divisor = result_divisor(args.op, args.coding.ranks);
  with_narrow_codec(args.coding, [&](auto codec) {
    for_each_tile(args.range, [&](const Tile& tile) {
      const size_t next = tile.offset + kTileValues;
      prefetch_codes<0>(args.words, 16, next, next + kTileValues);
      NarrowTile codes;
      ValueTile values;
      codec.decode(load_narrow(args.words, tile, codes), power, values.value);
      divide_values(divisor, values.value);
      store(args, tile, values.value);
    });
  });
}
