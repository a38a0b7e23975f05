// Wide reduce stage: the owner of a shard adds all operands as numbers and encodes the sum once.

/** Sums of 8-bit lanes fit 16 bits for so many ranks. */
constexpr uint32_t kNarrowSums = 256;

void add_lanes(const uint8_t* __restrict lane, uint16_t* __restrict sum) {
  for (uint32_t e = 0; e < kTileValues; ++e) sum[e] = static_cast<uint16_t>(sum[e] + lane[e]);
}

/** Adds the lanes of ranks first_rank .. first_rank + rank_count - 1. */
template <uint32_t kBits>
void add_ranks(const ReduceManyArgs& args, const Tile& tile, uint32_t first_rank,
               uint32_t rank_count, uint16_t* sum) {
  for (uint32_t e = 0; e < kTileValues; ++e) sum[e] = 0;
  for (uint32_t k = 0; k < rank_count; ++k) {
    CodeTile local, lanes;
    const uint8_t* octet = load_codes<kBits>(args.words[first_rank + k], tile, local);
    add_lanes(lanes_of<kBits>(octet, lanes), sum);
  }
}

/** Adds the lanes, each code + s, and takes the offsets of all ranks away at once. */
template <uint32_t kBits>
const float* add_linear(const ReduceManyArgs& args, const Tile& tile, ValueTile& values) {
  alignas(64) int32_t sum[kTileValues];
  alignas(64) uint16_t narrow[kTileValues];
  const int32_t offset = static_cast<int32_t>(args.coding.ranks * args.coding.steps);
  for (uint32_t e = 0; e < kTileValues; ++e) sum[e] = -offset;
  uint32_t first = 0;
  for (; first + kNarrowSums < args.coding.ranks; first += kNarrowSums) {
    add_ranks<kBits>(args, tile, first, kNarrowSums, narrow);
    for (uint32_t e = 0; e < kTileValues; ++e) sum[e] += narrow[e];
  }
  add_ranks<kBits>(args, tile, first, args.coding.ranks - first, narrow);
  for (uint32_t e = 0; e < kTileValues; ++e) {
    values.value[e] = static_cast<float>(sum[e] + narrow[e]);
  }
  return values.value;
}

template <uint32_t kBits>
void add_levels(const uint8_t* __restrict lane, float* __restrict sum) {
  alignas(64) uint16_t upper[kTileValues];
  fill_levels<kBits>(lane, code_max(kBits), upper);
  for (uint32_t e = 0; e < kTileValues; ++e) {
    sum[e] += float_from_upper(upper[e]);
  }
}

/** Sums of exponential levels with the norm as 1, in rank order. Starting from zero is starting
 * from the first operand: no level is a negative zero. */
template <uint32_t kBits>
const float* add_exponential(const ReduceManyArgs& args, const Tile& tile, ValueTile& values) {
  for (uint32_t e = 0; e < kTileValues; ++e) values.value[e] = 0;
  for (uint32_t rank = 0; rank < args.coding.ranks; ++rank) {
    CodeTile local, lanes;
    const uint8_t* octet = load_codes<kBits>(args.words[rank], tile, local);
    add_levels<kBits>(lanes_of<kBits>(octet, lanes), values.value);
  }
  return values.value;
}

void add_none(const ReduceManyArgs& args) {
  for_each_tile(args.range, [&](const Tile& tile) {
    ValueTile sum;
    memcpy(sum.value, args.words[0] + tile.offset, tile.count * sizeof(float));
    for (uint32_t rank = 1; rank < args.coding.ranks; ++rank) {
      const uint32_t* operand = args.words[rank] + tile.offset;
      for (uint32_t e = 0; e < tile.count; ++e) {
        sum.value[e] = canonical(sum.value[e] + float_from_bits(operand[e]));
      }
    }
    memcpy(args.out_words + tile.offset, sum.value, tile.count * sizeof(float));
  });
}

template <typename Encoder, typename Add>
void encode_sums(const Encoder& encoder, const ReduceManyArgs& args, Add add) {
  encode_range(encoder, args.range, stream_of(args.random, Draw::encode_again),
               args.coding.rounding, args.out_words,
               [&](const Tile& tile, ValueTile& values) { return add(args, tile, values); });
}

void reduce_many_linear(const ReduceManyArgs& args) {
  const Coding& coding = args.coding;
  const float largest = static_cast<float>(coding.ranks * coding.steps);
  const Scale scale = linear_scale(largest, coding.steps);
  if (coding.bits == 8) {
    encode_sums(LinearEncoder<8>{scale, coding.steps}, args, add_linear<8>);
  } else {
    encode_sums(LinearEncoder<4>{scale, coding.steps}, args, add_linear<4>);
  }
}

void reduce_many_exponential(const ReduceManyArgs& args) {
  const Coding& coding = args.coding;
  const Scale scale = exponential_scale(static_cast<float>(coding.ranks), coding.bits, 0);
  if (coding.bits == 8) {
    encode_sums(ExponentialEncoder<8>{scale}, args, add_exponential<8>);
  } else {
    encode_sums(ExponentialEncoder<4>{scale}, args, add_exponential<4>);
  }
}

/** Without levels there are no norms and no scales. */
__attribute__((noinline)) void reduce_many_any(const ReduceManyArgs& args) {
  switch (args.coding.levels) {
    case Levels::linear:
      return reduce_many_linear(args);
    case Levels::exponential:
      return reduce_many_exponential(args);
    case Levels::none:
      return add_none(args);
  }
}

gqsgd_status reduce_many(const ReduceManyArgs& args) {
  const FloatEnvironment environment;
  reduce_many_any(args);
  return GQSGD_OK;
}
