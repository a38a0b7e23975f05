// The bootstrap of rank 0.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_NETWORK_ROOT_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_NETWORK_ROOT_H

#include <poll.h>

#include "src/transport/network/bootstrap/link_setup.h"
#include "src/transport/network/bootstrap/network_bootstrap.h"
#include "src/transport/network/bootstrap/pending_connections.h"

namespace gq {

class NetworkRoot final : public NetworkBootstrap {
 public:
  explicit NetworkRoot(NetworkToken* token);
  /** What is still to be sent is sent, if it can be. */
  ~NetworkRoot() override { linger(); }

  Status gather(Status own, const NetworkMember& bring, NetworkTable* table) override;
  Status connect(Status own, const std::vector<unsigned char>& engine_address,
                 EngineAddresses* engine_addresses) override;
  bool has_failed() override;
  Status conclude(Status own, NetworkLinks* links) override;

 private:
  enum class Step {
    away,
    sends_report,  ///< that it can join
    sends_member,
    joined,
    sends_engine,  ///< the address of its engine
    fails,         ///< it has none: a report with the reason is due
    connects,      ///< to the others: its report is due
    ready
  };
  struct Joined {
    std::unique_ptr<TcpSocket> socket;
    NetworkAddress from;
    Step step = Step::away;
    size_t received_bytes = 0;
    NetworkReport report;
    NetworkMember member;
    LinkSetup link;
    std::vector<unsigned char> out;  ///< what is still to be sent
    size_t sent_bytes = 0;
  };

  Status receive_all();
  bool is_gathered();
  Status watch(const Deadline& deadline);
  Status admit_proved();
  void admit(ProvedConnection* proved);
  void check_hello(const Hello& hello);
  [[gnu::format(printf, 3, 4)]] static void refuse(const TcpSocket& socket, gqsgd_status status,
                                                   const char* format, ...);
  void receive_from(uint32_t rank);
  /** What has come of the message that is due; true if that is all of it. */
  SocketTransfer receive_message(Joined* joined);
  SocketTransfer receive_late_report(Joined* joined);
  void take_message(uint32_t rank);
  void take_report(uint32_t rank);
  void lose(uint32_t rank);

  void check_addresses();
  Status hand_out(NetworkTable* table);
  void queue(uint32_t rank, const void* bytes, size_t size_bytes);
  void flush(uint32_t rank);
  bool all_at(Step step) const;
  Status run_until(Step step);

  [[gnu::format(printf, 3, 4)]] void fail_group(gqsgd_status status, const char* format, ...);
  void fail_for_missing_ranks(uint32_t impatient);
  void fail_for_own_status(const Status& own);
  void send_outcome(uint32_t rank);
  void linger();
  Status group_failure();

  NetworkToken* const token_;
  PendingConnections pending_;
  std::vector<Joined> joined_;  // one per rank
  std::vector<pollfd> polls_;
  std::vector<unsigned char> engine_message_;  // of the own engine
  NetworkOutcome outcome_;                     // OK until the group has failed
  bool awaits_engine_ =
      false;    // ranks have the table: the engine's address comes before an outcome
  Status own_;  // what it failed with, if that was a failure of this process
  uint64_t linger_until_us_ = 0;
};

}  // namespace gq

#endif
