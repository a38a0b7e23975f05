/* Groups that change while training goes on: ranks leave, ranks join, and the random numbers of the
 * training continue. A coordinator outside of the library (torchft, a scheduler, a program of your
 * own) knows who is alive and decides who belongs to the next group: docs/ELASTIC.md.
 *
 *     // ranks 0 and 2 of a group of 3 go on without rank 1; a new process becomes rank 2
 *     const int32_t members[3] = {0, 2, -1};
 *     gqsgd_comm next;
 *     gqsgd_comm_reconfigure(comm, &id, members, rank, 3, "", &next);  // newcomer: comm is NULL
 *     gqsgd_comm_destroy(comm); */
#ifndef GQSGD_ELASTIC_H
#define GQSGD_ELASTIC_H

#include "gqsgd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A fresh name for a group of threads of this process, for gqsgd_comm_reconfigure. */
gqsgd_status gqsgd_local_id_create(gqsgd_unique_id *unique_id);

/** Joins a new group that continues an old one, which may have failed, been aborted, or be intact.
 *  Every member of the new group calls it; it returns when all have.
 *  comm       [in]  this rank's end of the old group; NULL on a newcomer. It stays as it is, and is
 *                   the caller's to destroy, before or (to try again after a failure) after. A
 *                   thread inside a call of it is BUSY, and requests in flight are waited for:
 *                   abort a communicator whose calls hang first
 *  unique_id  [in]  a fresh id, equal on all members, which decides the transport of the new group:
 *                   of gqsgd_unique_id_create (processes), gqsgd_network_id_create on the new rank
 *                   0 (network) or gqsgd_local_id_create (threads)
 *  members    [in]  `size` numbers, equal on all members: rank k of the new group was rank
 *                   members[k] of the old one, or is a newcomer (-1). At least one survives
 *  rank, size [in]  of this process in the new group
 *  options    [in]  as for communicators. On a survivor timeout_ms, chunk_value_count, threads,
 *                   nontemporal_bytes and those of a network have the old communicator's values
 *                   unless they are given. stream_id, costs and uncompressed are the survivors' and
 *                   may not be given
 *  new_comm   [out] NULL after a failure
 *
 *  The counter continues: it is the largest of the survivors', which differ where a rank died in
 *  the middle of a call, so that no random key is used twice. stream_id and costs, measured ones
 *  included, are the survivors' on all ranks. From then on results are those of a group of `size`
 *  ranks at that step, bit for bit those of gqsgd_simulate.
 *
 *  It makes all connections anew. It ends within timeout_ms if a member does not come, and within
 *  about as long again if one is stopped after that. Failures are those of the functions that
 *  create such a group (TIMEOUT names the members that are missing), and
 *    INVALID_ARGUMENT  no survivor; an option of the survivors'; an id that is none
 *    MISMATCH          `members` does not say what a rank is; survivors of two groups, or with
 *                      different stream_id or costs; the same on all ranks
 *    UNSUPPORTED       `comm` is over MPI, NCCL or a custom transport: make a new communicator of
 *                      that kind, and set its counter */
gqsgd_status gqsgd_comm_reconfigure(gqsgd_comm comm, const gqsgd_unique_id *unique_id,
                                    const int32_t *members, int32_t rank, int32_t size,
                                    const char *options, gqsgd_comm *new_comm);

/** What a rank of a group that has shrunk does about its calls, which the survivors agree on. */
enum {
  /** Makes those again that failed here, if any: no survivor has a result that this rank lacks. */
  GQSGD_CALLS_REPEAT = 0,
  /** The same, but the first of them: other survivors had its result, which `recv` now has as well.
   */
  GQSGD_CALLS_FINISHED = 1,
  /** Makes the newest call that ended here again, and then those that failed: other survivors do
   *  not have its result. Its input is as it was, since it was made out of place. */
  GQSGD_CALLS_REPEAT_FINISHED = 2,
  /** The newest call that ended on some survivors has failed on others, which cannot get its
   *  result, or calls were on streams: the program brings its ranks to one state itself. */
  GQSGD_CALLS_DIFFER = 3
};

/** Breaks a communicator on all ranks, without waiting for any: calls fail with REVOKED, or with
 *  what broke it first. Requests in flight end. Further calls have no effect.
 *  dead        [out] the ranks that are known to have died or to have destroyed their communicator,
 *                    by evidence of the system: as many places as the group has ranks; or NULL
 *  dead_count  [out] their number; or NULL
 *  BUSY while another thread is inside a call (gqsgd_comm_abort ends that), else as
 *  gqsgd_comm_shrink. */
gqsgd_status gqsgd_comm_revoke(gqsgd_comm comm, int32_t *dead, int32_t *dead_count);

/** Makes a communicator of the ranks that are left, without a coordinator: they agree on who goes
 *  on and on the calls that were interrupted, and are numbered in their old order. Every rank that
 *  is alive calls it, each in its own time; one whose communicator is intact has it broken by the
 *  others, and calls it then.
 *  comm         [in]  this rank's end of the old group, which is broken from then on. It stays the
 *                     caller's to destroy. A thread inside a call of it is BUSY
 *  recv         [out] the output buffer of the first call that failed here, so that it may get the
 *                     result that others have (GQSGD_CALLS_FINISHED); NULL if there is none, or if
 *                     it is to be left as it is
 *  count, dtype [in]  of recv, as that call had them; of NULL any
 *  options      [in]  as of gqsgd_comm_reconfigure. A rank that is neither dead nor here is waited
 *                     for until timeout_ms has passed
 *  new_comm     [out] NULL after a failure
 *  members      [out] the old rank of each new one: as many places as the old group has ranks, of
 *                     which the size of *new_comm are written; or NULL
 *  interrupted  [out] GQSGD_CALLS_*; or NULL
 *
 *  A rank is left out if it is certainly dead: the system shows that its process has ended
 *  (processes, network), or it has destroyed its communicator. A rank that may be alive is left out
 *  only by a strict majority of the old group, or by those that come after it has got REVOKED from
 *  this function: it does not go on then. All ranks that get OK have the same members and the
 *  same outcome; a member may be dead by then, which the next call says. Ranks that die meanwhile
 *  are left out too.
 *
 *  counter, stream_id and costs continue as with gqsgd_comm_reconfigure. Failures:
 *    REVOKED           the others go on without this rank, or may do so: it belongs to no majority;
 *                      or this communicator was shrunk before
 *    INVALID_ARGUMENT  also if recv is not as the call that failed had it: this rank may call
 *                      again, and the others wait for it
 *    BUSY, BAD_HANDLE, FORKED
 *    UNSUPPORTED       over MPI, NCCL or a custom transport, or more than 1,024 ranks
 *    NO_MEMORY, NO_RESOURCE, SYSTEM: of this rank alone; the others go on without it */
gqsgd_status gqsgd_comm_shrink(gqsgd_comm comm, void *recv, size_t count, gqsgd_dtype dtype,
                               const char *options, gqsgd_comm *new_comm, int32_t *members,
                               int32_t *interrupted);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
