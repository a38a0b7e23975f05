/* libgqsgd: allreduce of gradients in 8 or 4 bits, without bias (Global-QSGD). C99.
 *
 *     #include <gqsgd.h>
 *     #include <stdio.h>
 *     #include <unistd.h>
 *     int main(void) {
 *       gqsgd_unique_id id; gqsgd_comm comm; gqsgd_quantizer q;
 *       if (gqsgd_unique_id_create(&id)) return puts(gqsgd_last_error()), 1;
 *       const int rank = fork() == 0;  // two processes of this machine
 *       float x[3] = {rank, 2, -4};
 *       if (gqsgd_quantizer_create("blocks-8", &q) ||
 *           gqsgd_comm_create_process(&id, rank, 2, "", &comm) ||
 *           gqsgd_allreduce(comm, q, x, x, 3, GQSGD_FLOAT32, GQSGD_MEAN, NULL, NULL))
 *         return puts(gqsgd_last_error()), 1;
 *       printf("rank %d: %.4f %.4f %.4f\n", rank, x[0], x[1], x[2]);
 *       return gqsgd_comm_destroy(comm) || gqsgd_quantizer_destroy(q);
 *     }
 *
 * Other groups: gqsgd_network.h, gqsgd_mpi.h, gqsgd_nccl.h, gqsgd_transport.h, gqsgd_elastic.h.
 * gqsgd_model.h: errors, times. gqsgd_stages.h: steps. gqsgd_log.h. docs/ERRORS.md: failures.
 *
 * Handles are tokens that every call checks; *out is NULL after a failed creation. Counts are in
 * elements; names of other quantities end in their unit. No call prints, exits or throws.
 *
 *     function                              threads at the same time
 *     quantizers, models, errors, stages    any number
 *     gqsgd_comm_rank, size, transport,     any number, also beside a call; gqsgd_comm_destroy
 *       timeout, counter, stat, status        waits for them, later ones are BAD_HANDLE
 *     gqsgd_comm_abort                      the same, and signal handlers, which call nothing else
 *     others on one communicator            one; a second one gets BUSY
 *
 * Inside a call a deferred pthread_cancel waits, and floats round to nearest and do not trap. 64
 * KiB of stack are enough, besides what CUDA, NCCL, MPI or the functions of a transport need. */
#ifndef GQSGD_H
#define GQSGD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define GQSGD_ENUM_TYPE : int32_t /* any number may be in one, as in C */
extern "C" {
#else
#define GQSGD_ENUM_TYPE
#endif
#pragma GCC visibility push(default)

#define GQSGD_VERSION_MAJOR 0
#define GQSGD_VERSION_MINOR 1
#define GQSGD_VERSION_PATCH 0

/* ---- Statuses and errors --------------------------------------------------------------------- */
typedef int32_t gqsgd_status;
/* X(name, number, meaning). The numbers never change. */
#define GQSGD_STATUS_TABLE(X)                                                          \
  X(OK, 0, "success")                                                                  \
  X(INVALID_ARGUMENT, 1, "an argument is outside what the call accepts")               \
  X(UNSUPPORTED, 2, "valid, but not available in this build or on this machine")       \
  X(BAD_HANDLE, 3, "the handle is stale, foreign or of another type")                  \
  X(BUSY, 4, "another thread is inside this communicator")                             \
  X(FORKED, 5, "the handle belongs to the parent of this process")                     \
  X(NO_MEMORY, 20, "memory could not be allocated")                                    \
  X(NO_RESOURCE, 21, "a descriptor, thread or name could not be had")                  \
  X(SYSTEM, 22, "a system call failed")                                                \
  X(BACKEND, 23, "a library underneath (CUDA, NCCL, MPI, a custom transport) failed")  \
  X(MISMATCH, 40, "the ranks called with different arguments")                         \
  X(VERSION, 41, "the ranks run incompatible versions of this library")                \
  X(REMOTE_ERROR, 42, "another rank failed its own checks")                            \
  X(DUPLICATE_RANK, 43, "two processes claimed the same rank")                         \
  X(TIMEOUT, 60, "no progress within the time allowed")                                \
  X(PEER_LOST, 61, "a rank has died or gone away")                                     \
  X(ABORTED, 62, "the communicator was aborted")                                       \
  X(REVOKED, 63, "the other ranks gave this communicator up")                          \
  X(PROTOCOL, 64, "a peer sent something that no correct peer sends")                  \
  X(INTEGRITY, 65, "what a rank sent was changed on its way, or results differ")       \
  X(NONFINITE, 80, "an input holds NaN or infinity and nonfinite=error was asked for") \
  X(OVERFLOW, 81, "a result does not fit the type asked for")                          \
  X(INTERNAL, 99, "a fault of this library; please report it")
#define GQSGD_STATUS_ENUMERATOR(name, number, meaning) GQSGD_##name = number,
enum { GQSGD_STATUS_TABLE(GQSGD_STATUS_ENUMERATOR) };

/** "PEER_LOST" for 61, and its meaning; "UNKNOWN" for other numbers. Static storage. */
const char *gqsgd_status_name(gqsgd_status status);
const char *gqsgd_status_string(gqsgd_status status);

/** The sentence of the last failure on this thread, "" before the first; a success does not clear
 *  it. Valid until the next call of this library on this thread. */
const char *gqsgd_last_error(void);

/** The loaded library: major * 10000 + minor * 100 + patch, and a line about its build. */
int32_t gqsgd_version(void);
const char *gqsgd_build_info(void);

/* ---- Types ----------------------------------------------------------------------------------- */
typedef struct gqsgd_comm_s *gqsgd_comm;           /**< one rank's end of a group of ranks */
typedef struct gqsgd_quantizer_s *gqsgd_quantizer; /**< an immutable description of a format */
typedef struct gqsgd_request_s *gqsgd_request;     /**< a collective that was started */

/** Name and secret of a group of processes; one process makes it and gives it to all. */
typedef struct {
  unsigned char bytes[256];
} gqsgd_unique_id;

/** Element types of user buffers. Enumerations have 32 bits, also with -fshort-enums. */
typedef enum GQSGD_ENUM_TYPE {
  GQSGD_FLOAT32 = 0,
  GQSGD_FLOAT16 = 1,
  GQSGD_BFLOAT16 = 2,
  GQSGD_FLOAT64 = 3, /**< as float32: rounded to it, and results are float32 numbers */
  GQSGD_DTYPE_MAX_ = INT32_MAX
} gqsgd_dtype;

typedef enum GQSGD_ENUM_TYPE { GQSGD_SUM = 0, GQSGD_MEAN = 1, GQSGD_OP_MAX_ = INT32_MAX } gqsgd_op;

/** docs/SCHEDULES.md. AUTO is DIRECT; with the option `costs` the fastest whose squared error
 *  is expected below 1.5 times DIRECT's. NATIVE needs MPI, NCCL or a table with an allreduce. */
typedef enum GQSGD_ENUM_TYPE {
  GQSGD_SCHEDULE_AUTO = 0,
  GQSGD_SCHEDULE_RING = 1,
  GQSGD_SCHEDULE_TREE = 2,
  GQSGD_SCHEDULE_BUTTERFLY = 3,
  GQSGD_SCHEDULE_DIRECT = 4,
  GQSGD_SCHEDULE_HIERARCHICAL = 5,
  GQSGD_SCHEDULE_NATIVE = 6,
  GQSGD_SCHEDULE_SPARSE = 7,
  GQSGD_SCHEDULE_MAX_ = INT32_MAX
} gqsgd_schedule;

/** Where step and index come from, which with seed and stream_id are the random key of a call. */
typedef enum GQSGD_ENUM_TYPE {
  GQSGD_STEP_COUNTER = 0, /**< the communicator's counter, which advances by one, and index 0 */
  GQSGD_STEP_GIVEN = 1,   /**< `step` and `index` of the config */
  GQSGD_STEP_DEVICE = 2,  /**< two uint32_t in device memory, read when the stream gets there */
  GQSGD_STEP_MAX_ = INT32_MAX
} gqsgd_step_source;

/** Rarely used arguments of a call, equal on all ranks. Begin with GQSGD_CONFIG_INIT; what
 *  step_source does not select stays 0. */
typedef struct {
  size_t size_bytes;       /**< sizeof(gqsgd_config) */
  gqsgd_schedule schedule; /**< of allreduces; others have one, and take AUTO */
  gqsgd_step_source step_source;
  uint64_t step;               /**< GIVEN: below 2^32 */
  uint64_t index;              /**< GIVEN: call within the step, below 2^16 */
  const uint32_t *device_step; /**< DEVICE: address of step and index (docs/CUDA.md) */
} gqsgd_config;

#define GQSGD_CONFIG_INIT \
  { sizeof(gqsgd_config), GQSGD_SCHEDULE_AUTO, GQSGD_STEP_COUNTER, 0, 0, NULL }

/* ---- Quantizers ------------------------------------------------------------------------------ */
/** From a specification such as "blocks-8,seed=7": a preset, "" being blocks-8, then field=value
 *  (docs/PRESETS.md). INVALID_ARGUMENT lists what is allowed. */
gqsgd_status gqsgd_quantizer_create(const char *spec, gqsgd_quantizer *out);

/** Writes the full specification, every field named, into `spec`: at most `capacity_bytes` with the
 *  final 0, cut if shorter. *size_bytes, unless NULL, is the size needed. */
gqsgd_status gqsgd_quantizer_describe(gqsgd_quantizer quantizer, char *spec, size_t capacity_bytes,
                                      size_t *size_bytes);

/** Calls under way keep what they need. NULL is OK. */
gqsgd_status gqsgd_quantizer_destroy(gqsgd_quantizer quantizer);

/* ---- Communicators --------------------------------------------------------------------------- */
/* Options are one string, "name=value,..", "" or NULL for the defaults. Equal on all ranks but for
 * timeout_ms, threads and nontemporal_bytes:
 *    timeout_ms         300000  a call without progress fails after it; -1: never, 0: the default
 *    stream_id          0       enters the random key: groups that reduce results of others differ
 *    chunk_value_count  65536   values per message; fewer between machines. No bit depends on it
 *    threads            1       that compute for a rank, at most 256. No bit depends on it
 *    nontemporal_bytes  0       packed codes of so many bytes get non-temporal stores; 0 for never
 *    costs              -       of AUTO's choices: FILE from gqsgd-calibrate, measure (the ranks
 *                               do, in 200 ms), or builtin; else GQSGD_COSTS
 *    uncompressed       auto    with costs AUTO sends float32 or bf16 where faster; or never
 *    checksum           -       of messages: crc32c (default between machines) or off (INTEGRITY)
 *    nodes              -       0:0:1:1, equal for ranks of one node (HIERARCHICAL), else found */

/** One group inside this process, a thread per rank: `rank_count` handles in rank order. */
gqsgd_status gqsgd_comm_create_local(int32_t rank_count, const char *options, gqsgd_comm *comms);

gqsgd_status gqsgd_unique_id_create(gqsgd_unique_id *unique_id);
/** Joins a group of `size` processes of one user on this machine; returns when all are there, or
 *  TIMEOUT naming those that are missing. Leaves nothing on disk. */
gqsgd_status gqsgd_comm_create_process(const gqsgd_unique_id *unique_id, int32_t rank, int32_t size,
                                       const char *options, gqsgd_comm *comm);

gqsgd_status gqsgd_comm_rank(gqsgd_comm comm, int32_t *rank);
gqsgd_status gqsgd_comm_size(gqsgd_comm comm, int32_t *size);
/** "threads", "processes", "network", "nccl", or a custom one's ("mpi"); valid until destroyed. */
gqsgd_status gqsgd_comm_transport(gqsgd_comm comm, const char **name);
/** The option timeout_ms; 0 restores the default. */
gqsgd_status gqsgd_comm_set_timeout(gqsgd_comm comm, int64_t timeout_ms);
gqsgd_status gqsgd_comm_timeout(gqsgd_comm comm, int64_t *timeout_ms);

/** The step of the next call that takes it from the counter, below 2^32. Save it with a checkpoint
 *  and set it again, equal on all ranks, to resume bit for bit. */
gqsgd_status gqsgd_comm_set_counter(gqsgd_comm comm, uint64_t step);
gqsgd_status gqsgd_comm_counter(gqsgd_comm comm, uint64_t *step);

/** Allocates what allreduces of this size need; not a collective. Smaller ones, tensor lists,
 *  slices, SPARSE on a device and AUTO with costs may allocate more in their first call. */
gqsgd_status gqsgd_comm_reserve(gqsgd_comm comm, gqsgd_quantizer quantizer, size_t count,
                                gqsgd_dtype dtype);

/** Running totals of this rank: calls, messages_sent, header_bytes_sent, payload_bytes_sent,
 *  uncompressed_bytes_sent (the payload as float32), payload_bytes_copied (0 where codes of peers
 *  are read in place), wait_ns, workspace_bytes, nonfinite_blocks, native_float_calls (added by the
 *  transport, in its order). Complete once a call has returned; replays of graphs do not count. */
gqsgd_status gqsgd_comm_stat(gqsgd_comm comm, const char *name, uint64_t *value);
/** OK, or the first failure that broke this communicator; its sentence becomes the last error. */
gqsgd_status gqsgd_comm_status(gqsgd_comm comm);

/** Breaks this rank's communicator without waiting: a call under way returns ABORTED, or OK if its
 *  result is complete; so do calls of peers that are threads or processes. Async-signal-safe. Over
 *  custom transports the next call, wait or gqsgd_comm_status acts on it, over NCCL a thread. */
gqsgd_status gqsgd_comm_abort(gqsgd_comm comm);

/** Frees this rank's communicator; waits for no rank, at most timeout_ms for streams. Requests in
 *  flight end with ABORTED before it returns, a call on another thread soon after. NULL is OK. */
gqsgd_status gqsgd_comm_destroy(gqsgd_comm comm);

/* ---- Collectives ----------------------------------------------------------------------------- */
/* Every rank makes the same calls in the same order.
 *   send    [in]  aligned to its elements
 *   recv    [out] equal to `send` (in place) or disjoint from it
 *   config  NULL for all defaults
 *   stream  NULL: host memory (over NCCL: the default stream); else a cudaStream_t: docs/CUDA.md
 * Blocks until the result is there; on a stream it may return before. A count of 0 is legal.
 *
 * A failed check, or a difference between ranks (MISMATCH, REMOTE_ERROR, NONFINITE), is reported on
 * all, leaves `recv` untouched and the communicator usable. PEER_LOST, TIMEOUT, ABORTED, REVOKED,
 * PROTOCOL, and all once codes move, break it; `recv` is untouched in place, else undefined. */

/** Adds or averages `count` elements; every rank ends with the same bits. In one flat array small
 *  tensors take the error of large ones beside them: use gqsgd_allreduce_many (docs/PRESETS.md). */
gqsgd_status gqsgd_allreduce(gqsgd_comm comm, gqsgd_quantizer quantizer, const void *send,
                             void *recv, size_t count, gqsgd_dtype dtype, gqsgd_op op,
                             const gqsgd_config *config, void *stream);

/** The same for tensors of counts[k] elements, each with norms of its own. recv[k] is send[k] or
 *  disjoint from all others; arrays are copied. Not with SPARSE. Allocates 80 bytes per tensor. */
gqsgd_status gqsgd_allreduce_many(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                  const void *const *send, void *const *recv, const size_t *counts,
                                  size_t tensor_count, gqsgd_dtype dtype, gqsgd_op op,
                                  const gqsgd_config *config, void *stream);

/** Adds or averages, and gives each rank its slice of counts[rank] elements. send: all slices in
 *  rank order; in place: recv is its slice in `send`. Codes are rounded once, and owners add
 *  float32. Allocates 32 bytes per rank and workspace for a slice. */
gqsgd_status gqsgd_reduce_scatter(gqsgd_comm comm, gqsgd_quantizer quantizer, const void *send,
                                  void *recv, const size_t *counts, gqsgd_dtype dtype, gqsgd_op op,
                                  const gqsgd_config *config, void *stream);

/** Gives every rank the slices of all, each rounded once, for its owner too. recv: all slices in
 *  rank order; in place: send is its slice in `recv`. */
gqsgd_status gqsgd_allgather(gqsgd_comm comm, gqsgd_quantizer quantizer, const void *send,
                             void *recv, const size_t *counts, gqsgd_dtype dtype,
                             const gqsgd_config *config, void *stream);

/** Takes the place of the next collective on a rank whose own checks failed, with the same config
 *  and stream: other ranks get REMOTE_ERROR with `reason` instead of waiting. */
gqsgd_status gqsgd_comm_refuse(gqsgd_comm comm, gqsgd_status reason, const gqsgd_config *config,
                               void *stream);

/* ---- Requests -------------------------------------------------------------------------------- */
/* A _start function returns at once. Requests run in the order of their start, equal on all ranks,
 * and blocking calls after them. `send` may not be written and `recv` not be read until test or
 * wait has returned the collective's status, invalid arguments included. A thread of the library
 * makes progress; over MPI test, wait, blocking calls do. BAD_HANDLE, BUSY, FORKED: no request. */
gqsgd_status gqsgd_allreduce_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void *send,
                                   void *recv, size_t count, gqsgd_dtype dtype, gqsgd_op op,
                                   const gqsgd_config *config, void *stream,
                                   gqsgd_request *request);
gqsgd_status gqsgd_allreduce_many_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                        const void *const *send, void *const *recv,
                                        const size_t *counts, size_t tensor_count,
                                        gqsgd_dtype dtype, gqsgd_op op, const gqsgd_config *config,
                                        void *stream, gqsgd_request *request);
gqsgd_status gqsgd_reduce_scatter_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                        const void *send, void *recv, const size_t *counts,
                                        gqsgd_dtype dtype, gqsgd_op op, const gqsgd_config *config,
                                        void *stream, gqsgd_request *request);
gqsgd_status gqsgd_allgather_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void *send,
                                   void *recv, const size_t *counts, gqsgd_dtype dtype,
                                   const gqsgd_config *config, void *stream,
                                   gqsgd_request *request);

/** Never waits. *done = 1: ended with the status returned, and freed. *done = 0: not ended (OK), or
 *  not tested (INVALID_ARGUMENT, BAD_HANDLE, FORKED, BUSY); it stays. */
gqsgd_status gqsgd_request_test(gqsgd_request request, int32_t *done);

/** Waits for the end, returns its status, frees the request unless BUSY; due after destroy too. */
gqsgd_status gqsgd_request_wait(gqsgd_request request);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
