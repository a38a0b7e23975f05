// Instructions on words: what the PTX manual says of each, for those that kernels use.
#include <bit>
#include <cstdint>

#include "tests/gpu/ptx/compute.h"

namespace gq::ptx {
namespace {

template <typename V>
constexpr uint32_t kBits = 8 * sizeof(V);

template <typename V>
V added(V a, V b) {
  return static_cast<V>(a + b);
}
template <typename V>
V subtracted(V a, V b) {
  return static_cast<V>(a - b);
}
template <typename V>
V negated(V a) {
  return static_cast<V>(0 - a);
}
template <typename V>
V multiplied(V a, V b) {
  return static_cast<V>(1u * a * b);
}
template <typename V>
V multiplied_added(V a, V b, V c) {
  return static_cast<V>(1u * a * b + c);
}
/** By zero: all ones, and all of a is left. */
template <typename V>
V divided(V a, V b) {
  return b == 0 ? V(-1) : static_cast<V>(a / b);
}
template <typename V>
V remainder_of(V a, V b) {
  return b == 0 ? a : static_cast<V>(a % b);
}
template <typename V>
V magnitude(V a) {
  return a < 0 ? negated(a) : a;
}
template <typename V>
V least(V a, V b) {
  return b < a ? b : a;
}
template <typename V>
V greatest(V a, V b) {
  return b > a ? b : a;
}
template <typename V>
V both(V a, V b) {
  return static_cast<V>(a & b);
}
template <typename V>
V either(V a, V b) {
  return static_cast<V>(a | b);
}
template <typename V>
V one_of(V a, V b) {
  return static_cast<V>(a ^ b);
}
template <typename V>
V inverted(V a) {
  return static_cast<V>(~a);
}
template <>
bool inverted(bool a) {
  return !a;
}
template <typename V>
uint32_t ones(V a) {
  return static_cast<uint32_t>(std::popcount(a));
}
template <typename V>
uint32_t zeros_ahead(V a) {
  return static_cast<uint32_t>(std::countl_zero(a));
}
/** All ones if there is none. */
uint32_t highest_one(uint32_t a) { return 31u - zeros_ahead(a); }

/** Beyond the last bit everything is moved out. */
template <typename V>
V moved_left(V a, uint32_t by) {
  return by < kBits<V> ? static_cast<V>(a << by) : V(0);
}
template <typename V>
V moved_right(V a, uint32_t by) {
  if (by < kBits<V>) return static_cast<V>(a >> by);
  return static_cast<V>(a < 0 ? -1 : 0);
}
uint32_t funnelled_left(uint32_t low, uint32_t high, uint32_t by) {
  const uint64_t whole = uint64_t{high} << 32 | low;
  return static_cast<uint32_t>(whole << (by & 31) >> 32);
}

/** Ones in the lowest places. */
template <typename V>
V low_ones(uint32_t count) {
  return static_cast<V>(count < kBits<V> ? (V(1) << count) - 1 : ~V(0));
}
template <typename V>
V inserted(V from, V into, uint32_t at, uint32_t length) {
  const V there = moved_left(low_ones<V>(length & 255), at & 255);
  return static_cast<V>((into & ~there) | (moved_left(from, at & 255) & there));
}
template <typename V>
V extracted(V from, uint32_t at, uint32_t length) {
  return static_cast<V>(moved_right(from, at & 255) & low_ones<V>(length & 255));
}

/** Each half byte of the selector takes a byte of a or b, or spreads its sign. */
uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t one = selector >> (4 * k) & 15;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (one & 7))) & 255;
    if (one > 7) byte = byte >> 7 != 0 ? 255 : 0;
    result |= byte << (8 * k);
  }
  return result;
}
/** Bit 4a + 2b + c of the table for each bit of a, b and c. */
uint32_t looked_up(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t row = 0; row < 8; ++row) {
    const uint32_t here = (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    result |= (table >> row & 1) != 0 ? here : 0;
  }
  return result;
}

/** Of each half of a word. */
uint32_t greatest_halves(uint32_t a, uint32_t b) {
  return greatest(a & 0xffffu, b & 0xffffu) | greatest(a & 0xffff0000u, b & 0xffff0000u);
}

template <typename Wide, typename V>
Wide widely(V a, V b) {
  return static_cast<Wide>(a) * b;
}
template <typename Wide, typename V>
Wide widely_added(V a, V b, Wide c) {
  return static_cast<Wide>(a) * b + c;
}
uint32_t multiplied_high(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}
template <typename To, typename From>
To converted(From a) {
  return static_cast<To>(a);
}

template <typename Whole, typename Part>
void pack(const Instruction& made, Warp& warp, Mask threads) {
  for_each(threads, [&](uint32_t thread) {
    Whole whole = 0;
    for (uint32_t k = 0; k < sizeof(Whole) / sizeof(Part); ++k) {
      const Whole part = read<Part>(warp, made.in[k], thread);
      whole |= static_cast<Whole>(part << (kBits<Part> * k));
    }
    write(warp, made.out[0], thread, whole);
  });
}
template <typename Whole, typename Part>
void unpack(const Instruction& made, Warp& warp, Mask threads) {
  for_each(threads, [&](uint32_t thread) {
    const Whole whole = read<Whole>(warp, made.in[0], thread);
    for (uint32_t k = 0; k < sizeof(Whole) / sizeof(Part); ++k) {
      write(warp, made.out[k], thread, static_cast<Part>(whole >> (kBits<Part> * k)));
    }
  });
}

/** Where a sign makes no difference. */
template <typename V>
void add_unsigned(const std::string& bits, Table* table) {
  Table& all = *table;
  for (const char* const letter : {"b", "u", "s"}) {
    const std::string type = letter + bits;
    all["mov." + type] = of<copied<V>>;
    all["selp." + type] = of<chosen<V>>;
    all["add." + type] = of<added<V>>;
    all["sub." + type] = of<subtracted<V>>;
    all["neg." + type] = of<negated<V>>;
    all["mul.lo." + type] = of<multiplied<V>>;
    all["mad.lo." + type] = of<multiplied_added<V>>;
  }
  all["and.b" + bits] = of<both<V>>;
  all["or.b" + bits] = of<either<V>>;
  all["xor.b" + bits] = of<one_of<V>>;
  all["not.b" + bits] = of<inverted<V>>;
  all["shl.b" + bits] = of<moved_left<V>>;
  all["shr.b" + bits] = of<moved_right<V>>;
  all["bfi.b" + bits] = of<inserted<V>>;
  all["bfe.u" + bits] = of<extracted<V>>;
  all["popc.b" + bits] = of<ones<V>>;
  all["clz.b" + bits] = of<zeros_ahead<V>>;
  add_compares<V>("b" + bits, table);
}

template <typename V>
void add_numbers(const std::string& type, Table* table) {
  Table& all = *table;
  all["shr." + type] = of<moved_right<V>>;
  all["div." + type] = of<divided<V>>;
  all["rem." + type] = of<remainder_of<V>>;
  all["abs." + type] = of<magnitude<V>>;
  all["min." + type] = of<least<V>>;
  all["max." + type] = of<greatest<V>>;
  add_compares<V>(type, table);
}

Table all_operations() {
  Table all = {
      {"mov.pred", of<copied<bool>>},
      {"and.pred", of<both<bool>>},
      {"or.pred", of<either<bool>>},
      {"xor.pred", of<one_of<bool>>},
      {"not.pred", of<inverted<bool>>},
      {"mul.wide.u16", of<widely<uint32_t, uint16_t>>},
      {"mul.wide.u32", of<widely<uint64_t, uint32_t>>},
      {"mul.wide.s32", of<widely<int64_t, int32_t>>},
      {"mad.wide.u32", of<widely_added<uint64_t, uint32_t>>},
      {"mul.hi.u32", of<multiplied_high>},
      {"bfind.u32", of<highest_one>},
      {"max.u16x2", of<greatest_halves>},
      {"prmt.b32", of<permuted>},
      {"lop3.b32", of<looked_up>},
      {"shf.l.wrap.b32", of<funnelled_left>},
      {"mov.b32.pack2", pack<uint32_t, uint16_t>},
      {"mov.b32.unpack2", unpack<uint32_t, uint16_t>},
      {"mov.b64.pack2", pack<uint64_t, uint32_t>},
      {"mov.b64.unpack2", unpack<uint64_t, uint32_t>},
      {"mov.b64.pack4", pack<uint64_t, uint16_t>},
      {"mov.b64.unpack4", unpack<uint64_t, uint16_t>},
      {"cvt.u16.u32", of<converted<uint16_t, uint32_t>>},
      {"cvt.u16.u64", of<converted<uint16_t, uint64_t>>},
      {"cvt.u32.u16", of<converted<uint32_t, uint16_t>>},
      {"cvt.u32.u64", of<converted<uint32_t, uint64_t>>},
      {"cvt.u64.u32", of<converted<uint64_t, uint32_t>>},
      {"cvt.u64.u16", of<converted<uint64_t, uint16_t>>},
      {"cvt.s64.s32", of<converted<int64_t, int32_t>>},
      // Addresses of global memory are the same as those of no kind.
      {"cvta.to.global.u64", of<copied<uint64_t>>},
  };
  add_unsigned<uint16_t>("16", &all);
  add_unsigned<uint32_t>("32", &all);
  add_unsigned<uint64_t>("64", &all);
  add_numbers<uint16_t>("u16", &all);
  add_numbers<uint32_t>("u32", &all);
  add_numbers<uint64_t>("u64", &all);
  add_numbers<int16_t>("s16", &all);
  add_numbers<int32_t>("s32", &all);
  add_numbers<int64_t>("s64", &all);
  return all;
}

}  // namespace

Operation find_word(const std::string& name) {
  static const Table all = all_operations();
  return find_in(all, name);
}

}  // namespace gq::ptx
