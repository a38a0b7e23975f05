// The options string of a communicator: "timeout_ms=1000,stream_id=3,nodes=0:0:1".
#ifndef GQ_API_COMMUNICATOR_OPTIONS_STRING_H
#define GQ_API_COMMUNICATOR_OPTIONS_STRING_H

#include <stdint.h>

#include <optional>
#include <string>
#include <vector>

#include "src/plan/auto_choice.h"
#include "src/support/status.h"
#include "src/transport/control_message.h"
#include "src/transport/network/network.h"

namespace gq {

inline constexpr int64_t kTimeoutMsDefault = 300000;
inline constexpr int64_t kTimeoutMsMax = INT64_C(1)
                                         << 40;  // 35 years; in nanoseconds it fits 63 bits
/** Where peers' words are read in place, and where messages travel: there 8-bit codes and their
 *  scales stay below 64 KiB, up to which MPI sends at once over TCP. In a step a rank receives from
 *  all others: messages of more of them are shorter, since what a port cannot hold is lost and sent
 *  again (docs/decisions/0001-moves-in-order.md). */
inline constexpr uint32_t kChunkValueCountDefault = 65536;
inline constexpr uint32_t kChunkValueCountOnWires = 56 << 10;
constexpr uint32_t default_chunk_value_count(bool reads_in_place, uint32_t ranks) {
  if (reads_in_place) return kChunkValueCountDefault;
  if (ranks <= 4) return kChunkValueCountOnWires;
  return ranks <= 8 ? kChunkValueCountOnWires / 2 : kChunkValueCountOnWires / 4;
}
/** Fewer bytes than this are read faster from the cache of the processor that wrote them. */
inline constexpr uint32_t kNontemporalBytesDefault = 0;
/** On streams every message costs the start of a kernel: codes of some megabytes hide that. */
inline constexpr uint32_t kChunkValueCountOnStreams = 4 << 20;

struct CommOptions {
  int64_t timeout_ms = kTimeoutMsDefault;  ///< -1: for ever
  uint32_t stream_id = 0;
  uint32_t chunk_value_count = 0;  ///< 0: the transport's default
  uint32_t nontemporal_bytes = kNontemporalBytesDefault;
  uint32_t threads = 1;  ///< that compute for a rank, the caller's included
  AutoOptions choice;
  std::optional<ChecksumKind> checksum;  ///< none: the transport's default
  bool costs_given = false;  ///< not by the environment
  bool uncompressed_given = false;
  bool stream_id_given = false;
  std::vector<uint32_t> nodes;  ///< of each rank; empty: the transport knows them
  std::string nccl;             ///< the file to open; empty: whichever is found
  bool nccl_blocks = true;      ///< a communicator of NCCL that the library makes
  NetworkOptions network;
};

/** text may be NULL. GQSGD_TIMEOUT_MS and GQSGD_COSTS in the environment change the defaults of
 *  timeout_ms and costs; if malformed they are ignored with one line to the log. */
Status parse_options(const char* text, CommOptions* options);
/** The same where *options has the values of what `text` does not name. */
Status add_options(const char* text, CommOptions* options);

/** Maps 0 to the default, refuses what is out of range. */
Status check_timeout(int64_t timeout_ms, int64_t* checked_ms);

}  // namespace gq

#endif
