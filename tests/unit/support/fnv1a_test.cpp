// Test vectors of the authors of FNV, which other implementations have as well.
#include "src/support/fnv1a.h"

#include <gtest/gtest.h>

#include <string_view>

namespace gq {
namespace {

template <typename Fnv1a>
auto hash_of(std::string_view string) {
  Fnv1a hash;
  hash.add_bytes(string.data(), string.size());
  return hash.hash();
}

TEST(Fnv1a, Strings_KnownHashes) {
  EXPECT_EQ(hash_of<Fnv1a32>(""), 0x811c9dc5u);
  EXPECT_EQ(hash_of<Fnv1a32>("a"), 0xe40c292cu);
  EXPECT_EQ(hash_of<Fnv1a32>("foobar"), 0xbf9cf968u);
  EXPECT_EQ(hash_of<Fnv1a64>(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_of<Fnv1a64>("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_of<Fnv1a64>("foobar"), 0x85944171f73967e8u);
}

TEST(Fnv1a, Number_HashedAsItsBytesLowestFirst) {
  Fnv1a64 number;
  number.add_number(0x3837363534333231u);
  EXPECT_EQ(number.hash(), hash_of<Fnv1a64>("12345678"));
}

}  // namespace
}  // namespace gq
