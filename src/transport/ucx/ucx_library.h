// libucp.so.0, found and opened while the program runs, and kept from changing the process that it
// is loaded into. An unusable library is an error sentence, not a failed start.
#ifndef GQ_TRANSPORT_UCX_UCX_LIBRARY_H
#define GQ_TRANSPORT_UCX_UCX_LIBRARY_H

#include "src/support/shown.h"
#include "src/support/status.h"
#include "src/transport/ucx/ucx_types.h"

namespace gq {

namespace ucx {

struct FunctionTable {
#define GQ_UCX_MEMBER(member, symbol, result, arguments) result(*member) arguments;
  GQ_UCX_FUNCTIONS(GQ_UCX_MEMBER)
#undef GQ_UCX_MEMBER
};

}  // namespace ucx

struct UcxLibrary : ucx::FunctionTable {
  unsigned major, minor, release;
  char path[Shown::kTextBytes];  ///< of the file that is open, as a sentence shows it
};

/** The copy that this process has already; else the library at `path`; else, without a path, the
 *  file named by GQSGD_UCX_LIBRARY; else libucp.so.0 as the loader finds it. Opened once and never
 *  closed. UNSUPPORTED if there is none, or it is older than 1.13, or a function is missing, or the
 *  process has another copy than `path`: two copies do not work in one process.
 *
 *  A copy that is opened here installs no signal handler, hooks no function, starts no thread for
 *  monitoring and prints nothing, unless UCX_* variables of the user ask for that. A copy that the
 *  process has keeps the settings it was loaded with. */
Status open_ucx(const char* path, const UcxLibrary** library);

}  // namespace gq

#endif
