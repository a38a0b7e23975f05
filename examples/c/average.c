/* Four threads of one process average their vectors in 8-bit codes; every one ends with the same
 * bits. Build: cc average.c $(pkg-config --cflags --libs gqsgd) -pthread */
#include <gqsgd.h>
#include <pthread.h>
#include <stdio.h>

enum { RANK_COUNT = 4, VALUE_COUNT = 4 };

struct rank_work {
  gqsgd_comm comm;
  gqsgd_quantizer quantizer;
  int rank;
  int failed;
};

static void *average(void *argument) {
  struct rank_work *work = argument;
  const float base = (float)work->rank;
  float values[VALUE_COUNT] = {base, base + 1, base + 2, -6};
  work->failed = gqsgd_allreduce(work->comm, work->quantizer, values, values, VALUE_COUNT,
                                 GQSGD_FLOAT32, GQSGD_MEAN, NULL, NULL);
  if (work->failed)
    printf("rank %d: %s\n", work->rank, gqsgd_last_error());
  else
    printf("rank %d: %.4f %.4f %.4f %.4f\n", work->rank, values[0], values[1], values[2],
           values[3]);
  return NULL;
}

int main(void) {
  gqsgd_comm comms[RANK_COUNT];
  gqsgd_quantizer quantizer;
  if (gqsgd_quantizer_create("blocks-8", &quantizer) ||
      gqsgd_comm_create_local(RANK_COUNT, "", comms)) {
    printf("%s\n", gqsgd_last_error());
    return 1;
  }
  struct rank_work work[RANK_COUNT];
  pthread_t threads[RANK_COUNT];
  int started_count = 0, failed = 0;
  for (int rank = 0; rank < RANK_COUNT; ++rank) {
    work[rank] = (struct rank_work){comms[rank], quantizer, rank, 0};
    if (pthread_create(&threads[rank], NULL, average, &work[rank])) break;
    ++started_count;
  }
  /* Without its thread a rank never comes: say so, instead of letting the others wait. */
  for (int rank = started_count; rank < RANK_COUNT; ++rank) gqsgd_comm_abort(comms[rank]);
  for (int rank = 0; rank < started_count; ++rank) {
    pthread_join(threads[rank], NULL);
    failed |= work[rank].failed;
  }
  for (int rank = 0; rank < RANK_COUNT; ++rank) gqsgd_comm_destroy(comms[rank]);
  gqsgd_quantizer_destroy(quantizer);
  return failed || started_count < RANK_COUNT;
}
