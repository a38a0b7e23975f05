// Wide sums of exponential codes, as float32 in the order of ranks.

/** value += weight * level of each lane, or value = that for the first operand. The products are
 *  exact. */
template <uint32_t kBits, uint32_t kMantissaBits, bool kFirst, bool kWeighted>
void add_levels(const uint8_t* __restrict lane, float weight, float* __restrict value) {
  alignas(64) uint16_t upper[kTileValues];
  fill_levels<kBits, kMantissaBits>(lane, code_max(kBits), upper);
  for (uint32_t e = 0; e < kTileValues; ++e) {
    const float level = float_from_upper(upper[e]) * (kWeighted ? weight : 1);
    value[e] = kFirst ? level : value[e] + level;
  }
}

/** Sums of exponential levels with the norm's octave as 1, in rank order. */
template <uint32_t kBits, uint32_t kMantissaBits, bool kWeighted>
const float* add_all_levels(const ReduceManyArgs& args, const Tile& tile, ValueTile& values) {
  for (uint32_t k = 0; k < operand_count(args); ++k) {
    CodeTile local, lanes;
    const uint8_t* byte = load_codes<kBits>(args.words[k], tile, local);
    const uint8_t* lane = lanes_of<kBits>(byte, lanes);
    const float weight = kWeighted ? static_cast<float>(args.weights[k]) : 1;
    if (k == 0) {
      add_levels<kBits, kMantissaBits, true, kWeighted>(lane, weight, values.value);
    } else {
      add_levels<kBits, kMantissaBits, false, kWeighted>(lane, weight, values.value);
    }
  }
  return values.value;
}

#if GQ_VECTOR_BYTES > 0

/** Operands that are added at once. */
struct PowerLanes {
  static constexpr uint32_t kMost = 8;
  CodeTile local[kMost];
  const uint8_t* lane[kMost];
  uint32_t count;
};

/** The 8-bit code of each 4-bit one's level. */
constexpr Control powers_of_nibbles() {
  Control table = {};
  for (uint32_t k = 0; k < 64; ++k) {
    const uint32_t c = k % 8 == 0 ? 0 : k % 8 + code_max(8) - code_max(4);
    table.byte[k] = static_cast<uint8_t>(c | (k & 8) << 4);
  }
  return table;
}

constexpr Control kPowersOfNibbles = powers_of_nibbles();

/** Lanes of 8-bit codes that have the operand's levels. */
template <uint32_t kBits>
const uint8_t* load_powers(const uint32_t* words, const Tile& tile, CodeTile& local) {
  if (kBits == 8) return load_codes<8>(words, tile, local);
  CodeTile packed;
  unpack_nibbles(load_codes<4>(words, tile, packed), local.byte);
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    Bytes lanes;
    memcpy(&lanes, local.byte + e, sizeof lanes);
    lanes = shuffled(kPowersOfNibbles.part(0), lanes);
    memcpy(local.byte + e, &lanes, sizeof lanes);
  }
  return local.byte;
}

/** The level of such a code, with the top one's as 1: the code is the exponent's field. */
GQ_INLINE Floats power_at(const uint8_t* lane) {
  const Words shifted = reinterpret_cast<Words>(integers_at(lane)) << 23;
  return reinterpret_cast<Floats>(shifted & 0xbfffffffu);
}

template <bool kFirst>
void add_powers(const PowerLanes& lanes, float* __restrict value) {
  for (uint32_t e = 0; e < kTileValues; e += kFloatLanes) {
    Floats sum = power_at(lanes.lane[0] + e);
    if constexpr (!kFirst) {
      Floats before;
      memcpy(&before, value + e, sizeof before);
      sum = before + sum;
    }
    for (uint32_t k = 1; k < lanes.count; ++k) sum += power_at(lanes.lane[k] + e);
    memcpy(value + e, &sum, sizeof sum);
  }
}

/** The same without weights and mantissa bits. */
template <uint32_t kBits>
const float* add_all_powers(const ReduceManyArgs& args, const Tile& tile, ValueTile& values) {
  PowerLanes lanes;
  for (uint32_t done = 0; done < args.coding.ranks; done += lanes.count) {
    const uint32_t left = args.coding.ranks - done;
    lanes.count = left < PowerLanes::kMost ? left : PowerLanes::kMost;
    for (uint32_t k = 0; k < lanes.count; ++k) {
      lanes.lane[k] = load_powers<kBits>(args.words[done + k], tile, lanes.local[k]);
    }
    done == 0 ? add_powers<true>(lanes, values.value) : add_powers<false>(lanes, values.value);
  }
  return values.value;
}

#endif

template <uint32_t kBits, uint32_t kMantissaBits>
const float* add_exponential(const ReduceManyArgs& args, const Tile& tile, ValueTile& values) {
  if (args.weights != nullptr) {
    return add_all_levels<kBits, kMantissaBits, true>(args, tile, values);
  }
#if GQ_VECTOR_BYTES > 0
  if constexpr (kMantissaBits == 0) return add_all_powers<kBits>(args, tile, values);
#endif
  return add_all_levels<kBits, kMantissaBits, false>(args, tile, values);
}
