// The kernel's random number of this boot, and the number of the network namespace.
#include "src/transport/network/bootstrap/host_identity.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/transport/boot_id.h"

namespace gq {
namespace {

constexpr char kNetworkNamespace[] = "/proc/self/ns/net";

/** Digests are for names that are compared, not for secrets: their key is known. */
Status name_of(const Hmac& hmac, const AuthenticatedBytes& bytes, unsigned char (&name)[16]) {
  Digest digest;
  GQ_TRY(hmac.digest(Digest(), bytes, &digest));
  memcpy(name, digest.bytes, sizeof name);
  return Status();
}

void read_host_name(char* name, size_t capacity_bytes) {
  if (gethostname(name, capacity_bytes) != 0) snprintf(name, capacity_bytes, "?");
  name[capacity_bytes - 1] = '\0';
}

}  // namespace

Status identify_host(const Hmac& hmac, const char* host_id, NetworkMember* member) {
  read_host_name(member->host_name, sizeof member->host_name);
  member->user = geteuid();
  char boot[64];
  read_boot_id(member->host_name, boot, sizeof boot);
  struct stat space {};
  if (stat(kNetworkNamespace, &space) != 0) space.st_ino = 0;

  AuthenticatedBytes system("system");
  system.add(boot, strlen(boot) + 1);
  system.add(&space.st_ino, sizeof space.st_ino);
  GQ_TRY(name_of(hmac, system, member->system));

  const bool is_given = host_id[0] != '\0';
  AuthenticatedBytes node(is_given ? "given node" : "node");
  const char* name = is_given ? host_id : boot;
  node.add(name, strlen(name) + 1);
  return name_of(hmac, node, member->node);
}

bool is_process_group(const NetworkMember* members, uint32_t count) {
  const NetworkMember& first = members[0];
  for (uint32_t rank = 1; rank < count; ++rank) {
    const NetworkMember& next = members[rank];
    if (next.user != first.user || memcmp(next.node, first.node, sizeof first.node) != 0 ||
        memcmp(next.system, first.system, sizeof first.system) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace gq
