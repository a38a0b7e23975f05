/* libgqsgd: allreduce of gradients in 8 or 4 bits, without bias (Global-QSGD).
 *
 * This header is the C ABI. It is C99, needs nothing but gqsgd_segments.h, which it includes, and
 * every function returns a status or a plain value; no exception, abort or output crosses it.
 *
 *   1. statuses and errors        5. collectives
 *   2. types and constants        6. requests: nonblocking collectives
 *   3. quantizers                 7. stages: one step of an allreduce at a time
 *   4. communicators              8. segments: tensor lists, slices (gqsgd_segments.h)
 *
 * Conventions. Handles are tokens: they are checked on every call and never dereferenced, so a
 * stale or foreign one is GQSGD_BAD_HANDLE. Buffers are element-aligned; lengths are in values
 * unless the name ends in a unit. docs/FORMAT.md defines every bit that is computed here,
 * docs/ERRORS.md every status and the state it leaves behind.
 *
 * Threads. A signal handler may call gqsgd_comm_abort and no other function of this library. While
 * a call computes, waits or calls back, its thread is not cancelled (a deferred pthread_cancel acts
 * after it), floating-point exceptions do not trap, and rounding is to nearest; the caller's state
 * comes back, flags included. A stack of 64 KiB is enough for every call on host memory; what a
 * transport's functions, MPI, CUDA or NCCL need of it comes on top. */
#ifndef GQSGD_H
#define GQSGD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GQSGD_API __attribute__((visibility("default")))
#else
#define GQSGD_API
#endif

#define GQSGD_VERSION_MAJOR 0
#define GQSGD_VERSION_MINOR 1
#define GQSGD_VERSION_PATCH 0

/* ---- 1. Statuses and errors ------------------------------------------------------------------ */

/** Result of every fallible call. The numbers never change. */
typedef int32_t gqsgd_status;

/* X(name, number, meaning). The one table of statuses; docs/ERRORS.md has the state after each. */
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
  X(REMOTE_ERROR, 42, "another rank failed its own checks and reported it")            \
  X(DUPLICATE_RANK, 43, "two processes claimed the same rank")                         \
  X(TIMEOUT, 60, "no progress within the time allowed")                                \
  X(PEER_LOST, 61, "a rank has died or gone away")                                     \
  X(ABORTED, 62, "the communicator was aborted")                                       \
  X(REVOKED, 63, "the other ranks gave this communicator up")                          \
  X(PROTOCOL, 64, "a peer sent something that no correct peer sends")                  \
  X(NONFINITE, 80, "an input holds NaN or infinity and nonfinite=error was asked for") \
  X(OVERFLOW, 81, "a result does not fit the type asked for")                          \
  X(INTERNAL, 99, "a fault of this library; please report it")

#define GQSGD_STATUS_ENUMERATOR(name, number, meaning) GQSGD_##name = number,
enum { GQSGD_STATUS_TABLE(GQSGD_STATUS_ENUMERATOR) };
#undef GQSGD_STATUS_ENUMERATOR

/** "PEER_LOST" for 61; "UNKNOWN" for a number not in the table. Static storage, never NULL. */
GQSGD_API const char *gqsgd_status_name(gqsgd_status status);

/** The table's meaning of a status, in words. Static storage, never NULL. */
GQSGD_API const char *gqsgd_status_string(gqsgd_status status);

/** The sentence of the last failure on this thread: rank, operation, field, both values and a hint.
 *  Empty before the first failure; a later success does not clear it. Valid until the next call
 *  of this library on this thread. Never NULL. */
GQSGD_API const char *gqsgd_last_error(void);

/** Version of the library at run time: major * 10000 + minor * 100 + patch. */
GQSGD_API int32_t gqsgd_version(void);

/** One line: version, wire version, compiler, instruction set in use, backends. Static storage. */
GQSGD_API const char *gqsgd_build_info(void);

/** Receives one line, without a newline, on the thread that called the library. */
typedef void (*gqsgd_log_callback)(void *user, const char *line);

/** Sets where warnings go (malformed GQSGD_* environment variables, for example); NULL, the
 *  default, drops them. Process-wide. `callback` must not call this library; what it throws ends
 *  here. */
GQSGD_API void gqsgd_set_log(gqsgd_log_callback callback, void *user);

/* ---- 2. Types and constants ------------------------------------------------------------------ */

typedef struct gqsgd_comm_s *gqsgd_comm;           /**< one rank's end of a group of ranks */
typedef struct gqsgd_quantizer_s *gqsgd_quantizer; /**< an immutable description of a format */
typedef struct gqsgd_request_s *gqsgd_request;     /**< a collective that was started */

/** Names a group of processes that is about to form; made by one, given to all by the caller. */
typedef struct {
  unsigned char bytes[256];
} gqsgd_unique_id;

/** Element types of user buffers. */
enum { GQSGD_FLOAT32 = 0, GQSGD_FLOAT16 = 1, GQSGD_BFLOAT16 = 2, GQSGD_FLOAT64 = 3 };

/** What an allreduce returns. */
enum { GQSGD_SUM = 0, GQSGD_MEAN = 1 };

/** Schedules (docs/SCHEDULES.md). AUTO is DIRECT, or with the option `costs` the cheapest of those
 *  that are not expected to multiply DIRECT's mean squared error by 1.5 or more (SCHEDULES.md has
 *  the closed form). It chooses from agreed inputs only: count, ranks, nodes, format, dtype, chunk,
 *  costs, transport.
 *  NATIVE needs a transport with an allreduce of its own (MPI, or a table that has one), and codes
 *  that are added as integers (linear levels, combine=exact) or no codes. */
enum {
  GQSGD_SCHEDULE_AUTO = 0,
  GQSGD_SCHEDULE_RING = 1,
  GQSGD_SCHEDULE_TREE = 2,
  GQSGD_SCHEDULE_BUTTERFLY = 3,
  GQSGD_SCHEDULE_DIRECT = 4,
  GQSGD_SCHEDULE_HIERARCHICAL = 5,
  GQSGD_SCHEDULE_NATIVE = 6,
  GQSGD_SCHEDULE_SPARSE = 7
};

/** at = {GQSGD_AT_DEVICE, address} of a collective on a stream: its step and index are two uint32_t
 *  in device memory. The stream reads them when it reaches the call; no host waits for them. Ranks
 *  compare them there: if they differ, or index is too large, `recv` stays as it was, and the next
 *  call on a stream and gqsgd_comm_status return it. */
#define GQSGD_AT_DEVICE UINT64_MAX

/* ---- 3. Quantizers --------------------------------------------------------------------------- */

/** Makes a quantizer from a specification such as "paper-ge8,seed=7": an optional preset first,
 *  then field=value, separated by commas. Without a preset, fields change the default one,
 *  blocks-8, which "" selects. A specification that names `levels` has no preset: fields that it
 *  leaves out are plain (one norm, independent rounding).
 *  Unknown names and values are INVALID_ARGUMENT with what is allowed; a field or value that this
 *  version does not have yet is UNSUPPORTED by name. *out is NULL after a failure.
 *  A quantizer is immutable and may be used by any number of threads at once. */
GQSGD_API gqsgd_status gqsgd_quantizer_create(const char *text, gqsgd_quantizer *out);

/** Writes the full specification of a quantizer, every field named, into `text` (at most
 *  `capacity_bytes` with the final 0; a shorter buffer gets a truncated string). *size_bytes, if
 *  not NULL, is the size needed. The string creates an equal quantizer. */
GQSGD_API gqsgd_status gqsgd_quantizer_describe(gqsgd_quantizer quantizer, char *text,
                                                size_t capacity_bytes, size_t *size_bytes);

/** Destroys a quantizer; NULL is OK. Operations under way keep what they need. */
GQSGD_API gqsgd_status gqsgd_quantizer_destroy(gqsgd_quantizer quantizer);

/** Size in bytes of `value_count` packed values: whole 32-bit words. rotate=hadamard fills values
 *  up to a multiple of 128. */
GQSGD_API gqsgd_status gqsgd_packed_size(gqsgd_quantizer quantizer, size_t value_count,
                                         size_t *size_bytes);

/** The same for what gqsgd_reduce_many writes, whose codes have bits_down bits. */
GQSGD_API gqsgd_status gqsgd_result_size(gqsgd_quantizer quantizer, size_t value_count,
                                         size_t *size_bytes);

/** Number of norms that gqsgd_norm writes for `value_count` values: one for each block, or one. */
GQSGD_API gqsgd_status gqsgd_norm_count(gqsgd_quantizer quantizer, size_t value_count,
                                        size_t *norm_count);

/** Bytes of workspace that are enough for any one stage of `value_count` values on a device, of up
 *  to 1024 ranks; host arithmetic only. Stages on host memory need none. */
GQSGD_API gqsgd_status gqsgd_workspace_size(gqsgd_quantizer quantizer, size_t value_count,
                                            int32_t dtype, size_t *size_bytes);

/** theta of the bound E ||G(x) - mean||^2 <= theta / rank_count * sum_i ||x_i||^2, where G(x) is
 *  the mean that an allreduce of `value_count` values over `rank_count` ranks returns with this
 *  schedule. Paper, section 4.2 (theorem on variance), for norms with p, q >= 2: theta is
 *  sqrt(d/n)/s for linear and 1/(8n) + sqrt(d/n)/2^(s-1) for exponential levels. Beyond it: the
 *  least of that and its twin with d/4 per squared level, so that no condition on s is needed; p or
 *  q = 1; the headroom of combine=sum; the roundings of averages and of the re-encode; and those of
 *  exponential reductions, which all ranks share: 1 + theta grows by 9/8 with each
 *  (gqsgd_depth_factor). With blocks d is their length. Correlated rounding, rescale and rotation
 *  have the bound of a format without them, twice that where a norm spans rotations of several
 *  lengths; they are better in most cases. The sparse schedule has the bound of direct, which
 *  replaces it where a call has too many sparse entries; the error of sparse entries is no larger.
 *  Float32 arithmetic is left out: below 2^-20 of it while norm / s of linear levels, or the norm
 *  of exponential ones, is 2^-126 or more. Below that steps are denormal or zero, results are
 *  multiples of 2^-149, and the error may exceed the bound: of values of 1 to 8 * 2^-149 it does.
 *  Infinite where a chain is too long for any bound. UNSUPPORTED where no bound is known:
 *  rounding=nearest is biased. Host arithmetic only. */
GQSGD_API gqsgd_status gqsgd_variance_bound(gqsgd_quantizer quantizer, int32_t rank_count,
                                            size_t value_count, int32_t schedule, double *theta);

/** The number of codes other than zero that all ranks together quantize to is expected to be at
 *  most this: 1/l^2 + sqrt(nd)/l, l the smallest level, for p = q = 2. (The paper's theorem prints
 *  it without the factor 1/l before the root, which equal values contradict.) UNSUPPORTED for other
 *  norms than p, q <= 2. */
GQSGD_API gqsgd_status gqsgd_sparsity_bound(gqsgd_quantizer quantizer, int32_t rank_count,
                                            size_t value_count, int32_t schedule,
                                            double *nonzero_count);

/** (9/8)^depth for exponential levels, depth being the longest chain of reductions of the schedule,
 *  or 1 for the one re-encode of the direct schedule and 2 for those of the hierarchical one; 81/80
 *  with mantissa bits; 1 for linear levels and for the sparse schedule's entries. */
GQSGD_API gqsgd_status gqsgd_depth_factor(gqsgd_quantizer quantizer, int32_t rank_count,
                                          int32_t schedule, double *factor);

/** Nanoseconds that an allreduce of `value_count` values over `rank_count` ranks is expected to
 *  take, from constants of the machine and its network; host arithmetic on the moves of one rank,
 *  so that 100,000 ranks are no harder than two. docs/COST.md has the model.
 *  constants  the string that gqsgd-calibrate writes, "name = value" lines; names left out, and all
 *             with NULL, have built-in values: ranks with processors of their own at 10 Gbit/s
 *  schedule   AUTO is what it would choose with these constants; with NULL it is direct
 *  Messages travel, over links that are all alike: hierarchical is direct here (gqsgd-plan has
 *  nodes and shared memory). INVALID_ARGUMENT for a malformed string and for what an allreduce
 *  refuses; UNSUPPORTED for sparse, whose time depends on values, and for native without constants
 *  of it. */
GQSGD_API gqsgd_status gqsgd_predict_time(gqsgd_quantizer quantizer, int32_t schedule,
                                          int32_t rank_count, size_t value_count, int32_t dtype,
                                          const char *constants, double *time_ns);

/* ---- 4. Communicators ------------------------------------------------------------------------ */

/** Options string of the create functions, comma-separated, "" or NULL for all defaults:
 *    timeout_ms=300000        time without progress after which a call gives up; -1 for ever
 *    stream_id=0              enters the random key, so that groups of one program draw differently
 *    chunk_value_count=65536  values per message; where messages travel 57344, 28672 with over 4
 *                             ranks, 14336 with over 8, a quarter as many floats; alters no bit
 *    threads=1                that compute for a rank, the caller's among them, at most 256: one
 *                             for each processor that it has to itself; changes no bit, and ranks
 *                             may differ
 *    nontemporal_bytes=0      where ranks share memory: packed codes of this many bytes or more are
 *                             written with non-temporal stores, which is faster where
 *                             processors share no cache; 0 for none
 *    costs=FILE               constants by which AUTO chooses, equal on all ranks: gqsgd-calibrate
 *                             writes them; or builtin. Default: none, or the file in GQSGD_COSTS
 *    uncompressed=auto        with costs AUTO sends float32 words where that is faster, over MPI by
 *                             MPI's own allreduce, which decides the last bits; or never
 *    nodes=0:0:1:1            a number for each rank, equal for ranks of one node: what the
 *                             hierarchical schedule is made from, and equal on all ranks. Without
 *                             it the transport says: node_ids of a custom one, ranks that share
 *                             memory over MPI; threads and processes are on one node
 *  One thread at a time: others get BUSY, but for rank, size, timeout, counter, stat, status and
 *  abort. These go from any thread until gqsgd_comm_destroy, which waits for those under way (none
 *  of them waits); later ones are BAD_HANDLE. */

/** Makes `rank_count` communicators of one group inside this process, one per thread.
 *  comms [out] `rank_count` handles, in rank order. */
GQSGD_API gqsgd_status gqsgd_comm_create_local(int32_t rank_count, const char *options,
                                               gqsgd_comm *comms);

/** Makes a fresh name and secret for one group of processes. Keep it from other users: any process
 *  that holds it may join. */
GQSGD_API gqsgd_status gqsgd_unique_id_create(gqsgd_unique_id *unique_id);

/** Joins a group of `size` processes of one user on this machine as rank `rank`; returns when all
 *  are there, or TIMEOUT naming those that are missing. Uses sealed anonymous shared memory and
 *  abstract sockets only: nothing is left on disk, whatever dies. */
GQSGD_API gqsgd_status gqsgd_comm_create_process(const gqsgd_unique_id *unique_id, int32_t rank,
                                                 int32_t size, const char *options,
                                                 gqsgd_comm *comm);

GQSGD_API gqsgd_status gqsgd_comm_rank(gqsgd_comm comm, int32_t *rank);
GQSGD_API gqsgd_status gqsgd_comm_size(gqsgd_comm comm, int32_t *size);

/** Time without progress, in milliseconds, after which a call gives up: 0 restores the default
 *  (300,000), -1 waits for ever. */
GQSGD_API gqsgd_status gqsgd_comm_set_timeout(gqsgd_comm comm, int64_t timeout_ms);
GQSGD_API gqsgd_status gqsgd_comm_timeout(gqsgd_comm comm, int64_t *timeout_ms);

/** The step that the next call with at = NULL will use; it advances by one per such call. Save it
 *  with a checkpoint and set it again, equal on all ranks, to resume bit for bit. At most 2^32-1.
 */
GQSGD_API gqsgd_status gqsgd_comm_set_counter(gqsgd_comm comm, uint64_t step);
GQSGD_API gqsgd_status gqsgd_comm_counter(gqsgd_comm comm, uint64_t *step);

/** Makes workspace so that later allreduces up to this size allocate nothing, whatever their
 *  schedule. Collectives on tensors or slices, whose lengths it does not know, and schedule sparse
 *  on a device make what they need beyond that at their first call. Local: not a collective. */
GQSGD_API gqsgd_status gqsgd_comm_reserve(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                          size_t value_count, int32_t dtype);

/** One counter by name: "calls", "messages_sent", "payload_bytes_sent" (codes and what travels with
 *  them), "header_bytes_sent", "payload_bytes_copied" (0 where peers' codes are read in place),
 *  "workspace_bytes", "nonfinite_blocks" (of calls on host memory), "wait_ns", "native_float_calls"
 *  (in which the transport added floats: docs/FORMAT.md does not define the last bits of their
 *  results).
 *
 *  Never BUSY: from any thread, also while calls, requests or captures of graphs are under way,
 *  which do not notice. Counters are running totals; each is read whole and never becomes less. A
 *  call counts when it begins, what it sends when that is sent, or enqueued on a stream, and a wait
 *  when it ends, on host memory every 5 ms. Replays of graphs are not counted. Once a call has
 *  returned, or the end of a request was reported, all of it has been. */
GQSGD_API gqsgd_status gqsgd_comm_stat(gqsgd_comm comm, const char *name, uint64_t *value);

/** OK, or the first failure that broke this communicator; its sentence becomes the last error. */
GQSGD_API gqsgd_status gqsgd_comm_status(gqsgd_comm comm);

/** Breaks this rank's communicator from any thread, without waiting: a call under way here returns
 *  ABORTED, and so do calls of peers that are threads or processes. Other peers get no notice. A
 *  call whose result is complete by then returns OK, and the next one ABORTED.
 *  Async-signal-safe: takes no lock, allocates nothing and keeps errno. Over NCCL and custom
 *  transports it sets a flag. A call or request that waits, the next call, or gqsgd_comm_status
 *  reads the flag and acts on it. */
GQSGD_API gqsgd_status gqsgd_comm_abort(gqsgd_comm comm);

/** Frees this rank's communicator. Waits for no rank, but for what is enqueued on streams, at most
 *  timeout_ms; NULL is OK. A call under way on another thread returns ABORTED. Requests in flight
 *  end with ABORTED before this returns: their buffers are the caller's again. */
GQSGD_API gqsgd_status gqsgd_comm_destroy(gqsgd_comm comm);

/* ---- 5. Collectives -------------------------------------------------------------------------- */

/** Adds or averages `value_count` values over all ranks; every rank ends with the same bits.
 *  For several tensors use gqsgd_allreduce_many, not one flat array: here a norm, a block and a
 *  rotation go across their borders, and tensors of small values take the error of large ones
 *  beside them (docs/PRESETS.md has numbers).
 *  send  [in]  `value_count` elements of `dtype`
 *  recv  [out] the same number; equal to `send` (in place) or disjoint from it
 *  at          {step, index} of this call for the random numbers, equal on all ranks; step below
 *              2^32, index below 2^16. NULL takes the communicator's counter and index 0.
 *              GQSGD_AT_DEVICE: their address in device memory.
 *  stream      NULL: host memory (over NCCL: the default stream); else a device's: docs/CUDA.md
 *  Every rank makes the same calls in the same order. Blocks until the result is there; on a stream
 *  it may return before (docs/CUDA.md, NCCL.md). value_count 0 is legal: ranks still compare calls.
 *
 *  A failure of this rank's own checks, or a difference between ranks (MISMATCH, REMOTE_ERROR,
 *  NONFINITE), is reported on all ranks, leaves `recv` untouched and the communicator usable.
 *  PEER_LOST, TIMEOUT, ABORTED, REVOKED and PROTOCOL break the communicator; `recv` is untouched
 *  in place, undefined out of place. */
GQSGD_API gqsgd_status gqsgd_allreduce(gqsgd_comm comm, gqsgd_quantizer quantizer, const void *send,
                                       void *recv, size_t value_count, int32_t dtype, int32_t op,
                                       int32_t schedule, const uint64_t at[2], void *stream);

/** The same allreduce with `rank_count` virtual ranks on the calling thread: same schedule, same
 *  executor, same bits, but for sums of floats by NATIVE, made in rank order here, and for what
 *  AUTO chooses with `costs` (name a schedule). For tests, studies and debugging.
 *  send, recv  `rank_count` buffers each; recv[k] is NULL, send[k], or disjoint from all others
 *  options     as for communicators */
GQSGD_API gqsgd_status gqsgd_simulate(gqsgd_quantizer quantizer, int32_t rank_count,
                                      const void *const *send, void *const *recv,
                                      size_t value_count, int32_t dtype, int32_t op,
                                      int32_t schedule, const uint64_t at[2], const char *options);

/** The normalised mean square error that a format is expected to make of these values: the mean,
 *  over `draw_count` draws of the random numbers, of ||G - mean||^2 / ||mean||^2, G being what an
 *  allreduce of op MEAN returns. By virtual ranks on the calling thread, from steps at[0],
 *  at[0] + 1, .. on (at = NULL: from 0). 0 where there is no error, infinite where there is no
 *  signal.
 *  send [in]  `rank_count` buffers of `value_count` elements
 *  options    as for communicators; `nodes` is which ranks share a node, without which
 *             HIERARCHICAL is DIRECT, and with `costs` AUTO chooses. NULL for all defaults
 *  Allocates one result and its mean. */
GQSGD_API gqsgd_status gqsgd_expected_error(gqsgd_quantizer quantizer, int32_t rank_count,
                                            const void *const *send, size_t value_count,
                                            int32_t dtype, int32_t schedule, const uint64_t at[2],
                                            int32_t draw_count, const char *options, double *error);

/** The same, measured here and now: a collective that averages `send` twice as float32, once
 *  uncompressed and once with `quantizer`, and compares. at = NULL takes the step that the next
 *  call would use, and does not use it up: the error is that of the next allreduce of these values.
 *  Every rank gets the same number. `send` is host memory. Allocates 12 bytes for each value. */
GQSGD_API gqsgd_status gqsgd_measured_error(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                            const void *send, size_t value_count, int32_t dtype,
                                            int32_t schedule, const uint64_t at[2], double *error);

/* ---- 6. Requests ----------------------------------------------------------------------------- */

/** Starts gqsgd_allreduce, with its arguments, and returns at once.
 *  request [out] what to test or wait for; NULL after a failure
 *
 *  Requests of a communicator are executed one after the other in the order of their start,
 *  which is the same on all ranks; blocking calls run after them. The step of at = NULL
 *  is taken here. `send` and `recv` belong to the request until its end is reported; `send` may not
 *  be written and `recv` not be looked at before. A start allocates the request, some 1.5 KB.
 *
 *  Progress is made by a thread of the library, which the first start makes, and which sleeps while
 *  it has nothing to do or waits for other ranks; the timeout counts as for a blocking call, from
 *  the moment that the request begins to run. Where a transport may only be called on the caller's
 *  threads, progress is made inside gqsgd_request_test, gqsgd_request_wait and blocking calls.
 *
 *  OK here means that there is a request; a refused argument of the collective is reported by test
 *  or wait. BAD_HANDLE, BUSY and FORKED leave the other ranks waiting, as they do everywhere. A
 *  broken communicator gives its first failure. Where no request could be made (INVALID_ARGUMENT
 *  for request = NULL, NO_MEMORY, NO_RESOURCE without a thread) this call blocks to notify the
 *  other ranks, which get REMOTE_ERROR. */
GQSGD_API gqsgd_status gqsgd_allreduce_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                             const void *send, void *recv, size_t value_count,
                                             int32_t dtype, int32_t op, int32_t schedule,
                                             const uint64_t at[2], void *stream,
                                             gqsgd_request *request);

/** Tests, without waiting, whether a request has ended. *done = 1: the status returned is that of
 *  the operation, as gqsgd_allreduce has it, and the request is freed. *done = 0: it has not ended
 *  (OK), or could not be tested (INVALID_ARGUMENT, BAD_HANDLE, FORKED, or BUSY with another thread
 *  in the communicator), and stays. */
GQSGD_API gqsgd_status gqsgd_request_test(gqsgd_request request, int32_t *done);

/** Waits for a request to end and frees it; returns the status of the operation. BAD_HANDLE, FORKED
 *  and BUSY as above. Also after gqsgd_comm_destroy every request is to be waited for or tested. */
GQSGD_API gqsgd_status gqsgd_request_wait(gqsgd_request request);

/* ---- 7. Stages ------------------------------------------------------------------------------- */

/** The place of a stage in an allreduce. The layout never changes; unused fields are 0.
 *  reduction_depth is the longest chain of reductions in code form: size - 1 for a ring, ceil(log2
 * size) for tree and butterfly, 0 for the direct schedule, whose owner adds decoded codes instead.
 * It sets the levels of `combine=exact` and the headroom of `combine=sum`. */
typedef struct {
  uint64_t rank;            /**< the rank that runs the stage */
  uint64_t size;            /**< ranks in the allreduce, at least 1 */
  uint64_t reduction_depth; /**< longest chain of reductions in code form */
  uint64_t step;            /**< training step, below 2^32 */
  uint64_t index;           /**< call within the step, below 2^16 */
  uint64_t first_value;     /**< position of value 0 in the whole call; see below */
  uint64_t hop;      /**< number of this reduction in the schedule, from 1; 0 when quantizing */
  uint64_t weight_a; /**< ranks merged in operand a (combine=average) */
  uint64_t weight_b; /**< ranks merged in operand b */
} gqsgd_site;

/* A stage works on any range of a call that begins at a multiple of 32 values, of `block` and, with
 * rotate=hadamard, of 1024, and ends at one or with the call. Norms and scales are one number for
 * the call, or one for each block of the range; those of blocks are on a grid of 16 bits, and
 * numbers off it are INVALID_ARGUMENT with index and value. bits_down other than bits, rescale,
 * subtractive rounding and mantissa_bits need reduction_depth = 0.
 *
 * stream: NULL for host memory, else a cudaStream_t (1 and 2: cudaStreamLegacy and PerThread), and
 * all pointers are to memory of the current device; `site` and the array `words` itself are host
 * memory. A stage is then enqueued, also while a graph is captured: it never waits, allocates or
 * reads values on the host: norms of blocks off their grid are rounded up to it. Workspace, aligned
 * to 8 bytes, is the stage's until it has run; host memory, and quantize, need none (NULL). Errors:
 * UNSUPPORTED without CUDA or a device, INVALID_ARGUMENT for memory of the other kind, BACKEND. */

/** Norms of this rank's values: gqsgd_norm_count numbers, NaN or infinity where an input is. The
 *  largest over ranks is the global norm for p = inf, NaN if one is NaN. */
GQSGD_API gqsgd_status gqsgd_norm(gqsgd_quantizer quantizer, const gqsgd_site *site,
                                  const void *values, size_t value_count, int32_t dtype,
                                  float *norms, void *workspace, size_t workspace_size_bytes,
                                  void *stream);

/** Rounds `value_count` values at random to codes (paper, eq. 2), packed into `words`
 *  (gqsgd_packed_size bytes); tail lanes are 0. norms [in] the global norms. */
GQSGD_API gqsgd_status gqsgd_quantize(gqsgd_quantizer quantizer, const gqsgd_site *site,
                                      const void *values, size_t value_count, int32_t dtype,
                                      const float *norms, uint32_t *words, void *workspace,
                                      size_t workspace_size_bytes, void *stream);

/** Adds codes in code form (paper, Algorithm 2 for exponential levels): b becomes a + b, or their
 *  weighted mean with combine=average. `a` and `b_inout` may not overlap. */
GQSGD_API gqsgd_status gqsgd_reduce(gqsgd_quantizer quantizer, const gqsgd_site *site,
                                    const uint32_t *a, uint32_t *b_inout, size_t value_count,
                                    void *stream);

/** The owner's step of the direct schedule: decodes site->size operands, adds them wide in rank
 *  order and encodes once, with bits_down bits (gqsgd_result_size bytes). norms [in] the global
 *  norms; out_scales [out] one scale per norm, which may take their place. out_words may be one of
 *  the operands if they have as many bits. */
GQSGD_API gqsgd_status gqsgd_reduce_many(gqsgd_quantizer quantizer, const gqsgd_site *site,
                                         const uint32_t *const *words, size_t value_count,
                                         const float *norms, uint32_t *out_words, float *out_scales,
                                         void *workspace, size_t workspace_size_bytes,
                                         void *stream);

/** Decodes codes to values. words, scales [in] what reduce_many wrote (reduction_depth = 0),
 * or codes reduced in code form and the global norms. op SUM gives the sum over site->size ranks,
 * MEAN the mean. */
GQSGD_API gqsgd_status gqsgd_dequantize(gqsgd_quantizer quantizer, const gqsgd_site *site,
                                        const uint32_t *words, const float *scales,
                                        size_t value_count, int32_t dtype, int32_t op, void *values,
                                        void *stream);

#ifdef __cplusplus
}
#endif

#include "gqsgd_segments.h"

#endif
