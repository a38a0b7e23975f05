// Groups of processes at work: words and control messages cross, arenas grow, nothing stays behind.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <thread>

#include "src/support/clock.h"
#include "tests/unit/transport/process_group.h"

namespace gq::test {
namespace {

std::string exchange_often(HostTransport& transport, uint64_t count, size_t message_bytes) {
  for (uint64_t sequence = 1; sequence <= count; ++sequence) {
    const Status status = exchange(transport, sequence, message_bytes);
    if (!status.ok()) return text_of(status);
  }
  const TransportCounters counters = transport.counters();
  const uint64_t peers = transport.size() - 1;
  if (counters.messages_sent != count * peers) return "miscounted messages";
  if (counters.payload_bytes_sent != count * peers * message_bytes) return "miscounted bytes";
  return counters.payload_bytes_copied == 0 ? "OK" : "copied between ranks";
}

TEST(Process, OneToEightRanks_ExchangeCodes) {
  for (uint32_t size = 1; size <= 8; ++size) {
    const gqsgd_unique_id id = fresh_id();
    const auto body = [](HostTransport& transport) { return exchange_often(transport, 50, 4096); };
    auto children = join_all(size, body, id);
    EXPECT_EQ(lines_of(children), std::vector<std::string>(size, "OK")) << size << " ranks";
    EXPECT_EQ(names_left(id), 0u);
  }
}

TEST(Process, ArenasGrow_PeersFollow) {
  auto children = join_all(3, [](HostTransport& transport) {
    for (uint64_t sequence = 1; sequence <= 40; ++sequence) {
      const size_t message_bytes = (sequence * sequence * 997) & ~size_t{3};
      const Status status = exchange(transport, sequence, message_bytes);
      if (!status.ok()) return text_of(status);
    }
    return std::string("OK");
  });
  EXPECT_EQ(lines_of(children), std::vector<std::string>(3, "OK"));
}

TEST(Process, Tags_EqualInAGroup_DifferBetweenGroups) {
  const auto tag = [](HostTransport& transport) { return std::to_string(transport.tag()); };
  auto first = join_all(3, tag), second = join_all(2, tag);
  const auto a = lines_of(first), b = lines_of(second);
  EXPECT_EQ(a[0], a[1]);
  EXPECT_EQ(a[0], a[2]);
  EXPECT_EQ(b[0], b[1]);
  EXPECT_NE(a[0], b[0]);
}

// Ranks may also be threads of one process: then every descriptor and mapping is counted here.
void make_and_destroy(uint64_t operations) {
  const gqsgd_unique_id id = fresh_id();
  std::string lines[2];
  const auto body = [&](uint32_t rank) {
    std::unique_ptr<HostTransport> transport;
    const Status status = create_process(id, rank, 2, kTimeoutMs, &transport);
    lines[rank] = status.ok() ? exchange_often(*transport, operations, 64) : text_of(status);
  };
  std::thread other([&] { body(1); });
  body(0);
  other.join();
  ASSERT_EQ(lines[0], "OK");
  ASSERT_EQ(lines[1], "OK");
}

TEST(Process, ThreeHundredGroups_NothingLeftBehind) {
  make_and_destroy(2);
  const Footprint before = footprint();
  const size_t heap_bytes = mallinfo2().uordblks;
  for (int cycle = 0; cycle < 300; ++cycle) make_and_destroy(2);
  const Footprint after = footprint();
  EXPECT_EQ(before.descriptors, after.descriptors);
  EXPECT_EQ(before.threads, after.threads);
  EXPECT_EQ(after.mappings, 0u);
  EXPECT_LE(mallinfo2().uordblks, heap_bytes + 4096) << "less than a group's own memory";
}

TEST(Process, ArenaBeyondTheMachine_NoMemory) {
  auto children = join_all(1, [](HostTransport& transport) {
    unsigned char* base = nullptr;
    std::string line = text_of(transport.arena(size_t{1} << 39, &base));
    return line + " | " + text_of(transport.arena(size_t{1} << 41, &base)) + " | " +
           text_of(exchange(transport, 1));
  });
  const std::string line = lines_of(children)[0];
  EXPECT_TRUE(contains(line, "NO_MEMORY: committing 549755813888 bytes of shared memory")) << line;
  EXPECT_TRUE(contains(line, "NO_RESOURCE: shared memory of 2199023255552 bytes")) << line;
  EXPECT_TRUE(contains(line, "| OK")) << line;
}

TEST(Process, FileSizeLimit_ObservedWithoutASignal) {
  const gqsgd_unique_id id = fresh_id();
  Child child([&] {
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::unique_ptr<HostTransport> transport;
    const Status status = create_process(id, 0, 1, kTimeoutMs, &transport);
    if (!status.ok()) return text_of(status);
    unsigned char* base = nullptr;
    const std::string line = text_of(transport->arena(2 << 20, &base));
    return line + " | " + text_of(transport->arena(100000, &base));
  });
  const std::string line = child.line();
  EXPECT_TRUE(contains(line, "NO_RESOURCE: shared memory of 2097152 bytes, where at most 10"))
      << line;
  EXPECT_TRUE(contains(line, "ulimit -f")) << line;
  EXPECT_TRUE(contains(line, "| OK")) << line;
}

TEST(Process, DescriptorLimit_ReportedWithItsNumbersToAllRanks) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, [](HostTransport&) { return "joined"; });
  Child rank1([&] {
    const rlimit limit{14, 14};
    setrlimit(RLIMIT_NOFILE, &limit);
    std::unique_ptr<HostTransport> transport;
    return text_of(create_process(id, 1, 2, kTimeoutMs, &transport));
  });
  const std::string own = rank1.line(), other = rank0.line();
  EXPECT_TRUE(contains(own, "NO_RESOURCE: needs ")) << own;
  EXPECT_TRUE(contains(own, " more descriptors, limit 14: 12 for a group of 2 ranks")) << own;
  EXPECT_TRUE(contains(other, "REMOTE_ERROR: rank 1 could not join: NO_RESOURCE")) << other;
}

}  // namespace
}  // namespace gq::test
