// Widths of the blocks of a group, from the codes of their norms (kernels/codec/widths.h).

/** What stages need to know of a group. */
struct GroupWidths {
  /** 0 beyond the last block, as far as a set of norms goes. */
  alignas(64) uint8_t width[kGroupBlocks + kNormsAtOnce];
  uint16_t first_plane[kGroupBlocks];  ///< planes of the blocks before it
  uint32_t plane_count;                ///< of all blocks
};

/** Codes of norms as signed numbers; 0, which no bound is below, where a block has no codes. */
struct NormKeys {
  alignas(64) int16_t key[kGroupBlocks];
  int32_t least, largest;  ///< of blocks with codes
  uint32_t count;          ///< of them
};

/** Widths by the threshold, and of each block whether the next lower one would give it more. */
struct ThresholdWidths {
  int16_t width[kGroupBlocks];
  int16_t next[kGroupBlocks];
};

#if GQ_VECTOR_BYTES == 0

/** Finds what NormKeys has of its keys. */
void measure_keys(NormKeys& keys) {
  keys.least = INT16_MAX;
  keys.largest = 0;
  keys.count = 0;
  for (const int16_t key : keys.key) {
    if (key == 0) continue;
    keys.largest = key > keys.largest ? key : keys.largest;
    keys.least = key < keys.least ? key : keys.least;
    ++keys.count;
  }
}

/** What all blocks get beyond the least width. */
uint32_t extra_bits_of(const NormKeys& keys, int32_t threshold) {
  uint32_t bits = 0;
  for (uint32_t b = 0; b < kGroupBlocks; ++b) {
    if (keys.key[b] != 0) bits += extra_bits(static_cast<uint16_t>(keys.key[b]), threshold);
  }
  return bits;
}

void take_widths(const NormKeys& keys, int32_t threshold, ThresholdWidths& widths) {
  for (uint32_t b = 0; b < kGroupBlocks; ++b) {
    const uint16_t norm = static_cast<uint16_t>(keys.key[b]);
    const uint32_t width = norm == 0 ? 0 : kWidthMin + extra_bits(norm, threshold);
    widths.width[b] = static_cast<int16_t>(width);
    widths.next[b] = norm != 0 && is_next(norm, threshold) ? -1 : 0;
  }
}

#else

/** A number that keys must exceed to reach a threshold: not negative, so that blocks without codes
 *  exceed none. */
int16_t below(int32_t threshold) {
  const int32_t bound = threshold - 1;
  return static_cast<int16_t>(bound < 0 ? 0 : bound > INT16_MAX ? INT16_MAX : bound);
}

/** As many keys as a vector has; comparisons give -1 where they hold. */
using Keys = int16_t __attribute__((vector_size(GQ_VECTOR_BYTES)));

constexpr uint32_t kKeysAtOnce = sizeof(Keys) / sizeof(int16_t);

GQ_INLINE Keys keys_at(const NormKeys& keys, uint32_t first) {
  Keys loaded;
  memcpy(&loaded, keys.key + first, sizeof loaded);
  return loaded;
}

GQ_INLINE Keys exceeds(Keys keys, int16_t bound) {
  return keys > bound;
}

GQ_INLINE Keys equal(Keys keys, int16_t number) {
  return keys == number;
}

/** One less where keys exceed a bound. */
GQ_INLINE Keys less_exceeding(Keys counts, Keys keys, int16_t bound) {
  return static_cast<Keys>(counts + exceeds(keys, bound));
}

/** The sum of a vector's numbers. */
GQ_INLINE int32_t sum_of(Keys counts) {
  int16_t each[kKeysAtOnce];
  memcpy(each, &counts, sizeof each);
  int32_t sum = 0;
  for (uint32_t k = 0; k < kKeysAtOnce; ++k) sum += each[k];
  return sum;
}

/** Finds what NormKeys has of its keys. */
void measure_keys(NormKeys& keys) {
  constexpr int16_t kNoKey = INT16_MAX;
  Keys largest = {}, least = Keys{} + kNoKey, counts = {};
  for (uint32_t b = 0; b < kGroupBlocks; b += kKeysAtOnce) {
    const Keys key = keys_at(keys, b);
    const Keys low = equal(key, 0) != 0 ? Keys{} + kNoKey : key;
    largest = key > largest ? key : largest;
    least = low < least ? low : least;
    counts = less_exceeding(counts, key, 0);
  }
  keys.least = INT16_MAX;
  keys.largest = 0;
  for (uint32_t k = 0; k < kKeysAtOnce; ++k) {
    keys.largest = largest[k] > keys.largest ? largest[k] : keys.largest;
    keys.least = least[k] < keys.least ? least[k] : keys.least;
  }
  keys.count = static_cast<uint32_t>(-sum_of(counts));
}

#if GQ_VECTOR_BYTES == 64

/** What all blocks get beyond the least width: the ones of two masks at a time. */
uint32_t extra_bits_of(const NormKeys& keys, int32_t threshold) {
  __m512i bound[kWidthSteps];
  for (uint32_t k = 0; k < kWidthSteps; ++k) {
    bound[k] = _mm512_set1_epi16(below(threshold + width_offset(k)));
  }
  int32_t bits = 0;
  for (uint32_t b = 0; b < kGroupBlocks; b += kKeysAtOnce) {
    const __m512i key = _mm512_load_si512(keys.key + b);
    GQ_UNROLL for (uint32_t k = 0; k < kWidthSteps; k += 2) {
      const __mmask32 first = _mm512_cmpgt_epi16_mask(key, bound[k]);
      const __mmask32 second = _mm512_cmpgt_epi16_mask(key, bound[k + 1]);
      bits += __builtin_popcountll(_mm512_kunpackd(first, second));
    }
  }
  return static_cast<uint32_t>(bits);
}

#else

/** What all blocks get beyond the least width. */
uint32_t extra_bits_of(const NormKeys& keys, int32_t threshold) {
  int16_t bound[kWidthSteps];
  for (uint32_t k = 0; k < kWidthSteps; ++k) bound[k] = below(threshold + width_offset(k));
  Keys taken = {}, also_taken = {};  // less one for each bit; two, so that additions overlap
  for (uint32_t b = 0; b < kGroupBlocks; b += kKeysAtOnce) {
    const Keys key = keys_at(keys, b);
    GQ_UNROLL for (uint32_t k = 0; k < kWidthSteps; k += 2) {
      taken = less_exceeding(taken, key, bound[k]);
      also_taken = less_exceeding(also_taken, key, bound[k + 1]);
    }
  }
  return static_cast<uint32_t>(-sum_of(static_cast<Keys>(taken + also_taken)));
}

#endif

void take_widths(const NormKeys& keys, int32_t threshold, ThresholdWidths& widths) {
  for (uint32_t b = 0; b < kGroupBlocks; b += kKeysAtOnce) {
    const Keys key = keys_at(keys, b);
    Keys width = static_cast<Keys>(exceeds(key, 0) * -static_cast<int16_t>(kWidthMin));
    Keys next = {};
    GQ_UNROLL for (uint32_t k = 0; k < kWidthSteps; ++k) {
      const int16_t bound = below(threshold + width_offset(k));
      width = static_cast<Keys>(width - exceeds(key, bound));
      next = static_cast<Keys>(next | equal(key, bound));
    }
    next = static_cast<Keys>(next & exceeds(key, 0));
    memcpy(widths.width + b, &width, sizeof width);
    memcpy(widths.next + b, &next, sizeof next);
  }
}

#endif

void take_keys(const uint16_t* norms, uint32_t block_count, NormKeys& keys) {
  uint16_t norm[kGroupBlocks] = {};
  memcpy(norm, norms, block_count * sizeof *norms);
  for (uint32_t k = 0; k < kGroupBlocks; ++k) {
    keys.key[k] = static_cast<int16_t>(has_codes(norm[k]) ? norm[k] : 0);
  }
  measure_keys(keys);
}

/** The least threshold with which blocks get at most `left` bits beyond the least width. */
int32_t find_threshold(const NormKeys& keys, uint32_t left) {
  if (kWidthSteps * keys.count <= left) return kThresholdMin;
  const int32_t offset = width_offset(left / keys.count);  // more than a block's share from here on
  int32_t high = keys.largest - offset + 1;                // no block gets more
  int32_t low = keys.least - offset;                       // all do
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    (extra_bits_of(keys, middle) > left ? low : high) = middle;
  }
  return high;
}

/** Of ThresholdWidths::next: few blocks are among them. */
constexpr uint32_t kNextAtOnce = sizeof(uint64_t) / sizeof(int16_t);

/** The bits that the threshold leaves over go to the blocks just below it, in their order. */
void fill_widths(const uint16_t* norms, uint32_t block_count, uint32_t plane_count,
                 uint8_t* __restrict width) {
  NormKeys keys;
  take_keys(norms, block_count, keys);
  uint32_t left = plane_count - kWidthMin * keys.count;
  const int32_t threshold = find_threshold(keys, left);
  left -= extra_bits_of(keys, threshold);
  ThresholdWidths widths;
  take_widths(keys, threshold, widths);
  for (uint32_t b = 0; b < kGroupBlocks; ++b) width[b] = static_cast<uint8_t>(widths.width[b]);
  if (threshold == kThresholdMin) return;  // there are no wider codes
  for (uint32_t b = 0; b < kGroupBlocks && left > 0; b += kNextAtOnce) {
    uint64_t any;
    memcpy(&any, widths.next + b, sizeof any);
    if (any == 0) continue;
    for (uint32_t k = b; k < b + kNextAtOnce && left > 0; ++k) {
      const uint32_t gets = widths.next[k] != 0 ? 1 : 0;
      width[k] = static_cast<uint8_t>(width[k] + gets);
      left -= gets;
    }
  }
}

void find_widths(const uint16_t* norms, const GroupPlace& group, GroupWidths& widths) {
  fill_widths(norms, group.block_count, group.plane_count, widths.width);
  memset(widths.width + kGroupBlocks, 0, kNormsAtOnce);
  constexpr uint64_t kEachByte = 0x0101010101010101;
  uint32_t planes = 0;
  for (uint32_t b = 0; b < kGroupBlocks; b += 8) {  // sums of eight widths fit in a byte
    uint64_t eight;
    memcpy(&eight, widths.width + b, sizeof eight);
    const uint64_t sums = eight * kEachByte;  // little-endian: byte k has widths 0 to k
    const uint64_t sums_before = sums << 8;
    uint8_t before[8];
    memcpy(before, &sums_before, sizeof before);
    for (uint32_t k = 0; k < 8; ++k) {
      widths.first_plane[b + k] = static_cast<uint16_t>(planes + before[k]);
    }
    planes += static_cast<uint32_t>(sums >> 56);
  }
  widths.plane_count = planes;
}

StageError widths(const WidthsArgs& args) {
  uint8_t width[kGroupBlocks];
  fill_widths(args.norms, args.block_count, args.plane_count, width);
  memcpy(args.widths, width, args.block_count);
  return {};
}
