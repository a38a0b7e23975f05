// Wide sums of 8-bit linear codes over 2^k ranks, encoded with 8 bits. There the scale of the
// re-encode is a power of two: t = S / 2^k is exact, and the code floor(t + u) is an integer sum
// and a shift, with the top k bits of r(e) for u. The codes are the same as by float arithmetic.

/** What rounds a re-encode. */
RandomStream encode_stream_of(const ReduceManyArgs& args) {
  return args.coding.rounding_down == RoundingDown::subtractive
             ? shared_stream_of(args.random, Draw::subtractive)
             : stream_of(args.random, Draw::encode_again);
}

#if GQ_VECTOR_BYTES == 0

bool reduce_many_mean(const ReduceManyArgs&) { return false; }

#else

// r(e) is 23 bits, and the byte that it begins in has seven of them.
constexpr uint32_t kMeanRanks = 128;

bool is_mean(const ReduceManyArgs& args) {
  const Coding& coding = args.coding;
  const bool bytes = coding.bits == 8 && coding.bits_down == 8 && !coding.rescale;
  const bool power = coding.ranks <= kMeanRanks && (coding.ranks & (coding.ranks - 1)) == 0;
  return coding.levels == Levels::linear && bytes && power && args.weights == nullptr;
}

/** The top log2 bits of r(e). Bits 22 to 16 of R(e) are the low ones of its third byte, which is
 *  the byte below byte e mod 4 of its word. */
GQ_INLINE Bytes top_bits(const RandomTile& random, uint32_t e, uint32_t log2) {
  Bytes bytes;
  memcpy(&bytes, random.word + e / kWordValues, sizeof bytes);
  const Words below = reinterpret_cast<Words>(shuffled(bytes, kBelow1.part(0)));
  const uint8_t ones = static_cast<uint8_t>((1u << log2) - 1);
  const Bytes mask = Bytes{} + ones;
  return reinterpret_cast<Bytes>(below >> (7 - log2)) & mask;
}

/** Sums of bytes: of the even ones, and of the odd ones. */
struct ByteSums {
  Halves even, odd;

  GQ_INLINE explicit ByteSums(Bytes bytes)
      : even(reinterpret_cast<Halves>(bytes) & 0xff), odd(reinterpret_cast<Halves>(bytes) >> 8) {}

  GQ_INLINE void add(Bytes bytes) {
    even += reinterpret_cast<Halves>(bytes) & 0xff;
    odd += reinterpret_cast<Halves>(bytes) >> 8;
  }
};

/** Bytes of an operand from e on; zero beyond its last. */
template <bool kFull>
GQ_INLINE Bytes operand_bytes(const uint8_t* operand, const Tile& tile, uint32_t e) {
  Bytes bytes = {};
  const uint32_t count = bytes_of<8>(tile);
  if (kFull || e + sizeof bytes <= count) {
    memcpy(&bytes, operand + e, sizeof bytes);
  } else if (e < count) {
    memcpy(&bytes, operand + e, count - e);
  }
  return bytes;
}

/** No lane exceeds 2 s, even where operands hold one that no code has. */
template <bool kFull>
void mean_tile(const ReduceManyArgs& args, const Tile& tile, const RandomTile& random,
               uint8_t* byte) {
  const uint32_t ranks = args.coding.ranks, log2 = block_log2(ranks);
  const bool nearest = args.coding.rounding == Rounding::nearest;
  const Bytes half = Bytes{} + static_cast<uint8_t>(ranks / 2);
  const Bytes most = Bytes{} + static_cast<uint8_t>(2 * args.coding.steps);
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    ByteSums sums(nearest ? half : top_bits(random, e, log2));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      sums.add(operand_bytes<kFull>(bytes_at<8>(args.words[rank], tile), tile, e));
    }
    const Bytes mean = reinterpret_cast<Bytes>(sums.even >> log2 | sums.odd >> log2 << 8);
    const Bytes lanes = lesser(mean, most);
    memcpy(byte + e, &lanes, sizeof lanes);
  }
}

/** False where sums are no such means. */
bool reduce_many_mean(const ReduceManyArgs& args) {
  if (!is_mean(args)) return false;
  const TileStream stream(encode_stream_of(args));
  for_each_tile(args.range, [&](const Tile& tile) {
    RandomTile random;
    fill_random(stream, args.range.first_value + tile.offset, random);
    write_codes<8>({args.out_words, args.nontemporal}, tile, [&](uint8_t* byte) {
      if (is_full(tile)) return mean_tile<true>(args, tile, random, byte);
      mean_tile<false>(args, tile, random, byte);
    });
  });
  return true;
}

#endif
