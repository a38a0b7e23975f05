// Rank 0 is the root, all others are its joiners.
#include "src/transport/bootstrap/bootstrap.h"

#include <new>

#include "src/transport/bootstrap/bootstrap_joiner.h"
#include "src/transport/bootstrap/bootstrap_root.h"

namespace gq {

Status open_bootstrap(const JoinToken& join_token, std::unique_ptr<Bootstrap>* out) {
  if (join_token.rank == 0) {
    std::unique_ptr<Root> root(new (std::nothrow) Root(join_token));
    if (root) GQ_TRY(root->prepare());
    *out = std::move(root);
  } else {
    out->reset(new (std::nothrow) Joiner(join_token));
  }
  if (*out) return Status();
  return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u to join", join_token.rank,
              join_token.size);
}

}  // namespace gq
