// Handles that are looked up without a lock, beside threads that add and remove them.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "src/api/handles.h"
#include "src/support/immortal.h"

namespace gq {
namespace {

using Table = HandleTable<int, HandleType::request>;

/** Never destroyed: a table is registered around fork(). */
Table& made_table() { return immortal<Table>(); }

TEST(HandleTable, Access_HoldsUpTheRemovalOfItsObjectAlone) {
  Table& table = made_table();
  const uintptr_t token = table.add(std::make_shared<int>(7));
  const uintptr_t other = table.add(std::make_shared<int>(8));
  std::atomic<uint32_t>* accesses = nullptr;
  const int* const object = table.access(token, &accesses);
  ASSERT_NE(object, nullptr);
  std::atomic<bool> removed{false};
  std::thread remover([&] {
    const std::shared_ptr<int> taken = table.remove(token);
    removed = true;
    EXPECT_EQ(*taken, 7);
  });
  while (table.find(token)) std::this_thread::yield();
  EXPECT_EQ(*table.remove(other), 8);
  std::atomic<uint32_t>* later = nullptr;
  EXPECT_EQ(table.access(token, &later), nullptr) << "it is stale from the beginning of remove()";
  EXPECT_FALSE(removed);
  EXPECT_EQ(*object, 7);
  accesses->fetch_sub(1);
  remover.join();
  EXPECT_TRUE(removed);
}

TEST(HandleTable, TableGrows_TokensStayValid) {
  Table& table = made_table();
  std::vector<uintptr_t> tokens;
  for (int k = 0; k < 1000; ++k) tokens.push_back(table.add(std::make_shared<int>(k)));
  for (int k = 0; k < 1000; k += 2) EXPECT_EQ(*table.remove(tokens[k]), k);
  for (int k = 0; k < 500; ++k) table.add(std::make_shared<int>(-1));  // places are used again
  for (int k = 0; k < 1000; ++k) {
    std::atomic<uint32_t>* accesses = nullptr;
    const int* const object = table.access(tokens[k], &accesses);
    ASSERT_EQ(object != nullptr, k % 2 == 1) << k;
    if (object == nullptr) continue;
    EXPECT_EQ(*object, k);
    accesses->fetch_sub(1);
  }
  std::atomic<uint32_t>* accesses = nullptr;
  for (const uintptr_t garbage : {uintptr_t{0}, uintptr_t{1}, uintptr_t{UINT32_MAX}, UINTPTR_MAX}) {
    EXPECT_EQ(table.access(garbage, &accesses), nullptr);
    EXPECT_EQ(table.find(garbage), nullptr);
  }
}

}  // namespace
}  // namespace gq
