// Bit planes of blocks that follow each other. With GFNI and VBMI eight bytes are a matrix of bits,
// which one instruction transposes, and one permutes bytes of two vectors; no width needs code of
// its own there: masks leave out the planes beyond it.

/** Where the planes of blocks that follow each other are. */
struct BlockPlanes {
  const uint8_t* width;
  const uint16_t* first_plane;
  uint32_t end;  ///< behind the planes that may be read, or written before those of later blocks

  BlockPlanes from(size_t block) const { return {width + block, first_plane + block, end}; }
  size_t first_word(uint32_t b) const { return size_t{first_plane[b]} * kPlaneWords; }
  bool has_rows(uint32_t b) const { return first_plane[b] + kWidthMax <= end; }
};

#if GQ_VBMI

/** Byte indices of two vectors, as _mm512_permutex2var_epi8 takes them. */
struct PlaneIndices {
  alignas(64) uint8_t reversed[64];   ///< the bytes of each eight, the last one first
  alignas(64) uint8_t plane[2][64];   ///< planes 0 to 3 and 4 to 7, out of matrices of planes
  alignas(64) uint8_t matrix[2][64];  ///< values 0 to 63 and 64 to 127: plane 7 leads
};

constexpr PlaneIndices plane_indices() {
  PlaneIndices indices{};
  for (uint32_t k = 0; k < 64; ++k) {
    indices.reversed[k] = static_cast<uint8_t>(k ^ 7);
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t plane = 4 * half + k / 16;
      indices.plane[half][k] = static_cast<uint8_t>(8 * (k % 16) + plane);
      indices.matrix[half][k] = static_cast<uint8_t>(16 * (7 - k % 8) + 8 * half + k / 8);
    }
  }
  return indices;
}

constexpr PlaneIndices kPlaneIndices = plane_indices();

/** Words of the planes of a width, of which there are four each. */
constexpr uint32_t words_mask(uint32_t width) {
  return static_cast<uint32_t>((uint64_t{1} << (kPlaneWords * width)) - 1);
}

/** Bit e of byte p is what byte 7 - e of the same eight has at bit p. */
inline __m512i transposed_matrices(__m512i bytes) {
  const __m512i each_bit = _mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201));
  return _mm512_gf2p8affine_epi64_epi8(each_bit, bytes, GQ_AFFINE_CONSTANT);
}

/** The 128 lanes of a block; those of no width are 0. */
struct BlockLanes {
  __m512i half[2];
};

inline BlockLanes lanes_of_block(const uint32_t* words, uint32_t width) {
  const uint32_t mask = words_mask(width);
  const __m512i low = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask), words);
  const __m512i high = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask >> 16), words + 16);
  BlockLanes lanes;
  for (uint32_t half = 0; half < 2; ++half) {
    const __m512i indices = _mm512_load_si512(kPlaneIndices.matrix[half]);
    lanes.half[half] = transposed_matrices(_mm512_permutex2var_epi8(low, indices, high));
  }
  return lanes;
}

/** Writes the planes of `count` blocks whose lanes follow each other. With rows, planes beyond a
 *  block's own are written, too, before the next block writes its own there. */
void pack_blocks(const uint8_t* lane, uint32_t count, const BlockPlanes& planes, uint32_t* words) {
  const __m512i reversed = _mm512_load_si512(kPlaneIndices.reversed);
  for (uint32_t b = 0; b < count; ++b) {
    const __m512i* const lanes = reinterpret_cast<const __m512i*>(lane + b * kAdaptiveBlock);
    const __m512i first =
        transposed_matrices(_mm512_shuffle_epi8(_mm512_loadu_si512(lanes), reversed));
    const __m512i second =
        transposed_matrices(_mm512_shuffle_epi8(_mm512_loadu_si512(lanes + 1), reversed));
    uint32_t* const out = words + planes.first_word(b);
    __m512i plane[2];
    for (uint32_t half = 0; half < 2; ++half) {
      const __m512i indices = _mm512_load_si512(kPlaneIndices.plane[half]);
      plane[half] = _mm512_permutex2var_epi8(first, indices, second);
    }
    if (planes.has_rows(b)) {
      _mm512_storeu_si512(out, plane[0]);
      _mm512_storeu_si512(out + 16, plane[1]);
      continue;
    }
    uint32_t mask = words_mask(planes.width[b]);
    for (uint32_t half = 0; half < 2; ++half, mask >>= 16) {
      _mm512_mask_storeu_epi32(out + 16 * half, static_cast<__mmask16>(mask), plane[half]);
    }
  }
}

/** The lanes of `count` blocks, one after the other. */
void unpack_blocks(const uint32_t* words, uint32_t count, const BlockPlanes& planes,
                   uint8_t* lane) {
  for (uint32_t b = 0; b < count; ++b) {
    const BlockLanes lanes = lanes_of_block(words + planes.first_word(b), planes.width[b]);
    for (uint32_t half = 0; half < 2; ++half) {
      _mm512_storeu_si512(lane + b * kAdaptiveBlock + 64 * half, lanes.half[half]);
    }
  }
}

/** The sums of the lanes of one block of each rank, of which 16 bits hold them. */
void add_lanes(const uint32_t* const* words, uint32_t ranks, uint32_t width, size_t first_word,
               uint16_t* sum) {
  __m512i sums[4] = {};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const BlockLanes lanes = lanes_of_block(words[rank] + first_word, width);
    GQ_UNROLL for (uint32_t half = 0; half < 2; ++half) {
      // gcc 12 warns of its own header where an intrinsic leaves a source undefined.
      const __m256i first = _mm512_maskz_extracti64x4_epi64(0xf, lanes.half[half], 0);
      const __m256i second = _mm512_maskz_extracti64x4_epi64(0xf, lanes.half[half], 1);
      __m512i* const two = sums + 2 * half;
      two[0] = _mm512_add_epi16(two[0], _mm512_maskz_cvtepu8_epi16(~__mmask32{}, first));
      two[1] = _mm512_add_epi16(two[1], _mm512_maskz_cvtepu8_epi16(~__mmask32{}, second));
    }
  }
  for (uint32_t k = 0; k < 4; ++k) _mm512_storeu_si512(sum + 32 * k, sums[k]);
}

#else

void pack_blocks(const uint8_t* lane, uint32_t count, const BlockPlanes& planes, uint32_t* words) {
  for (uint32_t b = 0; b < count; ++b, lane += kAdaptiveBlock) {
    uint32_t* const out = words + planes.first_word(b);
#if GQ_VECTOR_BYTES == 32
    if (planes.has_rows(b)) {
      pack_rows(lane, out);
      continue;
    }
#endif
    pack_planes(lane, planes.width[b], out);
  }
}

void unpack_blocks(const uint32_t* words, uint32_t count, const BlockPlanes& planes,
                   uint8_t* lane) {
  for (uint32_t b = 0; b < count; ++b, lane += kAdaptiveBlock) {
    const uint32_t* const in = words + planes.first_word(b);
#if GQ_VECTOR_BYTES == 32
    if (planes.has_rows(b)) {
      unpack_rows(in, planes.width[b], lane);
      continue;
    }
#endif
    unpack_planes(in, planes.width[b], lane);
  }
}

void add_lanes(const uint32_t* const* words, uint32_t ranks, uint32_t width, size_t first_word,
               uint16_t* sum) {
  memset(sum, 0, kAdaptiveBlock * sizeof *sum);
  with_width(width, [&](auto bits) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      alignas(64) uint8_t lane[kAdaptiveBlock];
      unpack_width<decltype(bits)::value>(words[rank] + first_word, lane);
      for (uint32_t e = 0; e < kAdaptiveBlock; ++e) {
        sum[e] = static_cast<uint16_t>(sum[e] + lane[e]);
      }
    }
  });
}

#endif
