/* A program of version 0.1: it includes no header of this tree, but what the headers of 0.1
 * declared, as its object code would have it. test_client.py compiles it, links it to the names and
 * symbol versions of the last release, and runs it with the library of this tree. The results are
 * numbers of 0.1, too. Nothing here is ever changed; a later release gets a program of its own. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int32_t status;
typedef struct comm_of_0_1 *comm;
typedef struct quantizer_of_0_1 *quantizer;
typedef struct request_of_0_1 *request;
typedef struct {
  unsigned char bytes[256];
} unique_id;
typedef struct {
  size_t size_bytes;
  int32_t schedule, step_source;
  uint64_t step, index;
  const uint32_t *device_step;
} config;
typedef struct {
  uint64_t rank, size, reduction_depth, step, index, first_value, hop, weight_a, weight_b;
} site;
typedef struct {
  size_t struct_size_bytes;
  void *user;
  int32_t rank, size;
  const int32_t *node_ids;
  int32_t (*send)(void *, int32_t, const void *, size_t, uint64_t *);
  int32_t (*receive)(void *, int32_t, void *, size_t, uint64_t *);
  int32_t (*test)(void *, uint64_t, int32_t *, size_t *);
  int32_t (*progress)(void *, int32_t);
  int32_t (*close)(void *);
  const char *(*error_text)(void *, int32_t);
  int32_t (*allgather)(void *, const void *, void *, size_t, uint64_t *);
  int32_t (*allreduce)(void *, int32_t, void *, size_t, uint64_t *);
  const char *name;
} transport;

enum { OK = 0, INVALID_ARGUMENT = 1, BAD_HANDLE = 3, NO_MEMORY = 20, REMOTE_ERROR = 42 };
enum { FLOAT32 = 0, BFLOAT16 = 2, FLOAT64 = 3 };
enum { SUM = 0, MEAN = 1 };
enum { AUTO = 0, RING = 1, TREE = 2, BUTTERFLY = 3, DIRECT = 4, HIERARCHICAL = 5, SPARSE = 7 };
enum { COUNTER = 0, GIVEN = 1 };
enum { LOG_INFO = 2 };

const char *gqsgd_status_name(status);
const char *gqsgd_last_error(void);
int32_t gqsgd_version(void);
status gqsgd_quantizer_create(const char *, quantizer *);
status gqsgd_quantizer_destroy(quantizer);
status gqsgd_comm_create_local(int32_t, const char *, comm *);
status gqsgd_unique_id_create(unique_id *);
status gqsgd_comm_create_process(const unique_id *, int32_t, int32_t, const char *, comm *);
status gqsgd_comm_create_custom(const transport *, const char *, comm *);
status gqsgd_comm_rank(comm, int32_t *);
status gqsgd_comm_transport(comm, const char **);
status gqsgd_comm_set_timeout(comm, int64_t);
status gqsgd_comm_timeout(comm, int64_t *);
status gqsgd_comm_counter(comm, uint64_t *);
status gqsgd_comm_stat(comm, const char *, uint64_t *);
status gqsgd_comm_destroy(comm);
status gqsgd_comm_refuse(comm, status, const config *, void *);
status gqsgd_allreduce(comm, quantizer, const void *, void *, size_t, int32_t, int32_t,
                       const config *, void *);
status gqsgd_allreduce_start(comm, quantizer, const void *, void *, size_t, int32_t, int32_t,
                             const config *, void *, request *);
status gqsgd_request_wait(request);
status gqsgd_quantize(quantizer, const site *, const void *, size_t, int32_t, const float *,
                      uint32_t *, void *, size_t, void *);
void gqsgd_set_log(int32_t, void (*)(void *, int32_t, const char *), void *);

enum { RANKS = 4, VALUES = 3000 };

static int failures = 0;

static void check(int is_right, const char *what) {
  if (is_right) return;
  failures += 1;
  printf("%s: %s\n", what, gqsgd_last_error());
}

/* FNV-1a. */
static uint32_t digest(const void *bytes, size_t size_bytes) {
  uint32_t hash = 0x811c9dc5u;
  for (size_t k = 0; k < size_bytes; ++k) {
    hash = (hash ^ ((const unsigned char *)bytes)[k]) * 0x1000193u;
  }
  return hash;
}

/* With step 7 and index 3. */
static const struct {
  int32_t schedule, dtype, op;
  const char *spec;
  uint32_t digest;
} kCalls[] = {
    {RING, FLOAT32, MEAN, "paper-ge8,seed=7", 0xff3c885eu},
    {TREE, FLOAT32, MEAN, "paper-ge8,seed=7", 0xbfcb7f4bu},
    {BUTTERFLY, FLOAT32, MEAN, "paper-ge8,seed=7", 0x1f434a3bu},
    {DIRECT, FLOAT32, SUM, "blocks-8,seed=7", 0xf3ede11au},
    {DIRECT, FLOAT32, MEAN, "blocks-8,seed=7", 0xedcaebefu},
    {AUTO, FLOAT64, MEAN, "rotated-4,seed=7", 0x53cce91au},
    {DIRECT, BFLOAT16, SUM, "relative-8,seed=7", 0x6fef910bu},
    {SPARSE, FLOAT32, MEAN, "paper-gl4,seed=7", 0x4bdf2569u},
};
enum { CALLS = sizeof kCalls / sizeof kCalls[0] };

typedef struct {
  int rank;
  comm comm;
  uint32_t digests[CALLS];
  status statuses[CALLS], refused, waited;
} rank_state;

/* Values that no bit of a type rounds. */
static void fill(int rank, int32_t dtype, double *memory) {
  for (int k = 0; k < VALUES; ++k) {
    const float value = (float)((k * 7 + rank * 13) % 61 - 30) / 4;
    if (dtype == FLOAT64) memory[k] = value;
    if (dtype == FLOAT32) ((float *)memory)[k] = value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == BFLOAT16) ((uint16_t *)memory)[k] = (uint16_t)(bits >> 16);
  }
}

static void *run_rank(void *argument) {
  rank_state *const self = argument;
  static const size_t kSizes[] = {4, 2, 2, 8};
  double values[VALUES], result[VALUES];
  for (int k = 0; k < CALLS; ++k) {
    quantizer quantizer = NULL;
    gqsgd_quantizer_create(kCalls[k].spec, &quantizer);
    const config call = {.size_bytes = sizeof(config), .schedule = kCalls[k].schedule,
                         .step_source = GIVEN, .step = 7, .index = 3};
    fill(self->rank, kCalls[k].dtype, values);
    self->statuses[k] = gqsgd_allreduce(self->comm, quantizer, values, result, VALUES,
                                        kCalls[k].dtype, kCalls[k].op, &call, NULL);
    self->digests[k] = digest(result, VALUES * kSizes[kCalls[k].dtype]);
    gqsgd_quantizer_destroy(quantizer);
  }
  quantizer none = NULL;
  gqsgd_quantizer_create("none", &none);
  fill(self->rank, FLOAT32, values);
  request started = NULL;
  gqsgd_allreduce_start(self->comm, none, values, result, VALUES, FLOAT32, SUM, NULL, NULL,
                        &started);
  self->waited = gqsgd_request_wait(started);
  self->refused = self->rank == 1 ? gqsgd_comm_refuse(self->comm, NO_MEMORY, NULL, NULL)
                                  : gqsgd_allreduce(self->comm, none, values, result, VALUES,
                                                    FLOAT32, SUM, NULL, NULL);
  gqsgd_quantizer_destroy(none);
  return NULL;
}

static void check_group(void) {
  comm comms[RANKS];
  check(gqsgd_comm_create_local(RANKS, "nodes=0:0:1:1", comms) == OK, "create_local");
  rank_state ranks[RANKS];
  pthread_t threads[RANKS];
  for (int rank = 0; rank < RANKS; ++rank) {
    ranks[rank] = (rank_state){.rank = rank, .comm = comms[rank]};
    pthread_create(&threads[rank], NULL, run_rank, &ranks[rank]);
  }
  for (int rank = 0; rank < RANKS; ++rank) pthread_join(threads[rank], NULL);
  for (int rank = 0; rank < RANKS; ++rank) {
    for (int k = 0; k < CALLS; ++k) {
      if (ranks[rank].statuses[k] == OK && ranks[rank].digests[k] == kCalls[k].digest) continue;
      printf("rank %d, call %d, %s: %s, digest 0x%08xu\n", rank, k, kCalls[k].spec,
             gqsgd_status_name(ranks[rank].statuses[k]), ranks[rank].digests[k]);
      failures += 1;
    }
    check(ranks[rank].waited == OK, "a request");
    check(rank == 1 || ranks[rank].refused == REMOTE_ERROR, "a call that rank 1 refuses");
    uint64_t count = 0, calls = 0;
    gqsgd_comm_counter(comms[rank], &count);
    gqsgd_comm_stat(comms[rank], "calls", &calls);
    // Two calls took their step from the counter.
    check(count == 2 && calls == CALLS + 2, "counter and calls");
    gqsgd_comm_destroy(comms[rank]);
  }
}

static int is_closed = 0;
static int32_t close_transport(void *user) {
  *(int *)user = 1;
  return 0;
}
/* Of a group of one rank, which sends nothing. */
static int32_t no_message(void *user, int32_t peer, const void *bytes, size_t size_bytes,
                          uint64_t *request) {
  return (void)user, (void)peer, (void)bytes, (void)size_bytes, (void)request, 1;
}
static int32_t no_receive(void *user, int32_t peer, void *bytes, size_t size_bytes,
                          uint64_t *request) {
  return no_message(user, peer, bytes, size_bytes, request);
}
static int32_t no_test(void *user, uint64_t request, int32_t *done, size_t *size_bytes) {
  return (void)user, (void)request, (void)done, (void)size_bytes, 1;
}
static int32_t no_progress(void *user, int32_t timeout_us) {
  return (void)user, (void)timeout_us, 0;
}

static void check_transport(void) {
  const transport table = {.struct_size_bytes = sizeof(transport), .user = &is_closed, .rank = 0,
                           .size = 1, .send = no_message, .receive = no_receive, .test = no_test,
                           .progress = no_progress, .close = close_transport, .name = "of 0.1"};
  comm comm = NULL;
  const char *name = "";
  int64_t timeout_ms = 0;
  int32_t rank = -1;
  check(gqsgd_comm_create_custom(&table, "", &comm) == OK, "create_custom");
  check(gqsgd_comm_transport(comm, &name) == OK && strcmp(name, "of 0.1") == 0, "its name");
  check(gqsgd_comm_rank(comm, &rank) == OK && rank == 0, "its rank");
  check(gqsgd_comm_set_timeout(comm, -1) == OK && gqsgd_comm_timeout(comm, &timeout_ms) == OK &&
            timeout_ms == -1,
        "no timeout");
  check(gqsgd_comm_destroy(comm) == OK && is_closed, "closing it");
}

static int lines = 0;
static void count_line(void *user, int32_t level, const char *line) {
  if (level == LOG_INFO && line[0] != '\0') ++*(int *)user;
}

static void check_process(void) {
  unique_id ids[2];
  memset(ids, 0xa5, sizeof ids);
  comm comm = NULL;
  gqsgd_set_log(LOG_INFO, count_line, &lines);
  check(gqsgd_unique_id_create(&ids[0]) == OK, "unique_id_create");
  check(ids[1].bytes[0] == 0xa5 && ids[1].bytes[255] == 0xa5, "what is behind an id");
  check(gqsgd_comm_create_process(&ids[0], 0, 1, "", &comm) == OK, "create_process");
  check(lines > 0, "lines of the log");
  check(gqsgd_comm_destroy(comm) == OK, "destroying it");
  check(gqsgd_comm_destroy(comm) == BAD_HANDLE, "destroying it again");
}

static void check_stage(void) {
  float values[64];
  for (int k = 0; k < 64; ++k) values[k] = (float)(k - 32);
  const float norm = 32;
  uint32_t words[16];
  quantizer quantizer = NULL;
  const site here = {.rank = 1, .size = 4, .reduction_depth = 3, .step = 7, .index = 3,
                     .first_value = 128, .weight_a = 1, .weight_b = 1};
  check(gqsgd_quantizer_create("paper-gl8,seed=7", &quantizer) == OK, "quantizer_create");
  check(gqsgd_quantize(quantizer, &here, values, 64, FLOAT32, &norm, words, NULL, 0, NULL) == OK,
        "gqsgd_quantize");
  const uint32_t found = digest(words, sizeof words);
  if (found != 0xdb6ca7dfu) printf("codes: digest 0x%08xu\n", found), failures += 1;
  gqsgd_quantizer_destroy(quantizer);
  check(gqsgd_quantizer_create("none-such", &quantizer) == INVALID_ARGUMENT, "a wrong spec");
}

int main(void) {
  check(gqsgd_version() >= 100 && gqsgd_version() < 10000, "version");
  check_group();
  check_transport();
  check_process();
  check_stage();
  return failures == 0 ? 0 : 1;
}
