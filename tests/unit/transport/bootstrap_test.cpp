// Groups that form late, wrongly or not at all, and pending clients at the door.
#include "src/transport/bootstrap/bootstrap.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/support/clock.h"
#include "src/transport/bootstrap/bootstrap_messages.h"
#include "src/transport/bootstrap/packet_socket.h"
#include "src/transport/bootstrap/unique_id.h"
#include "tests/unit/transport/process_group.h"

namespace gq::test {
namespace {

const RankBody kJustJoin = [](HostTransport&) { return "joined"; };
const RankBody kExchange = [](HostTransport& transport) { return text_of(exchange(transport, 1)); };

UniqueId read_id(const gqsgd_unique_id& bytes) {
  UniqueId id{};
  EXPECT_EQ(text_of(read_unique_id(bytes, &id)), "OK");
  return id;
}

/** A connection to rank 0, which may still be starting. */
Descriptor knock(const gqsgd_unique_id& id) {
  Descriptor socket;
  Delivery delivery = Delivery::not_yet;
  while (delivery != Delivery::done) {
    EXPECT_EQ(text_of(connect_to(read_id(id), &socket, &delivery)), "OK");
    if (delivery != Delivery::done) usleep(1000);
  }
  return socket;
}

void say(int socket, const void* bytes, size_t size_bytes) {
  Delivery delivery;
  EXPECT_EQ(text_of(send_packet(socket, bytes, size_bytes, nullptr, 0, &delivery)), "OK");
}

JoinRequest join_request_of(const gqsgd_unique_id& id, uint32_t rank, uint32_t size) {
  JoinRequest join_request;
  memcpy(join_request.secret, read_id(id).secret, sizeof join_request.secret);
  join_request.rank = rank;
  join_request.size = size;
  return join_request;
}

/** The answer of rank 0: "NAME: sentence", or "closed". */
std::string answer_at(int socket) {
  for (;;) {
    Outcome outcome;
    Packet packet{&outcome, sizeof outcome, nullptr, 0};
    Delivery delivery;
    EXPECT_EQ(text_of(receive_packet(socket, &packet, &delivery)), "OK");
    if (delivery == Delivery::closed) return "closed";
    if (delivery == Delivery::done) return text_of(fail(outcome.status, "%s", outcome.sentence));
    usleep(1000);
  }
}

TEST(Bootstrap, Ids_Fresh_GarbageRefused) {
  const gqsgd_unique_id first = fresh_id(), second = fresh_id();
  EXPECT_NE(memcmp(read_id(first).name, read_id(second).name, sizeof UniqueId{}.name), 0);
  EXPECT_NE(memcmp(read_id(first).secret, read_id(second).secret, sizeof UniqueId{}.secret), 0);
  const gqsgd_unique_id zeros{};
  std::unique_ptr<HostTransport> transport;
  EXPECT_EQ(create_process(zeros, 0, 2, 0, &transport).code(), GQSGD_INVALID_ARGUMENT);
  gqsgd_unique_id later = first;
  later.bytes[4] += 1;
  EXPECT_EQ(create_process(later, 0, 2, 0, &transport).code(), GQSGD_VERSION);
  EXPECT_EQ(create_process(first, 2, 2, 0, &transport).code(), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(create_process(first, 0, 0, 0, &transport).code(), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(create_process(first, 0, 5000, 0, &transport).code(), GQSGD_INVALID_ARGUMENT);
}

TEST(Bootstrap, Ranks_ComeInAnyOrder) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  for (const uint32_t rank : {3u, 1u, 2u, 0u}) {
    ranks.push_back(join(id, rank, 4, kExchange));
    usleep(20000);
  }
  EXPECT_EQ(lines_of(ranks), std::vector<std::string>(4, "OK"));
}

// More than may stand at the door at once, and more than one packet of descriptors.
TEST(Bootstrap, ManyRanks_LetIn) {
  constexpr uint32_t kCrowd = 130;
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  ranks.push_back(join(id, 0, kCrowd, kJustJoin));
  knock(id);  // rank 0 listens
  ranks[0].signal(SIGSTOP);
  for (uint32_t rank = 1; rank < kCrowd; ++rank) {
    ranks.push_back(join(id, rank, kCrowd, kJustJoin));
  }
  usleep(500000);  // all of them queue up
  ranks[0].signal(SIGCONT);
  EXPECT_EQ(lines_of(ranks), std::vector<std::string>(kCrowd, "joined"));
}

TEST(Bootstrap, MissingRanks_NamedToAllInTime) {
  const gqsgd_unique_id id = fresh_id();
  const uint64_t begin_us = monotonic_us();
  std::vector<Child> ranks;
  for (const uint32_t rank : {0u, 1u, 3u, 4u}) ranks.push_back(join(id, rank, 6, kJustJoin, 300));
  for (const std::string& line : lines_of(ranks)) {
    EXPECT_TRUE(contains(line, "TIMEOUT: missing ranks: 2,5; 2 of 6")) << line;
  }
  const uint64_t waited_ms = (monotonic_us() - begin_us) / 1000;
  EXPECT_GE(waited_ms, 300u);
  EXPECT_LT(waited_ms, 1300u) << "300 ms and the scheduler";
  EXPECT_EQ(names_left(id), 0u);
}

TEST(Bootstrap, JoinerWithTheShortestTimeout_EndsItForAll) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  ranks.push_back(join(id, 0, 3, kJustJoin));
  ranks.push_back(join(id, 1, 3, kJustJoin, 200));
  for (const std::string& line : lines_of(ranks)) {
    EXPECT_TRUE(contains(line, "TIMEOUT: missing ranks: 2;")) << line;
  }
}

TEST(Bootstrap, MissingRankZero_Named) {
  Child rank = join(fresh_id(), 1, 2, kJustJoin, 100);
  const std::string line = rank.line();
  EXPECT_TRUE(contains(line, "TIMEOUT: rank 1: missing ranks: 0")) << line;
}

TEST(Bootstrap, Timeout_SaysThatAGroupIsForOneMachine) {
  const std::string hint = "a process group is for one machine and one network namespace";
  Child rank0 = join(fresh_id(), 0, 2, kJustJoin, 100),
        rank1 = join(fresh_id(), 1, 2, kJustJoin, 100);
  for (const std::string& line : {rank0.line(), rank1.line()}) {
    EXPECT_TRUE(contains(line, "TIMEOUT: ")) << line;
    EXPECT_TRUE(contains(line, hint)) << line;
  }
}

TEST(Bootstrap, ManyMissingRanks_OneCompleteSentence) {
  const std::string line = join(fresh_id(), 0, 300, kJustJoin, 100).line();
  EXPECT_EQ(line,
            "TIMEOUT: missing ranks: 1-299; 299 of 300 did not come in the time allowed; a "
            "process group is for one machine and one network namespace");
}

/** A rank of the test's own that has joined: its descriptors are the ends of a pipe. */
Descriptor fake_rank(const gqsgd_unique_id& id, uint32_t rank, uint32_t size) {
  Descriptor socket = knock(id);
  const JoinRequest join_request = join_request_of(id, rank, size);
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  Delivery delivery;
  const int brought[kMemberDescriptors] = {ends[0], ends[1], ends[0]};
  EXPECT_TRUE(send_packet(socket.number(), &join_request, sizeof join_request, brought,
                          kMemberDescriptors, &delivery)
                  .ok());
  close(ends[0]);
  close(ends[1]);
  return socket;
}

TEST(Bootstrap, RankGivesUpAsTheLastOneComes_Named) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 3, kJustJoin);
  knock(id);  // rank 0 listens
  rank0.signal(SIGSTOP);
  const Descriptor rank1 = fake_rank(id, 1, 3);
  Report impatient;
  impatient.status = GQSGD_TIMEOUT;
  say(rank1.number(), &impatient, sizeof impatient);
  const Descriptor rank2 = fake_rank(id, 2, 3);
  rank0.signal(SIGCONT);
  EXPECT_EQ(rank0.line(),
            "TIMEOUT: rank 1 gave up when its time was over, as the last of 3 ranks came; "
            "timeout_ms sets the time");
}

TEST(Bootstrap, DroppedConnection_ConnectsAgain) {
  const gqsgd_unique_id id = fresh_id();
  Child rank1 = join(id, 1, 2, kJustJoin);  // first, so that it does not hold the listener
  Descriptor listener;
  ASSERT_EQ(text_of(listen_as(read_id(id), &listener)), "OK");
  int connections = 0;
  for (const uint64_t end_us = deadline_after_ms(10000); connections < 3 && monotonic_us() < end_us;
       usleep(1000)) {
    Descriptor client;
    Delivery delivery;
    ASSERT_EQ(text_of(accept_client(listener.number(), &client, &delivery)), "OK");
    connections += delivery == Delivery::done ? 1 : 0;
  }
  EXPECT_EQ(connections, 3);
  listener.reset();
  const std::string line = rank1.line();
  EXPECT_TRUE(contains(line, "PEER_LOST: rank 1: rank 0 has died")) << line;
}

TEST(Bootstrap, FullQueueOfConnections_Named) {
  const gqsgd_unique_id id = fresh_id();
  Descriptor listener;
  ASSERT_EQ(text_of(listen_as(read_id(id), &listener)), "OK");
  Delivery delivery = Delivery::done;
  while (delivery == Delivery::done) {
    Descriptor closed_at_once;
    ASSERT_EQ(text_of(connect_to(read_id(id), &closed_at_once, &delivery)), "OK");
  }
  const std::string line = join(id, 1, 2, kJustJoin, 100).line();
  EXPECT_TRUE(contains(line, "TIMEOUT: rank 1: rank 0 took no connection of this rank")) << line;
}

TEST(Bootstrap, SizesThatDiffer_ReportedToAllRanks) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ranks.push_back(join(id, rank, rank == 3 ? 5 : 4, kJustJoin));
  }
  for (const std::string& line : lines_of(ranks)) {
    EXPECT_TRUE(contains(line, "MISMATCH: size: rank 0 = 4, rank 3 = 5")) << line;
  }
}

TEST(Bootstrap, LateDuplicate_Refused_OthersContinue) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  ranks.push_back(join(id, 0, 3, kExchange));
  ranks.push_back(join(id, 1, 3, kExchange));
  usleep(100000);
  Child second_1 = join(id, 1, 3, kJustJoin);
  const std::string refused = second_1.line();
  EXPECT_TRUE(contains(refused, "DUPLICATE_RANK: rank 1 is taken by process ")) << refused;
  Child second_0 = join(id, 0, 3, kJustJoin);
  const std::string refused_0 = second_0.line();
  EXPECT_TRUE(contains(refused_0, "DUPLICATE_RANK: rank 0 is taken")) << refused_0;
  ranks.push_back(join(id, 2, 3, kExchange));
  EXPECT_EQ(lines_of(ranks), std::vector<std::string>(3, "OK"));
}

TEST(Bootstrap, WrongSecret_Refused_OthersContinue) {
  const gqsgd_unique_id id = fresh_id();
  gqsgd_unique_id wrong = id;
  wrong.bytes[offsetof(UniqueId, secret) + 31] ^= 1;
  Child rank0 = join(id, 0, 2, kExchange);
  Child intruder = join(wrong, 1, 2, kJustJoin);
  const std::string refused = intruder.line();
  EXPECT_TRUE(contains(refused, "INVALID_ARGUMENT: the secret in unique_id")) << refused;
  Child rank1 = join(id, 1, 2, kExchange);
  EXPECT_EQ(rank0.line(), "OK");
  EXPECT_EQ(rank1.line(), "OK");
}

TEST(Bootstrap, OtherVersions_ReportedToAllRanks) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 3, kJustJoin), rank1 = join(id, 1, 3, kJustJoin);
  const Descriptor other = knock(id);
  JoinRequest join_request = join_request_of(id, 2, 3);
  join_request.library_version = 10400;
  join_request.wire_version = 1;
  say(other.number(), &join_request, sizeof join_request);
  for (const std::string& line : {rank0.line(), rank1.line(), answer_at(other.number())}) {
    EXPECT_TRUE(contains(line, "VERSION: version: rank 0 has 0.")) << line;
    EXPECT_TRUE(contains(line, "rank 2 has 1.4.0 (wire 1)")) << line;
  }
}

TEST(Bootstrap, PendingClients_DoNotKeepRanksOut) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kExchange);
  std::vector<Descriptor> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(knock(id));
    const std::string junk(static_cast<size_t>(i) * 7 % 300 + 1, static_cast<char>(i));
    if (i % 3 == 0) say(clients.back().number(), junk.data(), junk.size());
  }
  JoinRequest part = join_request_of(id, 1, 2);
  say(clients[1].number(), &part, 37);  // half a hello
  const uint64_t begin_us = monotonic_us();
  Child rank1 = join(id, 1, 2, kExchange);
  EXPECT_EQ(rank1.line(), "OK");
  EXPECT_EQ(rank0.line(), "OK");
  EXPECT_LT(monotonic_us() - begin_us, 1000000u);
}

TEST(Bootstrap, SilentClient_DroppedAfterTwoSeconds) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kExchange);
  const Descriptor silent = knock(id);
  const uint64_t begin_us = monotonic_us();
  EXPECT_EQ(answer_at(silent.number()), "closed");
  const uint64_t waited_ms = (monotonic_us() - begin_us) / 1000;
  EXPECT_GE(waited_ms, 1900u);
  EXPECT_LT(waited_ms, 4000u);
  Child rank1 = join(id, 1, 2, kExchange);
  EXPECT_EQ(rank1.line(), "OK");
  EXPECT_EQ(rank0.line(), "OK");
}

TEST(Bootstrap, JoinRequestWithoutDescriptors_Refused) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kExchange);
  const Descriptor bare = knock(id);
  const JoinRequest join_request = join_request_of(id, 1, 2);
  say(bare.number(), &join_request, sizeof join_request);
  const std::string refused = answer_at(bare.number());
  EXPECT_TRUE(contains(refused, "PROTOCOL: rank 1 of 2 came with 0 descriptors")) << refused;
  Child rank1 = join(id, 1, 2, kExchange);
  EXPECT_EQ(rank1.line(), "OK");
  EXPECT_EQ(rank0.line(), "OK");
}

TEST(Bootstrap, UnsealedMemory_Refused) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kJustJoin);
  const Descriptor impostor = knock(id);
  const JoinRequest join_request = join_request_of(id, 1, 2);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Delivery delivery;
  const int brought[] = {ends[0], ends[1], ends[0]};
  ASSERT_TRUE(
      send_packet(impostor.number(), &join_request, sizeof join_request, brought, 3, &delivery)
          .ok());
  pollfd watched{impostor.number(), POLLIN, 0};
  ASSERT_EQ(poll(&watched, 1, 10000), 1);  // the list of members
  const Report report;
  say(impostor.number(), &report, sizeof report);
  const std::string line = rank0.line();
  EXPECT_TRUE(contains(line, "PROTOCOL: what rank 1 sent is not its shared memory")) << line;
  close(ends[0]);
  close(ends[1]);
}

/** What rank 0 says of a client that knows the secret, joins as rank 1 and sends this when it has
 *  the list of members. */
std::string root_after_report(const void* bytes, size_t size_bytes) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2, kJustJoin);
  const Descriptor client = knock(id);
  const JoinRequest join_request = join_request_of(id, 1, 2);
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  Delivery delivery;
  const int brought[] = {ends[0], ends[1], ends[0]};
  EXPECT_TRUE(
      send_packet(client.number(), &join_request, sizeof join_request, brought, 3, &delivery).ok());
  pollfd watched{client.number(), POLLIN, 0};
  EXPECT_EQ(poll(&watched, 1, 10000), 1);  // the list of members
  say(client.number(), bytes, size_bytes);
  close(ends[0]);
  close(ends[1]);
  return rank0.line();
}

TEST(Bootstrap, ReportThatIsNone_Refused) {
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

TEST(Bootstrap, RankKilledWhileTheGroupForms_Named) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 4, kJustJoin), rank1 = join(id, 1, 4, kJustJoin);
  Child rank2 = join(id, 2, 4, kJustJoin);
  usleep(150000);
  rank2.signal(SIGKILL);
  for (const std::string& line : {rank0.line(), rank1.line()}) {
    EXPECT_TRUE(contains(line, "PEER_LOST: rank 2 died while the group formed")) << line;
  }
}

TEST(Bootstrap, RootKilledWhileTheGroupForms_Named) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 3, kJustJoin), rank1 = join(id, 1, 3, kJustJoin);
  usleep(150000);
  rank0.signal(SIGKILL);
  const std::string line = rank1.line();
  EXPECT_TRUE(contains(line, "PEER_LOST: rank 1: rank 0 has died")) << line;
}

// At some point between connecting and the end of the bootstrap.
TEST(Bootstrap, DeathAtAnyMoment_EndsInAStatus) {
  for (useconds_t delay_us = 0; delay_us < 6000; delay_us += 150) {
    const gqsgd_unique_id id = fresh_id();
    Child rank0 = join(id, 0, 3, kExchange, 500), rank1 = join(id, 1, 3, kExchange, 500);
    Child rank2 = join(id, 2, 3, kExchange, 500);
    usleep(delay_us);
    const bool kills_host = delay_us % 300 == 0;
    (kills_host ? rank0 : rank2).signal(SIGKILL);
    for (const std::string& line : {kills_host ? rank2.line() : rank0.line(), rank1.line()}) {
      EXPECT_TRUE(line == "OK" || contains(line, "PEER_LOST: ") || contains(line, "TIMEOUT: "))
          << "killed after " << delay_us << " us: " << line;
    }
  }
}

}  // namespace
}  // namespace gq::test
