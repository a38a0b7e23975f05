// Dequantize stage of adaptive widths.

/** The codes of a tile of a set, in lanes. */
void load_blocks(const uint32_t* words, const Tile& tile, const SetBlocks& blocks,
                 CodeTile& lanes) {
  const size_t first = tile.offset / kAdaptiveBlock;
  const uint32_t count = blocks_of(tile);
  unpack_blocks(words, count, blocks.planes.from(first), lanes.byte);
  if (count == kTileBlocks) return;
  memset(lanes.byte + count * kAdaptiveBlock, 0, kTileValues - count * kAdaptiveBlock);
}

/** Steps of the result for each block; top codes are those of the block's width. */
__attribute__((noinline)) void fill_linear_steps(const uint32_t* __restrict tops,
                                                 uint32_t multiplier,
                                                 const NormSet& __restrict scales,
                                                 StepSet& __restrict steps) {
  const auto step_of = [&](uint32_t k, float scale) {
    return linear_step(scale, multiplier, tops[k]);
  };
  fill_steps_of<kNormsAtOnce>(step_of, scales, steps);
}

void fill_steps(const DequantizeArgs& args, const GranuleSet& set, const uint32_t* top,
                StepSet& steps) {
  const uint32_t multiplier = args.op == GQSGD_SUM ? args.coding.ranks : 1;
  NormSet scales;
  load_norms(args.scales.blocks, set, scales);
  if (args.coding.rounding_down == RoundingDown::subtractive) {
    const auto step_of = [&](uint32_t k, float scale) {
      return subtractive_step(scale, multiplier, top[k]);
    };
    fill_steps_of<kNormsAtOnce>(step_of, scales, steps);
  } else {
    fill_linear_steps(top, multiplier, scales, steps);
  }
  steps.constants &= (1u << set.block_count()) - 1;
}

void decode_blocks(const uint32_t* words, const Tile& tile, const SetBlocks& blocks,
                   const StepSet& steps, float* __restrict value) {
  const size_t first = tile.offset / kAdaptiveBlock;
  const uint32_t* const tops = blocks.steps + first;
#if GQ_VECTOR_BYTES == 32
  const BlockPlanes planes = blocks.planes.from(first);
  if (planes.has_rows(kTileBlocks - 1)) {  // as blocks before it have
    GQ_UNROLL for (uint32_t b = 0; b < kTileBlocks; ++b) {
      decode_rows(words + planes.first_word(b), planes.width[b], tops[b], steps.step[first + b],
                  value + b * kAdaptiveBlock);
    }
    return;
  }
#endif
  CodeTile lanes;
  load_blocks(words, tile, blocks, lanes);
  for (uint32_t b = 0; b < kTileBlocks; ++b) {
    const uint32_t e = b * kAdaptiveBlock;
    decode_lanes<kAdaptiveBlock>(lanes.byte + e, tops[b], steps.step[first + b], value + e);
  }
}

void decode_subtractive(const uint32_t* words, const Tile& tile, const SetBlocks& blocks,
                        const StepSet& steps, const BitsTile& bits, float* __restrict value) {
  CodeTile lanes;
  load_blocks(words, tile, blocks, lanes);
  for (uint32_t e = 0; e < kTileValues; e += kAdaptiveBlock) {
    const size_t b = (tile.offset + e) / kAdaptiveBlock;
    for (uint32_t k = e; k < e + kAdaptiveBlock; ++k) {
      value[k] =
          subtractive_decode(lanes.byte[k], blocks.steps[b], steps.step[b], bits.bits[k]);
    }
  }
}

/** Values of one granule of a set, whose own part of the buffer `args` has. */
void dequantize_granule(const DequantizeArgs& args, const GranuleSet& set, const Granule& granule,
                        const SetBlocks& blocks, const StepSet& steps) {
  const bool subtractive = args.coding.rounding_down == RoundingDown::subtractive;
  prefetch_next_granule(args.values, args.dtype, args.range.group);
  for_each_tile_of(granule, [&](const Tile& tile) {
    const Tile of_set = set.tile_of(granule, tile);
    const bool at_once = is_at_once(args, tile);
    if (at_once) {  // the next granule's, which prefetchers do not know
      const float* const results = static_cast<const float*>(args.values) + tile.offset;
      prefetch_values<kSecondCache>(results + args.range.group.stride_values, 0, kTileValues);
    }
    ValueTile values;
    float* const value =
        at_once ? static_cast<float*>(args.values) + tile.offset : values.value;
    if (subtractive) {
      BitsTile bits;
      fill_bits(shared_stream_of(args.random, Draw::subtractive),
                granule.first_value + tile.offset, bits);
      decode_subtractive(args.words, of_set, blocks, steps, bits, value);
    } else {
      decode_blocks(args.words, of_set, blocks, steps, value);
    }
    if (steps.constants != 0) write_constants(steps, block_map(of_set), value);
    if (!at_once) store_values(args, tile, value);
  });
}

__attribute__((noinline)) void dequantize_adaptive(const DequantizeArgs& args) {
  GroupWidths widths;
  find_widths(args.norms.blocks, args.range.group, widths);
  const uint32_t plane_end = plane_end_of(args.range, widths);
  DequantizeArgs here = args;
  for_each_set(args.range, [&](const GranuleSet& set) {
    const SetBlocks blocks(widths, set, plane_end);
    StepSet steps;
    fill_steps(args, set, blocks.steps, steps);
    for_each_granule(set.range, [&](const Granule& granule) {
      here.range.first_value = granule.first_value;
      here.range.value_count = granule.value_count;
      here.values = static_cast<unsigned char*>(args.values) +
                    (set.offset + granule.offset) * dtype_size_bytes(args.dtype);
      dequantize_granule(here, set, granule, blocks, steps);
    });
  });
}
