/* Communicators over NCCL, for ranks with a GPU each: docs/NCCL.md.
 *
 * NCCL 2.14 or later is opened while the program runs and never linked: the copy that the process
 * has already, else the file that GQSGD_NCCL_LIBRARY names, else libnccl.so.2 as the loader finds
 * it; or the file of the option nccl=FILE. Whatever is missing is UNSUPPORTED with a sentence.
 *
 * Calls work on memory of the GPU and are enqueued on their `stream`, a cudaStream_t, NULL being
 * the default one; they return before they are executed, and buffers are theirs until then. The
 * host waits only where a call is not of the kind that was expected after the one before: then a
 * difference between ranks is MISMATCH at once, on all of them. Otherwise it is found on the GPU,
 * and `recv` stays as it was; gqsgd_comm_status returns it, and so does the next call, which is
 * executed nevertheless.
 * All collectives work there, with every schedule. AUTO is DIRECT; with `costs` it is NATIVE, with
 * float32 in place of codes, where that is faster (docs/COST.md).
 * The _start forms enqueue the call in the same way. Their request ends when the stream has
 * executed the call. Its status is what the GPU found for this call; no later call returns it.
 *
 * While its stream is captured a call becomes part of the graph, if one of its kind was made before
 * (else UNSUPPORTED), and its step is not given: with GQSGD_STEP_COUNTER each replay takes the next
 * step of the communicator's counter, which the GPU advances from the first capture on, with
 * GQSGD_STEP_DEVICE what device_step has at each replay.
 * gqsgd_comm_counter is right once streams are through. No graph may be replayed after
 * gqsgd_comm_destroy. */
#ifndef GQSGD_NCCL_H
#define GQSGD_NCCL_H

#include "gqsgd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A fresh name for a group over NCCL, to be given to all its ranks; one rank makes it.
 *  options  as for the communicator: nccl=FILE is looked at */
gqsgd_status gqsgd_nccl_unique_id_create(const char *options, gqsgd_unique_id *unique_id);

/** Joins a group of `size` ranks, each with the GPU that is current on its thread, as rank `rank`;
 *  returns when all are there and connected, or TIMEOUT. Beside the other options
 *    nccl=FILE          the NCCL to use
 *    nccl_blocking=off  no thread of this library stays behind where a group does not form, but
 *                       each operation takes the host longer, and no call may be on
 *                       cudaStreamPerThread; equal on all ranks
 *  A thread of the library watches over the communicator: whatever breaks the group completes its
 *  streams, also while the program calls nothing of this library.
 *  chunk_value_count is 4194304 where it is not given. */
gqsgd_status gqsgd_comm_create_nccl(const gqsgd_unique_id *unique_id, int32_t rank, int32_t size,
                                    const char *options, gqsgd_comm *comm);

/** The same on an ncclComm_t that the caller made, with a library that this process has loaded
 *  (nccl=FILE selects one, where there are several), and destroys after `comm`. All its ranks call.
 *  It is never aborted here: after a failure that breaks `comm` that is for the caller to do. */
gqsgd_status gqsgd_comm_create_from_nccl(void *nccl_comm, const char *options, gqsgd_comm *comm);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
