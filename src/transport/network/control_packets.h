// Control messages as they travel over UCX: behind one there may be the values of a short call.
#ifndef GQ_TRANSPORT_NETWORK_CONTROL_PACKETS_H
#define GQ_TRANSPORT_NETWORK_CONTROL_PACKETS_H

#include <stddef.h>
#include <string.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "src/transport/host_transport.h"

namespace gq {

struct ControlPacket {
  static constexpr size_t kLeastBytes = sizeof(ControlMessage);
  static constexpr size_t kEnclosedBytesMax = 1024;

  ControlMessage control;
  alignas(16) unsigned char enclosed[kEnclosedBytesMax];
};
static_assert(offsetof(ControlPacket, enclosed) == ControlPacket::kLeastBytes,
              "values follow the control message on the wire");

/** The newest packet of each rank, this one's included. */
class ControlPackets {
 public:
  /** May throw std::bad_alloc. */
  void open(uint32_t rank, uint32_t size) { enclosures_.open(rank, size); }

  /** What this rank sends now: `message` and the values given to enclose(), which are returned. */
  Enclosed begin(const ControlMessage& message) {
    of(enclosures_.rank).control = message;
    return std::exchange(enclosures_.next, Enclosed());
  }
  ControlPacket& of(uint32_t rank) { return enclosures_.packets[rank]; }
  /** That of a peer has arrived. */
  void came(uint32_t peer, size_t size_bytes, uint32_t checksum) {
    enclosures_.received[peer] = {of(peer).enclosed, size_bytes - ControlPacket::kLeastBytes,
                                  checksum};
  }

  /** Values that the enclosed bytes of this rank stand for. */
  uint64_t value_count() const { return enclosures_.value_count; }
  Enclosures* enclosures() { return &enclosures_; }

 private:
  // What a rank sends of a short call to all others together: codes would take a quarter of it, in
  // four more messages one after the other.
  static constexpr size_t kBytesOfAll = 4096;

  struct PacketEnclosures final : Enclosures {
    void open(uint32_t own, uint32_t size) {
      rank = own;
      packets.resize(size);
      received.resize(size);
    }
    size_t bytes_max() const override {
      const size_t peers = packets.size() - 1;
      return peers == 0 ? 0 : std::min(kBytesOfAll / peers, ControlPacket::kEnclosedBytesMax);
    }
    void enclose(const Enclosed& values, uint64_t count) override {
      memcpy(packets[rank].enclosed, values.bytes, values.size_bytes);
      next = values;
      value_count = count;
    }
    Enclosed from(uint32_t peer) const override { return received[peer]; }

    uint32_t rank = 0;
    std::vector<ControlPacket> packets;
    std::vector<Enclosed> received;
    Enclosed next;
    uint64_t value_count = 0;
  };

  PacketEnclosures enclosures_;
};

}  // namespace gq

#endif
