/* The table of gqsgd_transport.h over MPI: requests of any length, and waiting that sleeps. What
 * programs call is in gqsgd_mpi.h, which includes this. */
#ifndef GQSGD_MPI_TABLE_H
#define GQSGD_MPI_TABLE_H

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/select.h>

#include "gqsgd_transport.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Longer messages and sums are split: MPI counts bytes, and numbers, in an int. */
#ifndef GQSGD_MPI_COUNT_MAX
#define GQSGD_MPI_COUNT_MAX (INT_MAX / 4096 * 4096)
#endif

/** Groups of more ranks exchange headers by an allgather, smaller ones by messages, which let a
 *  timeout name the rank that is missing. */
#ifndef GQSGD_MPI_MESSAGE_RANKS_MAX
#define GQSGD_MPI_MESSAGE_RANKS_MAX 32
#endif

/* ---- 1. Requests: what is under way ---------------------------------------------------------- */

/** One request of the library: one MPI request for each piece of the message. */
typedef struct {
  int32_t parts;     /**< still under way */
  int32_t next;      /**< free ones form a linked list */
  int32_t of_all;    /**< a collective, which MPI cannot cancel */
  size_t size_bytes; /**< of a receive: what has come */
} gqsgd_mpi_request;

/** One rank's transport. */
typedef struct {
  MPI_Comm comm;
  int32_t main_thread_only;
  int64_t busy_us; /**< when something was last started or done */
  int32_t spin_us; /**< how long to look before the first sleep */
  gqsgd_mpi_request *requests;
  int32_t request_capacity, first_free;
  int32_t part_count, part_capacity; /**< four dense arrays of pieces, for MPI_Testsome */
  MPI_Request *parts;
  int32_t *owners;
  int *indices;
  MPI_Status *statuses;
} gqsgd_mpi;

enum {
  GQSGD_MPI_FINALIZED = -1,
  GQSGD_MPI_WRONG_THREAD = -2,
  GQSGD_MPI_NO_MEMORY = -3,
  GQSGD_MPI_PARTS_MIN = 64,
  GQSGD_MPI_SPIN_US = 200, /**< a rank that waits looks for so long, letting others run between */
  GQSGD_MPI_SPIN_MIN_US = 20, /**< looks, or for so long after a wait that was longer than that; */
  GQSGD_MPI_SLEEP_SHARE = 50, /**< then it sleeps between tests, for this fraction of its wait */
  GQSGD_MPI_SLEEP_MIN_US = 20,
  GQSGD_MPI_SLEEP_MAX_US = 1000
};

static inline const char *gqsgd_mpi_error_text(void *user, int32_t code) {
  static char text[MPI_MAX_ERROR_STRING + 1]; /* MPI's are for one thread at a time as well */
  int length = 0;
  (void)user;
  if (code == GQSGD_MPI_FINALIZED) return "MPI is finalised";
  if (code == GQSGD_MPI_NO_MEMORY) return "no memory for more requests";
  if (code == GQSGD_MPI_WRONG_THREAD) {
    return "this is not the thread of MPI_Init, and MPI's thread level is below "
           "MPI_THREAD_SERIALIZED";
  }
  return MPI_Error_string(code, text, &length) == MPI_SUCCESS ? text : NULL;
}

static inline int64_t gqsgd_mpi_now_us(void) { return (int64_t)(MPI_Wtime() * 1e6); }

static inline void gqsgd_mpi_sleep(int32_t time_us) {
  struct timeval time;
  time.tv_sec = 0;
  time.tv_usec = time_us;
  select(0, NULL, NULL, NULL, &time);
}

/** 0, or why MPI must not be called here and now. */
static inline int32_t gqsgd_mpi_usable(const gqsgd_mpi *self) {
  int yes = 0;
  MPI_Finalized(&yes);
  if (yes) return GQSGD_MPI_FINALIZED;
  if (!self->main_thread_only) return 0;
  MPI_Is_thread_main(&yes);
  return yes ? 0 : GQSGD_MPI_WRONG_THREAD;
}

static inline int32_t gqsgd_mpi_reserve_parts(gqsgd_mpi *self, int32_t count) {
  int32_t capacity = self->part_capacity;
  void *grown;
  if (self->part_count + count <= capacity) return 0;
  while (capacity < self->part_count + count) capacity = 2 * capacity + GQSGD_MPI_PARTS_MIN;
#define GQSGD_MPI_GROW(type, array)                              \
  grown = realloc(self->array, (size_t)capacity * sizeof(type)); \
  if (grown == NULL) return GQSGD_MPI_NO_MEMORY;                 \
  self->array = (type *)grown;
  GQSGD_MPI_GROW(MPI_Request, parts)
  GQSGD_MPI_GROW(int32_t, owners)
  GQSGD_MPI_GROW(int, indices)
  GQSGD_MPI_GROW(MPI_Status, statuses)
  self->part_capacity = capacity;
  return 0;
}

static inline int32_t gqsgd_mpi_reserve_request(gqsgd_mpi *self) {
  const int32_t used = self->request_capacity;
  const int32_t capacity = 2 * used + GQSGD_MPI_PARTS_MIN;
  void *grown;
  int32_t k;
  if (self->first_free >= 0) return 0;
  GQSGD_MPI_GROW(gqsgd_mpi_request, requests)
#undef GQSGD_MPI_GROW
  for (k = used; k < capacity; ++k) self->requests[k].next = k + 1 < capacity ? k + 1 : -1;
  self->first_free = used;
  self->request_capacity = capacity;
  return 0;
}

/** A new request of `part_count` pieces, with memory for them. */
static inline int32_t gqsgd_mpi_open(gqsgd_mpi *self, int32_t part_count, uint64_t *request) {
  int32_t code = gqsgd_mpi_usable(self);
  if (code == 0) code = gqsgd_mpi_reserve_parts(self, part_count);
  if (code == 0) code = gqsgd_mpi_reserve_request(self);
  if (code != 0) return code;
  *request = (uint64_t)self->first_free;
  self->first_free = self->requests[*request].next;
  self->requests[*request].parts = 0;
  self->requests[*request].of_all = 0;
  self->requests[*request].size_bytes = 0;
  self->busy_us = gqsgd_mpi_now_us();
  return 0;
}

/** Where a piece's MPI_Request is stored; null until MPI has written it, which may fail. */
static inline MPI_Request *gqsgd_mpi_add_part(gqsgd_mpi *self, uint64_t request) {
  self->requests[request].parts += 1;
  self->owners[self->part_count] = (int32_t)request;
  self->parts[self->part_count] = MPI_REQUEST_NULL;
  return &self->parts[self->part_count++];
}

/* ---- 2. The table ---------------------------------------------------------------------------- */

static inline int32_t gqsgd_mpi_part_count(size_t size_bytes) {
  return (int32_t)((size_bytes + GQSGD_MPI_COUNT_MAX - 1) / GQSGD_MPI_COUNT_MAX);
}

static inline int gqsgd_mpi_next_part(size_t left_bytes) {
  return left_bytes < GQSGD_MPI_COUNT_MAX ? (int)left_bytes : GQSGD_MPI_COUNT_MAX;
}

static inline int32_t gqsgd_mpi_send(void *user, int32_t peer, const void *bytes, size_t size_bytes,
                                     uint64_t *request) {
  gqsgd_mpi *self = (gqsgd_mpi *)user;
  const char *next = (const char *)bytes, *end = next + size_bytes;
  int32_t code = gqsgd_mpi_open(self, gqsgd_mpi_part_count(size_bytes), request);
  for (; code == 0 && next != end; next += gqsgd_mpi_next_part((size_t)(end - next))) {
    code = MPI_Isend(next, gqsgd_mpi_next_part((size_t)(end - next)), MPI_BYTE, peer, 0, self->comm,
                     gqsgd_mpi_add_part(self, *request));
  }
  return code;
}

static inline int32_t gqsgd_mpi_receive(void *user, int32_t peer, void *bytes, size_t size_bytes,
                                        uint64_t *request) {
  gqsgd_mpi *self = (gqsgd_mpi *)user;
  char *next = (char *)bytes, *end = next + size_bytes;
  int32_t code = gqsgd_mpi_open(self, gqsgd_mpi_part_count(size_bytes), request);
  for (; code == 0 && next != end; next += gqsgd_mpi_next_part((size_t)(end - next))) {
    code = MPI_Irecv(next, gqsgd_mpi_next_part((size_t)(end - next)), MPI_BYTE, peer, 0, self->comm,
                     gqsgd_mpi_add_part(self, *request));
  }
  return code;
}

static inline int32_t gqsgd_mpi_allgather(void *user, const void *own, void *all, size_t size_bytes,
                                          uint64_t *request) {
  gqsgd_mpi *self = (gqsgd_mpi *)user;
  const int32_t code = gqsgd_mpi_open(self, 1, request);
  if (code != 0) return code;
  self->requests[*request].of_all = 1;
  return MPI_Iallgather(own, (int)size_bytes, MPI_BYTE, all, (int)size_bytes, MPI_BYTE, self->comm,
                        gqsgd_mpi_add_part(self, *request));
}

static inline int32_t gqsgd_mpi_allreduce(void *user, int32_t addend, void *numbers, size_t count,
                                          uint64_t *request) {
  gqsgd_mpi *self = (gqsgd_mpi *)user;
  const MPI_Datatype type = addend == GQSGD_ADD_FLOAT32 ? MPI_FLOAT : MPI_UINT64_T;
  const size_t size_bytes = addend == GQSGD_ADD_FLOAT32 ? sizeof(float) : sizeof(uint64_t);
  char *next = (char *)numbers;
  int32_t code = gqsgd_mpi_open(self, gqsgd_mpi_part_count(count), request);
  if (code == 0) self->requests[*request].of_all = 1;
  while (code == 0 && count > 0) {
    const int part_count = gqsgd_mpi_next_part(count);
    code = MPI_Iallreduce(MPI_IN_PLACE, next, part_count, type, MPI_SUM, self->comm,
                          gqsgd_mpi_add_part(self, *request));
    next += (size_t)part_count * size_bytes;
    count -= (size_t)part_count;
  }
  return code;
}

static inline int32_t gqsgd_mpi_test(void *user, uint64_t request, int32_t *done,
                                     size_t *size_bytes) {
  gqsgd_mpi *self = (gqsgd_mpi *)user;
  *done = self->requests[request].parts == 0;
  if (!*done) return 0;
  *size_bytes = self->requests[request].size_bytes;
  self->requests[request].next = self->first_free;
  self->first_free = (int32_t)request;
  return 0;
}

/** Removes piece k from the arrays. */
static inline void gqsgd_mpi_drop_part(gqsgd_mpi *self, int32_t k) {
  const int32_t last = --self->part_count;
  self->parts[k] = self->parts[last];
  self->owners[k] = self->owners[last];
}

/** Tests all pending MPI requests once; *any if a request is done. */
static inline int32_t gqsgd_mpi_look(gqsgd_mpi *self, int32_t *any) {
  int count = 0, come = 0, k;
  int code = MPI_Testsome(self->part_count, self->parts, &count, self->indices, self->statuses);
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return code;
  for (k = 0; count != MPI_UNDEFINED && k < count; ++k) {
    gqsgd_mpi_request *owner = &self->requests[self->owners[self->indices[k]]];
    if (code == MPI_ERR_IN_STATUS && self->statuses[k].MPI_ERROR != MPI_SUCCESS) {
      return self->statuses[k].MPI_ERROR;
    }
    MPI_Get_count(&self->statuses[k], MPI_BYTE, &come);
    if (come != MPI_UNDEFINED) owner->size_bytes += (size_t)come;
    owner->parts -= 1;
    if (owner->parts == 0) *any = 1;
  }
  for (k = self->part_count; count > 0 && k-- > 0;) {
    if (self->parts[k] == MPI_REQUEST_NULL) gqsgd_mpi_drop_part(self, k);
  }
  return 0;
}

/** How long to sleep after waiting for so long. */
static inline int32_t gqsgd_mpi_nap_us(int64_t waited_us) {
  const int64_t nap_us = waited_us / GQSGD_MPI_SLEEP_SHARE;
  if (nap_us < GQSGD_MPI_SLEEP_MIN_US) return GQSGD_MPI_SLEEP_MIN_US;
  return nap_us < GQSGD_MPI_SLEEP_MAX_US ? (int32_t)nap_us : (int32_t)GQSGD_MPI_SLEEP_MAX_US;
}

static inline int32_t gqsgd_mpi_progress(void *user, int32_t timeout_us) {
  gqsgd_mpi *self = (gqsgd_mpi *)user;
  const int32_t unusable = gqsgd_mpi_usable(self);
  int64_t begin_us;
  int32_t any = 0;
  if (unusable != 0) return unusable;
  begin_us = gqsgd_mpi_now_us();
  for (;;) {
    const int32_t code = gqsgd_mpi_look(self, &any);
    const int64_t now_us = gqsgd_mpi_now_us();
    const int64_t waited_us = now_us - self->busy_us;
    if (any)
      self->spin_us = waited_us < GQSGD_MPI_SPIN_US ? GQSGD_MPI_SPIN_US : GQSGD_MPI_SPIN_MIN_US;
    if (any) self->busy_us = now_us;
    if (code != 0 || any || now_us - begin_us >= timeout_us) return code;
    if (waited_us < self->spin_us) {
      sched_yield(); /* a sum has several steps; each test advances it */
    } else {
      gqsgd_mpi_sleep(gqsgd_mpi_nap_us(waited_us));
    }
  }
}

static inline void gqsgd_mpi_free(gqsgd_mpi *self) {
  free(self->requests);
  free(self->parts);
  free(self->owners);
  free(self->indices);
  free(self->statuses);
  free(self);
}

/** Cancels pending requests; 1 if one of them may still touch the library's memory. */
static inline int32_t gqsgd_mpi_withdraw(gqsgd_mpi *self) {
  int32_t left = 0, any = 0, k;
  if (self->part_count == 0) return 0;
  if (gqsgd_mpi_look(self, &any) != 0) return 1;
  for (k = 0; k < self->part_count; ++k) {
    int done = 0;
    if (self->parts[k] == MPI_REQUEST_NULL) continue; /* MPI has failed to start it, or ended it */
    if (self->requests[self->owners[k]].of_all) {
      left = 1;
      continue;
    }
    /* Only a receive that nothing has matched can be cancelled for certain. */
    if (MPI_Cancel(&self->parts[k]) != MPI_SUCCESS) return 1;
    if (MPI_Test(&self->parts[k], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) left = 1;
  }
  return left;
}

static inline int32_t gqsgd_mpi_close(void *user) {
  gqsgd_mpi *self = (gqsgd_mpi *)user;
  const int32_t code = gqsgd_mpi_usable(self);
  if (code == GQSGD_MPI_WRONG_THREAD) return code;
  if (code == 0 && gqsgd_mpi_withdraw(self) != 0) return 1;
  if (code == 0) MPI_Comm_free(&self->comm);
  gqsgd_mpi_free(self);
  return 0;
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
