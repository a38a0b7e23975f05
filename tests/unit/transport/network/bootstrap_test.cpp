// Groups that form, and groups that cannot.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "src/support/clock.h"
#include "src/transport/network/bootstrap/host_identity.h"
#include "src/transport/network/bootstrap/link_setup.h"
#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/network/formed_group.h"

namespace gq::test {
namespace {

bool begins(const Status& status, const std::string& text) {
  return text_of(status).rfind(text, 0) == 0;
}

bool contains(const Status& status, const std::string& text) {
  return text_of(status).find(text) != std::string::npos;
}

TEST(NetworkBootstrap, AnyNumberOfRanks_AllConnected) {
  for (uint32_t size = 2; size <= 12; ++size) {
    GroupPlan plan(size);
    EXPECT_EQ(fault_of(form_all(plan)), "") << size << " ranks";
  }
}

TEST(NetworkBootstrap, GroupsAtOneAddress_OneAfterTheOther) {
  GroupPlan plan(3);
  const NetworkAddress root = plan.root();
  EXPECT_EQ(fault_of(form_all(plan)), "");
  std::unique_ptr<TcpSocket> listener;
  NetworkAddress bound;
  EXPECT_EQ(text_of(listen_at(root, &listener, &bound)), "OK");
}

/** What a rank gets that comes with another token, while a group of three forms without it. */
Status refused_with(const std::function<void(NetworkToken*)>& change) {
  GroupPlan plan(3);
  std::vector<FormedRank> ranks(3);
  std::vector<std::thread> threads;
  const auto begin = [&](uint32_t rank) {
    auto token = std::make_shared<NetworkToken>(plan.token(rank));
    threads.emplace_back([&ranks, rank, token] { ranks[rank] = form_rank(std::move(*token)); });
  };
  begin(0);
  begin(1);
  NetworkToken wrong = plan.token(2);
  change(&wrong);
  const FormedRank refused = form_rank(std::move(wrong));
  begin(2);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fault_of(ranks), "");
  return refused.status;
}

TEST(NetworkBootstrap, WrongSecret_RefusedAlone) {
  const Status status = refused_with([](NetworkToken* token) { token->secret.key.bytes[31] ^= 1; });
  EXPECT_TRUE(begins(status, "INVALID_ARGUMENT: rank 2: the process at 127.0.0.1:"))
      << text_of(status);
  EXPECT_TRUE(contains(status, "GQSGD_SECRET")) << text_of(status);
}

TEST(NetworkBootstrap, WrongGroup_RefusedAlone) {
  const Status status = refused_with([](NetworkToken* token) { token->secret.name[3] = 9; });
  EXPECT_TRUE(begins(status, "INVALID_ARGUMENT: rank 2")) << text_of(status);
}

TEST(NetworkBootstrap, RanksMissing_NamedOnAllOthers) {
  GroupPlan plan(6, 1000);
  const std::vector<FormedRank> ranks = form_all(plan, nullptr, {2, 4, 5});
  for (const uint32_t rank : {0, 1, 3}) {
    EXPECT_TRUE(begins(ranks[rank].status, "TIMEOUT: missing ranks: 2,4-5; 3 of 6"))
        << rank << ": " << text_of(ranks[rank].status);
    EXPECT_TRUE(contains(ranks[rank].status, "to rank 0 at 127.0.0.1:"))
        << text_of(ranks[rank].status);
  }
}

TEST(NetworkBootstrap, RankZeroMissing_Named) {
  GroupPlan plan(3, 20000);
  plan.token(0);  // its listener ends
  const std::vector<FormedRank> ranks = form_all(plan, nullptr, {0});
  for (const uint32_t rank : {1, 2}) {
    EXPECT_TRUE(begins(ranks[rank].status, "TIMEOUT: missing ranks: 0; rank")) << rank;
    EXPECT_TRUE(contains(ranks[rank].status, "Connection refused")) << text_of(ranks[rank].status);
  }
}

/** An address of a host that does not answer: connections are established and nothing is read, or
 *  (`swallows`) the packets of a connection are dropped, because the queue of one is full. */
class SilentAddress {
 public:
  SilentAddress(const NetworkAddress& host, bool swallows) : address_(host) {
    address_.port = 0;
    EXPECT_EQ(text_of(listen_at(address_, &listener_, &address_)), "OK");
    if (!swallows) return;
    EXPECT_EQ(listen(listener_->number(), 0), 0);
    filler_ = connect_plainly(address_);
    std::unique_ptr<TcpSocket> next;
    int error = 0;
    EXPECT_EQ(text_of(begin_connect(address_, &next, &error)), "OK");
    pollfd writable{next->number(), POLLOUT, 0};
    EXPECT_EQ(poll(&writable, 1, 20), 0) << "its queue is not full";
  }
  ~SilentAddress() {
    if (filler_ >= 0) close(filler_);
  }
  const NetworkAddress& get() const { return address_; }

 private:
  NetworkAddress address_;
  std::unique_ptr<TcpSocket> listener_;
  int filler_ = -1;
};

/** Rank 0 is late, so that rank 2 leaves its right address once, and comes back to it. */
TEST(NetworkBootstrap, AddressesWithoutAnswer_LeftForTheOthers) {
  GroupPlan plan(4);
  const SilentAddress swallows(plan.root(), true), silent(plan.root(), false);
  std::vector<FormedRank> ranks(4);
  std::vector<std::thread> threads;
  for (const uint32_t rank : {1, 2, 3, 0}) {
    auto token = std::make_shared<NetworkToken>(plan.token(rank));
    if (rank == 1) token->root = {swallows.get(), plan.root()};
    if (rank == 2) token->root = {plan.root(), swallows.get()};
    if (rank == 3) token->root = {silent.get(), plan.root()};
    if (rank == 0) usleep(1200000);
    threads.emplace_back([&ranks, rank, token] { ranks[rank] = form_rank(std::move(*token)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fault_of(ranks), "");
}

/** As the IPv6 address of a name on a machine whose kernel has no IPv6. */
NetworkAddress address_of_no_family() {
  NetworkAddress address;
  address.family = AF_MAX;
  return address;
}

TEST(NetworkBootstrap, AddressThatTheKernelDoesNotKnow_LeftForTheOthers) {
  GroupPlan plan(2);
  const auto ranks = form_all(plan, [](uint32_t rank, NetworkToken* token) {
    if (rank == 1) token->root = {address_of_no_family(), token->root[0]};
  });
  EXPECT_EQ(fault_of(ranks), "");
}

TEST(NetworkBootstrap, NoAddressThatTheKernelKnows_FailsAtOnce) {
  GroupPlan plan(2, 60000);
  NetworkToken token = plan.token(1);
  token.root.assign(2, address_of_no_family());
  const uint64_t begin_us = monotonic_us();
  const Status status = form_rank(std::move(token)).status;
  EXPECT_TRUE(begins(status, "SYSTEM: ") && contains(status, "Address family not supported"))
      << text_of(status);
  EXPECT_LT(monotonic_us() - begin_us, uint64_t{20000000});
}

/** Takes one connection and answers its proof late, and without a digest; false if the rank left
 *  before it sent the proof. */
bool answer_late(const TcpSocket& listener) {
  pollfd readable{listener.number(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 20000), 1);
  const int number = accept(listener.number(), nullptr, nullptr);
  Hello hello;
  Proof proof;
  const Challenge challenge;
  const Welcome without_digest;
  recv(number, &hello, sizeof hello, MSG_WAITALL);
  send(number, &challenge, sizeof challenge, MSG_NOSIGNAL);
  const bool is_proved = recv(number, &proof, sizeof proof, MSG_WAITALL) == sizeof proof;
  if (is_proved) usleep(1200000);
  send(number, &without_digest, sizeof without_digest, MSG_NOSIGNAL);
  close(number);
  return is_proved;
}

/** To leave then would be the death of a rank, since rank 0 may know it by its proof. */
TEST(NetworkBootstrap, AddressSlowAfterTheProof_NotLeft) {
  GroupPlan plan(2);
  const SilentAddress swallows(plan.root(), true);
  const NetworkToken root = plan.token(0);
  NetworkToken token = plan.token(1);
  token.root.push_back(swallows.get());
  FormedRank formed;
  std::thread thread([&] { formed = form_rank(std::move(token)); });
  int count = 1;
  while (!answer_late(*root.listener) && count < 5) count += 1;  // a loaded machine
  thread.join();
  EXPECT_EQ(formed.status.code(), GQSGD_INVALID_ARGUMENT) << "it reads the welcome: "
                                                          << text_of(formed.status);
}

TEST(NetworkBootstrap, RankTwice_SecondRefused) {
  GroupPlan plan(3);
  std::atomic<int> ended_count{0};
  std::vector<FormedRank> ranks(4);
  std::vector<std::thread> threads;
  const auto begin = [&](uint32_t rank, size_t place) {
    auto token = std::make_shared<NetworkToken>(plan.token(rank));
    threads.emplace_back([&ranks, &ended_count, place, token] {
      ranks[place] = form_rank(std::move(*token));
      ended_count += 1;
    });
  };
  begin(0, 0);
  begin(1, 1);
  begin(1, 2);
  while (ended_count == 0) usleep(1000);  // the one that is refused
  begin(2, 3);
  for (std::thread& thread : threads) thread.join();
  const bool is_first = !ranks[1].status.ok();
  const FormedRank& refused = ranks[is_first ? 1 : 2];
  EXPECT_TRUE(begins(refused.status, "DUPLICATE_RANK: rank 1 is taken")) << text_of(refused.status);
  for (const size_t place : {size_t{0}, size_t{is_first ? 2u : 1u}, size_t{3}}) {
    EXPECT_EQ(text_of(ranks[place].status), "OK") << place;
  }
}

/** Rank 0 of three, on a thread; its time is up when the test says so. */
class ImpatientRoot {
 public:
  ImpatientRoot() : plan(3) {
    auto token = std::make_shared<NetworkToken>(plan.token(0));
    token->deadline = Deadline(deadline_after_ms(20000), {is_set, &is_over_});
    thread_ = std::thread([this, token] { formed_ = form_rank(std::move(*token)); });
  }
  /** To be called, once. */
  Status end() {
    is_over_ = true;
    thread_.join();
    return formed_.status;
  }
  GroupPlan plan;

 private:
  static bool is_set(void* flag) { return *static_cast<std::atomic<bool>*>(flag); }

  std::atomic<bool> is_over_{false};
  FormedRank formed_;
  std::thread thread_;
};

/** Sends what is no hello, and waits until the connection ends. */
void send_junk(const NetworkAddress& root) {
  const int number = connect_plainly(root);
  std::string junk = "\x1b[31m%s\n";
  junk.resize(sizeof(Hello), 'j');
  EXPECT_EQ(send(number, junk.data(), junk.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(junk.size()));
  char answer = 0;
  EXPECT_LE(recv(number, &answer, 1, 0), 0);
  close(number);
}

TEST(NetworkBootstrap, WrongSecretOfMissingRank_SentenceSaysSo) {
  for (const int count : {1, 2}) {
    ImpatientRoot root;
    send_junk(root.plan.root());
    close(connect_plainly(root.plan.root()));  // goes away, and is not counted
    for (int k = 0; k < count; ++k) {
      NetworkToken wrong = root.plan.token(2);
      wrong.secret.key.bytes[0] ^= 1;
      EXPECT_EQ(form_rank(std::move(wrong)).status.code(), GQSGD_INVALID_ARGUMENT);
    }
    const Status status = root.end();
    EXPECT_TRUE(begins(status, "TIMEOUT: missing ranks: 1-2; 2 of 3")) << text_of(status);
    EXPECT_TRUE(contains(status, "open to them? " + std::to_string(count + 1) +
                                     " connections were refused, the last from 127.0.0.1:"))
        << text_of(status);
    EXPECT_TRUE(contains(status, ": it does not know the secret of this group (another id, "
                                 "GQSGD_SECRET or job)"))
        << text_of(status);
  }
}

TEST(NetworkBootstrap, JunkWhileRanksAreMissing_SentenceHasNoneOfIt) {
  ImpatientRoot root;
  send_junk(root.plan.root());
  const Status status = root.end();
  EXPECT_TRUE(contains(status, "? 1 connection was refused, from 127.0.0.1:")) << text_of(status);
  EXPECT_TRUE(contains(status, ": it is no rank of a group")) << text_of(status);
  for (const char* const piece : {"\x1b", "[31m", "jjj", "\n"}) {
    EXPECT_FALSE(contains(status, piece)) << text_of(status);
  }
}

TEST(NetworkBootstrap, RankTwiceAndOneMissing_BothSentencesSaySo) {
  ImpatientRoot root;
  std::atomic<int> ended_count{0};
  Status ends[2];
  std::vector<std::thread> threads;
  for (Status& end : ends) {
    auto token = std::make_shared<NetworkToken>(root.plan.token(1));
    threads.emplace_back([&, token] {
      end = form_rank(std::move(*token)).status;
      ended_count += 1;
    });
  }
  while (ended_count == 0) usleep(1000);  // the one that is refused
  const std::string expected = text_of(root.end());
  for (std::thread& thread : threads) thread.join();
  const bool is_first = ends[0].code() == GQSGD_DUPLICATE_RANK;
  EXPECT_EQ(ends[is_first ? 0 : 1].code(), GQSGD_DUPLICATE_RANK) << text_of(ends[1]);
  EXPECT_EQ(text_of(ends[is_first ? 1 : 0]), expected) << "rank 0's, word for word";
  EXPECT_NE(expected.find("? 1 connection was refused, from 127.0.0.1:"), std::string::npos);
  EXPECT_NE(expected.find(": it has the rank of another process"), std::string::npos) << expected;
}

/** A connection to `address` on which this end has proved that it knows the secret. */
std::unique_ptr<TcpSocket> come(const NetworkToken& token, const NetworkAddress& address,
                                Hello hello) {
  std::unique_ptr<TcpSocket> socket;
  int error = 0;
  EXPECT_EQ(text_of(begin_connect(address, &socket, &error)), "OK");
  hello.rank = token.rank;
  hello.size = token.size;
  Handshake handshake;
  EXPECT_EQ(text_of(handshake.connect(token.secret, hello)), "OK");
  auto state = Handshake::State::under_way;
  while (state == Handshake::State::under_way) {
    EXPECT_EQ(text_of(handshake.advance(*socket, &state)), "OK");
  }
  EXPECT_EQ(state, Handshake::State::done);
  return socket;
}

/** Joins, and gives up in the moment in which rank 0 hands out the table. */
void come_and_give_up(const NetworkToken& token) {
  const std::unique_ptr<TcpSocket> socket = come(token, token.root[0], Hello());
  const NetworkReport joins;
  NetworkReport gives_up;
  gives_up.status = GQSGD_TIMEOUT;
  NetworkMember member;
  EXPECT_EQ(text_of(identify_host(token.secret.hmac, "", &member)), "OK");
  NetworkAddress host = token.root[0];
  host.port = 0;
  std::unique_ptr<TcpSocket> listener;
  EXPECT_EQ(text_of(listen_at(host, &listener, &member.address)), "OK");
  EXPECT_EQ(send(socket->number(), &joins, sizeof joins, MSG_NOSIGNAL), ssize_t{sizeof joins});
  EXPECT_EQ(send(socket->number(), &member, sizeof member, MSG_NOSIGNAL), ssize_t{sizeof member});
  pollfd table{socket->number(), POLLIN, 0};
  EXPECT_EQ(poll(&table, 1, 20000), 1);
  EXPECT_EQ(send(socket->number(), &gives_up, sizeof gives_up, MSG_NOSIGNAL),
            ssize_t{sizeof gives_up});
  char bytes[512];
  size_t done_bytes = 0;
  while (receive_rest(*socket, bytes, sizeof bytes, &done_bytes) != SocketTransfer::closed) {
    usleep(1000);
  }
}

TEST(NetworkBootstrap, RankGivesUpAsTheLastOneComes_TimeoutNamesIt) {
  GroupPlan plan(3);
  const NetworkToken token = plan.token(1);
  std::thread impatient([&] { come_and_give_up(token); });
  const auto ranks = form_all(plan, nullptr, {1});
  impatient.join();
  for (const uint32_t rank : {0, 2}) {
    EXPECT_TRUE(begins(ranks[rank].status,
                       "TIMEOUT: rank 1 gave up when its time was over, as the last of 3"))
        << rank << ": " << text_of(ranks[rank].status);
  }
}

void come_and_die(const NetworkToken& token) { come(token, token.root[0], Hello()); }

TEST(NetworkBootstrap, RankDiesWhileItForms_NamedOnAll) {
  GroupPlan plan(4);
  const NetworkToken token = plan.token(1);
  std::thread dying([&] { come_and_die(token); });
  const auto ranks = form_all(plan, nullptr, {1, 3});
  dying.join();
  for (const uint32_t rank : {0, 2}) {
    EXPECT_TRUE(begins(ranks[rank].status, "PEER_LOST: rank 1 (127.0.0.1:")) << rank;
  }
}

/** Connects to another rank until that one has all of it, and ends. */
void connect_and_leave(const NetworkToken& token, uint32_t to_rank, const NetworkTable& table) {
  Hello hello;
  hello.purpose = HelloPurpose::mesh;
  hello.to_rank = to_rank;
  const auto socket = come(token, table.members[to_rank].address, hello);
  const std::vector<unsigned char> own = engine_message(std::vector<unsigned char>(10));
  LinkSetup setup;
  while (setup.advance(*socket, own) == LinkSetup::State::under_way) usleep(1000);
}

/** As where a firewall resets a connection. Rank 1 waits for rank 3 meanwhile. */
TEST(NetworkBootstrap, ConnectionEndsWhenOneEndIsReady_RankComesAgain) {
  GroupPlan plan(4);
  std::atomic<bool> has_left{false};
  std::vector<FormedRank> ranks(4);
  std::vector<std::thread> threads;
  const NetworkToken second = plan.token(2);
  const Visit leaves = [&](const NetworkTable& table) {
    connect_and_leave(second, 1, table);
    has_left = true;
  };
  const Visit is_late = [&](const NetworkTable&) {
    while (!has_left) usleep(1000);
    usleep(300000);
  };
  const Visit visits[] = {nullptr, nullptr, leaves, is_late};
  for (uint32_t rank = 0; rank < 4; ++rank) {
    auto token = std::make_shared<NetworkToken>(plan.token(rank));
    threads.emplace_back([&, rank, token] {
      ranks[rank] = form_rank(std::move(*token), Status(), visits[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fault_of(ranks), "");
}

double processor_ms_of_thread() {
  rusage used;
  getrusage(RUSAGE_THREAD, &used);
  const timeval times[] = {used.ru_utime, used.ru_stime};
  double ms = 0;
  for (const timeval& time : times) {
    ms += static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  }
  return ms;
}

/** Rank 1 sleeps until rank 2, whose first connection to it has ended, comes again. */
TEST(NetworkBootstrap, ConnectionOfAHigherRankEnds_TheOtherSleepsUntilItComesAgain) {
  constexpr useconds_t kAwayUs = 1000000;
  GroupPlan plan(3);
  std::vector<FormedRank> ranks(3);
  std::vector<std::thread> threads;
  const NetworkToken second = plan.token(2);
  const Visit comes_twice = [&](const NetworkTable& table) {
    Hello hello;
    hello.purpose = HelloPurpose::mesh;
    hello.to_rank = 1;
    come(second, table.members[1].address, hello);
    usleep(kAwayUs);
  };
  double processor_ms = 0;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    auto token = std::make_shared<NetworkToken>(plan.token(rank));
    threads.emplace_back([&, rank, token] {
      ranks[rank] = form_rank(std::move(*token), Status(), rank == 2 ? comes_twice : Visit());
      if (rank == 1) processor_ms = processor_ms_of_thread();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fault_of(ranks), "");
  EXPECT_LT(processor_ms, kAwayUs / 1e3 / 10);
}

TEST(NetworkBootstrap, OverIpv6_AllConnected) {
  NetworkAddress six;
  six.family = AF_INET6;
  six.bytes[15] = 1;
  std::unique_ptr<TcpSocket> listener;
  NetworkAddress bound;
  if (!listen_at(six, &listener, &bound).ok()) GTEST_SKIP() << "no IPv6 here";
  GroupPlan plan(3);
  const auto ranks = form_all(plan, [&](uint32_t rank, NetworkToken* token) {
    token->root.assign(1, bound);
    if (rank == 0) token->listener = std::move(listener);
  });
  EXPECT_EQ(fault_of(ranks), "");
  EXPECT_EQ(ranks[0].table.members[2].address.family, AF_INET6);
}

TEST(NetworkBootstrap, SizesDiffer_MismatchOnAll) {
  GroupPlan plan(3);
  const auto ranks = form_all(plan, [](uint32_t rank, NetworkToken* token) {
    if (rank == 1) token->size = 4;
  });
  for (const FormedRank& rank : ranks) {
    EXPECT_TRUE(begins(rank.status, "MISMATCH: size: rank 0 = 3, rank 1 = 4"))
        << text_of(rank.status);
  }
}

TEST(NetworkBootstrap, OneRankFails_AllNameItAndItsReason) {
  for (const uint32_t failing : {0u, 2u, 3u}) {
    GroupPlan plan(4);
    std::vector<FormedRank> ranks(4);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      auto token = std::make_shared<NetworkToken>(plan.token(rank));
      threads.emplace_back([&, rank, token] {
        const Status own = rank == failing ? fail(GQSGD_UNSUPPORTED, "UCX is not here") : Status();
        ranks[rank] = form_rank(std::move(*token), own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const std::string expected = rank == failing
                                       ? "UNSUPPORTED: UCX is not here"
                                       : "REMOTE_ERROR: rank " + std::to_string(failing) +
                                             " could not join: UCX is not here (UNSUPPORTED)";
      EXPECT_EQ(text_of(ranks[rank].status), expected) << rank << ", failing " << failing;
    }
  }
}

}  // namespace
}  // namespace gq::test
