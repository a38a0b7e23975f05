// CRC-32C (Castagnoli; iSCSI, RFC 3720): the checksum of messages. The same number from every
// implementation.
#ifndef GQ_KERNELS_CHECKSUM_CRC32C_H
#define GQ_KERNELS_CHECKSUM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

namespace gq {

/** The checksum of the bytes behind those whose checksum is `crc`, 0 before the first: so pieces
 *  follow each other. By the fastest implementation of this machine. */
uint32_t crc32c(uint32_t crc, const void* bytes, size_t size_bytes);

struct Crc32cImplementation {
  const char* name;
  uint32_t (*checksum)(uint32_t crc, const void* bytes, size_t size_bytes);
};

/** Those that run here, the fastest first; the checksum of the last is null. */
const Crc32cImplementation* crc32c_implementations();

}  // namespace gq

#endif
