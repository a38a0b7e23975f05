// Rank 0's part in the meeting: it lets in whom it should, and says the same to all.
#ifndef GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_HOST_H
#define GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_HOST_H

#include <poll.h>

#include "src/transport/bootstrap/bootstrap.h"
#include "src/transport/bootstrap/bootstrap_messages.h"
#include "src/transport/bootstrap/packet_socket.h"

namespace gq {

class Host final : public Meeting {
 public:
  explicit Host(const Invitation& invitation) : invitation_(invitation) {}

  Status prepare();
  Status gather(Status own, Member bring, Roster* roster) override;
  Status conclude(Status own) override;

 private:
  /** Clients that have connected and not yet shown who they are. The oldest makes room for the
   *  newest, so that silent ones cannot keep ranks out. */
  static constexpr uint32_t kStrangersMax = 64;
  /** Connections taken per iteration, so that processes that connect without end keep rank 0
   * neither from its deadline nor from the ranks. Fewer than kStrangersMax: each is read before it
   * is dropped for newer ones. */
  static constexpr uint32_t kAcceptsPerIteration = 32;
  struct Stranger {
    Descriptor socket;
    uint64_t drop_us = 0;
  };

  struct Seat {
    Descriptor socket;  ///< open while its rank is here
    Member member;
    bool taken = false;  ///< its rank has been here
  };

  Status receive_all(Member bring, Roster* roster);
  bool is_over();
  Status watch();
  Status let_in();
  void drop_stranger(uint32_t index);
  void hear_strangers();
  void hear_seated();
  void admit(const Hello& hello, const Status& received, Packet* packet, Descriptor* socket);
  void judge(const Hello& hello, const Status& received);
  [[gnu::format(printf, 4, 5)]] void refuse(int socket, gqsgd_status status, const char* format,
                                            ...);

  Status hand_out(uint32_t rank);
  Status send_members(uint32_t rank, uint32_t first_rank, uint32_t rank_count);
  Status await_report(uint32_t rank);

  [[gnu::format(printf, 3, 4)]] void doom(gqsgd_status status, const char* format, ...);
  void doom_missing(uint32_t impatient);
  void doom_by_own(const Status& own);
  static void send_verdict(int socket, const Verdict& verdict);
  void tell(int socket) const { send_verdict(socket, verdict_); }
  Status doomed() const {
    if (own_ != GQSGD_OK) return fail_with(own_, own_sentence_);
    return fail_with(verdict_.status, verdict_.sentence);
  }

  Invitation invitation_;
  Descriptor listener_;
  std::unique_ptr<Seat[]> seats_;      // one per rank
  uint32_t taken_count_ = 1;           // rank 0 is here
  Stranger strangers_[kStrangersMax];  // oldest first
  uint32_t stranger_count_ = 0;
  std::unique_ptr<pollfd[]> polls_;
  Verdict verdict_;              // OK until the group is doomed
  gqsgd_status own_ = GQSGD_OK;  // what doomed it, if that was a failure of this process
  char own_sentence_[256] = {};
  uint64_t linger_until_us_ = 0;
};

}  // namespace gq

#endif
