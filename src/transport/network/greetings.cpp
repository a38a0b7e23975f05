// Greetings go to all ranks at once; UCX is progressed until all have arrived both ways.
#include "src/transport/network/greetings.h"

#include <poll.h>

#include "src/support/clock.h"
#include "src/support/rank_list.h"

namespace gq {
namespace {

/** None of the channels of calls (network_transport.cpp). */
constexpr uint32_t kGreetingChannel = 2;
// The group's failure comes over another descriptor than UCX's events.
constexpr int kSliceMs = 20;
// What made a peer's connection end, a rank that died or whose time is up, comes by rank 0 within
// this time, or shows here when the time is up.
constexpr uint64_t kLostUs = 1000000;

}  // namespace

Status Greetings::exchange(const NetworkToken& token, NetworkBootstrap* bootstrap,
                           UcxEngine* engine) {
  GQ_TRY(start(token.rank, engine));
  for (;;) {
    bool done = false;
    GQ_TRY(test_all(engine, &done));
    if (done || bootstrap->has_failed()) return Status();
    if (engine->progress()) continue;
    if (engine->failed_peer() < token.size) note_lost(engine->failed_peer());
    const uint64_t now_us = monotonic_us();
    if (token.deadline.is_over()) return late(token.rank);
    if (lost_us_ != 0 && now_us - lost_us_ >= kLostUs) return lost(token.rank);
    bool may_sleep = false;
    GQ_TRY(engine->arm(&may_sleep));
    pollfd readable{engine->event_fd(), POLLIN, 0};
    if (may_sleep) poll(&readable, 1, token.deadline.poll_ms(kSliceMs));
  }
}

Status Greetings::start(uint32_t rank, UcxEngine* engine) {
  for (size_t k = 0; k < sent_.size(); ++k) {
    const uint32_t peer = static_cast<uint32_t>(k % size_);
    if (peer == rank) continue;
    GQ_TRY(engine->start_receive(peer, kGreetingChannel, nullptr, 0, &received_[k]));
    GQ_TRY(engine->start_greeting(peer, kGreetingChannel, &sent_[k]));
  }
  return Status();
}

Status Greetings::test_all(UcxEngine* engine, bool* done) {
  *done = !is_incomplete_;
  for (std::vector<UcxRequest>* const requests : {&sent_, &received_}) {
    for (UcxRequest& request : *requests) {
      bool is_done = true;
      Status tested;
      if (request.is_pending()) tested = engine->test(&request, &is_done);
      if (tested.code() == GQSGD_PEER_LOST) {
        is_incomplete_ = true;
        note_lost(static_cast<uint32_t>(static_cast<size_t>(&request - requests->data()) % size_));
      } else {
        GQ_TRY(tested);
      }
      *done = *done && is_done;
    }
  }
  return Status();
}

void Greetings::note_lost(uint32_t peer) {
  if (lost_us_ != 0) return;
  lost_ = peer;
  lost_us_ = monotonic_us();
}

Status Greetings::lost(uint32_t rank) const {
  return fail(GQSGD_PEER_LOST,
              "rank %u: its connection of UCX to rank %u failed while the group formed: it died, "
              "or no interface that UCX may use joins the two (UCX_NET_DEVICES=NAME chooses)",
              rank, lost_);
}

Status Greetings::late(uint32_t rank) const {
  RankList silent;
  for (uint32_t peer = 0; peer < size_; ++peer) {
    bool is_silent = false;
    for (size_t k = peer; k < sent_.size(); k += size_) {
      is_silent = is_silent || sent_[k].is_pending() || received_[k].is_pending();
    }
    if (is_silent) silent.add(peer);
  }
  if (silent.count() == 0) return lost(rank);
  return fail(
      GQSGD_TIMEOUT,
      "rank %u: no greeting over UCX from or to rank%s %s in the time allowed: stopped, or a "
      "firewall? UCX listens on ports of its own, which UCX_TCP_PORT_RANGE limits, on the "
      "interfaces that UCX_NET_DEVICES names",
      rank, silent.count() == 1 ? "" : "s", silent.text());
}

}  // namespace gq
