// Header, checksum and address in one array.
#include "src/transport/ucx/ucx_address.h"

#include <string.h>

#include "src/support/fnv1a.h"

namespace gq {
namespace {

constexpr uint32_t kMagic = 0x61786371;  // "qcxa"

/** Over the header without its checksum, and the address. */
uint64_t checksum_of(const UcxAddressHeader& header, const unsigned char* address) {
  Fnv1a64 checksum;
  checksum.add_bytes(&header, offsetof(UcxAddressHeader, checksum));
  checksum.add_bytes(address, header.size_bytes);
  return checksum.hash();
}

}  // namespace

std::vector<unsigned char> packed_ucx_address(uint32_t rank, unsigned ucx_major, unsigned ucx_minor,
                                              const void* worker_address, size_t size_bytes) {
  UcxAddressHeader header{
      kMagic, static_cast<uint16_t>(ucx_major),  static_cast<uint16_t>(ucx_minor),
      rank,   static_cast<uint32_t>(size_bytes), 0};
  header.checksum = checksum_of(header, static_cast<const unsigned char*>(worker_address));
  std::vector<unsigned char> packed(sizeof header + size_bytes);
  memcpy(packed.data(), &header, sizeof header);
  memcpy(packed.data() + sizeof header, worker_address, size_bytes);
  return packed;
}

Status check_ucx_address(uint32_t peer, unsigned ucx_major, unsigned ucx_minor,
                         const unsigned char* packed, size_t size_bytes) {
  UcxAddressHeader header;
  if (size_bytes <= sizeof header) {
    return fail(GQSGD_PROTOCOL, "the UCX address of rank %u has %zu bytes, at least %zu expected",
                peer, size_bytes, sizeof header + 1);
  }
  memcpy(&header, packed, sizeof header);
  if (header.magic != kMagic || header.size_bytes != size_bytes - sizeof header ||
      header.checksum != checksum_of(header, packed + sizeof header)) {
    return fail(GQSGD_PROTOCOL, "the %zu bytes that rank %u sent are not a UCX address: %s",
                size_bytes, peer,
                header.magic != kMagic                            ? "they begin otherwise"
                : header.size_bytes != size_bytes - sizeof header ? "their size is another"
                                                                  : "their checksum is another");
  }
  if (header.rank != peer) {
    return fail(GQSGD_PROTOCOL, "the UCX address that rank %u sent is rank %u's", peer,
                header.rank);
  }
  if (header.ucx_major == ucx_major && header.ucx_minor == ucx_minor) return Status();
  return fail(GQSGD_VERSION,
              "rank %u has UCX %u.%u, this rank UCX %u.%u: all ranks need the same version "
              "(option ucx=FILE or GQSGD_UCX_LIBRARY chooses a library)",
              peer, header.ucx_major, header.ucx_minor, ucx_major, ucx_minor);
}

}  // namespace gq
