// Filling and checking ids.
#include "src/transport/bootstrap/unique_id.h"

#include <string.h>

#include "src/transport/bootstrap/random_bytes.h"

namespace gq {
namespace {

constexpr uint32_t kMagic = 0x64695147;  // "GQid"
constexpr uint32_t kVersion = 1;

}  // namespace

Status make_unique_id(gqsgd_unique_id* out) {
  UniqueId id{};
  id.magic = kMagic;
  id.version = kVersion;
  GQ_TRY(random_bytes(id.name, sizeof id.name));
  GQ_TRY(random_bytes(id.secret, sizeof id.secret));
  memcpy(out->bytes, &id, sizeof id);
  return Status();
}

Status read_unique_id(const gqsgd_unique_id& bytes, UniqueId* out) {
  memcpy(out, bytes.bytes, sizeof *out);
  if (out->magic != kMagic) {
    return fail(
        GQSGD_INVALID_ARGUMENT,
        "unique_id does not hold an id: its first word is %#x, not %#x; pass on all %zu bytes "
        "of gqsgd_unique_id_create",
        out->magic, kMagic, sizeof *out);
  }
  if (out->version == kVersion) return Status();
  return fail(GQSGD_VERSION, "unique_id has layout %u, this library reads %u", out->version,
              kVersion);
}

}  // namespace gq
