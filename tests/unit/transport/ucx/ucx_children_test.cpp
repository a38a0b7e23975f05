// What forked children and executed programs have of their parent's connections over UCX.
#include <dirent.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "tests/support/sanitized.h"
#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/process_group.h"
#include "tests/unit/transport/ucx/ucx_ranks.h"

namespace gq::test {
namespace {

class UcxChildren : public testing::TestWithParam<Wire> {
 protected:
  void SetUp() override { GQ_SKIP_WITHOUT_UCX(); }
};

using Names = std::vector<std::string>;

/** What the kernel names "socket:[1234]" among the open descriptors of this process. */
Names open_sockets() {
  Names found;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* const entry = folder == nullptr ? nullptr : readdir(folder)) {
    char name[256] = {};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(path.c_str(), name, sizeof name - 1) > 0 && strncmp(name, "socket:", 7) == 0) {
      found.push_back(name);
    }
  }
  if (folder != nullptr) closedir(folder);
  std::sort(found.begin(), found.end());
  return found;
}

/** The same, and epoll descriptors and shared memory of UCX, of a program that is executed. */
Names inherited_by_a_program() {
  Names found;
  FILE* const lines = popen("readlink /proc/$$/fd/*", "r");
  char line[256];
  while (lines != nullptr && fgets(line, sizeof line, lines) != nullptr) {
    line[strcspn(line, "\n")] = '\0';
    const std::string name = line;
    for (const char* const kind : {"socket:", "anon_inode:[eventpoll]", "/dev/shm/ucx"}) {
      if (name.rfind(kind, 0) == 0) found.push_back(name);
    }
  }
  if (lines != nullptr) pclose(lines);
  std::sort(found.begin(), found.end());
  return found;
}

std::string listed(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

/** A message that does not fit into the buffers of a connection goes both ways. */
Status exchange_large(UcxRank& rank) {
  const std::string sent = pattern(8 << 20, rank.rank());
  std::string received(sent.size(), 'x');
  UcxRequest send;
  GQ_TRY(rank.engine().start_send(1 - rank.rank(), 5, sent.data(), sent.size(), &send));
  GQ_TRY(rank.receive(1 - rank.rank(), 5, &received));
  GQ_TRY(rank.wait(&send));
  if (received != pattern(8 << 20, 1 - rank.rank())) return fail(GQSGD_INTERNAL, "wrong bytes");
  return rank.barrier();
}

TEST_P(UcxChildren, ForkedChild_HasNoSocketOfItsParent_AndTheGroupContinues) {
  const Names before = open_sockets();
  const auto lines = run_ucx_ranks(2, GetParam(), [&](UcxRank& rank) -> std::string {
    if (const Status status = exchange_large(rank); !status.ok()) return text_of(status);
    if (open_sockets() == before) return "no sockets in the parent";
    Child child([&]() -> std::string {
      return open_sockets() == before ? "OK" : listed(open_sockets());
    });
    if (const std::string line = child.line(); line != "OK") return "child has " + line;
    return text_of(exchange_large(rank));
  });
  EXPECT_EQ(lines, Names(2, "OK"));
}

TEST_P(UcxChildren, ExecutedProgram_GetsNothingOfUcx) {
  const Names before = inherited_by_a_program();
  const auto lines = run_ucx_ranks(2, GetParam(), [&](UcxRank& rank) -> std::string {
    if (const Status status = exchange_large(rank); !status.ok()) return text_of(status);
    if (const Names found = inherited_by_a_program(); found != before) return listed(found);
    return text_of(exchange_large(rank));
  });
  EXPECT_EQ(lines, Names(2, "OK"));
}

TEST_P(UcxChildren, EngineOfAParent_ChildrenMayNotOpenOne_UntilItEnds) {
  SharedArray<PostedAddress> addresses(2);
  const auto lines = run_ucx_ranks(2, GetParam(), [&](UcxRank& rank) -> std::string {
    const auto open_in_child = [&] {
      UcxRank other(rank.rank(), addresses.data(), 2);
      Status status = other.open();
      if (status.ok()) status = other.connect();
      if (status.ok()) status = other.greet();
      if (status.ok()) status = exchange_large(other);
      return text_of(status);
    };
    Child early(open_in_child);
    const std::string refusal = early.line();
    if (refusal.rfind("UNSUPPORTED: ", 0) != 0 || !contains(refusal, "forked child")) {
      return "early child: " + refusal;
    }
    if (const Status status = rank.barrier(); !status.ok()) return text_of(status);
    rank.destroy();
    Child late(open_in_child);
    return late.line();
  });
  EXPECT_EQ(lines, Names(2, "OK"));
}

/** Locks that the other thread has stay locked in the child. */
TEST(UcxOpenedByAnotherThread, ForkedChild_OpensItOrIsRefused) {
  GQ_SKIP_WITHOUT_UCX();
  if (kAddressSanitized || kThreadSanitized) {
    GTEST_SKIP() << "a sanitizer's malloc has locks of its own, which fork() does not hold";
  }
  const auto open = [] {
    std::unique_ptr<UcxEngine> engine;
    return text_of(UcxEngine::open(library_under_test(), 0, 1, &engine));
  };
  for (useconds_t pause_us = 0; pause_us < 10000; pause_us += 500) {
    Child process([&] {
      std::thread opening(open);
      usleep(pause_us);
      Child child([&] {
        alarm(10);
        return open();
      });
      const std::string line = child.line();
      opening.join();
      return line;
    });
    const std::string line = process.line();
    EXPECT_TRUE(line == "OK" || contains(line, "forked child")) << pause_us << " us: " << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Ucx, UcxChildren, testing::ValuesIn(kWires),
                         [](const auto& wire) { return std::string(wire.param.name); });

}  // namespace
}  // namespace gq::test
