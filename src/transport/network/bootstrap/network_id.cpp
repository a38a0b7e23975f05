// The listeners are one of the documented registries: an id is a value that names one of this
// process.
#include "src/transport/network/bootstrap/network_id.h"

#include <string.h>

#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "src/support/immortal.h"
#include "src/support/log.h"
#include "src/transport/bootstrap/random_bytes.h"

namespace gq {
namespace {

constexpr uint32_t kMagic = 0x6e697147;  // "Gqin"
constexpr uint32_t kVersion = 1;

struct Waiting {
  unsigned char name[16];
  std::unique_ptr<TcpSocket> listener;
};

struct Listeners {
  Listeners() { hold_across_fork(&mutex); }

  std::mutex mutex;
  std::vector<Waiting> waiting;
};

Listeners& listeners() { return immortal<Listeners>(); }

Status keep_listener(const NetworkId& id, std::unique_ptr<TcpSocket> listener) {
  Waiting waiting;
  memcpy(waiting.name, id.name, sizeof waiting.name);
  waiting.listener = std::move(listener);
  const std::lock_guard<std::mutex> lock(listeners().mutex);
  try {
    listeners().waiting.push_back(std::move(waiting));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the id of a group");
  }
  return Status();
}

}  // namespace

Status make_network_id(const NetworkAddress& address, gqsgd_unique_id* out) {
  GQ_TRY(watch_forks());
  NetworkId id{};
  id.magic = kMagic;
  id.version = kVersion;
  GQ_TRY(random_bytes(id.name, sizeof id.name));
  GQ_TRY(random_bytes(id.key.bytes, sizeof id.key.bytes));
  std::unique_ptr<TcpSocket> listener;
  GQ_TRY(listen_at(address, &listener, &id.address));
  GQ_TRY(keep_listener(id, std::move(listener)));
  log_line(GQSGD_LOG_INFO, "rank 0 of a group listens at %s%s", AddressText(id.address).text(),
           address.is_loopback() ? ", which this machine alone reaches" : "");
  memcpy(out->bytes, &id, sizeof id);
  return Status();
}

bool is_network_id(const gqsgd_unique_id& bytes) {
  return memcmp(bytes.bytes, &kMagic, sizeof kMagic) == 0;
}

Status read_network_id(const gqsgd_unique_id& bytes, NetworkId* out) {
  memcpy(out, bytes.bytes, sizeof *out);
  if (out->magic != kMagic) {
    return fail(
        GQSGD_INVALID_ARGUMENT,
        "unique_id does not hold the id of a network: its first word is %#x, not %#x; pass on all "
        "%zu bytes of gqsgd_network_id_create",
        out->magic, kMagic, sizeof *out);
  }
  if (out->version == kVersion) return Status();
  return fail(GQSGD_VERSION, "unique_id has layout %u, this library reads %u", out->version,
              kVersion);
}

Status take_listener(const NetworkId& id, std::unique_ptr<TcpSocket>* out) {
  const std::lock_guard<std::mutex> lock(listeners().mutex);
  std::vector<Waiting>& waiting = listeners().waiting;
  for (size_t k = 0; k < waiting.size(); ++k) {
    if (memcmp(waiting[k].name, id.name, sizeof id.name) != 0) continue;
    if (waiting[k].listener->number() < 0) break;  // its parent's
    *out = std::move(waiting[k].listener);
    waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(k));
    return Status();
  }
  return fail(GQSGD_INVALID_ARGUMENT,
              "this process does not listen at %s: rank 0 is the process that called "
              "gqsgd_network_id_create, and an id is for one group",
              AddressText(id.address).text());
}

}  // namespace gq
