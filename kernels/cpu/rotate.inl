// The Hadamard rotation of values on their way in and out, a few vectors at a time in registers.

/** The values that one rotation mixes. */
struct RotationBuffer {
  alignas(64) float value[kRotationValues];
};

static_assert(kRotationValues % kTileValues == 0, "a rotation is whole tiles");

/** What is read after a tile that enters a rotation, which is a page long, where prefetchers of the
 *  hardware end: lines ahead are prefetched one by one while others are read (1.3 times as fast
 *  from memory as nothing or all at once). */
struct ValuesBehind {
  const char* first;  ///< null: nothing is prefetched
  uint32_t value_bytes;

  GQ_INLINE void prefetch(uint32_t e) const {
    if (first != nullptr && e % 16 == 0) __builtin_prefetch(first + size_t{e} * value_bytes);
  }
};

GQ_INLINE void leave_rotation(const uint32_t* signs, uint32_t length, const float* sum,
                              float* value) {
  for (uint32_t first = 0; first < length; first += kSignsPerWord) {
    const uint32_t word = signs[first / kSignsPerWord];
    for (uint32_t e = first; e < first + kSignsPerWord; ++e) {
      value[e] = rotation_out(sum[e], rotation_sign(word, e), length);
    }
  }
}

#if GQ_VECTOR_BYTES > 0

constexpr uint32_t kFloatLanes = GQ_VECTOR_BYTES / 4;

template <uint32_t kDistance, uint32_t... kLane>
GQ_INLINE Floats exchanged(Floats values, std::integer_sequence<uint32_t, kLane...>) {
  return __builtin_shufflevector(values, values, (kLane ^ kDistance)...);
}

/** The sign bit where a lane is the second of its pair. */
template <uint32_t kDistance>
GQ_INLINE Words second_signs() {
  Words signs;
  for (uint32_t k = 0; k < kFloatLanes; ++k) signs[k] = (k & kDistance) != 0 ? 0x80000000u : 0;
  return signs;
}

/** One stage between the lanes of a vector: a + b, and a + (-b). */
template <uint32_t kDistance>
GQ_INLINE Floats stage_of_lanes(Floats values) {
  const auto lanes = std::make_integer_sequence<uint32_t, kFloatLanes>();
  return plus_signed(exchanged<kDistance>(values, lanes), values, second_signs<kDistance>());
}

GQ_INLINE Floats stages_of_lanes(Floats values) {
  values = stage_of_lanes<2>(stage_of_lanes<1>(values));
  if constexpr (kFloatLanes >= 8) values = stage_of_lanes<4>(values);
  if constexpr (kFloatLanes >= 16) values = stage_of_lanes<8>(values);
  return values;
}

/** kStages stages between vectors. */
template <uint32_t kStages>
GQ_INLINE void stages_of_vectors(Floats (&vector)[1u << kStages]) {
  GQ_UNROLL for (uint32_t stage = 0; stage < kStages; ++stage) {
    GQ_UNROLL for (uint32_t k = 0; k < 1u << (kStages - 1); ++k) {
      const uint32_t distance = 1u << stage;
      const uint32_t first = k + (k & ~(distance - 1));  // a zero bit put in at `stage`
      const Floats a = vector[first], b = vector[first + distance];
      vector[first] = a + b;
      vector[first + distance] = a - b;
    }
  }
}

template <uint32_t kCount>
GQ_INLINE void load_apart(const float* value, uint32_t distance, Floats (&vector)[kCount]) {
  GQ_UNROLL for (uint32_t k = 0; k < kCount; ++k) {
    memcpy(&vector[k], value + k * distance, sizeof vector[k]);
  }
}

template <uint32_t kCount>
GQ_INLINE void store_apart(const Floats (&vector)[kCount], uint32_t distance, float* value) {
  GQ_UNROLL for (uint32_t k = 0; k < kCount; ++k) {
    memcpy(value + k * distance, &vector[k], sizeof vector[k]);
  }
}

/** Stores each vector of sums where its values are; the last stages end with it. */
struct StoreSums {
  float* value;

  GQ_INLINE void operator()(uint32_t first, uint32_t offset, Floats sums) const {
    memcpy(value + first + offset, &sums, sizeof sums);
  }
};

/** kStages stages that begin with `distance`, on all values. `store(first, offset, sums)` takes the
 *  sums from first + offset on; offsets are the same for each first. */
template <uint32_t kStages, typename Store>
GQ_INLINE void far_stages(const RotationBuffer& buffer, uint32_t distance, Store store) {
  for (uint32_t group = 0; group < kRotationValues; group += distance << kStages) {
    for (uint32_t first = group; first < group + distance; first += kFloatLanes) {
      Floats vector[1u << kStages];
      load_apart(buffer.value + first, distance, vector);
      stages_of_vectors<kStages>(vector);
      GQ_UNROLL for (uint32_t k = 0; k < 1u << kStages; ++k) {
        store(first, k * distance, vector[k]);
      }
    }
  }
}

/** The last four stages in one pass. Sixteen vectors do not fit registers: one half waits in memory
 *  for the last stage. */
template <typename Store>
GQ_INLINE void last_four_stages(RotationBuffer& buffer, Store store) {
  constexpr uint32_t kDistance = kRotationValues / 16;
  for (uint32_t first = 0; first < kDistance; first += kFloatLanes) {
    float* lower = buffer.value + first;
    float* upper = lower + 8 * kDistance;
    Floats vector[8];
    load_apart(lower, kDistance, vector);
    stages_of_vectors<3>(vector);
    store_apart(vector, kDistance, lower);
    load_apart(upper, kDistance, vector);
    stages_of_vectors<3>(vector);
    GQ_UNROLL for (uint32_t k = 0; k < 8; ++k) {
      Floats a;
      memcpy(&a, lower + k * kDistance, sizeof a);
      store(first, k * kDistance, a + vector[k]);
      store(first, (k + 8) * kDistance, a - vector[k]);
    }
  }
}

/** What the first pass mixes, in eight vectors. */
constexpr uint32_t kNearValues = 8 * kFloatLanes;

template <typename Store>
GQ_INLINE void finish_rotation(RotationBuffer& buffer, Store store) {
  constexpr uint32_t kNearGroups = kRotationValues / kNearValues;
  static_assert(kNearGroups == 8 || kNearGroups == 16 || kNearGroups == 32);
  if constexpr (kNearGroups == 8) {
    far_stages<3>(buffer, kNearValues, store);
  } else if constexpr (kNearGroups == 16) {
    last_four_stages(buffer, store);
  } else {
    far_stages<2>(buffer, kNearValues, StoreSums{buffer.value});
    far_stages<3>(buffer, kNearValues * 4, store);
  }
}

void finish_rotation(RotationBuffer& buffer) {
  finish_rotation(buffer, StoreSums{buffer.value});
}

/** The first pass on `count` values; load(first, e) gives the vector of them at first + e. */
template <typename Load>
GQ_INLINE void near_stages(uint32_t count, float* target, Load load) {
  for (uint32_t first = 0; first < count; first += kNearValues) {
    Floats vector[8];
    GQ_UNROLL for (uint32_t k = 0; k < 8; ++k) {
      vector[k] = stages_of_lanes(load(first, k * kFloatLanes));
    }
    stages_of_vectors<3>(vector);
    GQ_UNROLL for (uint32_t k = 0; k < 8; ++k) {
      memcpy(target + first + k * kFloatLanes, &vector[k], sizeof vector[k]);
    }
  }
}

/** What moves the signs of a vector's values, from bit `first` of a word on, to the top. */
GQ_INLINE Words sign_shifts(uint32_t first) {
  Words shifts;
  for (uint32_t k = 0; k < kFloatLanes; ++k) shifts[k] = kSignsPerWord - 1 - first - k;
  return shifts;
}

static_assert(kNearValues % kSignsPerWord == 0, "shifts are constants: each pass begins a word");

/** A tile of values enters a rotation and passes the first of its stages. */
void enter_rotation(const float* value, const uint32_t* signs, const ValuesBehind& next,
                    float* target) {
  near_stages(kTileValues, target, [&](uint32_t first, uint32_t e) {
    next.prefetch(first + e);
    Floats values;
    memcpy(&values, value + first + e, sizeof values);
    const Words word = Words{} + signs[first / kSignsPerWord + e / kSignsPerWord];
    const Words sign = word << sign_shifts(e % kSignsPerWord) & 0x80000000u;
    return reinterpret_cast<Floats>(reinterpret_cast<Words>(values * 0x1p-10f) ^ sign);
  });
}

/** Stores a vector that is a whole line past the caches. */
GQ_INLINE void stream_vector(float* to, Floats from) {
#if GQ_VECTOR_BYTES == 64
  _mm512_stream_ps(to, from);
#else
  memcpy(to, &from, sizeof from);
#endif
}

/** rotation_out() of the sums of a whole rotation, which grow by nothing. */
template <bool kNontemporal>
struct StoreRotatedBack {
  const uint32_t* signs;
  float* value;

  GQ_INLINE void operator()(uint32_t first, uint32_t offset, Floats sums) const {
    static_assert(kRotationValues == 1024, "1 / (1024 * 2^-10) is 1");
    const Words word = Words{} + signs[first / kSignsPerWord + offset / kSignsPerWord];
    const Words sign = word << (sign_shifts(0) - first % kSignsPerWord) & 0x80000000u;
    const Floats signed_sums = reinterpret_cast<Floats>(reinterpret_cast<Words>(sums) ^ sign);
    const Floats values = signed_sums + Floats{};  // no negative zero
    const Floats nan = in_all_lanes(float_from_bits(kFloatNanBits));
    const Floats results = values == values ? values : nan;
    if constexpr (kNontemporal) return stream_vector(value + first + offset, results);
    StoreSums{value}(first, offset, results);
  }
};

/** A whole rotation back, from the buffer to `value`, with non-temporal stores of lines if
 *  gains_by_nontemporal(). */
template <bool kNontemporal>
void rotate_whole_back(const uint32_t* signs, RotationBuffer& buffer, float* value) {
  near_stages(kRotationValues, buffer.value, [&](uint32_t first, uint32_t e) {
    Floats values;
    memcpy(&values, buffer.value + first + e, sizeof values);
    return values;
  });
  if constexpr (GQ_VECTOR_BYTES == 64) {
    finish_rotation(buffer, StoreRotatedBack<kNontemporal>{signs, value});
  } else {  // Shorter vectors would write parts of lines in another order than they lie in.
    finish_rotation(buffer);
    if (value == buffer.value) return leave_rotation(signs, kRotationValues, value, value);
    leave_rotation(signs, kRotationValues, buffer.value, value);
  }
}

#else

void enter_rotation(const float* value, const uint32_t* signs, const ValuesBehind& next,
                    float* target) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    next.prefetch(e);
    target[e] = rotation_in(value[e], rotation_sign(signs[e / kSignsPerWord], e), kRotationValues);
  }
}

void finish_rotation(RotationBuffer& buffer) { hadamard(buffer.value, kRotationValues); }

template <bool>
void rotate_whole_back(const uint32_t* signs, RotationBuffer& buffer, float* value) {
  finish_rotation(buffer);
  leave_rotation(signs, kRotationValues, buffer.value, value);
}

#endif

/** The signs of a range's rotations, which are requested in order: a tile of random words serves
 *  several of them. */
class Signs {
 public:
  Signs(const RandomSite& site, uint64_t first_value)
      : stream_(shared_stream_of(site, Draw::signs)), first_value_(first_value) {}

  /** One word for 32 signs of the rotation at `first` of the range. */
  const uint32_t* of_rotation(size_t first) {
    if (first % kServedValues == 0) {
      const uint64_t value = first_value_ + first;
      fill_random(stream_, value / kSignGroupValues * kGroupValues, random_);
    }
    return random_.word + first % kServedValues / kSignsPerWord;
  }

 private:
  static constexpr size_t kServedValues = kTileWords * kSignsPerWord;
  static_assert(kServedValues % kRotationValues == 0, "a tile of words serves whole rotations");

  TileStream stream_;
  uint64_t first_value_;
  RandomTile random_;
};

/** Calls `work(first, length)` for each of the rotations that the last `value_count` values of a
 *  call are cut into, the longest first. */
template <typename Work>
void for_each_last_rotation(size_t value_count, Work work) {
  const uint32_t codes = static_cast<uint32_t>(code_count(true, value_count));
  for (uint32_t first = 0; first < codes;) {
    const uint32_t length = rotation_length(codes - first);
    work(first, length);
    first += length;
  }
}

/** The last values of a call, fewer than one rotation has. */
void rotate_last_back(const uint32_t* signs, size_t value_count, RotationBuffer& buffer) {
  for_each_last_rotation(value_count, [&](uint32_t first, uint32_t length) {
    float* const value = buffer.value + first;
    hadamard(value, length);
    leave_rotation(signs + first / kSignsPerWord, length, value, value);
  });
}

/** Whether Values prefetch what load() rotates, or its caller does, with prefetch(). */
enum class Prefetches { by_load, by_caller };

/** A caller's values, tile by tile, rotated if the format has rotations: then in order, and filled
 *  up with zeros. */
class Values {
 public:
  Values(const void* values, int32_t dtype, const Range& range, bool rotated,
         const RandomSite& site, Prefetches prefetches = Prefetches::by_load)
      : values_(values),
        dtype_(dtype),
        range_(range),
        rotated_(rotated),
        by_load_(prefetches == Prefetches::by_load),
        signs_(site, range.first_value) {}

  /** Prefetches, with a tile, `count` of the values that are read after it, from `first` of them
   *  on. A rotation's are read at once. */
  GQ_INLINE void prefetch(const Tile& tile, uint32_t first, uint32_t count) const {
    const size_t ahead = rotated_ ? kRotationValues : kValuesAhead;
    prefetch_elements<kFirstCache>(values_, dtype_, tile.offset + ahead + first, count);
  }

  const float* load(const Tile& tile, ValueTile& local) {
    if (!rotated_) return load_values(values_, dtype_, tile, local);
    if (tile.offset % kRotationValues == 0) rotate_forth(tile.offset);
    return buffer_.value + tile.offset % kRotationValues;
  }

  Range coded_range() const {
    return Range{range_.first_value, code_count(rotated_, range_.value_count)};
  }

  /** Calls `work(tile)` for each tile, in an order that suits. */
  template <typename Work>
  void for_each(Work work) const {
    if (rotated_) return for_each_tile(coded_range(), work);
    for_each_tile_apart(range_, [&](const Tile& tile, size_t) { work(tile); });
  }

 private:
  /** May lie behind the end of the values. */
  ValuesBehind behind(size_t first) const {
    const uint32_t value_bytes = dtype_size_bytes(dtype_);
    const char* const values = static_cast<const char*>(values_);
    return {by_load_ ? values + (first + kValuesAhead) * value_bytes : nullptr, value_bytes};
  }

  void rotate_forth(size_t first) {
    const uint32_t* signs = signs_.of_rotation(first);
    if (range_.value_count - first < kRotationValues) return rotate_last(first, signs);
    for (uint32_t done = 0; done < kRotationValues; done += kTileValues) {
      ValueTile local;
      const float* value = load_values(values_, dtype_, Tile{first + done, kTileValues}, local);
      enter_rotation(value, signs + done / kSignsPerWord, behind(first + done),
                     buffer_.value + done);
    }
    finish_rotation(buffer_);
  }

  /** Fewer values than one rotation has: they occur once in a call, so that the plain loops do. */
  void rotate_last(size_t begin, const uint32_t* signs) {
    const size_t left = range_.value_count - begin;
    for (uint32_t done = 0; done < kRotationValues; done += kTileValues) {
      const size_t here = done < left ? left - done : 0;
      const Tile tile{begin + done, here < kTileValues ? static_cast<uint32_t>(here) : kTileValues};
      ValueTile local;
      memcpy(buffer_.value + done, load_values(values_, dtype_, tile, local), sizeof local);
    }
    for_each_last_rotation(left, [&](uint32_t first, uint32_t length) {
      float* value = buffer_.value + first;
      for (uint32_t e = 0; e < length; ++e) {
        const uint32_t word = signs[(first + e) / kSignsPerWord];
        value[e] = rotation_in(value[e], rotation_sign(word, e), length);
      }
      hadamard(value, length);
    });
  }

  const void* values_;
  int32_t dtype_;
  Range range_;
  bool rotated_, by_load_;
  Signs signs_;
  RotationBuffer buffer_;
};
