// mmap, mremap, munmap and two pieces of advice.
#include "src/transport/process/mapping.h"

#include <errno.h>
#include <sys/mman.h>

#include "src/support/posix/fork.h"
#include "src/transport/system_failure.h"

namespace gq {

Status Mapping::map(int descriptor, uint64_t offset_bytes, size_t size_bytes, Access access) {
  ForkHold hold;  // of other threads, until a child does not get it
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* base = mmap(nullptr, size_bytes, protection, MAP_SHARED, descriptor,
                    static_cast<off_t>(offset_bytes));
  if (base == MAP_FAILED) {
    return system_failure(errno, "mapping %zu bytes of shared memory", size_bytes);
  }
  unmap();
  base_ = static_cast<unsigned char*>(base);
  size_bytes_ = size_bytes;
  // A child that touched a parent's arena would race with it; see the fork guard for descriptors.
  if (madvise(base, size_bytes, MADV_DONTFORK) != 0 ||
      madvise(base, size_bytes, MADV_DONTDUMP) != 0) {
    const int error = errno;
    unmap();
    return system_failure(error, "advice on %zu bytes of shared memory", size_bytes);
  }
  return Status();
}

Status Mapping::grow(size_t size_bytes) {
  if (size_bytes <= size_bytes_) return Status();
  void* base = mremap(base_, size_bytes_, size_bytes, MREMAP_MAYMOVE);
  if (base == MAP_FAILED) {
    return system_failure(errno, "mapping %zu instead of %zu bytes of shared memory", size_bytes,
                          size_bytes_);
  }
  base_ = static_cast<unsigned char*>(base);
  size_bytes_ = size_bytes;
  return Status();
}

void Mapping::unmap() {
  if (base_ != nullptr) munmap(base_, size_bytes_);
  abandon();
}

}  // namespace gq
