// Threads that form a group, and the check of what they have formed.
#include "tests/unit/transport/network/formed_group.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "src/support/clock.h"
#include "src/transport/network/bootstrap/host_identity.h"
#include "tests/unit/transport/exchange.h"

namespace gq::test {
NetworkAddress loopback() {
  NetworkAddress address;
  address.family = AF_INET;
  address.bytes[0] = 127;
  address.bytes[3] = 1;
  return address;
}

namespace {

std::vector<unsigned char> engine_address_of(uint32_t rank) {
  return std::vector<unsigned char>(100 + rank, static_cast<unsigned char>(rank + 1));
}

/** A byte from each to each. */
std::string fault_of_links(const std::vector<FormedRank>& ranks) {
  const size_t size = ranks.size();
  for (size_t from = 0; from < size; ++from) {
    for (size_t to = 0; to < size; ++to) {
      const auto byte = static_cast<unsigned char>(from * 16 + to);
      if (from != to && send(ranks[from].links[to]->number(), &byte, 1, MSG_NOSIGNAL) != 1)
        return "no link from " + std::to_string(from) + " to " + std::to_string(to);
    }
  }
  for (size_t from = 0; from < size; ++from) {
    for (size_t to = 0; to < size; ++to) {
      unsigned char byte = 0;
      const uint64_t deadline_us = deadline_after_ms(5000);
      while (from != to && recv(ranks[to].links[from]->number(), &byte, 1, MSG_DONTWAIT) != 1) {
        if (monotonic_us() > deadline_us) return "nothing from " + std::to_string(from);
      }
      if (from != to && byte != from * 16 + to) return "a link leads elsewhere";
    }
  }
  return "";
}

}  // namespace

GroupPlan::GroupPlan(uint32_t size, int64_t timeout_ms) : size_(size), timeout_ms_(timeout_ms) {
  EXPECT_EQ(text_of(Hmac::open(&secret_.hmac)), "OK");
  secret_.key.bytes[0] = 42;
  secret_.name[0] = 7;
  EXPECT_EQ(text_of(listen_at(loopback(), &listener_, &root_)), "OK");
}

NetworkToken GroupPlan::token(uint32_t rank) {
  NetworkToken token;
  token.secret = secret_;
  token.rank = rank;
  token.size = size_;
  token.deadline = Deadline(deadline_after_ms(timeout_ms_));
  token.root.assign(1, root_);
  token.root_listens = true;
  if (rank == 0) token.listener = std::move(listener_);
  return token;
}

FormedRank form_rank(NetworkToken token, Status own, const Visit& visit) {
  FormedRank formed;
  NetworkMember member;
  formed.status = identify_host(token.secret.hmac, "", &member);
  const std::unique_ptr<NetworkBootstrap> bootstrap = open_network_bootstrap(&token);
  if (formed.status.ok()) formed.status = bootstrap->gather(Status(), member, &formed.table);
  if (!formed.status.ok()) return formed;
  if (visit) visit(formed.table);
  formed.status = bootstrap->connect(
      own, own.ok() ? engine_address_of(token.rank) : std::vector<unsigned char>(),
      &formed.engine_addresses);
  if (formed.status.ok()) formed.status = bootstrap->conclude(Status(), &formed.links);
  return formed;
}

std::vector<FormedRank> form_all(GroupPlan& plan, const ChangeToken& change,
                                 const std::vector<uint32_t>& leave_out) {
  std::vector<FormedRank> ranks(plan.size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < plan.size(); ++rank) {
    if (std::count(leave_out.begin(), leave_out.end(), rank) != 0) continue;
    auto token = std::make_shared<NetworkToken>(plan.token(rank));
    if (change) change(rank, token.get());
    threads.emplace_back([&ranks, rank, token] { ranks[rank] = form_rank(std::move(*token)); });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

std::string fault_of(const std::vector<FormedRank>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const FormedRank& formed = ranks[rank];
    if (!formed.status.ok()) return std::to_string(rank) + ": " + formed.status.sentence();
    for (uint32_t peer = 0; peer < ranks.size(); ++peer) {
      if (peer == rank) continue;
      if (formed.engine_addresses[peer] != engine_address_of(peer)) return "a wrong engine address";
      if (formed.table.members[peer].user != geteuid()) return "a wrong user";
    }
    if (memcmp(formed.table.group_nonce, ranks[0].table.group_nonce, 16) != 0) return "the nonce";
  }
  return fault_of_links(ranks);
}

int connect_plainly(const NetworkAddress& address) {
  const int number = socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketName name = socket_name_of(address);
  if (connect(number, name.get(), name.size_bytes) == 0) return number;
  close(number);
  return -1;
}

}  // namespace gq::test
