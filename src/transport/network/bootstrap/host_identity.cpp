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

struct HostName {
  HostName() {
    if (gethostname(text, sizeof text) != 0) snprintf(text, sizeof text, "?");
    text[sizeof text - 1] = '\0';
  }
  char text[256] = {};
};

}  // namespace

Status identify_host(const Hmac& hmac, const char* host_id, NetworkMember* member) {
  const HostName host;
  memcpy(member->host_name, host.text, sizeof member->host_name - 1);  // for sentences
  member->user = geteuid();
  char boot[sizeof host.text];
  read_boot_id(host.text, boot, sizeof boot);
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
