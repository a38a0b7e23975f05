// The Hadamard rotation of values on their way in and out, a few vectors at a time in registers.

/** The values that one rotation mixes. */
struct RotationBuffer {
  alignas(64) float value[kRotationValues];
};

static_assert(kRotationValues % kTileValues == 0, "a rotation is whole tiles");

#if GQ_VECTOR_OCTETS > 0

constexpr uint32_t kFloatLanes = GQ_VECTOR_OCTETS / 4;

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
  const Words second = reinterpret_cast<Words>(values) ^ second_signs<kDistance>();
  return exchanged<kDistance>(values, std::make_integer_sequence<uint32_t, kFloatLanes>()) +
         reinterpret_cast<Floats>(second);
}

GQ_INLINE Floats stages_of_lanes(Floats values) {
  values = stage_of_lanes<2>(stage_of_lanes<1>(values));
  if constexpr (kFloatLanes >= 8) values = stage_of_lanes<4>(values);
  if constexpr (kFloatLanes >= 16) values = stage_of_lanes<8>(values);
  return values;
}

/** kStages stages between 2^kStages vectors that lie `stride` values apart. */
template <uint32_t kStages, bool kWithLanes>
GQ_INLINE void stages_of_vectors(float* value, uint32_t stride) {
  constexpr uint32_t kCount = 1u << kStages;
  Floats vector[kCount];
  GQ_UNROLL for (uint32_t k = 0; k < kCount; ++k) {
    memcpy(&vector[k], value + k * stride, sizeof vector[k]);
    if (kWithLanes) vector[k] = stages_of_lanes(vector[k]);
  }
  GQ_UNROLL for (uint32_t stage = 0; stage < kStages; ++stage) {
    GQ_UNROLL for (uint32_t k = 0; k < kCount / 2; ++k) {
      const uint32_t distance = 1u << stage;
      const uint32_t first = k + (k & ~(distance - 1));  // a zero bit put in at `stage`
      const Floats a = vector[first], b = vector[first + distance];
      vector[first] = a + b;
      vector[first + distance] = a - b;
    }
  }
  GQ_UNROLL for (uint32_t k = 0; k < kCount; ++k) {
    memcpy(value + k * stride, &vector[k], sizeof vector[k]);
  }
}

/** kStages stages that begin with `distance`, on all values. */
template <uint32_t kStages>
GQ_INLINE void far_stages(float* value, uint32_t distance) {
  for (uint32_t group = 0; group < kRotationValues; group += distance << kStages) {
    for (uint32_t k = group; k < group + distance; k += kFloatLanes) {
      stages_of_vectors<kStages, false>(value + k, distance);
    }
  }
}

void rotate_buffer(RotationBuffer& buffer) {
  float* value = buffer.value;
  constexpr uint32_t kNear = 8 * kFloatLanes;  // what the first pass mixes
  for (uint32_t k = 0; k < kRotationValues; k += kNear) {
    stages_of_vectors<3, true>(value + k, kFloatLanes);
  }
  if constexpr (kRotationValues / kNear == 8) {
    far_stages<3>(value, kNear);
  } else {
    far_stages<2>(value, kNear);
    far_stages<kRotationValues / kNear == 16 ? 2 : 3>(value, kNear * 4);
  }
}

#else

void rotate_buffer(RotationBuffer& buffer) { hadamard(buffer.value); }

#endif

RandomStream signs_of(const RandomSite& site) { return shared_stream_of(site, Draw::signs); }

/** One word for 32 signs; more than the values of a rotation need. */
void fill_signs(const RandomStream& stream, uint64_t first_value, RandomTile& signs) {
  static_assert(kTileWords * kSignsPerWord >= kRotationValues, "a tile of words is enough");
  fill_random(stream, first_value / kSignGroupValues * kGroupValues, signs);
}

void enter_rotation(const float* __restrict value, const uint32_t* __restrict signs,
                    float* __restrict target) {
  for (uint32_t word = 0; word < kTileValues / kSignsPerWord; ++word) {
    const uint32_t first = word * kSignsPerWord;
    for (uint32_t e = 0; e < kSignsPerWord; ++e) {
      target[first + e] = rotation_in(value[first + e], rotation_sign(signs[word], e));
    }
  }
}

void leave_rotation(const RandomTile& __restrict signs, RotationBuffer& __restrict buffer) {
  for (uint32_t word = 0; word < kRotationValues / kSignsPerWord; ++word) {
    float* value = buffer.value + word * kSignsPerWord;
    for (uint32_t e = 0; e < kSignsPerWord; ++e) {
      value[e] = rotation_out(value[e], rotation_sign(signs.word[word], e));
    }
  }
}

void rotate_back(const RandomStream& stream, uint64_t first_value, RotationBuffer& buffer) {
  RandomTile signs;
  fill_signs(stream, first_value, signs);
  rotate_buffer(buffer);
  leave_rotation(signs, buffer);
}

/** A caller's values, tile by tile, rotated where the format says so: then in order, and filled up
 *  with zeros to whole rotations. */
class Values {
 public:
  Values(const void* values, int32_t dtype, const Range& range, bool rotated,
         const RandomSite& site)
      : values_(values), dtype_(dtype), range_(range), rotated_(rotated), signs_(signs_of(site)) {}

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
    for_each_tile_apart(range_, work);
  }

 private:
  void rotate_forth(size_t first) {
    RandomTile signs;
    fill_signs(signs_, range_.first_value + first, signs);
    for (uint32_t done = 0; done < kRotationValues; done += kTileValues) {
      const size_t offset = first + done < range_.value_count ? first + done : range_.value_count;
      const size_t left = range_.value_count - offset;
      const Tile tile{offset, left < kTileValues ? static_cast<uint32_t>(left) : kTileValues};
      ValueTile local;
      enter_rotation(load_values(values_, dtype_, tile, local), signs.word + done / kSignsPerWord,
                     buffer_.value + done);
    }
    rotate_buffer(buffer_);
  }

  const void* values_;
  int32_t dtype_;
  Range range_;
  bool rotated_;
  RandomStream signs_;
  RotationBuffer buffer_;
};
