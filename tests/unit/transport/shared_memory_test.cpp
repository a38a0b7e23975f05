// Control blocks with memory that the test holds, so that it can write what no correct rank writes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/transport/shared_memory/shared_memory_transport.h"
#include "tests/unit/transport/exchange.h"

namespace gq::test {
namespace {

constexpr uint32_t kRanks = 3;

struct Table {
  Wakeup wakeups[kRanks];
  Control* controls[kRanks];
  PeerControl places[kRanks];

  Table() {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      void* memory = std::aligned_alloc(64, control_bytes(kRanks));
      controls[rank] = new (memory) Control;
      for (uint32_t peer = 0; peer < kRanks; ++peer) {
        new (posted_of(controls[rank]) + peer) std::atomic<uint64_t>(0);
      }
      places[rank] = {&wakeups[rank], controls[rank]};
    }
  }
  ~Table() {
    for (Control* control : controls) std::free(control);
  }
};

class Sitter final : public SharedMemoryTransport {
 public:
  Sitter(Table* table, uint32_t rank) {
    EXPECT_TRUE(
        attach({rank, kRanks, WakeupScope::process, table->controls[rank], table->places}, 1).ok());
  }
  Status arena(size_t, unsigned char** base) override {
    *base = memory_;
    return Status();
  }
  void refuse_to_reach() { refuses_ = true; }

 protected:
  Status reach(uint32_t, uint64_t) override {
    return refuses_ ? fail(GQSGD_PROTOCOL, "too short") : Status();
  }
  const unsigned char* arena_base(uint32_t) const override { return memory_; }
  void find_dead() override {}
  Status make_name(gqsgd_unique_id*) override { return Status(); }

 private:
  unsigned char memory_[64] = {};
  bool refuses_ = false;
};

TEST(SharedMemory, OverwrittenMessageCounter_Protocol) {
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

TEST(SharedMemory, ControlMessageTwoAhead_Protocol) {
  Table table;
  Sitter rank0(&table, 0);
  ControlMessage message;
  bool there = false;
  table.controls[1]->controls_sent.store(5);
  EXPECT_EQ(text_of(rank0.receive_control(1, 5, &message, &there)), "OK");
  EXPECT_TRUE(there);
  EXPECT_EQ(text_of(rank0.receive_control(1, 4, &message, &there)), "OK");
  EXPECT_TRUE(there) << "the slower rank still reads the one before";
  EXPECT_EQ(rank0.receive_control(1, 3, &message, &there).code(), GQSGD_PROTOCOL);
}

TEST(SharedMemory, UnreadableReason_Protocol) {
  for (const uint64_t word :
       {uint64_t{1} << 60, pack(Cause{GQSGD_ABORTED, kRanks, 1}),
        pack(Cause{GQSGD_ABORTED, 0, kRanks}), uint64_t{5} << 8, pack(Cause{255, 0, 1}),
        pack(Cause{GQSGD_TIMEOUT, 1, 0}), pack(Cause{GQSGD_ABORTED, 0, 0})}) {
    Table table;
    Sitter rank0(&table, 0);
    table.controls[1]->cause.store(word);
    wake_for_failure(&table.wakeups[0], WakeupScope::process);
    const std::string line = text_of(rank0.check());
    EXPECT_EQ(line.rfind("PROTOCOL: rank 0: the reason of rank 1 is", 0), 0u) << line;
  }
}

TEST(SharedMemory, MessageCounterFarAhead_Protocol) {
  Table table;
  Sitter rank0(&table, 0);
  const unsigned char* words = nullptr;
  posted_of(table.controls[1])[0].store(uint64_t{1} << 63);
  EXPECT_EQ(rank0.receive({1, 1, 1, 0, 4, 0}, &words).code(), GQSGD_PROTOCOL);
  EXPECT_EQ(words, nullptr);
}

TEST(SharedMemory, ControlMessageNumberFalls_Protocol) {
  Table table;
  Sitter rank0(&table, 0);
  ControlMessage message;
  bool there = false;
  table.controls[1]->controls_sent.store(5);
  ASSERT_EQ(text_of(rank0.receive_control(1, 5, &message, &there)), "OK");
  table.controls[1]->controls_sent.store(4);
  EXPECT_EQ(rank0.receive_control(1, 6, &message, &there).code(), GQSGD_PROTOCOL);
}

TEST(SharedMemory, WakeupCounterOverwritten_CauseStillFound) {
  Table table;
  Sitter rank0(&table, 0), rank1(&table, 1);
  rank1.abort_group(GQSGD_ABORTED, 1);
  table.wakeups[0].failures.store(0);
  EXPECT_EQ(rank0.check().code(), GQSGD_ABORTED);
}

TEST(SharedMemory, ArenaTooShort_OwnerNamedByAll) {
  Table table;
  Sitter rank0(&table, 0), rank2(&table, 2);
  rank0.refuse_to_reach();
  posted_of(table.controls[1])[0].store(1);
  const unsigned char* words = nullptr;
  EXPECT_EQ(rank0.receive({1, 1, 1, 0, 4, 0}, &words).code(), GQSGD_PROTOCOL);
  EXPECT_EQ(text_of(rank2.check()),
            "PROTOCOL: rank 0 says that rank 1 wrote what no correct rank writes");
}

/** What a rank does in a call and when one fails; every status on the way is one of the table. */
void take_part(Sitter& rank, uint64_t sequence) {
  ControlMessage message;
  bool there = false;
  const unsigned char* words = nullptr;
  const auto expect_named = [](Status status) {
    EXPECT_TRUE(is_status(status.code()) && status.code() != GQSGD_INTERNAL) << text_of(status);
  };
  expect_named(rank.send_control(sequence, ControlMessage()));
  for (uint32_t peer = 0; peer < kRanks; ++peer) {
    expect_named(rank.receive_control(peer, sequence, &message, &there));
    if (peer == rank.rank()) continue;
    expect_named(rank.send({peer, rank.rank(), rank.rank(), 0, 4, 0}));
    expect_named(rank.receive({peer, peer, peer, 0, 4, 0}, &words));
  }
  expect_named(rank.wait(1));
  expect_named(rank.check());
}

std::vector<std::atomic<uint32_t>*> all_words(Table* table) {
  std::vector<std::atomic<uint32_t>*> words;
  const auto add = [&](void* memory, size_t size_bytes) {
    auto* const first = static_cast<std::atomic<uint32_t>*>(memory);
    for (size_t k = 0; k < size_bytes / sizeof *first; ++k) words.push_back(first + k);
  };
  for (Control* control : table->controls) add(control, control_bytes(kRanks));
  add(table->wakeups, sizeof table->wakeups);
  return words;
}

// Also the words that a rank wrote there itself: kernels before 5.1 cannot keep peers from them.
TEST(SharedMemory, EveryWordWithEveryHostileValue_EndsWithANamedFailure) {
  const size_t word_count = all_words(std::make_unique<Table>().get()).size();
  for (const uint32_t value : {0u, 1u, 7u, 255u, 0x3cu, 0x7fffffffu, 0x80000000u, UINT32_MAX}) {
    for (size_t k = 0; k < word_count; ++k) {
      SCOPED_TRACE("word " + std::to_string(k) + ", value " + std::to_string(value));
      Table table;
      Sitter rank0(&table, 0), rank1(&table, 1);
      take_part(rank1, 1);
      take_part(rank0, 1);
      all_words(&table)[k]->store(value);
      take_part(rank0, 2);
      rank0.abort_group(GQSGD_TIMEOUT, rank0.culprit_behind(1));
      take_part(rank0, 3);
      EXPECT_NE(rank0.check().code(), GQSGD_OK);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST(SharedMemory, OwnWordsOverwritten_NotReadBack) {
  Table table;
  Sitter rank0(&table, 0), rank1(&table, 1);
  ASSERT_EQ(text_of(rank0.send_control(1, ControlMessage())), "OK");
  ASSERT_EQ(text_of(rank0.signals().post(1)), "OK");
  Control* const own = table.controls[0];
  own->cause.store(pack(Cause{GQSGD_TIMEOUT, 0xffffff, 0}));
  own->controls_sent.store(99);
  posted_of(own)[1].store(77);
  EXPECT_EQ(text_of(rank0.check()), "OK") << "a culprit that is no rank was an index once";
  EXPECT_EQ(rank0.newest_call(), 1u);
  ASSERT_EQ(text_of(rank0.signals().post(1)), "OK");
  EXPECT_EQ(posted_of(own)[1].load(), 2u);
}

TEST(SharedMemory, AwaitedOverwritten_SearchForTheCulpritEnds) {
  for (const uint64_t word :
       {~uint64_t{0}, pack(Awaited{AwaitedKind::message, kRanks + 9, 3}),
        pack(Awaited{AwaitedKind::message, 1, 3}), pack(Awaited{AwaitedKind::control, 2, 3})}) {
    Table table;
    Sitter rank0(&table, 0);
    table.controls[1]->awaited.store(word);
    table.controls[2]->awaited.store(pack(Awaited{AwaitedKind::control, 1, 3}));
    rank0.abort_group(GQSGD_TIMEOUT, rank0.culprit_behind(1));
    EXPECT_EQ(rank0.check().code(), GQSGD_TIMEOUT);
  }
}

TEST(SharedMemory, RankThatCannotWaitForAControlMessage_NamesItself) {
  for (const uint64_t number : {1, 77}) {
    Table table;
    Sitter rank0(&table, 0);
    table.controls[1]->controls_sent.store(1);
    table.controls[1]->awaited.store(pack(Awaited{AwaitedKind::control, 2, number}));
    rank0.abort_group(GQSGD_TIMEOUT, rank0.culprit_behind(1));
    const std::string line = text_of(rank0.check());
    const char* culprit = number == 1 ? "rank 2 made no progress" : "rank 1 made no progress";
    EXPECT_NE(line.find(culprit), std::string::npos) << line;
  }
}

TEST(SharedMemory, MessageBeyondTheAddressSpace_Refused) {
  Table table;
  Sitter rank0(&table, 0);
  posted_of(table.controls[1])[0].store(1);
  const unsigned char* words = nullptr;
  EXPECT_EQ(rank0.receive({1, 1, 1, SIZE_MAX, 2, 0}, &words).code(), GQSGD_INTERNAL);
}

TEST(SharedMemory, AwaitedNumbersWrapAround_Compared) {
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
