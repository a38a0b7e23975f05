// Sums of means that have scales of their own, as float32 in the order of nodes, with the mean over
// all ranks as the unit. Encoding them is the matter of reduce_many.inl.

/** Means of one operand count so much per step, for each segment of a tile. */
struct FactorTile {
  alignas(64) float factor[kTileSegments];
};

const uint16_t* operand_scales(const ReduceManyArgs& args, uint32_t k) {
  const auto* const words = reinterpret_cast<const uint8_t*>(args.words[k]);
  return reinterpret_cast<const uint16_t*>(words + args.operand_scales_bytes);
}

void fill_factors(const ReduceManyArgs& args, uint32_t k, const Tile& tile, FactorTile& factors) {
  const Coding& coding = args.coding;
  const float weight = mean_weight(args.weights[k], coding.ranks, coding.steps);
  const uint16_t* const scales = operand_scales(args, k);
  const uint32_t shift = block_log2(coding.block);
  for (uint32_t s = 0; s < kTileSegments; ++s) factors.factor[s] = 0;
  for (uint32_t s = 0; s < segments_of(tile); ++s) {
    const size_t block = (tile.offset + s * kSegmentValues) >> shift;
    factors.factor[s] = mean_factor(scales[block], weight);
  }
}

/** What means of one operand add to values that share a factor. */
template <bool kFirst>
void add_scaled(const uint8_t* __restrict lane, uint32_t count, uint32_t steps, float factor,
                float* __restrict value) {
  for (uint32_t e = 0; e < count; ++e) {
    const float term = linear_decode(lane[e], steps, factor);
    value[e] = kFirst ? term : value[e] + term;
  }
}

template <bool kFirst>
void add_scaled_lanes(const uint8_t* __restrict lane, const FactorTile& __restrict factors,
                      uint32_t steps, float* __restrict value) {
  for (uint32_t s = 0; s < kTileSegments; ++s) {
    const uint32_t first = s * kSegmentValues;
    add_scaled<kFirst>(lane + first, kSegmentValues, steps, factors.factor[s], value + first);
  }
}

template <uint32_t kBits>
void add_scaled_means(const ReduceManyArgs& args, const Tile& tile, ValueTile& values) {
  for (uint32_t k = 0; k < args.weight_count; ++k) {
    FactorTile factors;
    fill_factors(args, k, tile, factors);
    CodeTile local, lanes;
    const uint8_t* const byte = load_codes<kBits>(args.words[k], tile, local);
    const uint8_t* const lane = lanes_of<kBits>(byte, lanes);
    if (k == 0) {
      add_scaled_lanes<true>(lane, factors, args.coding.steps, values.value);
    } else {
      add_scaled_lanes<false>(lane, factors, args.coding.steps, values.value);
    }
  }
}

/** Scales of blocks by the sums alone. */
struct ScalesByPeaks {
  static void load(const Norms&, const Tile&, NormSet& set) { fill_norms(0, set); }
  static void make(const uint32_t* peaks, NormSet& norms, uint16_t* codes) {
    for (uint32_t k = 0; k < kNormsAtOnce; ++k) {
      const Rescaled made = rescaled_means(peaks[k]);
      codes[k] = made.code;
      norms.norm[k] = made.sum_norm;
    }
  }
};
