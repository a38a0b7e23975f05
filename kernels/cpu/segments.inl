// What the segments of a tile have of their own where norms belong to blocks: norms and scales.

/** The norm of each segment; 0 beyond the last value. */
struct NormTile {
  alignas(64) float norm[kTileSegments];
};

uint32_t segments_of(const Tile& tile) {
  return (tile.count + kSegmentValues - 1) / kSegmentValues;
}

void fill_norms(float norm, NormTile& norms) {
  for (uint32_t s = 0; s < kTileSegments; ++s) norms.norm[s] = norm;
}

/** Norms from their codes, which begin with the range: one for 2^shift values. */
void load_norms(const uint16_t* codes, uint32_t shift, const Tile& tile, NormTile& norms) {
  fill_norms(0, norms);
  for (uint32_t s = 0; s < segments_of(tile); ++s) {
    norms.norm[s] = norm_from_code(codes[(tile.offset + s * kSegmentValues) >> shift]);
  }
}

/** What scales the values of each segment. */
struct ScaleTile {
  alignas(64) float power[kTileSegments];
  alignas(64) float factor[kTileSegments];
  alignas(64) float target[kTileSegments];

  Scale at(uint32_t segment) const {
    return Scale{power[segment], factor[segment], target[segment]};
  }
};

template <typename Encoder>
void fill_scales(const Encoder& encoder, const NormTile& __restrict norms,
                 ScaleTile& __restrict scales) {
  for (uint32_t s = 0; s < kTileSegments; ++s) {
    const Scale scale = encoder.scale_for_norm(norms.norm[s]);
    scales.power[s] = scale.power;
    scales.factor[s] = scale.factor;
    scales.target[s] = scale.target;
  }
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
