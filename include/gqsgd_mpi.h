/* gqsgd over MPI: header-only, for programs in C99 or C++ compiled with an MPI of their own.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
 *     gqsgd_comm comm;
 *     if (gqsgd_comm_create_mpi(MPI_COMM_WORLD, "", &comm)) puts(gqsgd_last_error());
 *
 * The binary interfaces of MPIs differ, so that this is compiled where it is used; for languages
 * that cannot, libgqsgd_mpi.so has the two functions of section 1 that take no MPI_Comm. Link with
 * the MPI and with libgqsgd. */
#ifndef GQSGD_MPI_H
#define GQSGD_MPI_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gqsgd_mpi_table.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#ifndef GQSGD_MPI_API
#define GQSGD_MPI_API static inline
#endif

/* ---- 1. Communicators ------------------------------------------------------------------------ */

/** Makes this rank's communicator over a duplicate of `mpi_comm`, with the same ranks. Collective:
 *  every rank of mpi_comm calls it; waits until they do, TIMEOUT if one does not within timeout_ms.
 *  options as for the other communicators (gqsgd.h, Communicators); if one rank's are refused, all
 *  ranks fail (REMOTE_ERROR). Ranks that share memory (MPI_COMM_TYPE_SHARED) are on one node,
 *  unless the option `nodes` says otherwise. Communicators of other ranks draw other random
 *  numbers, unless `stream_id` is given: see gqsgd_mpi_stream_of. UNSUPPORTED if MPI is not
 *  initialised, is finalised, or allows calls on another thread only. Errors of MPI are returned
 *  (BACKEND), whatever handler mpi_comm has, but that errors in duplicating it, as where MPI has no
 *  more context ids, go to its handler or that of MPI_COMM_WORLD before. Destroy it before
 *  MPI_Finalize; afterwards that still frees what is left of it. */
GQSGD_MPI_API gqsgd_status gqsgd_comm_create_mpi(MPI_Comm mpi_comm, const char *options,
                                                 gqsgd_comm *comm);

/** The same for a communicator's Fortran handle, as mpi4py's py2f() and MPI.jl give it. */
GQSGD_MPI_API gqsgd_status gqsgd_comm_create_mpi_f(int32_t fortran_handle, const char *options,
                                                   gqsgd_comm *comm);

/** The same for MPI_COMM_WORLD. */
GQSGD_MPI_API gqsgd_status gqsgd_comm_create_mpi_world(const char *options, gqsgd_comm *comm);

/* ---- 2. Creation ----------------------------------------------------------------------------- */

/** The time limit in an options string; a failure if it is refused. An end of the group that
 *  reaches no rank is made and destroyed to read it. */
static inline int32_t gqsgd_mpi_ignore(void *user) {
  (void)user;
  return 0;
}
static inline gqsgd_status gqsgd_mpi_read_options(gqsgd_transport table, const char *options,
                                                  int64_t *timeout_ms) {
  gqsgd_comm comm = NULL;
  gqsgd_status status;
  table.close = gqsgd_mpi_ignore;
  status = gqsgd_comm_create_custom(&table, options, &comm);
  if (status != GQSGD_OK) return status;
  status = gqsgd_comm_timeout(comm, timeout_ms);
  gqsgd_comm_destroy(comm);
  return status;
}

/** Fails in the words of MPI. */
static inline gqsgd_status gqsgd_mpi_fail(const char *function, int code) {
  char text[MPI_MAX_ERROR_STRING + 100];
  const char *reason = gqsgd_mpi_error_text(NULL, code);
  snprintf(text, sizeof text, "%s failed with code %d: %s", function, code, reason ? reason : "");
  return gqsgd_fail(GQSGD_BACKEND, text);
}

/** OK if this thread may call MPI. */
static inline gqsgd_status gqsgd_mpi_check(MPI_Comm mpi_comm, int32_t *main_thread_only) {
  int yes = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&yes);
  if (!yes) {
    return gqsgd_fail(GQSGD_UNSUPPORTED,
                      "MPI is not initialised: call MPI_Init_thread before gqsgd_comm_create_mpi");
  }
  MPI_Finalized(&yes);
  if (yes) return gqsgd_fail(GQSGD_UNSUPPORTED, "MPI is finalised already");
  MPI_Query_thread(&level);
  *main_thread_only = level < MPI_THREAD_SERIALIZED;
  MPI_Is_thread_main(&yes);
  if (*main_thread_only && !yes) {
    return gqsgd_fail(GQSGD_UNSUPPORTED, gqsgd_mpi_error_text(NULL, GQSGD_MPI_WRONG_THREAD));
  }
  if (mpi_comm == MPI_COMM_NULL) {
    return gqsgd_fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_mpi: mpi_comm is MPI_COMM_NULL");
  }
  MPI_Comm_test_inter(mpi_comm, &yes);
  if (!yes) return GQSGD_OK;
  return gqsgd_fail(GQSGD_INVALID_ARGUMENT,
                    "gqsgd_comm_create_mpi: mpi_comm is an inter-communicator");
}

/** Waits for what all ranks have to begin; it cannot be withdrawn if one of them never does. */
static inline gqsgd_status gqsgd_mpi_await_all(const char *function, int code, MPI_Request *request,
                                               double begin_s, int64_t timeout_ms) {
  char text[160];
  int done = 0;
  while (code == MPI_SUCCESS && !done) {
    code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done) break;
    if (timeout_ms >= 0 && (MPI_Wtime() - begin_s) * 1e3 > (double)timeout_ms) {
      snprintf(text, sizeof text, "a rank has not called gqsgd_comm_create_mpi within %lld ms",
               (long long)timeout_ms);
      return gqsgd_fail(GQSGD_TIMEOUT, text);
    }
    gqsgd_mpi_sleep(GQSGD_MPI_SLEEP_MAX_US);
  }
  return code == MPI_SUCCESS ? GQSGD_OK : gqsgd_mpi_fail(function, code);
}

static inline gqsgd_status gqsgd_mpi_duplicate(MPI_Comm mpi_comm, double begin_s,
                                               int64_t timeout_ms, MPI_Comm *duplicate) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Comm_idup(mpi_comm, duplicate, &request);
  gqsgd_status status = gqsgd_mpi_await_all("MPI_Comm_idup", code, &request, begin_s, timeout_ms);
  if (status != GQSGD_OK) return status;
  code = MPI_Comm_set_errhandler(*duplicate, MPI_ERRORS_RETURN);
  return code == MPI_SUCCESS ? GQSGD_OK : gqsgd_mpi_fail("MPI_Comm_set_errhandler", code);
}

/** All ranks' statuses of their own checks. A rank whose wait for the duplicate timed out never
 *  sends its own, though the duplicate may be complete on the others by now. */
static inline gqsgd_status gqsgd_mpi_agree(MPI_Comm comm, gqsgd_status own, int32_t size,
                                           double begin_s, int64_t timeout_ms) {
  int32_t peer, *statuses = (int32_t *)malloc(((size_t)size + 1) * sizeof(int32_t));
  MPI_Request request = MPI_REQUEST_NULL;
  gqsgd_status status;
  char text[160];
  int code;
  if (statuses == NULL) {
    return gqsgd_fail(GQSGD_NO_MEMORY, "no memory for the ranks of an MPI group");
  }
  statuses[size] = own;
  code = MPI_Iallgather(&statuses[size], 1, MPI_INT32_T, statuses, 1, MPI_INT32_T, comm, &request);
  status = gqsgd_mpi_await_all("MPI_Iallgather", code, &request, begin_s, timeout_ms);
  if (status == GQSGD_TIMEOUT) return status; /* MPI may still write the statuses */
  for (peer = 0; status == GQSGD_OK && own == GQSGD_OK && peer < size; ++peer) {
    if (statuses[peer] == GQSGD_OK) continue;
    snprintf(text, sizeof text, "rank %d refused gqsgd_comm_create_mpi with %s", (int)peer,
             gqsgd_status_name(statuses[peer]));
    own = gqsgd_fail(GQSGD_REMOTE_ERROR, text);
  }
  free(statuses);
  return status == GQSGD_OK ? own : status;
}

/** All ranks' numbers of their nodes: each is the lowest rank there. */
static inline gqsgd_status gqsgd_mpi_number_nodes(MPI_Comm comm, int32_t *node_ids) {
  MPI_Comm node_comm = MPI_COMM_NULL;
  int32_t node;
  int rank = 0, code;
  MPI_Comm_rank(comm, &rank);
  node = rank;
  code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node_comm);
  if (code != MPI_SUCCESS) return gqsgd_mpi_fail("MPI_Comm_split_type", code);
  code = MPI_Bcast(&node, 1, MPI_INT32_T, 0, node_comm);
  MPI_Comm_free(&node_comm);
  if (code != MPI_SUCCESS) return gqsgd_mpi_fail("MPI_Bcast", code);
  code = MPI_Allgather(&node, 1, MPI_INT32_T, node_ids, 1, MPI_INT32_T, comm);
  return code == MPI_SUCCESS ? GQSGD_OK : gqsgd_mpi_fail("MPI_Allgather", code);
}

/** A number by which groups of other ranks draw other random numbers: 0 for all ranks of the
 *  program in order, else a digest of the ranks (FNV-1a with a rank for a byte). What the rows of a
 *  grid have reduced its columns may reduce: with the same random numbers the second rounding would
 *  follow from the first one, and the mean of both would be biased. world_ranks: memory for `size`
 *  ranks. */
static inline gqsgd_status gqsgd_mpi_stream_of(MPI_Comm comm, int32_t size, int32_t *world_ranks,
                                               uint32_t *stream_id) {
  int32_t k, world_rank;
  int rank = 0, relation = MPI_UNEQUAL, code;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  world_rank = rank;
  code = MPI_Allgather(&world_rank, 1, MPI_INT32_T, world_ranks, 1, MPI_INT32_T, comm);
  if (code == MPI_SUCCESS) code = MPI_Comm_compare(comm, MPI_COMM_WORLD, &relation);
  if (code != MPI_SUCCESS) return gqsgd_mpi_fail("MPI_Allgather", code);
  *stream_id = 2166136261u;
  for (k = 0; k < size; ++k) *stream_id = (*stream_id ^ (uint32_t)world_ranks[k]) * 16777619u;
  if (relation == MPI_IDENT || relation == MPI_CONGRUENT) *stream_id = 0;
  return GQSGD_OK;
}

/** Whether a string of options, name=value,.., has a stream_id. */
static inline int gqsgd_mpi_gives_stream(const char *options) {
  static const char name[] = "stream_id";
  while (options != NULL) {
    options += strspn(options, " ");
    if (strncmp(options, name, sizeof name - 1) == 0) {
      const char *behind = options + sizeof name - 1;
      if (behind[strspn(behind, " ")] == '=') return 1;
    }
    options = strchr(options, ',');
    if (options != NULL) ++options;
  }
  return 0;
}

/** Makes the communicator with its own stream of random numbers, once all ranks may call MPI.
 *  numbers: memory for table.size of them. */
static inline gqsgd_status gqsgd_mpi_connect(MPI_Comm comm, const char *options,
                                             gqsgd_transport *table, int32_t *numbers,
                                             gqsgd_comm *made) {
  uint32_t stream_id = 0;
  char *all = NULL;
  size_t size_bytes;
  gqsgd_status status = gqsgd_mpi_stream_of(comm, table->size, numbers, &stream_id);
  if (status == GQSGD_OK) status = gqsgd_mpi_number_nodes(comm, numbers);
  if (status != GQSGD_OK) return status;
  table->node_ids = numbers;
  if (gqsgd_mpi_gives_stream(options)) return gqsgd_comm_create_custom(table, options, made);
  options = options == NULL ? "" : options + strspn(options, " ");
  size_bytes = strlen(options) + sizeof "stream_id=4294967295,";
  all = (char *)malloc(size_bytes);
  if (all == NULL) return gqsgd_fail(GQSGD_NO_MEMORY, "no memory for the options of an MPI group");
  snprintf(all, size_bytes, "stream_id=%lu%s%s", (unsigned long)stream_id, *options ? "," : "",
           options);
  status = gqsgd_comm_create_custom(table, all, made);
  free(all);
  return status;
}

/** Makes the group, once this rank may call MPI. */
static inline gqsgd_status gqsgd_mpi_form(MPI_Comm mpi_comm, gqsgd_mpi *self, const char *options,
                                          gqsgd_transport table, gqsgd_comm *comm) {
  const double begin_s = MPI_Wtime();
  int64_t timeout_ms = 300000;
  int32_t *numbers = (int32_t *)malloc((size_t)table.size * sizeof(int32_t));
  gqsgd_status own = gqsgd_mpi_read_options(table, options, &timeout_ms);
  gqsgd_status status = gqsgd_mpi_duplicate(mpi_comm, begin_s, timeout_ms, &self->comm);
  if (own == GQSGD_OK && numbers == NULL) {
    own = gqsgd_fail(GQSGD_NO_MEMORY, "no memory for the ranks of an MPI group");
  }
  if (status == GQSGD_OK) {
    status = gqsgd_mpi_agree(self->comm, own, table.size, begin_s, timeout_ms);
    if (status == GQSGD_OK) {
      status = gqsgd_mpi_connect(self->comm, options, &table, numbers, comm);
    }
    if (status != GQSGD_OK && status != GQSGD_TIMEOUT) MPI_Comm_free(&self->comm);
  }
  free(numbers);
  return status;
}

GQSGD_MPI_API gqsgd_status gqsgd_comm_create_mpi(MPI_Comm mpi_comm, const char *options,
                                                 gqsgd_comm *comm) {
  gqsgd_transport table;
  gqsgd_mpi *self;
  gqsgd_status status;
  int rank = 0, size = 0;
  if (comm == NULL) {
    return gqsgd_fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_mpi: comm is NULL");
  }
  *comm = NULL;
  self = (gqsgd_mpi *)calloc(1, sizeof(gqsgd_mpi));
  if (self == NULL) return gqsgd_fail(GQSGD_NO_MEMORY, "no memory for an MPI transport");
  self->first_free = -1;
  self->spin_us = GQSGD_MPI_SPIN_US;
  status = gqsgd_mpi_check(mpi_comm, &self->main_thread_only);
  if (status == GQSGD_OK) {
    MPI_Comm_rank(mpi_comm, &rank);
    MPI_Comm_size(mpi_comm, &size);
    memset(&table, 0, sizeof table);
    table.struct_size_bytes = sizeof table;
    table.name = "mpi";
    table.user = self;
    table.rank = rank;
    table.size = size;
    table.send = gqsgd_mpi_send;
    table.receive = gqsgd_mpi_receive;
    table.test = gqsgd_mpi_test;
    table.progress = gqsgd_mpi_progress;
    table.close = gqsgd_mpi_close;
    table.error_text = gqsgd_mpi_error_text;
    table.allreduce = gqsgd_mpi_allreduce;
    if (size > GQSGD_MPI_MESSAGE_RANKS_MAX) table.allgather = gqsgd_mpi_allgather;
    status = gqsgd_mpi_form(mpi_comm, self, options, table, comm);
  }
  /* After a timeout MPI may still write the duplicate. */
  if (status != GQSGD_OK && status != GQSGD_TIMEOUT) gqsgd_mpi_free(self);
  return status;
}

GQSGD_MPI_API gqsgd_status gqsgd_comm_create_mpi_f(int32_t fortran_handle, const char *options,
                                                   gqsgd_comm *comm) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return gqsgd_comm_create_mpi(initialized ? MPI_Comm_f2c((MPI_Fint)fortran_handle) : MPI_COMM_NULL,
                               options, comm);
}

GQSGD_MPI_API gqsgd_status gqsgd_comm_create_mpi_world(const char *options, gqsgd_comm *comm) {
  return gqsgd_comm_create_mpi(MPI_COMM_WORLD, options, comm);
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
