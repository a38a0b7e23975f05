// What ranks of a network send each other over TCP: the handshake of a connection, the messages by
// which a group forms, and the notices of a group that has formed. All are fixed in size.
#ifndef GQ_TRANSPORT_NETWORK_NETWORK_MESSAGES_H
#define GQ_TRANSPORT_NETWORK_NETWORK_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "src/transport/bootstrap/bootstrap_messages.h"
#include "src/transport/network/hmac.h"
#include "src/transport/network/network_address.h"

namespace gq {

inline constexpr uint32_t kNetworkMagic = 0x746e7147;  // "Gqnt"
inline constexpr uint32_t kNetworkRanksMax = 1024;

enum class HelloPurpose : uint32_t { join = 1, mesh = 2 };

/** The first message of a connection, by the rank that connects. The layout stays in every version,
 *  so that versions can recognize each other. */
struct Hello {
  uint32_t magic = kNetworkMagic;
  uint32_t wire_version = kWireVersion;
  uint32_t library_version = kLibraryVersion;
  HelloPurpose purpose = HelloPurpose::join;
  uint32_t rank = 0;
  uint32_t size = 0;
  uint32_t to_rank = 0;
  uint32_t reserved = 0;
  unsigned char group[16] = {};
  unsigned char nonce[32] = {};
};
static_assert(sizeof(Hello) == 80);

/** The answer. It holds nothing of the group. */
struct Challenge {
  uint32_t magic = kNetworkMagic;
  uint32_t reserved = 0;
  unsigned char nonce[32] = {};
};
static_assert(sizeof(Challenge) == 40);

/** The proof of the rank that connects, over both messages before. */
struct Proof {
  Digest digest;
};

/** The proof of the rank that accepts, or that it refuses. */
struct Welcome {
  uint32_t magic = kNetworkMagic;
  int32_t status = GQSGD_OK;
  Digest digest;
};
static_assert(sizeof(Welcome) == 40);

/** What every rank knows of every other. */
struct NetworkMember {
  NetworkAddress address;         ///< where it listens for other ranks
  uint32_t user = 0;              ///< its user id
  unsigned char node[16] = {};    ///< equal for ranks of one node
  unsigned char system[16] = {};  ///< equal for ranks that reach each other by the loopback device
  char host_name[40] = {};
};
static_assert(sizeof(NetworkMember) == 96);

/** Rank 0 to a rank that has joined: with `rank_count` > 0 as many members follow; with 0 the end.
 *  A status that is not OK ends the bootstrap with `sentence`. */
struct NetworkOutcome {
  uint32_t magic = kNetworkMagic;
  int32_t status = GQSGD_OK;
  uint32_t rank_count = 0;
  uint32_t reserved = 0;
  unsigned char group_nonce[16] = {};  ///< fresh for every group, also with one secret
  char sentence[480] = {};
};
static_assert(sizeof(NetworkOutcome) == 512);

/** A rank to rank 0: first with a NetworkMember behind it, unless it cannot join; then when it is
 *  connected to all, or cannot be, or (TIMEOUT) does not wait any longer. */
struct NetworkReport {
  uint32_t magic = kNetworkMagic;
  int32_t status = GQSGD_OK;
  char sentence[472] = {};
};
static_assert(sizeof(NetworkReport) == 480);

inline constexpr uint32_t kEngineMagic = 0x6e657147;  // "Gqen"

/** Between any two ranks: the address of the sender's UCX, whose bytes follow. None follow of a
 *  rank that has failed. A report may come to rank 0 in its place, of a rank that gave up as the
 *  table was sent to it: their first words differ. */
struct EngineAddress {
  uint32_t magic = kEngineMagic;
  uint32_t size_bytes = 0;
};
static_assert(sizeof(EngineAddress) == offsetof(NetworkReport, sentence));
inline constexpr uint32_t kEngineAddressBytesMax = 4096;

/** Between any two ranks of a group that has formed. */
enum class NoticeKind : uint32_t {
  cause = 1,    ///< the sender has broken off: `word` is a packed Cause
  leaves = 2,   ///< the sender destroys its communicator
  awaited = 3,  ///< what the sender waits for: `word` is a packed Awaited
  /** A word of the sender's register (registers.h), its number in the bits above: one notice for
   *  each, in order, and the last one completes it. */
  word = 4,
};
inline constexpr uint32_t kNoticeNumberShift = 8;
struct Notice {
  uint32_t magic = kNetworkMagic;
  NoticeKind kind = NoticeKind::leaves;
  uint64_t word = 0;
};
static_assert(sizeof(Notice) == 16);

constexpr uint32_t kNoticeKindMask = (1u << kNoticeNumberShift) - 1;
constexpr bool is_word(const Notice& notice) {
  return (static_cast<uint32_t>(notice.kind) & kNoticeKindMask) ==
         static_cast<uint32_t>(NoticeKind::word);
}

}  // namespace gq

#endif
