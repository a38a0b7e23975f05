// Why a group broke: one word that fits an atomic, and the sentence for it.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_CAUSE_H
#define GQ_TRANSPORT_SHARED_MEMORY_CAUSE_H

#include <stddef.h>
#include <stdint.h>

#include "src/support/status.h"

namespace gq {

/** `status` is never OK. `reporter` broke off because of `culprit`, which may be itself. Ranks fit
 *  24 bits: no transport has more of them. */
struct Cause {
  gqsgd_status status;
  uint32_t culprit;
  uint32_t reporter;
};

/** Never 0. */
uint64_t pack(const Cause& cause);
Cause unpack_cause(uint64_t word);
/** False for a word that no correct peer of `ranks` ranks writes. */
bool is_cause(uint64_t word, uint32_t ranks);

/** The failure of rank `self` for `cause`. `destroyed`: the culprit left in good order. `awaited`:
 * what this rank was waiting for, or "". */
Status explain(const Cause& cause, uint32_t self, bool destroyed, const char* awaited);

}  // namespace gq

#endif
