// The board with memory that the test holds, so that it can write what no correct rank writes.
#include "src/transport/board.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/transport/exchange.h"

namespace gq::test {
namespace {

constexpr uint32_t kRanks = 3;

struct Table {
  Bell bells[kRanks];
  Control* controls[kRanks];
  BoardPlace places[kRanks];

  Table() {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      void* memory = std::aligned_alloc(64, control_bytes(kRanks));
      controls[rank] = new (memory) Control;
      for (uint32_t peer = 0; peer < kRanks; ++peer) {
        new (posted_of(controls[rank]) + peer) std::atomic<uint64_t>(0);
      }
      places[rank] = {&bells[rank], controls[rank]};
    }
  }
  ~Table() {
    for (Control* control : controls) std::free(control);
  }
};

class Sitter final : public BoardTransport {
 public:
  Sitter(Table* table, uint32_t rank) {
    EXPECT_TRUE(
        sit_down({rank, kRanks, 1, BellScope::process, table->controls[rank], table->places}).ok());
  }
  Status arena(size_t, unsigned char** base) override {
    *base = memory_;
    return Status();
  }

 protected:
  Status reach(uint32_t, uint64_t) override { return Status(); }
  const unsigned char* arena_base(uint32_t) const override { return memory_; }
  void find_dead() override {}

 private:
  unsigned char memory_[64] = {};
};

TEST(Board, ScribbledMessageCounterIsProtocol) {
  Table table;
  Sitter rank0(&table, 0), rank2(&table, 2);
  const unsigned char* words = nullptr;
  posted_of(table.controls[1])[0].store(1);
  ASSERT_TRUE(rank0.receive({1, 1, 1, 0, 4, 0}, &words).ok());
  ASSERT_NE(words, nullptr);
  posted_of(table.controls[1])[0].store(0);
  const std::string line = text_of(rank0.receive({1, 1, 1, 0, 4, 0}, &words));
  EXPECT_EQ(line,
            "PROTOCOL: rank 0: the message counter of rank 1 is 0 where 1 was due; its shared "
            "memory has been overwritten");
  EXPECT_EQ(words, nullptr);
  EXPECT_EQ(rank2.check().code(), GQSGD_PROTOCOL) << "the others are told";
}

TEST(Board, HeaderTwoAheadIsProtocol) {
  Table table;
  Sitter rank0(&table, 0);
  Header header;
  bool there = false;
  table.controls[1]->published.store(5);
  EXPECT_EQ(text_of(rank0.peer_header(1, 5, &header, &there)), "OK");
  EXPECT_TRUE(there);
  EXPECT_EQ(text_of(rank0.peer_header(1, 4, &header, &there)), "OK");
  EXPECT_TRUE(there) << "the slower rank still reads the one before";
  EXPECT_EQ(rank0.peer_header(1, 3, &header, &there).code(), GQSGD_PROTOCOL);
}

TEST(Board, UnreadableReasonIsProtocol) {
  for (const uint64_t word : {uint64_t{1} << 60, pack(Cause{GQSGD_ABORTED, kRanks, 1}),
                              pack(Cause{GQSGD_ABORTED, 0, kRanks}), uint64_t{5} << 8}) {
    Table table;
    Sitter rank0(&table, 0);
    table.controls[1]->cause.store(word);
    sound_alarm(&table.bells[0], BellScope::process);
    const std::string line = text_of(rank0.check());
    EXPECT_EQ(line.rfind("PROTOCOL: rank 0: the reason of rank 1 is", 0), 0u) << line;
  }
}

TEST(Board, ScribbledAwaitedEndsTheSearchForTheCulprit) {
  for (const uint64_t word :
       {~uint64_t{0}, pack(Awaited{AwaitedKind::message, kRanks + 9, 3}),
        pack(Awaited{AwaitedKind::message, 1, 3}), pack(Awaited{AwaitedKind::header, 2, 3})}) {
    Table table;
    Sitter rank0(&table, 0);
    table.controls[1]->awaited.store(word);
    table.controls[2]->awaited.store(pack(Awaited{AwaitedKind::header, 1, 3}));
    rank0.break_off(GQSGD_TIMEOUT, 1);
    EXPECT_EQ(rank0.check().code(), GQSGD_TIMEOUT);
  }
}

TEST(Board, MessageBeyondTheAddressSpaceIsRefused) {
  Table table;
  Sitter rank0(&table, 0);
  posted_of(table.controls[1])[0].store(1);
  const unsigned char* words = nullptr;
  EXPECT_EQ(rank0.receive({1, 1, 1, SIZE_MAX, 2, 0}, &words).code(), GQSGD_INTERNAL);
}

TEST(Board, AwaitedNumbersCompareAcrossTheirTurn) {
  Table table;
  posted_of(table.controls[1])[0].store(kAwaitedNumberMask + 2);
  const auto has = [&](uint64_t number) {
    return has_come(unpack_awaited(pack(Awaited{AwaitedKind::message, 1, number})),
                    table.controls[1], 0);
  };
  EXPECT_TRUE(has(kAwaitedNumberMask));
  EXPECT_TRUE(has(kAwaitedNumberMask + 2));
  EXPECT_FALSE(has(kAwaitedNumberMask + 3));
}

}  // namespace
}  // namespace gq::test
