// Words for another processor, written with non-temporal stores. That processor read what was here
// before and keeps it: an ordinary store waits until its copy is gone, which between processors
// that share no cache takes ten times as long as a store to memory. Read from memory, words come as
// fast as from such a processor (docs/decisions/0003-shared-memory-messages.md).
//
// Results that find no room in caches, too: an ordinary store reads their line from memory first.

#if GQ_VECTOR_BYTES == 64
#define GQ_NONTEMPORAL 1
GQ_INLINE void write_line(uint8_t* to, const uint8_t* from) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif GQ_VECTOR_BYTES == 32
#define GQ_NONTEMPORAL 1
GQ_INLINE void write_line(uint8_t* to, const uint8_t* from) {
  for (size_t k = 0; k < kLineBytes; k += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + k),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k)));
  }
}
#else
#define GQ_NONTEMPORAL 0
#endif

#if GQ_NONTEMPORAL

/** Whole lines are stored with non-temporal stores. */
void store_nontemporal(uint8_t* to, const uint8_t* from, size_t bytes) {
  const size_t before = (-reinterpret_cast<uintptr_t>(to)) % kLineBytes;
  const size_t head = bytes < before ? bytes : before;
  memcpy(to, from, head);
  size_t done = head;
  for (; done + kLineBytes <= bytes; done += kLineBytes) write_line(to + done, from + done);
  memcpy(to + done, from + done, bytes - done);
}

/** A fence before the words are published: such stores are in no order with others. */
GQ_INLINE void end_nontemporal_stores() { _mm_sfence(); }

#else

void store_nontemporal(uint8_t* to, const uint8_t* from, size_t bytes) { memcpy(to, from, bytes); }
GQ_INLINE void end_nontemporal_stores() {}

#endif

/** Where a stage writes codes, and whether by non-temporal stores. */
struct OutWords {
  uint32_t* words;
  bool nontemporal;
};

void write_bytes(void* to, const void* from, size_t bytes, bool nontemporal) {
  if (!nontemporal) {
    memcpy(to, from, bytes);
    return;
  }
  store_nontemporal(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), bytes);
}

/** Writes the codes of a tile: `encode` writes to the address given, directly to the destination
 *  where possible. */
template <uint32_t kBits, typename Encode>
GQ_INLINE void write_codes(const OutWords& out, const Tile& tile, Encode encode) {
  uint8_t* const there = bytes_at<kBits>(out.words, tile);
  if (is_full(tile) && !out.nontemporal) return encode(there);
  CodeTile codes;
  encode(codes.byte);
  if (!is_full(tile)) return store_tail<kBits>(codes, out.words, tile);
  store_nontemporal(there, codes.byte, kTileBytes<kBits>);
}
