// What the stages share: a range is cut into tiles of fixed length, so that every loop over values
// has a constant count and vectorises; the last tile is padded in a local copy.

// Short enough that reading, computing and writing alternate before prefetchers lose track; at
// least what one iteration of fill_random makes.
constexpr uint32_t kTileValues = GQ_VECTOR_BYTES == 64 ? 512 : 256;
constexpr uint32_t kTileWords = kTileValues / kWordValues;

// Values of a tile that have one norm whatever the block: no block is shorter.
constexpr uint32_t kSegmentValues = 32;
constexpr uint32_t kTileSegments = kTileValues / kSegmentValues;

/** One tile of a range. */
struct Tile {
  size_t offset;   ///< of its first value in the buffers
  uint32_t count;  ///< kTileValues but for the last
};

constexpr bool is_full(const Tile& tile) { return tile.count == kTileValues; }

/** Calls `work(tile)` for each tile of the range. */
template <typename Work>
void for_each_tile(const Range& range, Work work) {
  for (size_t offset = 0; offset < range.value_count; offset += kTileValues) {
    const size_t left = range.value_count - offset;
    work(Tile{offset, left < kTileValues ? static_cast<uint32_t>(left) : kTileValues});
  }
}

// Values whose norms are looked up at once, at most: the fewest that fill a vector with norms of
// blocks of 128, and at least as many as a rotation mixes.
constexpr uint32_t kStretchValues = GQ_VECTOR_BYTES == 64 ? 2048 : 1024;

static_assert(kStretchValues % kTileValues == 0, "a stretch is whole tiles");

// Memory is read and written faster in a few places at once than in one, since prefetchers follow
// each of them: 1.3 times as fast for a norm. Stages with several operands have that already.
constexpr size_t kPlaces = 4;

/** The same for work that takes stretches in any order, but the tiles of each in order: `kPlaces`
 *  stretches at a time, interleaved. Calls `work(tile, place)`, place below kPlaces. */
template <typename Work>
void for_each_tile_apart(const Range& range, Work work) {
  const size_t values_apart = range.value_count / kStretchValues / kPlaces * kStretchValues;
  for (size_t offset = 0; offset < values_apart; offset += kTileValues) {
    for (size_t place = 0; place < kPlaces; ++place) {
      work(Tile{place * values_apart + offset, kTileValues}, place);
    }
  }
  const size_t done = kPlaces * values_apart;
  const Range rest{range.first_value + done, range.value_count - done};
  for_each_tile(rest, [&](const Tile& tile) { work(Tile{done + tile.offset, tile.count}, 0); });
}

// Prefetchers of the hardware end at pages of 4 KiB, and lose track where little is read for much
// that is computed: then it pays to prefetch. Not a page ahead: the sets of the first cache that
// such values belong to have those under way.
constexpr uint32_t kValuesAhead = 768;

// Prefetches that find no room among the misses of a processor hold it up. So few of a tile's are
// made before its random words are, the others after them (1.2 times as fast as all at once).
constexpr uint32_t kPrefetchedFirst = kTileValues / 4;

constexpr size_t kLineBytes = 64;

// For prefetch_values(). Values a granule ahead belong to the first cache's sets that are in use.
constexpr int kSecondCache = 2, kFirstCache = 3;

/** Prefetches values first .. end - 1, which may lie behind the end of their buffer. In line: gcc
 *  drops calls of functions that only prefetch. */
template <int kCache>
GQ_INLINE void prefetch_values(const float* value, uint32_t first, uint32_t end) {
  constexpr uint32_t kLineValues = kLineBytes / sizeof(float);
  for (uint32_t e = first; e < end; e += kLineValues) __builtin_prefetch(value + e, 0, kCache);
}

/** The same of codes, to write them if kWrite is 1. */
template <int kWrite>
GQ_INLINE void prefetch_codes(const uint32_t* words, uint32_t bits, size_t first, size_t end) {
  const uint8_t* const byte = reinterpret_cast<const uint8_t*>(words);
  for (size_t k = first * bits / 8; k < end * bits / 8; k += kLineBytes) {
    __builtin_prefetch(byte + k, kWrite);
  }
}

const void* values_from(const void* values, int32_t dtype, size_t offset) {
  return static_cast<const unsigned char*>(values) + offset * dtype_size_bytes(dtype);
}

/** The same of elements of any type. */
template <int kCache>
GQ_INLINE void prefetch_elements(const void* values, int32_t dtype, size_t first, size_t count) {
  if (dtype == GQSGD_FLOAT32) {
    const float* const value = static_cast<const float*>(values) + first;
    return prefetch_values<kCache>(value, 0, static_cast<uint32_t>(count));
  }
  const char* const begin = static_cast<const char*>(values_from(values, dtype, first));
  const size_t size_bytes = count * dtype_size_bytes(dtype);
  for (size_t k = 0; k < size_bytes; k += kLineBytes) __builtin_prefetch(begin + k, 0, kCache);
}

/** Prefetches one line a page behind `at`, perhaps behind the end of its buffer. Prefetchers of the
 *  hardware end at pages and non-temporal stores have none: without this a page's address is looked
 *  up when its first line is due (docs/results/stage-changes.md). */
GQ_INLINE void prefetch_next_page(const void* at) {
  constexpr size_t kPageBytes = 4096;
  __builtin_prefetch(static_cast<const char*>(at) + kPageBytes, 0, kFirstCache);
}

/** A tile of values as float32: the buffer itself where it can be, else a padded copy. */
struct ValueTile {
  alignas(64) float value[kTileValues];
};

template <typename Element, typename Convert>
void convert_tile(const void* values, const Tile& tile, ValueTile& local, Convert convert) {
  const Element* source = static_cast<const Element*>(values) + tile.offset;
  for (uint32_t e = 0; e < tile.count; ++e) local.value[e] = convert(source[e]);
}

const float* load_values(const void* values, int32_t dtype, const Tile& tile, ValueTile& local) {
  if (dtype == GQSGD_FLOAT32 && is_full(tile)) {
    return static_cast<const float*>(values) + tile.offset;
  }
  switch (dtype) {
    case GQSGD_FLOAT16:
      convert_tile<uint16_t>(values, tile, local, [](uint16_t v) { return half_to_float(v); });
      break;
    case GQSGD_BFLOAT16:
      convert_tile<uint16_t>(values, tile, local, [](uint16_t v) { return bfloat_to_float(v); });
      break;
    case GQSGD_FLOAT64:
      convert_tile<double>(values, tile, local, [](double v) { return static_cast<float>(v); });
      break;
    default:
      convert_tile<float>(values, tile, local, [](float v) { return v; });
  }
  for (uint32_t e = tile.count; e < kTileValues; ++e) local.value[e] = 0;
  return local.value;
}

/** Bytes of one tile of codes. On a little-endian machine lane order is byte order. */
template <uint32_t kBits>
constexpr uint32_t kTileBytes = kTileValues* kBits / 8;

struct CodeTile {
  alignas(64) uint8_t byte[kTileValues];
};

template <uint32_t kBits>
constexpr uint32_t bytes_of(const Tile& tile) {
  return static_cast<uint32_t>(4 * words_for(kBits, tile.count));
}

template <uint32_t kBits>
const uint8_t* bytes_at(const uint32_t* words, const Tile& tile) {
  return reinterpret_cast<const uint8_t*>(words) + tile.offset * kBits / 8;
}

template <uint32_t kBits>
uint8_t* bytes_at(uint32_t* words, const Tile& tile) {
  return reinterpret_cast<uint8_t*>(words) + tile.offset * kBits / 8;
}

template <uint32_t kBits>
const uint8_t* load_codes(const uint32_t* words, const Tile& tile, CodeTile& local) {
  const uint8_t* source = bytes_at<kBits>(words, tile);
  if (is_full(tile)) return source;
  memset(local.byte, 0, kTileBytes<kBits>);
  memcpy(local.byte, source, bytes_of<kBits>(tile));
  return local.byte;
}

/** Writes a last tile, lanes beyond the last value cleared. */
template <uint32_t kBits>
void store_tail(CodeTile& local, uint32_t* words, const Tile& tile) {
  const uint32_t used_bits = tile.count * kBits;
  if (used_bits % 8 != 0) local.byte[used_bits / 8] &= static_cast<uint8_t>(0x0f);
  const uint32_t first_clear = (used_bits + 7) / 8;
  memset(local.byte + first_clear, 0, bytes_of<kBits>(tile) - first_clear);
  memcpy(bytes_at<kBits>(words, tile), local.byte, bytes_of<kBits>(tile));
}

/** One 4-bit lane per byte, and back. */
void unpack_nibbles(const uint8_t* __restrict byte, uint8_t* __restrict lane) {
  for (uint32_t k = 0; k < kTileValues / 2; ++k) {
    lane[2 * k] = byte[k] & 15;
    lane[2 * k + 1] = byte[k] >> 4;
  }
}

void pack_nibbles(const uint8_t* __restrict lane, uint8_t* __restrict byte) {
  for (uint32_t k = 0; k < kTileValues / 2; ++k) {
    byte[k] = static_cast<uint8_t>(lane[2 * k] | lane[2 * k + 1] << 4);
  }
}

/** The lanes of a tile, one per byte: the bytes themselves, or a copy in `local`. */
template <uint32_t kBits>
const uint8_t* lanes_of(const uint8_t* byte, CodeTile& local) {
  if (kBits == 8) return byte;
  unpack_nibbles(byte, local.byte);
  return local.byte;
}

uint32_t load_word(const uint8_t* byte, uint32_t word) {
  uint32_t loaded;
  memcpy(&loaded, byte + 4 * word, sizeof loaded);
  return loaded;
}

void store_word(uint8_t* byte, uint32_t word, uint32_t stored) {
  memcpy(byte + 4 * word, &stored, sizeof stored);
}

/** Exponential levels as upper halves of floats, the level of code `one` as 1; with mantissa bits
 *  the largest power of two. */
template <uint32_t kBits, uint32_t kMantissaBits>
void fill_levels(const uint8_t* __restrict lane, uint32_t one, uint16_t* __restrict upper) {
  const uint8_t byte = static_cast<uint8_t>(one);
  for (uint32_t e = 0; e < kTileValues; ++e) {
    upper[e] = kMantissaBits > 0 ? exponential_fine_upper(lane[e])
                                 : exponential_level_upper<kBits>(lane[e], byte);
  }
}
