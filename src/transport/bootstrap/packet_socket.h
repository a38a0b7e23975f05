// Packets with descriptors over Unix sockets that have a name in no file system, and that a forked
// child does not keep. Nothing here blocks.
#ifndef GQ_TRANSPORT_BOOTSTRAP_PACKET_SOCKET_H
#define GQ_TRANSPORT_BOOTSTRAP_PACKET_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "src/support/posix/fork.h"
#include "src/support/status.h"
#include "src/transport/bootstrap/unique_id.h"
#include "src/transport/process/descriptor.h"

namespace gq {

/** The kernel takes 253 descriptors a packet. */
inline constexpr size_t kPacketDescriptorsMax = 250;

enum class Delivery {
  done,
  not_yet,  ///< would have to wait
  closed    ///< the other end is gone
};

/** DUPLICATE_RANK if a process listens under that name already. */
Status listen_as(const UniqueId& id, ForkGuard* listener);

/** closed while no process listens under that name, not_yet while the listener's queue is full.
 *  SYSTEM if the listener is another user's. */
Status connect_to(const UniqueId& id, ForkGuard* socket, Delivery* delivery);

/** The next client of this user in *socket; clients of others are dropped. */
Status accept_client(int listener, ForkGuard* socket, Delivery* delivery);

/** Process id of the other end, for messages; 0 if unknown. */
int32_t peer_process(int socket);

Status send_packet(int socket, const void* bytes, size_t size_bytes, const int* descriptors,
                   size_t descriptor_count, Delivery* delivery);

/** A packet that came: what was read of it, and the descriptors that came with it. */
struct Packet {
  void* bytes;
  size_t capacity_bytes;
  Descriptor* descriptors;
  size_t descriptor_capacity;
  size_t size_bytes = 0;  ///< of the whole packet, even if it did not fit
  size_t descriptor_count = 0;
};

/** NO_RESOURCE if this process could not open the descriptors that came. */
Status receive_packet(int socket, Packet* packet, Delivery* delivery);

}  // namespace gq

#endif
