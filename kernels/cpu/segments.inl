// Norms of blocks on their way to the segments of tiles. They are looked up, and made scales, a few
// at once: so many of the blocks that follow each other as a tile has segments.

constexpr uint32_t kNormsAtOnce = kTileSegments;

constexpr uint32_t kTileShift = block_log2(kTileValues);

struct NormSet {
  alignas(64) float norm[kNormsAtOnce];
};

/** Which of a set of norms belongs to each segment of a tile. */
struct SegmentMap {
  size_t first;    ///< values between the set's first one and the tile's
  uint32_t shift;  ///< log2 of the values that share a norm

  bool is_one() const { return shift >= kTileShift; }
  size_t operator[](uint32_t segment) const { return (first + segment * kSegmentValues) >> shift; }
};

/** Neither zero, nor infinite, nor NaN. */
GQ_INLINE bool is_usable(float norm) { return magnitude_bits(norm) - 1 < kFloatInfinityBits - 1; }

/** 1 for those that are not. */
GQ_INLINE float usable_norm(float norm) {
  return float_from_bits(is_usable(norm) ? float_bits(norm) : float_bits(1));
}

void fill_norms(float norm, NormSet& set) {
  for (uint32_t k = 0; k < kNormsAtOnce; ++k) set.norm[k] = norm;
}

/** Norms or scales of a range, tile by tile; the tiles of a stretch in order. */
class Norms {
 public:
  Norms(const NormView& norms, const Coding& coding, size_t value_count)
      : norms_(norms),
        count_(norm_count(coding.block, coding.rotated, value_count)),
        shift_(coding.block == 0 ? 63 : block_log2(coding.block)),
        mask_(coding.block == 0 ? ~size_t{0} : stretch_of(coding.block) - 1) {}

  SegmentMap map(const Tile& tile) const { return SegmentMap{tile.offset & mask_, shift_}; }

  /** Whether a tile needs other norms than the one before it: those that load() gives. */
  bool begin_with(const Tile& tile) const { return (tile.offset & mask_) == 0; }

  void load(const Tile& tile, NormSet& set) const {
    if (norms_.blocks == nullptr) return fill_norms(*norms_.one, set);
    const uint16_t* codes = norms_.blocks + (tile.offset >> shift_);
    const size_t left = count_ - (tile.offset >> shift_);
    alignas(64) uint16_t code[kNormsAtOnce] = {};
    if (left >= kNormsAtOnce) {
      memcpy(code, codes, sizeof code);
    } else {
      memcpy(code, codes, left * sizeof *codes);
    }
    for (uint32_t k = 0; k < kNormsAtOnce; ++k) set.norm[k] = norm_from_code(code[k]);
  }

  static size_t stretch_of(uint32_t block) {
    return block * kNormsAtOnce < kStretchValues ? block * kNormsAtOnce : kStretchValues;
  }

 private:
  NormView norms_;
  size_t count_;
  uint32_t shift_;
  size_t mask_;
};

/** What scales the values of each block. */
struct ScaleSet {
  alignas(64) float power[kNormsAtOnce];
  alignas(64) float factor[kNormsAtOnce];
  alignas(64) float target[kNormsAtOnce];
  bool are_folded;  ///< all powers are 1

  Scale operator[](size_t k) const { return Scale{power[k], factor[k], target[k]}; }
};

/** `scale_of(k)` is the scale of block k of the set. */
template <typename ScaleOf>
GQ_INLINE void fill_scales_of(ScaleOf scale_of, ScaleSet& __restrict scales) {
  uint32_t unfolded = 0;
  for (uint32_t k = 0; k < kNormsAtOnce; ++k) {
    const Scale scale = scale_of(k);
    scales.power[k] = scale.power;
    scales.factor[k] = scale.factor;
    scales.target[k] = scale.target;
    unfolded |= float_bits(scale.power) ^ float_bits(1);
  }
  scales.are_folded = unfolded == 0;
}

template <typename Encoder>
void fill_scales(const Encoder& encoder, const NormSet& __restrict norms,
                 ScaleSet& __restrict scales) {
  fill_scales_of([&](uint32_t k) { return encoder.scale_for_norm(norms.norm[k]); }, scales);
}

/** Segments with values, the last of them perhaps not full. */
uint32_t segments_of(const Tile& tile) {
  return (tile.count + kSegmentValues - 1) / kSegmentValues;
}

/** The largest magnitude of each segment, as its pattern. */
struct PeakTile {
  alignas(64) uint32_t magnitude[kTileSegments];
};

void find_peaks(const float* __restrict value, PeakTile& __restrict peaks) {
  for (uint32_t s = 0; s < kTileSegments; ++s) {
    uint32_t largest = 0;
    for (uint32_t e = s * kSegmentValues; e < (s + 1) * kSegmentValues; ++e) {
      const uint32_t magnitude = magnitude_bits(value[e]);
      largest = magnitude > largest ? magnitude : largest;
    }
    peaks.magnitude[s] = largest;
  }
}
