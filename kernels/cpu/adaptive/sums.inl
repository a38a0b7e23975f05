// Wide sums of codes of adaptive widths, encoded again.

/** Wide sums of a set, tile by tile, and zeros beyond the last value. */
struct SetSums {
  ValueTile tile[kSetTiles];
  uint32_t peak[kNormsAtOnce];  ///< largest magnitude of each block, as its pattern
};

/** The sum of one block's codes, where 16 bits hold it. */
void add_block(const ReduceManyArgs& args, uint32_t width, size_t first_word,
               float* __restrict value) {
  alignas(64) uint16_t sum[kAdaptiveBlock];
  add_lanes(args.words, args.coding.ranks, width, first_word, sum);
  const int32_t offset = static_cast<int32_t>(args.coding.ranks * code_max(width));
  for (uint32_t e = 0; e < kAdaptiveBlock; ++e) {
    value[e] = static_cast<float>(static_cast<int32_t>(sum[e]) - offset);
  }
}

/** The same in 32 bits, each operand as often as it has ranks. */
void add_block_wide(const ReduceManyArgs& args, uint32_t width, size_t first_word, float* value) {
  alignas(64) uint8_t lane[kAdaptiveBlock];
  alignas(64) int32_t sum[kAdaptiveBlock] = {};
  for (uint32_t k = 0; k < operand_count(args); ++k) {
    const uint32_t weight = args.weights == nullptr ? 1 : args.weights[k];
    unpack_planes(args.words[k] + first_word, width, lane);
    for (uint32_t e = 0; e < kAdaptiveBlock; ++e) sum[e] += static_cast<int32_t>(weight * lane[e]);
  }
  const int32_t offset = static_cast<int32_t>(args.coding.ranks * code_max(width));
  for (uint32_t e = 0; e < kAdaptiveBlock; ++e) value[e] = static_cast<float>(sum[e] - offset);
}

/** Means that have scales of their own, in the order of nodes. block: in the group. */
void add_block_of_means(const ReduceManyArgs& args, uint32_t width, size_t first_word,
                        uint32_t block, float* __restrict value) {
  const uint32_t steps = code_max(width);
  for (uint32_t k = 0; k < args.weight_count; ++k) {
    const float weight = mean_weight(args.weights[k], args.coding.ranks, steps);
    const float factor = mean_factor(operand_scales(args, k)[block], weight);
    alignas(64) uint8_t lane[kAdaptiveBlock];
    unpack_planes(args.words[k] + first_word, width, lane);
    if (k == 0) {
      add_scaled<true>(lane, kAdaptiveBlock, steps, factor, value);
    } else {
      add_scaled<false>(lane, kAdaptiveBlock, steps, factor, value);
    }
  }
}

void add_codes(const ReduceManyArgs& args, const SetBlocks& blocks, uint32_t b, uint32_t block,
               float* value) {
  const uint32_t width = blocks.planes.width[b];
  const size_t first_word = blocks.planes.first_word(b);
  if (args.operand_scales_bytes != 0) {
    add_block_of_means(args, width, first_word, block, value);
  } else if (args.weights != nullptr || args.coding.ranks > kNarrowSums) {
    add_block_wide(args, width, first_word, value);
  } else {
    add_block(args, width, first_word, value);
  }
}

void add_set(const ReduceManyArgs& args, const GranuleSet& set, const SetBlocks& blocks,
                 SetSums& sums) {
  for (uint32_t b = 0; b < kNormsAtOnce; ++b) {
    float* const value = sums.tile[b / kTileBlocks].value + b % kTileBlocks * kAdaptiveBlock;
    const size_t first = b * kAdaptiveBlock;
    const size_t left = set.range.value_count > first ? set.range.value_count - first : 0;
    const uint32_t count = left < kAdaptiveBlock ? static_cast<uint32_t>(left) : kAdaptiveBlock;
    const bool has_sum = count > 0 && blocks.planes.width[b] > 0;
    if (has_sum) add_codes(args, blocks, b, set.first_block() + b, value);
    for (uint32_t e = has_sum ? count : 0; e < kAdaptiveBlock; ++e) value[e] = 0;
    uint32_t peak = 0;
    for (uint32_t e = 0; e < kAdaptiveBlock; ++e) peak = larger(peak, magnitude_bits(value[e]));
    sums.peak[b] = peak;
  }
}

/** The sum where all ranks hold the top code of a block. */
GQ_INLINE double full_sum(double ranks, const SetBlocks& blocks, uint32_t b) {
  return ranks * static_cast<int32_t>(blocks.steps[b]);
}

/** Norms with rescale, of all blocks at once: norms and peaks beyond the last are 0. */
__attribute__((noinline)) void rescale_sums(const ReduceManyArgs& args, const GranuleSet& set,
                                            const SetBlocks& blocks, const SetSums& sums,
                                            NormSet& norms) {
  const double ranks = args.coding.ranks;
  uint16_t codes[kNormsAtOnce];
  rescale_norms([&](uint32_t k) { return full_sum(ranks, blocks, k); }, sums.peak, norms, codes);
  memcpy(args.out_scales + set.first_block(), codes, set.block_count() * sizeof *codes);
}

/** Makes of a set's norms those that its sums are encoded with; with rescale they follow from
 *  the sums, and their codes are written. */
void find_sum_norms(const ReduceManyArgs& args, const GranuleSet& set,
                    const SetBlocks& blocks, const SetSums& sums, NormSet& norms) {
  if (args.coding.rescale && args.operand_scales_bytes == 0) {
    return rescale_sums(args, set, blocks, sums, norms);
  }
  for (uint32_t b = 0; b < set.block_count(); ++b) {
    const double full = full_sum(args.coding.ranks, blocks, b);
    const float norm = norms.norm[b];
    norms.norm[b] = static_cast<float>(full);
    if (!args.coding.rescale) continue;
    const bool by_peak = args.operand_scales_bytes != 0 && blocks.planes.width[b] > 0;
    const Rescaled made = by_peak ? rescaled_means(sums.peak[b])
                                  : rescaled(norm, float_from_bits(sums.peak[b]), full);
    norms.norm[b] = made.sum_norm;
    args.out_scales[set.first_block() + b] = made.code;
  }
}

template <typename Uniforms>
void encode_set(const ReduceManyArgs& args, const GranuleSet& set, const SetBlocks& blocks,
                const SetSums& sums, const ScaleSet& scales, const Thresholds& thresholds) {
  for_each_granule(set.range, [&](const Granule& granule) {
    for_each_tile_of(granule, [&](const Tile& tile) {
      const Tile of_set = set.tile_of(granule, tile);
      encode_blocks<Uniforms>(sums.tile[of_set.offset / kTileValues].value,
                              granule.first_value + tile.offset, of_set, blocks, scales,
                              thresholds, args.out_words, [](uint32_t, uint32_t) {});
    });
  });
}

__attribute__((noinline)) void reduce_many_adaptive(const ReduceManyArgs& args) {
  const Coding& coding = args.coding;
  GroupWidths widths;
  find_widths(args.norms.blocks, args.range.group, widths);
  clear_unspent(args.range, widths, args.out_words);
  const Thresholds thresholds = encode_thresholds_of(args);
  with_uniforms(coding.rounding, thresholds, [&](auto uniforms) {
    for_each_set(args.range, [&](const GranuleSet& set) {
      const SetBlocks blocks(widths, set, 0);
      SetSums sums;
      add_set(args, set, blocks, sums);
      NormSet norms;
      load_norms(args.norms.blocks, set, norms);
      find_sum_norms(args, set, blocks, sums, norms);
      ScaleSet scales;
      fill_scales(blocks.steps, norms, scales);
      encode_set<typename decltype(uniforms)::type>(args, set, blocks, sums, scales, thresholds);
    });
  });
}
