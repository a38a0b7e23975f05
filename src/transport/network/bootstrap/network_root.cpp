// The root's loop while ranks arrive and connect. What it does with each one's messages, and how
// the group fails, is in network_root_members.cpp.
#include "src/transport/network/bootstrap/network_root.h"

#include <errno.h>
#include <stdio.h>

#include "src/support/clock.h"
#include "src/support/rank_list.h"
#include "src/transport/bootstrap/random_bytes.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr int kPollMs = 1000;
// Ranks whose time is up at the same moment may still say which rank they could not reach.
constexpr uint64_t kLastWordUs = 300000;

}  // namespace

NetworkRoot::NetworkRoot(NetworkToken* token) : token_(token), pending_(token->secret) {
  joined_.resize(token->size);
  polls_.resize(1 + PendingConnections::kMax + token->size);
}

Status NetworkRoot::gather(Status own, const NetworkMember& bring, NetworkTable* table) {
  joined_[0].member = bring;
  joined_[0].step = Step::ready;
  if (!own.ok()) fail_for_own_status(own);
  const Status gathered = receive_all();
  token_->listener.reset();  // ranks of a next group at this address find that one's listener
  if (gathered.ok()) check_addresses();
  if (!gathered.ok()) fail_for_own_status(gathered);
  if (outcome_.status == GQSGD_OK) {
    const Status handed = hand_out(table);
    if (handed.ok()) return handed;
    fail_for_own_status(handed);
  }
  linger();
  return group_failure();
}

Status NetworkRoot::receive_all() {
  GQ_TRY(pending_.open());
  while (!is_gathered()) {
    const bool has_failed = outcome_.status != GQSGD_OK;
    GQ_TRY(watch(has_failed ? Deadline(linger_until_us_) : token_->deadline));
    GQ_TRY(admit_proved());
    for (uint32_t rank = 1; rank < token_->size; ++rank) receive_from(rank);
  }
  return Status();
}

bool NetworkRoot::is_gathered() {
  const uint64_t now_us = monotonic_us();
  if (outcome_.status != GQSGD_OK) return now_us >= linger_until_us_;
  if (all_at(Step::joined)) return true;
  if (!token_->deadline.is_over()) return false;
  fail_for_missing_ranks(0);
  return true;
}

/** Sleeps until a message arrives or may be sent, a pending connection's time is up, or the
 *  deadline. */
Status NetworkRoot::watch(const Deadline& deadline) {
  uint64_t until_us = kNever;
  nfds_t count = 0;
  if (token_->listener) {
    polls_[count++] = {token_->listener->number(), POLLIN, 0};
    count += pending_.fill(&polls_[count]);
    until_us = pending_.deadline_us();
  }
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    if (!joined_[rank].socket) continue;
    const short writes = joined_[rank].out.empty() ? 0 : POLLOUT;
    polls_[count++] = {joined_[rank].socket->number(), static_cast<short>(POLLIN | writes), 0};
  }
  if (poll(polls_.data(), count, deadline.poll_ms(kPollMs, until_us)) >= 0) return Status();
  return errno == EINTR ? Status() : system_failure(errno, "waiting for ranks");
}

bool NetworkRoot::all_at(Step step) const {
  for (const Joined& joined : joined_) {
    if (joined.step < step) return false;
  }
  return true;
}

/** The table to every rank; from then on each awaits the address of this rank's engine. */
Status NetworkRoot::hand_out(NetworkTable* table) {
  GQ_TRY(random_bytes(outcome_.group_nonce, sizeof outcome_.group_nonce));
  memcpy(table->group_nonce, outcome_.group_nonce, sizeof table->group_nonce);
  table->members.clear();
  for (const Joined& joined : joined_) table->members.push_back(joined.member);
  outcome_.rank_count = token_->size;
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    joined_[rank].step = Step::sends_engine;
    queue(rank, &outcome_, sizeof outcome_);
    queue(rank, table->members.data(), table->members.size() * sizeof(NetworkMember));
  }
  outcome_.rank_count = 0;
  awaits_engine_ = true;
  for (uint32_t rank = 1; rank < token_->size; ++rank) flush(rank);
  return Status();
}

Status NetworkRoot::connect(Status own, const std::vector<unsigned char>& engine_address,
                            EngineAddresses* engine_addresses) {
  if (own.ok()) {
    const std::vector<unsigned char> message = engine_message(engine_address);
    for (uint32_t rank = 1; rank < token_->size; ++rank) {
      queue(rank, message.data(), message.size());
    }
    awaits_engine_ = false;
  } else {
    fail_for_own_status(own);
  }
  GQ_TRY(run_until(Step::connects));
  engine_addresses->resize(token_->size);
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    (*engine_addresses)[rank] = std::move(joined_[rank].link.theirs());
  }
  return Status();
}

bool NetworkRoot::has_failed() {
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    flush(rank);
    receive_from(rank);
  }
  return outcome_.status != GQSGD_OK;
}

Status NetworkRoot::conclude(Status own, NetworkLinks* links) {
  if (!own.ok()) fail_for_own_status(own);
  GQ_TRY(run_until(Step::ready));
  for (uint32_t rank = 1; rank < token_->size; ++rank) queue(rank, &outcome_, sizeof outcome_);
  linger();
  links->resize(token_->size);
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    if (!joined_[rank].socket) return group_failure();
    (*links)[rank] = std::move(joined_[rank].socket);
  }
  return Status();
}

/** Until every rank is as far as `step`, or the group has failed. */
Status NetworkRoot::run_until(Step step) {
  const Deadline deadline = token_->deadline.later_by(kLastWordUs);
  while (outcome_.status == GQSGD_OK) {
    for (uint32_t rank = 1; rank < token_->size; ++rank) {
      flush(rank);
      receive_from(rank);
    }
    if (outcome_.status == GQSGD_OK && all_at(step)) return Status();
    if (deadline.is_over()) {
      RankList late;
      for (uint32_t rank = 1; rank < token_->size; ++rank) {
        if (joined_[rank].step < step) late.add(rank);
      }
      fail_group(GQSGD_TIMEOUT,
                 "ranks %s did not say in the time allowed that they are connected to all others; "
                 "they are stopped or too slow",
                 late.text());
    }
    const Status watched = outcome_.status == GQSGD_OK ? watch(deadline) : Status();
    if (!watched.ok()) fail_for_own_status(watched);
  }
  linger();
  return group_failure();
}

}  // namespace gq
