// What is sent of a register, what comes, and what is evidence of a death.
#include "src/transport/network/network_registers.h"

#include "src/transport/network/bootstrap/network_id.h"

namespace gq {

void NetworkRegisters::open(uint32_t rank, uint32_t size, int engine) {
  rank_ = rank;
  engine_ = engine;
  peers_ = std::vector<Peer>(size);
  own_words_.resize(kRegisterWords);
}

bool NetworkRegisters::is_gone(uint32_t peer, const UnheardLimits& limits) {
  const uint64_t limit_us = peers_[peer].has_shown ? limits.entered_us : limits.absent_us;
  return peer != rank_ && connections_.is_gone_for_certain(peer, limit_us);
}

void NetworkRegisters::publish(const RegisterWords& own, bool is_last) {
  for (uint32_t word = 0; word < kRegisterWords; ++word) {
    const auto kind = static_cast<uint32_t>(NoticeKind::word) | word << kNoticeNumberShift;
    own_words_[word] = {kNetworkMagic, static_cast<NoticeKind>(kind), own.words[word]};
  }
  for (Peer& peer : peers_) peer.is_owed = true;
  send_owed(is_last);
}

/** A peer that takes nothing gets the newest alone, later. */
void NetworkRegisters::send_owed(bool force) {
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].is_owed) {
      peers_[peer].is_owed = !connections_.send_all(peer, own_words_, force);
    }
  }
}

void NetworkRegisters::take_word(uint32_t peer, const Notice& notice) {
  Peer& from = peers_[peer];
  const uint32_t word = static_cast<uint32_t>(notice.kind) >> kNoticeNumberShift;
  if (word >= kRegisterWords) return;
  from.arriving.words[word] = notice.word;
  if (word + 1 < kRegisterWords) return;
  from.shown = from.arriving;
  from.has_shown = true;
}

bool NetworkRegisters::read(uint32_t peer, RegisterWords* found) {
  if (peers_[peer].has_shown) *found = peers_[peer].shown;
  return peers_[peer].has_shown;
}

/** Other notices are of the group that has failed. */
void NetworkRegisters::take_words() {
  for (bool any = true; any;) {
    any = false;
    // A failure of epoll leaves what the connections hold for the next look.
    static_cast<void>(connections_.sleep(0).ok());
    for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
      for (Notice notice; connections_.take(peer, &notice); any = true) {
        if (notice.magic == kNetworkMagic && is_word(notice)) take_word(peer, notice);
      }
    }
  }
}

Status NetworkRegisters::make_name(gqsgd_unique_id* name) {
  NetworkAddress address = connections_.own_address();
  // One rank has no connection to others, and none will look for it.
  if (peers_.size() == 1) GQ_TRY(find_own_address({}, &address));
  if (address.family != 0) return make_network_id(address, name);
  return fail(GQSGD_SYSTEM, "rank %u has no connection whose address another group could have",
              rank_);
}

void NetworkRegisters::drop_name(const gqsgd_unique_id& name) {
  NetworkId id;
  std::unique_ptr<TcpSocket> listener;  // ends here
  if (read_network_id(name, &id).ok()) static_cast<void>(take_listener(id, &listener).ok());
}

void NetworkRegisters::look(uint32_t slice_us) {
  if (!has_looked_) connections_.watch_peers_only(engine_);
  has_looked_ = true;
  connections_.look_at_links();
  send_owed(false);
  const int slice_ms = static_cast<int>((slice_us + 999) / 1000);
  if (slice_us > 0) static_cast<void>(connections_.sleep(slice_ms).ok());
  take_words();
}

}  // namespace gq
