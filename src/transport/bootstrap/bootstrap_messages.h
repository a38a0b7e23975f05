// The three packets of a bootstrap, fixed in size, one process to another of the same machine.
#ifndef GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_MESSAGES_H
#define GQ_TRANSPORT_BOOTSTRAP_BOOTSTRAP_MESSAGES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "src/support/status.h"
#include "src/transport/control_message.h"

namespace gq {

inline constexpr uint32_t kBootstrapMagic = 0x65687147;  // "Gqhe"
inline constexpr uint32_t kLibraryVersion =
    GQSGD_VERSION_MAJOR * 10000 + GQSGD_VERSION_MINOR * 100 + GQSGD_VERSION_PATCH;

constexpr bool is_own_version(uint32_t wire_version, uint32_t library_version) {
  return wire_version == kWireVersion && library_version == kLibraryVersion;
}

/** The sentence about a rank of another version, which rank 0 sends to all. */
struct VersionsDiffer {
  VersionsDiffer(uint32_t rank, uint32_t wire_version, uint32_t library_version) {
    snprintf(sentence, sizeof sentence,
             "version: rank 0 has %u.%u.%u (wire %u), rank %u has %u.%u.%u (wire %u); install one "
             "libgqsgd for all",
             kLibraryVersion / 10000, kLibraryVersion / 100 % 100, kLibraryVersion % 100,
             kWireVersion, rank, library_version / 10000, library_version / 100 % 100,
             library_version % 100, wire_version);
  }
  char sentence[200];
};

/** The hint of every sentence about ranks that did not find each other. */
inline constexpr char kOneMachine[] =
    "a process group is for one machine and one network namespace";

/** A rank to rank 0, with its descriptors unless status is why it has none. The layout up to
 *  `size` stays in every version, so that versions can recognize each other. */
struct JoinRequest {
  uint32_t magic = kBootstrapMagic;
  uint32_t wire_version = kWireVersion;
  uint32_t library_version = kLibraryVersion;
  unsigned char secret[32] = {};
  uint32_t rank = 0;
  uint32_t size = 0;
  int32_t status = GQSGD_OK;
  uint32_t reserved = 0;
};
static_assert(sizeof(JoinRequest) == 60);

/** Rank 0 to a rank: with `rank_count` > 0 the descriptors of as many ranks from `first_rank` on,
 *  kMemberDescriptors each; with 0 the end of the bootstrap. A status that is not OK ends it with
 *  `sentence`. */
struct Outcome {
  uint32_t magic = kBootstrapMagic;
  int32_t status = GQSGD_OK;
  uint32_t tag = 0;
  uint32_t first_rank = 0;
  uint32_t rank_count = 0;
  char sentence[236] = {};
};
static_assert(sizeof(Outcome) == 256);

/** A rank to rank 0: it is ready, or has failed, or (TIMEOUT) does not wait any longer. */
struct Report {
  uint32_t magic = kBootstrapMagic;
  int32_t status = GQSGD_OK;
};

/** In a time that does not depend on where they differ. */
inline bool same_secret(const unsigned char (&a)[32], const unsigned char (&b)[32]) {
  unsigned char difference = 0;
  for (size_t i = 0; i < sizeof a; ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace gq

#endif
