// Registers of the ranks of a network group, as notices over the connections that it keeps when it
// has failed.
#ifndef GQ_TRANSPORT_NETWORK_NETWORK_REGISTERS_H
#define GQ_TRANSPORT_NETWORK_NETWORK_REGISTERS_H

#include <vector>

#include "src/transport/network/control_connections.h"
#include "src/transport/registers.h"

namespace gq {

class NetworkRegisters final : public GroupRegisters {
 public:
  explicit NetworkRegisters(ControlConnections* connections) : connections_(*connections) {}
  /** `engine`: the descriptor on which the connections wait as well. May throw std::bad_alloc. */
  void open(uint32_t rank, uint32_t size, int engine);

  void publish(const RegisterWords& own, bool is_last) override;
  bool read(uint32_t peer, RegisterWords* found) override;
  bool is_gone(uint32_t peer, const UnheardLimits& limits) override;
  void look(uint32_t slice_us) override;
  Status make_name(gqsgd_unique_id* name) override;
  void drop_name(const gqsgd_unique_id& name) override;

  /** A notice for which is_word() is true. */
  void take_word(uint32_t peer, const Notice& notice);

 private:
  struct Peer {
    RegisterWords arriving, shown;  ///< its register, and the newest that is complete
    bool has_shown = false;
    bool is_owed = false;  ///< this rank's newest register, once it takes notices again
  };

  void take_words();
  void send_owed(bool force);

  ControlConnections& connections_;
  uint32_t rank_ = 0;
  int engine_ = -1;
  bool has_looked_ = false;  ///< registers alone are looked for from then on
  std::vector<Peer> peers_;
  std::vector<Notice> own_words_;  ///< its register, as it is sent
};

}  // namespace gq

#endif
