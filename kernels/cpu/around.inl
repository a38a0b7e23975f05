// Words for another processor, written around caches. That processor read what was here before and
// keeps it: an ordinary store waits until its copy is gone, which between processors that share no
// cache takes ten times as long as a store to memory. Read from memory, words come as fast as from
// such a processor (docs/decisions/0025-words-around-caches.md).

constexpr size_t kLineOctets = 64;

#if GQ_VECTOR_OCTETS == 64
#define GQ_AROUND 1
GQ_INLINE void write_line(uint8_t* to, const uint8_t* from) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif GQ_VECTOR_OCTETS == 32
#define GQ_AROUND 1
GQ_INLINE void write_line(uint8_t* to, const uint8_t* from) {
  for (size_t k = 0; k < kLineOctets; k += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + k),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k)));
  }
}
#else
#define GQ_AROUND 0
#endif

#if GQ_AROUND

/** Whole lines go around caches. */
void write_around(uint8_t* to, const uint8_t* from, size_t octets) {
  const size_t before = (-reinterpret_cast<uintptr_t>(to)) % kLineOctets;
  const size_t head = octets < before ? octets : before;
  memcpy(to, from, head);
  size_t done = head;
  for (; done + kLineOctets <= octets; done += kLineOctets) write_line(to + done, from + done);
  memcpy(to + done, from + done, octets - done);
}

/** Before anyone is told of them: such stores are in no order with others. */
GQ_INLINE void end_writes_around() { _mm_sfence(); }

#else

void write_around(uint8_t* to, const uint8_t* from, size_t octets) { memcpy(to, from, octets); }
GQ_INLINE void end_writes_around() {}

#endif

/** Where a stage writes codes, and whether around caches. */
struct OutWords {
  uint32_t* words;
  bool around_caches;
};

void write_words(uint32_t* to, const void* from, size_t octets, bool around_caches) {
  if (!around_caches) {
    memcpy(to, from, octets);
    return;
  }
  write_around(reinterpret_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), octets);
}

/** Writes the codes of a tile, which `encode` puts where it is told: there, where it may. */
template <uint32_t kBits, typename Encode>
GQ_INLINE void write_codes(const OutWords& out, const Tile& tile, Encode encode) {
  uint8_t* const there = octets_at<kBits>(out.words, tile);
  if (is_full(tile) && !out.around_caches) return encode(there);
  CodeTile codes;
  encode(codes.octet);
  if (!is_full(tile)) return store_tail<kBits>(codes, out.words, tile);
  write_around(there, codes.octet, kTileOctets<kBits>);
}
