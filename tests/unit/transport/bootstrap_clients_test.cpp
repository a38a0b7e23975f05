// Clients of the root that are no ranks of this library: silent, malformed, of other versions, too
// many; and a listener that drops or takes no connections.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/support/clock.h"
#include "src/transport/bootstrap/bootstrap.h"
#include "tests/unit/transport/bootstrap_client.h"
#include "tests/unit/transport/process_group.h"

namespace gq::test {
namespace {

TEST(BootstrapClients, RankGivesUpAsTheLastOneComes_Named) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 3, kJustJoin);
  connect_to_root(id);  // rank 0 listens
  rank0.signal(SIGSTOP);
  const ForkGuard rank1 = join_as_client(id, 1, 3);
  Report impatient;
  impatient.status = GQSGD_TIMEOUT;
  send_bytes(rank1.number(), &impatient, sizeof impatient);
  const ForkGuard rank2 = join_as_client(id, 2, 3);
  rank0.signal(SIGCONT);
  EXPECT_EQ(rank0.line(),
            "TIMEOUT: rank 1 gave up when its time was over, as the last of 3 ranks came; "
            "timeout_ms sets the time");
}

// More than rank 0 accepts between two looks at its clock.
TEST(BootstrapClients, RanksInTheQueueAsTimeEnds_ToldWhy) {
  constexpr uint32_t kRanks = 42, kClients = 40;
  constexpr int64_t kShortMs = 300;
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, kRanks, kJustJoin, kShortMs);
  connect_to_root(id);  // rank 0 listens
  rank0.signal(SIGSTOP);
  std::vector<ForkGuard> clients;
  for (uint32_t rank = 1; rank <= kClients; ++rank) {
    clients.push_back(join_as_client(id, rank, kRanks));
  }
  usleep(1000 * kShortMs);
  rank0.signal(SIGCONT);
  for (const ForkGuard& client : clients) {
    const std::string line = answer_at(client.number());
    EXPECT_TRUE(contains(line, "TIMEOUT: missing ranks: ")) << line;
  }
}

TEST(BootstrapClients, DroppedConnection_ConnectsAgain) {
  const gqsgd_unique_id id = fresh_id();
  Child rank1 = join(id, 1, 2, kJustJoin);  // first, so that it does not hold the listener
  ForkGuard listener;
  ASSERT_EQ(text_of(listen_as(read_id(id), &listener)), "OK");
  int connections = 0;
  for (const uint64_t end_us = deadline_after_ms(10000); connections < 3 && monotonic_us() < end_us;
       usleep(1000)) {
    ForkGuard client;
    Delivery delivery;
    ASSERT_EQ(text_of(accept_client(listener.number(), &client, &delivery)), "OK");
    connections += delivery == Delivery::done ? 1 : 0;
  }
  EXPECT_EQ(connections, 3);
  listener.close_now();
  const std::string line = rank1.line();
  EXPECT_TRUE(contains(line, "PEER_LOST: rank 1: rank 0 has died")) << line;
}

/** Rank 1 of 2; between the two steps of the bootstrap it waits for `proceed`. */
std::string join_in_two_steps(const gqsgd_unique_id& id, Signal* proceed) {
  std::unique_ptr<Bootstrap> bootstrap;
  const JoinToken token{read_id(id), 1, 2, Deadline(deadline_after_ms(kTimeoutMs))};
  EXPECT_EQ(text_of(open_bootstrap(token, &bootstrap)), "OK");
  Member bring{Descriptor(dup(0)), Descriptor(dup(0)), Descriptor(dup(0))};
  GroupMembers group;
  const Status gathered = bootstrap->gather(Status(), std::move(bring), &group);
  if (!gathered.ok() || !proceed->wait()) return "no members: " + text_of(gathered);
  return text_of(bootstrap->conclude(Status()));
}

/** Takes the place of rank 0 up to the list of members. */
ForkGuard send_members_of_two(const ForkGuard& listener) {
  ForkGuard rank1;
  Delivery delivery = Delivery::not_yet;
  while (delivery != Delivery::done) {
    EXPECT_EQ(text_of(accept_client(listener.number(), &rank1, &delivery)), "OK");
  }
  Outcome members;
  members.rank_count = 2;
  const int descriptors[2 * kMemberDescriptors] = {};
  EXPECT_TRUE(send_packet(rank1.number(), &members, sizeof members, descriptors,
                          2 * kMemberDescriptors, &delivery)
                  .ok());
  return rank1;
}

TEST(BootstrapClients, RootGaveUpBeforeTheReport_ReasonReturned) {
  const gqsgd_unique_id id = fresh_id();
  ForkGuard listener;
  ASSERT_EQ(text_of(listen_as(read_id(id), &listener)), "OK");
  Signal proceed;
  Child rank1([&] { return join_in_two_steps(id, &proceed); });
  ForkGuard connection = send_members_of_two(listener);
  Outcome failure;
  failure.status = GQSGD_TIMEOUT;
  strcpy(failure.sentence, "rank 2 took nothing more");
  send_bytes(connection.number(), &failure, sizeof failure);
  connection.close_now();
  proceed.send();
  EXPECT_EQ(rank1.line(), "TIMEOUT: rank 2 took nothing more");
}

// A rank whose time is over says so, and rank 0 may have closed by then without reading that.
TEST(BootstrapClients, RootClosedWithAReportUnread_OutcomeReturned) {
  const gqsgd_unique_id id = fresh_id();
  ForkGuard listener;
  ASSERT_EQ(text_of(listen_as(read_id(id), &listener)), "OK");
  Signal proceed;
  proceed.send();
  Child rank1([&] { return join_in_two_steps(id, &proceed); });
  ForkGuard connection = send_members_of_two(listener);
  JoinRequest join_request;
  Packet packet{&join_request, sizeof join_request, nullptr, 0};
  Delivery delivery = Delivery::not_yet;
  while (delivery == Delivery::not_yet) {
    // Its descriptors have no place here, and are lost.
    (void)receive_packet(connection.number(), &packet, &delivery).ok();
  }
  pollfd report{connection.number(), POLLIN, 0};
  ASSERT_EQ(poll(&report, 1, static_cast<int>(kTimeoutMs)), 1);
  rank1.signal(SIGSTOP);
  usleep(10000);  // it does not read before the connection is closed
  const Outcome formed;
  send_bytes(connection.number(), &formed, sizeof formed);
  connection.close_now();
  rank1.signal(SIGCONT);
  EXPECT_EQ(rank1.line(), "OK");
}

TEST(BootstrapClients, FullQueueOfConnections_Named) {
  const gqsgd_unique_id id = fresh_id();
  ForkGuard listener;
  ASSERT_EQ(text_of(listen_as(read_id(id), &listener)), "OK");
  Delivery delivery = Delivery::done;
  while (delivery == Delivery::done) {
    ForkGuard closed_at_once;
    ASSERT_EQ(text_of(connect_to(read_id(id), &closed_at_once, &delivery)), "OK");
  }
  const std::string line = join(id, 1, 2, kJustJoin, 100).line();
  EXPECT_TRUE(contains(line, "TIMEOUT: rank 1: rank 0 took no connection of this rank")) << line;
}

TEST(BootstrapClients, OtherVersions_ReportedToAllRanks) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 3, kJustJoin), rank1 = join(id, 1, 3, kJustJoin);
  const ForkGuard other = connect_to_root(id);
  JoinRequest join_request = join_request_of(id, 2, 3);
  join_request.library_version = 10400;
  join_request.wire_version = 1;
  send_bytes(other.number(), &join_request, sizeof join_request);
  for (const std::string& line : {rank0.line(), rank1.line(), answer_at(other.number())}) {
    EXPECT_TRUE(contains(line, "VERSION: version: rank 0 has 0.")) << line;
    EXPECT_TRUE(contains(line, "rank 2 has 1.4.0 (wire 1)")) << line;
  }
}

TEST(BootstrapClients, PendingClients_DoNotKeepRanksOut) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kExchange);
  std::vector<ForkGuard> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(connect_to_root(id));
    const std::string junk(static_cast<size_t>(i) * 7 % 300 + 1, static_cast<char>(i));
    if (i % 3 == 0) send_bytes(clients.back().number(), junk.data(), junk.size());
  }
  JoinRequest part = join_request_of(id, 1, 2);
  send_bytes(clients[1].number(), &part, 37);  // a part of a join request
  const uint64_t begin_us = monotonic_us();
  Child rank1 = join(id, 1, 2, kExchange);
  EXPECT_EQ(rank1.line(), "OK");
  EXPECT_EQ(rank0.line(), "OK");
  EXPECT_LT(monotonic_us() - begin_us, 1000000u);
}

TEST(BootstrapClients, SilentClient_DroppedAfterTwoSeconds) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kExchange);
  const ForkGuard silent = connect_to_root(id);
  const uint64_t begin_us = monotonic_us();
  EXPECT_EQ(answer_at(silent.number()), "closed");
  const uint64_t waited_ms = (monotonic_us() - begin_us) / 1000;
  EXPECT_GE(waited_ms, 1900u);
  EXPECT_LT(waited_ms, 4000u);
  Child rank1 = join(id, 1, 2, kExchange);
  EXPECT_EQ(rank1.line(), "OK");
  EXPECT_EQ(rank0.line(), "OK");
}

TEST(BootstrapClients, JoinRequestWithoutDescriptors_Refused) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kExchange);
  const ForkGuard bare = connect_to_root(id);
  const JoinRequest join_request = join_request_of(id, 1, 2);
  send_bytes(bare.number(), &join_request, sizeof join_request);
  const std::string refused = answer_at(bare.number());
  EXPECT_TRUE(contains(refused, "PROTOCOL: rank 1 of 2 came with 0 descriptors")) << refused;
  Child rank1 = join(id, 1, 2, kExchange);
  EXPECT_EQ(rank1.line(), "OK");
  EXPECT_EQ(rank0.line(), "OK");
}

/** Sends this in place of the report of rank 1, and returns the outcome of rank 0. */
std::string root_after_report(const void* bytes, size_t size_bytes) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kJustJoin);
  const ForkGuard client = join_as_client(id, 1, 2);
  pollfd watched{client.number(), POLLIN, 0};
  EXPECT_EQ(poll(&watched, 1, 10000), 1);  // the list of members
  send_bytes(client.number(), bytes, size_bytes);
  return rank0.line();
}

TEST(BootstrapClients, UnsealedMemory_Refused) {
  const Report report;
  const std::string line = root_after_report(&report, sizeof report);
  EXPECT_TRUE(contains(line, "PROTOCOL: what rank 1 sent is not its shared memory")) << line;
}

TEST(BootstrapClients, MalformedReport_Refused) {
  struct {
    Report report;
    int64_t more = 0;
  } sent;
  std::string line = root_after_report(&sent, 1);
  EXPECT_TRUE(contains(line, "PROTOCOL: rank 1 sent 1 bytes that begin with ")) << line;
  line = root_after_report(&sent, sizeof sent);
  EXPECT_TRUE(contains(line, "PROTOCOL: rank 1 sent 16 bytes that begin with 0x65687147")) << line;
  sent.report.magic ^= 1;
  line = root_after_report(&sent, sizeof(Report));
  EXPECT_TRUE(contains(line, "PROTOCOL: rank 1 sent 8 bytes that begin with 0x65687146")) << line;
  EXPECT_TRUE(contains(line, "ready: 8 bytes that begin with 0x65687147")) << line;
}

}  // namespace
}  // namespace gq::test
