// Widths of the blocks of a group, from the codes of their norms (kernels/codec/widths.h).

/** What stages need to know of a group. */
struct GroupWidths {
  alignas(64) uint8_t width[kGroupBlocks];  ///< 0 beyond the last block
  uint16_t first_plane[kGroupBlocks];       ///< planes of the blocks before it
  uint32_t plane_count;                     ///< of all blocks
};

/** Codes of norms as signed numbers; 0, which no threshold is below, where a block has no codes. */
struct NormKeys {
  alignas(64) int16_t key[kGroupBlocks];
  int32_t least, largest;  ///< of blocks with codes
  uint32_t count;          ///< of them
};

void take_keys(const uint16_t* norms, uint32_t block_count, NormKeys& keys) {
  uint16_t norm[kGroupBlocks] = {};
  memcpy(norm, norms, block_count * sizeof *norms);
  int16_t largest = 0, least = INT16_MAX;
  uint16_t count = 0;
  for (uint32_t k = 0; k < kGroupBlocks; ++k) {
    const int16_t key = static_cast<int16_t>(has_codes(norm[k]) ? norm[k] : 0);
    const int16_t low = static_cast<int16_t>(key == 0 ? INT16_MAX : key);
    keys.key[k] = key;
    largest = key > largest ? key : largest;
    least = low < least ? low : least;
    count = static_cast<uint16_t>(count + (key != 0 ? 1 : 0));
  }
  keys.least = least;
  keys.largest = largest;
  keys.count = count;
}

/** A number that codes of norms are compared with, where these are above 0. */
int16_t bound_of(int32_t threshold) {
  return static_cast<int16_t>(threshold < 1 ? 1 : threshold > INT16_MAX ? INT16_MAX : threshold);
}

/** What all blocks get beyond the least width. */
uint32_t extra_bits_of(const NormKeys& keys, int32_t threshold) {
  uint32_t bits = 0;
  for (uint32_t k = 0; k < kWidthSteps; ++k) {
    const int16_t bound = bound_of(threshold + kWidthOffsets[k]);
    uint16_t reached = 0;
    for (uint32_t b = 0; b < kGroupBlocks; ++b) {
      reached = static_cast<uint16_t>(reached + (keys.key[b] >= bound ? 1 : 0));
    }
    bits += reached;
  }
  return bits;
}

/** The least threshold with which blocks get at most `left` bits beyond the least width. */
int32_t find_threshold(const NormKeys& keys, uint32_t left) {
  if (kWidthSteps * keys.count <= left) return kThresholdMin;
  int32_t high = keys.largest + 1;                                 // no block gets any
  int32_t low = keys.least - kWidthOffsets[kWidthSteps - 1] - 1;  // all get all there are
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    (extra_bits_of(keys, middle) > left ? low : high) = middle;
  }
  return high;
}

/** The bits that the threshold leaves over: to the blocks just below it, in their order. */
void grant_rest(const NormKeys& keys, int32_t threshold, uint32_t left, uint8_t* width) {
  for (uint32_t b = 0; b < kGroupBlocks && left > 0; ++b) {
    const bool gets = keys.key[b] != 0 && is_next(static_cast<uint16_t>(keys.key[b]), threshold);
    width[b] = static_cast<uint8_t>(width[b] + (gets ? 1 : 0));
    left -= gets ? 1 : 0;
  }
}

void fill_widths(const uint16_t* norms, uint32_t block_count, uint32_t plane_count,
                 uint8_t* __restrict width) {
  NormKeys keys;
  take_keys(norms, block_count, keys);
  const uint32_t left = plane_count - kWidthMin * keys.count;
  const int32_t threshold = find_threshold(keys, left);
  for (uint32_t b = 0; b < kGroupBlocks; ++b) {
    width[b] = static_cast<uint8_t>(keys.key[b] != 0 ? kWidthMin : 0);
  }
  for (uint32_t k = 0; k < kWidthSteps; ++k) {
    const int16_t bound = bound_of(threshold + kWidthOffsets[k]);
    for (uint32_t b = 0; b < kGroupBlocks; ++b) {
      width[b] = static_cast<uint8_t>(width[b] + (keys.key[b] >= bound ? 1 : 0));
    }
  }
  if (threshold == kThresholdMin) return;
  grant_rest(keys, threshold, left - extra_bits_of(keys, threshold), width);
}

void find_widths(const uint16_t* norms, const GroupPlace& group, GroupWidths& widths) {
  fill_widths(norms, group.block_count, group.plane_count, widths.width);
  uint32_t planes = 0;
  for (uint32_t b = 0; b < kGroupBlocks; ++b) {
    widths.first_plane[b] = static_cast<uint16_t>(planes);
    planes += widths.width[b];
  }
  widths.plane_count = planes;
}

StageError widths(const WidthsArgs& args) {
  uint8_t width[kGroupBlocks];
  fill_widths(args.norms, args.block_count, args.plane_count, width);
  memcpy(args.widths, width, args.block_count);
  return {};
}
