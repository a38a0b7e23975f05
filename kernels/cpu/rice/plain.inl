// Stages of Rice codes (docs/FORMAT.md, section 20), a cell at a time.

/** What a group's words have besides codes, and how many bits these may have. */
struct RiceLayout {
  uint32_t value_count, cells, word_count, head_words, room;

  RiceLayout(uint32_t values, uint32_t planes)
      : value_count(values),
        cells(rice_cells(values)),
        word_count(planes * kPlaneWords),
        head_words(rice_head_words(cells)),
        room(rice_room(planes, cells)) {}

  uint32_t values_of(uint32_t cell) const {
    const uint32_t left = value_count - cell * kRiceCell;
    return left < kRiceCell ? left : kRiceCell;
  }
};

/** As many values from the e-th on, of one granule. */
GQ_INLINE void prefetch_ahead(const ValuesAhead& ahead, uint32_t e, uint32_t count) {
  if (ahead.first == nullptr) return;
  constexpr uintptr_t kLineBytes = 64;
  const uintptr_t at = reinterpret_cast<uintptr_t>(ahead.first) +
                       e / kGranuleValues * ahead.stride_bytes +
                       e % kGranuleValues * ahead.value_bytes;
  if (e % kGranuleValues == 0) prefetch_last_page(at, ahead.value_bytes);
  for (uintptr_t b = 0; b < count * ahead.value_bytes; b += kLineBytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(at + b), 0, 2);
  }
}

/** Values of a cell: 0 beyond the group's last, and all of one that is poisoned. */
struct RiceCellValues {
  float value[kRiceCell] = {};
  bool is_poisoned = false;

  RiceCellValues(const RiceLayout& layout, const float* values, uint32_t cell) {
    const uint32_t count = layout.values_of(cell);
    memcpy(value, values + cell * kRiceCell, count * sizeof *value);
    for (uint32_t e = 0; e < count; ++e) is_poisoned |= !is_finite(value[e]);
    if (is_poisoned) memset(value, 0, sizeof value);
  }

  float largest() const {
    uint32_t bits = 0;
    for (const float one : value) bits = larger(bits, magnitude_bits(one));
    return float_from_bits(bits);
  }
};

template <bool kNearest>
void look_at_cell(const RiceCellValues& cell, float inverse, RiceLook& look) {
  RiceNeighbours codes[kRiceCell];
  uint32_t parts = 0;
  for (uint32_t e = 0; e < kRiceCell; ++e) {
    codes[e] = rice_neighbours<kNearest>(cell.value[e], inverse);
    parts += codes[e].parts;
  }
  if (parts == 0) return;
  const uint32_t parameter = rice_look_parameter(parts);
  for (uint32_t e = 0; e < kRiceCell; ++e) rice_look_at(codes[e], parameter, look);
  look.near_bits += kRiceCell * (1 + parameter);
  look.values += kRiceCell;
}

Strata strata_of(const EncodeRiceArgs& args) {
  return args.is_sum ? strata_of_sum(args.coding, args.random)
                     : strata_of_quantize(args.coding, args.random);
}

RiceBounds bounds_of(const EncodeRiceArgs& args, const RiceLayout& layout) {
  return {layout.cells, layout.room, rice_margin(strata_of(args))};
}

template <bool kNearest>
uint32_t find_rice_step(const EncodeRiceArgs& args, const RiceLayout& layout, float largest) {
  return rice_find_step(largest, bounds_of(args, layout), [&](float inverse, uint32_t stride) {
    RiceLook look;
    for (uint32_t cell = 0; cell < layout.cells; cell += stride) {
      look_at_cell<kNearest>(RiceCellValues(layout, args.values, cell), inverse, look);
    }
    return look;
  });
}

/** Writes a group's words: planes from the front, unary codes from the end. */
class RiceWriter {
 public:
  RiceWriter(const RiceLayout& layout, uint32_t step, uint32_t* words)
      : layout_(layout), words_(words), plane_(layout.head_words) {
    memset(words, 0, layout.word_count * sizeof *words);
    words[0] = step;
  }

  void set_parameter(uint32_t cell, uint32_t parameter) {
    words_[1 + cell / kRiceWordParameters] |=
        parameter << (kRiceParameterBits * (cell % kRiceWordParameters));
  }

  /** False, and nothing is written, if there is no room. */
  bool write_cell(uint32_t cell, const uint32_t (&codes)[kRiceCell]) {
    uint32_t any = 0;
    for (const uint32_t code : codes) any |= code;
    if (any == 0) {
      set_parameter(cell, kRiceZeros);
      return true;
    }
    const uint32_t parameter = rice_parameter(codes);
    bits_ += kRiceCell * (1 + parameter);
    for (const uint32_t code : codes) bits_ += code >> parameter;
    if (bits_ > layout_.room) return false;
    set_parameter(cell, parameter);
    write_planes(codes, parameter);
    for (const uint32_t code : codes) write_unary(code >> parameter);
    return true;
  }

 private:
  void write_planes(const uint32_t (&codes)[kRiceCell], uint32_t parameter) {
    for (uint32_t b = 0; b < parameter; ++b) {
      uint32_t word = 0;
      for (uint32_t e = 0; e < kRiceCell; ++e) word |= (codes[e] >> b & 1) << e;
      words_[plane_++] = word;
    }
  }

  /** So many zeros and a one. */
  void write_unary(uint32_t zeros) {
    unary_ += zeros;
    uint32_t* const at = words_ + layout_.word_count - 2 * (unary_ / kRiceUnaryBits) - 2;
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word |= uint64_t{1} << (unary_ % kRiceUnaryBits);
    memcpy(at, &word, sizeof word);
    ++unary_;
  }

  const RiceLayout& layout_;
  uint32_t* words_;
  uint32_t plane_;      ///< word of the next plane
  uint32_t unary_ = 0;  ///< bits of unary codes so far
  uint32_t bits_ = 0;   ///< all bits of codes so far
};

Thresholds thresholds_of(const EncodeRiceArgs& args) {
  const Draw draw = args.is_sum ? Draw::encode_again : Draw::quantize;
  return Thresholds(stream_of(args.random, draw), strata_of(args), args.random);
}

/** Where the thresholds of a group's values come from, a tile at a time. */
struct RiceThresholds {
  Thresholds thresholds;
  uint64_t first_value, stride_values;
  BitsTile tile;

  explicit RiceThresholds(const EncodeRiceArgs& args)
      : thresholds(thresholds_of(args)),
        first_value(args.first_value),
        stride_values(args.stride_values) {}

  /** R(e) of the values of a cell; cells are asked for in order. */
  const uint32_t* of_cell(uint32_t cell) {
    const uint32_t e = cell * kRiceCell;
    if (e % kTileValues == 0) {
      const uint64_t granule = first_value + e / kGranuleValues * stride_values;
      thresholds.fill(granule + e % kGranuleValues, tile);
    }
    return tile.bits + e % kTileValues;
  }
};

/** Codes of a group: rounded by R(e), or all towards 0, where `thresholds` is null. */
template <bool kNearest>
bool write_rice_codes(const RiceLayout& layout, const float* values, uint32_t step,
                      RiceThresholds* thresholds, uint32_t* words) {
  RiceWriter writer(layout, step, words);
  const float inverse = 1 / norm_from_code(static_cast<uint16_t>(step));
  for (uint32_t cell = 0; cell < layout.cells; ++cell) {
    const RiceCellValues source(layout, values, cell);
    const uint32_t* const bits = thresholds == nullptr ? nullptr : thresholds->of_cell(cell);
    if (source.is_poisoned) {
      writer.set_parameter(cell, kRicePoisoned);
      continue;
    }
    uint32_t codes[kRiceCell];
    for (uint32_t e = 0; e < kRiceCell; ++e) {
      const RiceNeighbours both = rice_neighbours<kNearest>(source.value[e], inverse);
      codes[e] = bits == nullptr ? both.near : rice_rounded(source.value[e], both, bits[e]);
    }
    if (!writer.write_cell(cell, codes)) return false;
  }
  return true;
}

/** A group of one parameter: that of zeros, but for poisoned cells, or that of poisoned ones. */
void write_rice_without_codes(const RiceLayout& layout, const float* values, uint32_t parameter,
                              uint32_t* words) {
  RiceWriter writer(layout, 0, words);
  for (uint32_t cell = 0; cell < layout.cells; ++cell) {
    const bool is_poisoned = RiceCellValues(layout, values, cell).is_poisoned;
    writer.set_parameter(cell, is_poisoned ? kRicePoisoned : parameter);
  }
}

template <bool kNearest>
void encode_rice_group(const EncodeRiceArgs& args, const RiceLayout& layout, float largest) {
  const uint32_t step = find_rice_step<kNearest>(args, layout, largest);
  if (step > kRiceStepMax) {
    return write_rice_without_codes(layout, args.values, kRicePoisoned, args.words);
  }
  if constexpr (kNearest) {
    write_rice_codes<kNearest>(layout, args.values, step, nullptr, args.words);
  } else {
    RiceThresholds thresholds(args);
    if (write_rice_codes<kNearest>(layout, args.values, step, &thresholds, args.words)) return;
    write_rice_codes<kNearest>(layout, args.values, step, nullptr, args.words);
  }
}

uint32_t poisoned_rice_cells(const RiceLayout& layout, const uint32_t* words) {
  uint32_t count = 0;
  for (uint32_t cell = 0; cell < layout.cells; ++cell) {
    const uint32_t word = words[1 + cell / kRiceWordParameters];
    count += rice_parameter_at(word, cell) == kRicePoisoned ? 1 : 0;
  }
  return count;
}

// Vectors do what is frequent: stages.inl.
bool is_encoded_by_vectors(const EncodeRiceArgs& args, const RiceLayout& layout);
bool is_decoded_by_vectors(const DecodeRiceArgs& args, const RiceLayout& layout);

__attribute__((noinline)) void encode_rice_any(const EncodeRiceArgs& args) {
  const RiceLayout layout(args.value_count, args.plane_count);
  if (is_encoded_by_vectors(args, layout)) return;
  float largest = 0;
  for (uint32_t cell = 0; cell < layout.cells; ++cell) {
    largest = at_least(RiceCellValues(layout, args.values, cell).largest(), largest);
  }
  if (largest == 0) {
    write_rice_without_codes(layout, args.values, kRiceZeros, args.words);
  } else if (args.coding.rounding == Rounding::nearest) {
    encode_rice_group<true>(args, layout, largest);
  } else {
    encode_rice_group<false>(args, layout, largest);
  }
  if (args.poisoned_cells != nullptr) {
    *args.poisoned_cells = poisoned_rice_cells(layout, args.words);
  }
}

StageError encode_rice(const EncodeRiceArgs& args) {
  const FloatEnvironment environment;
  encode_rice_any(args);
  return {};
}

/** What belongs to a cell's unary codes of 64 bits behind its first 64. */
constexpr uint64_t kHighUnary = (uint64_t{1} << (kRiceCellUnaryBits - kRiceUnaryBits)) - 1;

/** Reads the cells of a group in order, whatever its words are. */
class RiceReader {
 public:
  RiceReader(const RiceLayout& layout, const uint32_t* words)
      : layout_(layout), words_(words), plane_(layout.head_words) {}

  uint32_t parameter(uint32_t cell) const {
    return rice_parameter_at(words_[1 + cell / kRiceWordParameters], cell);
  }

  /** False if the words end before the cell does. */
  bool read_cell(uint32_t parameter, uint32_t (&codes)[kRiceCell]) {
    if (plane_ + parameter > layout_.word_count) return false;
    uint64_t low = unary_at(unary_);
    uint64_t high = unary_at(unary_ + kRiceUnaryBits) & kHighUnary;
    for (uint32_t e = 0, last = 0; e < kRiceCell; ++e) {
      if ((low | high) == 0) return false;
      uint64_t& ones = low != 0 ? low : high;
      const uint32_t before = low != 0 ? 0 : kRiceUnaryBits;
      const uint32_t end = before + static_cast<uint32_t>(__builtin_ctzll(ones));
      ones &= ones - 1;
      codes[e] = (end - last) << parameter;
      last = end + 1;
      if (e == kRiceCell - 1) unary_ += last;
    }
    for (uint32_t b = 0; b < parameter; ++b, ++plane_) {
      for (uint32_t e = 0; e < kRiceCell; ++e) codes[e] |= (words_[plane_] >> e & 1) << b;
    }
    return true;
  }

 private:
  /** 64 bits of the unary codes from a bit on; zeros beyond the group's words. */
  uint64_t unary_at(uint32_t bit) const {
    const uint32_t number = bit / kRiceUnaryBits, used = bit % kRiceUnaryBits;
    const uint64_t low = unary_word(number) >> used;
    return used == 0 ? low : low | unary_word(number + 1) << (kRiceUnaryBits - used);
  }

  uint64_t unary_word(uint32_t number) const {
    if (2 * number + 2 > layout_.word_count) return 0;
    uint64_t word;
    memcpy(&word, words_ + layout_.word_count - 2 * number - 2, sizeof word);
    return word;
  }

  const RiceLayout& layout_;
  const uint32_t* words_;
  uint32_t plane_;
  uint32_t unary_ = 0;
};

/** Where the values of a cell are. */
GQ_INLINE float* values_of_cell(const DecodeRiceArgs& args, uint32_t cell) {
  constexpr uint32_t kGranuleCells = kGranuleValues / kRiceCell;
  return args.values + cell / kGranuleCells * args.stride_values + cell % kGranuleCells * kRiceCell;
}

void put_rice_values(const DecodeRiceArgs& args, const uint32_t (&codes)[kRiceCell], float step,
                     uint32_t count, float* values) {
  for (uint32_t e = 0; e < count; ++e) {
    const float value = rice_value(codes[e], step);
    values[e] = args.add ? values[e] + value : value / args.divisor;
  }
}

void poison_values(uint32_t count, float* values) {
  for (uint32_t e = 0; e < count; ++e) values[e] = float_from_bits(kFloatNanBits);
}

/** Those of a cell and of all behind it. */
void poison_from(const DecodeRiceArgs& args, const RiceLayout& layout, uint32_t cell) {
  for (; cell < layout.cells; ++cell) {
    poison_values(layout.values_of(cell), values_of_cell(args, cell));
  }
}

__attribute__((noinline)) void decode_rice_any(const DecodeRiceArgs& args) {
  const RiceLayout layout(args.value_count, args.plane_count);
  if (is_decoded_by_vectors(args, layout)) return;
  RiceReader reader(layout, args.words);
  const float step = norm_from_code(static_cast<uint16_t>(args.words[0]));
  for (uint32_t cell = 0; cell < layout.cells; ++cell) {
    float* const values = values_of_cell(args, cell);
    const uint32_t count = layout.values_of(cell), parameter = reader.parameter(cell);
    uint32_t codes[kRiceCell];
    if (parameter == kRiceZeros) {
      if (!args.add) memset(values, 0, count * sizeof *values);
    } else if (parameter == kRicePoisoned) {
      poison_values(count, values);
    } else if (reader.read_cell(parameter, codes)) {
      put_rice_values(args, codes, step, count, values);
    } else {
      return poison_from(args, layout, cell);
    }
  }
}

StageError decode_rice(const DecodeRiceArgs& args) {
  const FloatEnvironment environment;
  decode_rice_any(args);
  return {};
}
