// Connections of programs that are no ranks: they learn nothing, and cannot keep a group from
// forming.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "src/support/clock.h"
#include "tests/support/sanitized.h"
#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/network/formed_group.h"

namespace gq::test {
namespace {

size_t open_descriptors() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

/** Memory of this process that is there, in bytes. */
size_t resident_bytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/** Connects to rank 0 while a group of four forms whose last rank comes when the flood is over. */
class Forming {
 public:
  Forming() : plan(4), ranks(4) {
    for (uint32_t rank = 0; rank < 3; ++rank) begin(rank);
  }
  ~Forming() { join(); }

  void begin(uint32_t rank) {
    auto token = std::make_shared<NetworkToken>(plan.token(rank));
    threads.emplace_back([this, rank, token] { ranks[rank] = form_rank(std::move(*token)); });
  }
  void join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
  /** The last rank comes: whether all are connected then. */
  std::string complete() {
    const uint64_t begin_us = monotonic_us();
    begin(3);
    join();
    const uint64_t took_ms = (monotonic_us() - begin_us) / 1000;
    return took_ms > 10000 ? "took " + std::to_string(took_ms) + " ms" : fault_of(ranks);
  }

  GroupPlan plan;
  std::vector<FormedRank> ranks;
  std::vector<std::thread> threads;
};

TEST(NetworkConnections, TenThousandOfGarbage_GroupForms) {
  Forming forming;
  const std::string junk(200, 'j');
  const size_t before = open_descriptors();
  size_t most = before, early_bytes = 0;
  for (int k = 0; k < 10000; ++k) {
    if (k == 1000) early_bytes = resident_bytes();
    const int number = connect_plainly(forming.plan.root());
    ASSERT_GE(number, 0) << k;
    (void)!send(number, junk.data(), junk.size(), MSG_NOSIGNAL);
    if (k % 100 == 0) most = std::max(most, open_descriptors());
    close(number);
  }
  EXPECT_LT(most, before + 400) << "descriptors of pending connections are bounded";
  if (!kAddressSanitized && !kThreadSanitized) {  // they keep what is freed
    EXPECT_LT(resident_bytes(), early_bytes + (1 << 20)) << "memory grows";
  }
  EXPECT_EQ(forming.complete(), "");
  EXPECT_EQ(connect_plainly(forming.plan.root()), -1) << "a group that has formed listens";
}

TEST(NetworkConnections, GarbageWithoutEnd_GroupForms) {
  Forming forming;
  std::atomic<bool> ends{false};
  std::atomic<uint64_t> count{0};
  std::vector<std::thread> flooders;
  for (int k = 0; k < 2; ++k) {
    flooders.emplace_back([&] {
      const uint64_t end_us = deadline_after_ms(20000);
      while (!ends && monotonic_us() < end_us) {
        const int number = connect_plainly(forming.plan.root());
        if (number < 0) continue;
        (void)!send(number, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
        close(number);
        count += 1;
      }
    });
  }
  while (count < 100) usleep(1000);
  EXPECT_EQ(forming.complete(), "");
  ends = true;
  for (std::thread& thread : flooders) thread.join();
}

TEST(NetworkConnections, HundredsThatSendNothing_GroupForms) {
  Forming forming;
  std::vector<int> silent;
  for (int k = 0; k < 400; ++k) silent.push_back(connect_plainly(forming.plan.root()));
  EXPECT_EQ(forming.complete(), "");
  for (const int number : silent) close(number);
}

TEST(NetworkConnections, OneByteAtATime_DroppedInTime) {
  Forming forming;
  const int slow = connect_plainly(forming.plan.root());
  ASSERT_GE(slow, 0);
  const Hello hello;
  const uint64_t begin_us = monotonic_us();
  size_t sent_bytes = 0;
  char answer = 0;
  while (monotonic_us() - begin_us < 10000000) {
    const auto* bytes = reinterpret_cast<const char*>(&hello);
    if (sent_bytes < sizeof hello &&
        send(slow, bytes + sent_bytes++, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      break;
    }
    if (recv(slow, &answer, 1, MSG_DONTWAIT) == 0) break;
    usleep(100000);
  }
  const uint64_t took_ms = (monotonic_us() - begin_us) / 1000;
  EXPECT_GT(took_ms, 1500u);
  EXPECT_LT(took_ms, 6000u) << "two seconds";
  close(slow);
  EXPECT_EQ(forming.complete(), "");
}

/** The ranks are threads of one process: they share its descriptors, so that what is short for rank
 * 0 is short for all. Ranks 1 and 2 open none while they wait for the last rank. */
TEST(NetworkConnections, FewDescriptors_OldestMakesWay) {
  const size_t before = open_descriptors();
  Forming forming;
  // Three listeners, and both ends of the connections of ranks 1 and 2 to rank 0.
  const size_t settled = before + 7;
  const uint64_t end_us = deadline_after_ms(10000);
  while (open_descriptors() < settled && monotonic_us() < end_us) usleep(1000);
  ASSERT_EQ(open_descriptors(), settled);
  rlimit usual;
  getrlimit(RLIMIT_NOFILE, &usual);
  rlimit few{settled + 40, usual.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  const uint64_t late_us = deadline_after_ms(2000);
  std::vector<int> silent;
  char answer = 0;
  bool is_dropped = false;
  while (!is_dropped && monotonic_us() < late_us) {
    const int number = connect_plainly(forming.plan.root());
    if (number >= 0) {
      silent.push_back(number);
    } else {  // one more, which is the last: then there is none for rank 0's end of it
      few.rlim_cur += 1;
      setrlimit(RLIMIT_NOFILE, &few);
    }
    usleep(1000);
    is_dropped = !silent.empty() && recv(silent[0], &answer, 1, MSG_DONTWAIT) == 0;
  }
  setrlimit(RLIMIT_NOFILE, &usual);
  EXPECT_TRUE(is_dropped) << "before its two seconds are over";
  EXPECT_EQ(forming.complete(), "");
  for (const int number : silent) close(number);
}

/** The bytes of `size_bytes`, or fewer if the other end closed. */
size_t receive_plainly(int number, void* bytes, size_t size_bytes) {
  size_t count = 0;
  while (count < size_bytes) {
    const ssize_t got = recv(number, static_cast<char*>(bytes) + count, size_bytes - count, 0);
    if (got <= 0) break;
    count += static_cast<size_t>(got);
  }
  return count;
}

bool is_zero(const Digest& digest) { return same_digest(digest, Digest()); }

/** What rank 0 answers to a client that has `proof` for its challenge. */
Welcome welcome_for(const NetworkAddress& root, const Digest& proof) {
  const int number = connect_plainly(root);
  Hello hello;
  hello.rank = 1;
  hello.size = 4;
  hello.group[0] = 7;
  (void)!send(number, &hello, sizeof hello, MSG_NOSIGNAL);
  Challenge challenge;
  EXPECT_EQ(receive_plainly(number, &challenge, sizeof challenge), sizeof challenge);
  (void)!send(number, &proof, sizeof proof, MSG_NOSIGNAL);
  Welcome welcome;
  welcome.status = -1;
  EXPECT_EQ(receive_plainly(number, &welcome, sizeof welcome), sizeof welcome);
  char more = 0;
  EXPECT_EQ(receive_plainly(number, &more, 1), 0u) << "nothing comes behind a refusal";
  close(number);
  return welcome;
}

TEST(NetworkConnections, WithoutTheSecret_NothingThatDependsOnIt) {
  Forming forming;
  Digest guess;
  guess.bytes[0] = 1;
  const Welcome welcome = welcome_for(forming.plan.root(), guess);
  EXPECT_EQ(welcome.status, GQSGD_INVALID_ARGUMENT);
  EXPECT_TRUE(is_zero(welcome.digest));
  EXPECT_EQ(forming.complete(), "");
}

/** A rank that connects to a program that does not know the secret, and what it makes of that. */
Status join_false_root(const Challenge& challenge, const Welcome& welcome, bool reflects) {
  GroupPlan plan(2, 5000);
  NetworkToken root = plan.token(0);
  std::thread thread([&] {
    NetworkAddress from;
    std::unique_ptr<TcpSocket> socket;
    while (!socket) EXPECT_EQ(text_of(accept_connection(*root.listener, &socket, &from)), "OK");
    Hello hello;
    Proof proof;
    size_t done_bytes = 0;
    while (receive_rest(*socket, &hello, sizeof hello, &done_bytes) == SocketTransfer::not_yet) {
    }
    send_rest(*socket, &challenge, sizeof challenge, &done_bytes);
    done_bytes = 0;
    while (receive_rest(*socket, &proof, sizeof proof, &done_bytes) == SocketTransfer::not_yet) {
    }
    Welcome answer = welcome;
    if (reflects) answer.digest = proof.digest;
    send_rest(*socket, &answer, sizeof answer, &done_bytes);
  });
  const FormedRank formed = form_rank(plan.token(1));
  thread.join();
  return formed.status;
}

TEST(NetworkConnections, FalseRoot_NotBelieved) {
  for (const bool reflects : {false, true}) {
    const Status status = join_false_root(Challenge(), Welcome(), reflects);
    EXPECT_EQ(status.code(), GQSGD_INVALID_ARGUMENT) << text_of(status);
  }
  Challenge garbage;
  garbage.magic = 0;
  EXPECT_EQ(join_false_root(garbage, Welcome(), false).code(), GQSGD_INVALID_ARGUMENT);
}

TEST(NetworkConnections, OldProof_OfNoUse) {
  // Both ends' random numbers are in a proof: a rank's nonce is another in every handshake.
  GroupPlan plan(2);
  const NetworkToken token = plan.token(1);
  Handshake first, second;
  EXPECT_EQ(text_of(first.connect(token.secret, Hello())), "OK");
  EXPECT_EQ(text_of(second.connect(token.secret, Hello())), "OK");
  EXPECT_NE(memcmp(first.hello().nonce, second.hello().nonce, sizeof(Hello::nonce)), 0);
}

/** RFC 4231, case 4 has a key of 25 bytes; with ours of 32 bytes, zeros behind a key change nothing
 *  in HMAC. */
TEST(Hmac, VectorOfRfc4231) {
  Hmac hmac;
  ASSERT_EQ(text_of(Hmac::open(&hmac)), "OK");
  Digest key;
  for (unsigned char k = 0; k < 25; ++k) key.bytes[k] = static_cast<unsigned char>(k + 1);
  const std::string data(50, static_cast<char>(0xcd));
  Digest digest;
  ASSERT_EQ(text_of(hmac.digest(key, data.data(), data.size(), &digest)), "OK");
  const unsigned char expected[32] = {0x82, 0x55, 0x8a, 0x38, 0x9a, 0x44, 0x3c, 0x0e,
                                      0xa4, 0xcc, 0x81, 0x98, 0x99, 0xf2, 0x08, 0x3a,
                                      0x85, 0xf0, 0xfa, 0xa3, 0xe5, 0x78, 0xf8, 0x07,
                                      0x7a, 0x2e, 0x3f, 0xf4, 0x67, 0x29, 0x66, 0x5b};
  EXPECT_EQ(memcmp(digest.bytes, expected, sizeof expected), 0);
}

TEST(Hmac, LibraryMissing_SentenceNamesThePackage) {
  setenv("GQSGD_CRYPTO_LIBRARY", "/nonexistent/libcrypto.so.3", 1);
  Hmac hmac;
  const Status status = Hmac::open(&hmac);
  unsetenv("GQSGD_CRYPTO_LIBRARY");
  EXPECT_EQ(status.code(), GQSGD_UNSUPPORTED);
  EXPECT_NE(text_of(status).find("apt-get install libssl3"), std::string::npos) << text_of(status);
}

}  // namespace
}  // namespace gq::test
