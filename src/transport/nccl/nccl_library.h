// libnccl.so.2, found and opened while the program runs: its version is read before anything else.
// An unusable library is an error sentence, not a failed start.
#ifndef GQ_TRANSPORT_NCCL_NCCL_LIBRARY_H
#define GQ_TRANSPORT_NCCL_NCCL_LIBRARY_H

#include "src/support/shown.h"
#include "src/support/status.h"
#include "src/transport/nccl/nccl_types.h"

namespace gq {

namespace nccl {

struct Functions {
#define GQ_NCCL_MEMBER(member, symbol, result, arguments) result(*member) arguments;
  GQ_NCCL_FUNCTIONS(GQ_NCCL_MEMBER)
  GQ_NCCL_OPTIONAL_FUNCTIONS(GQ_NCCL_MEMBER)
#undef GQ_NCCL_MEMBER
};

}  // namespace nccl

struct NcclLibrary : nccl::Functions {
  int version;                   ///< 21400 is 2.14.0
  char path[Shown::kTextBytes];  ///< of the file that is open, as a sentence shows it
};

/** Which copies may be used. */
enum class NcclSearch {
  any,          ///< the one that this process has, or one that can be found
  loaded_only,  ///< for a communicator of the caller: only the caller's copy knows it
};

/** The library at `path`, which is opened once and never closed; without a path the copy that this
 *  process has already, else the file named by GQSGD_NCCL_LIBRARY, else libnccl.so.2 as the loader
 *  finds it. UNSUPPORTED if there is none, or it is older than 2.14, or a function is missing. */
Status open_nccl(const char* path, NcclSearch search, const NcclLibrary** library);

}  // namespace gq

#endif
