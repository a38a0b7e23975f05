// The walk over one rank's moves allocates nothing, however many values and ranks there are.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <new>

#include "src/schedule/make.h"
#include "tools/plan/schedules.h"

namespace {

uint64_t allocation_count = 0;

}  // namespace

void* operator new(size_t size_bytes) {
  ++allocation_count;
  if (void* memory = malloc(size_bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace gq {
namespace {

void expect_walk_without_memory(const Shape& shape, uint32_t rank) {
  for (const Schedule* schedule : {&kRing, &kTree, &kButterfly, &kDirect}) {
    const uint64_t allocations_before = allocation_count;
    MoveCursor cursor(schedule, shape, rank);
    uint64_t move_count = 0;
    for (Move move; cursor.next(&move);) ++move_count;
    totals_of(*schedule, shape, rank);
    EXPECT_EQ(allocation_count, allocations_before) << schedule->name;
    EXPECT_GT(move_count, 0u) << schedule->name;
  }
}

TEST(MoveCursor, Terabytes_NoMemory) {
  for (uint32_t ranks : {1u, 2u, 3u, 6u, 8u}) {
    const Shape shape{ranks, (uint64_t{1} << 40) - 5, 32, uint64_t{1} << 23};
    expect_walk_without_memory(shape, ranks - 1);
  }
}

TEST(MoveCursor, OneOf100000Ranks_NoMemory) {
  constexpr uint32_t kRanks = 100000;
  const Shape shape{kRanks, uint64_t{32} * kRanks, 32, 65536};
  for (uint32_t rank : {0u, 54321u, kRanks - 1}) expect_walk_without_memory(shape, rank);
}

TEST(MoveCursor, NewIsCounted) {
  const uint64_t allocations_before = allocation_count;
  ::operator delete(::operator new(1));  // a call, which no compiler may leave out
  EXPECT_EQ(allocation_count, allocations_before + 1);
}

}  // namespace
}  // namespace gq
