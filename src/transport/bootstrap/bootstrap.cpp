// Rank 0 is the host, all others are its guests.
#include "src/transport/bootstrap/bootstrap.h"

#include <new>

#include "src/transport/bootstrap/bootstrap_guest.h"
#include "src/transport/bootstrap/bootstrap_host.h"

namespace gq {

Status open_meeting(const Invitation& invitation, std::unique_ptr<Meeting>* out) {
  if (invitation.rank == 0) {
    std::unique_ptr<Host> host(new (std::nothrow) Host(invitation));
    if (host) GQ_TRY(host->prepare());
    *out = std::move(host);
  } else {
    out->reset(new (std::nothrow) Guest(invitation));
  }
  if (*out) return Status();
  return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u to join", invitation.rank,
              invitation.size);
}

}  // namespace gq
