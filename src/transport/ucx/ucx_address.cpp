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

std::vector<unsigned char> packed_ucx_address(const UcxEnd& own, const void* worker_address,
                                              size_t size_bytes) {
  UcxAddressHeader header{};
  header.magic = kMagic;
  header.ucx_major = static_cast<uint16_t>(own.ucx_major);
  header.ucx_minor = static_cast<uint16_t>(own.ucx_minor);
  header.rank = own.rank;
  header.size_bytes = static_cast<uint32_t>(size_bytes);
  header.paths = own.paths;
  header.checksum = checksum_of(header, static_cast<const unsigned char*>(worker_address));
  std::vector<unsigned char> packed(sizeof header + size_bytes);
  memcpy(packed.data(), &header, sizeof header);
  memcpy(packed.data() + sizeof header, worker_address, size_bytes);
  return packed;
}

Status check_ucx_address(uint32_t peer, const UcxEnd& own, const unsigned char* packed,
                         size_t size_bytes) {
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
  if (header.ucx_major != own.ucx_major || header.ucx_minor != own.ucx_minor) {
    return fail(GQSGD_VERSION,
                "rank %u has UCX %u.%u, this rank UCX %u.%u: all ranks need the same version "
                "(option ucx=FILE or GQSGD_UCX_LIBRARY chooses a library)",
                peer, header.ucx_major, header.ucx_minor, own.ucx_major, own.ucx_minor);
  }
  if (header.paths == own.paths) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "option paths is %u on rank %u and %u on rank %u; it is the same on all ranks",
              header.paths, peer, own.paths, own.rank);
}

}  // namespace gq
