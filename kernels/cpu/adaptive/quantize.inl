// Quantize stage of adaptive widths.

/** The values of a tile of the next granule, which prefetchers do not know. */
struct NextGranule {
  const QuantizeArgs& args;
  size_t first_value;  ///< in the buffer

  GQ_INLINE void operator()(uint32_t first, uint32_t end) const {
    prefetch_elements<kSecondCache>(args.values, args.dtype, first_value + first, end - first);
  }
};

template <typename Uniforms>
void quantize_set(const QuantizeArgs& args, const GranuleSet& set, const SetBlocks& blocks,
                  const ScaleSet& scales, const Thresholds& thresholds) {
  for_each_granule(set.range, [&](Granule granule) {
    granule.offset += set.offset;
    const void* values = values_from(args.values, args.dtype, granule.offset);
    prefetch_next_granule(values, args.dtype, args.range.group);
    const size_t next = granule.offset + args.range.group.stride_values;
    for_each_tile_of(granule, [&](const Tile& tile) {
      ValueTile local;
      const float* value = load_values(values, args.dtype, tile, local);
      encode_blocks<Uniforms>(value, granule.first_value + tile.offset, set.tile_of(granule, tile),
                              blocks, scales, thresholds, args.words,
                              NextGranule{args, next + tile.offset});
    });
  });
}

__attribute__((noinline)) void quantize_adaptive(const QuantizeArgs& args) {
  const Coding& coding = args.coding;
  GroupWidths widths;
  find_widths(args.norms.blocks, args.range.group, widths);
  clear_unspent(args.range, widths, args.words);
  const uint32_t plane_end = plane_end_of(args.range, widths);
  const Thresholds thresholds = quantize_thresholds(coding, args.random);
  with_uniforms(coding.rounding, thresholds, [&](auto uniforms) {
    for_each_set(args.range, [&](const GranuleSet& set) {
      const SetBlocks blocks(widths, set, plane_end);
      NormSet norms;
      load_norms(args.norms.blocks, set, norms);
      ScaleSet scales;
      fill_scales(blocks.steps, norms, scales);
      quantize_set<typename decltype(uniforms)::type>(args, set, blocks, scales, thresholds);
    });
  });
}
