/* Four processes fit a linear model together: each has examples of its own, and gradients are
 * averaged in 8-bit codes. Build: cc regression.c $(pkg-config --cflags --libs gqsgd) */
#include <gqsgd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANK_COUNT = 4, WEIGHT_COUNT = 2048, EXAMPLE_COUNT = 64, STEP_COUNT = 60 };

/* A feature of an example, 1 or -1, from a hash of both. */
static float feature(uint32_t example, uint32_t weight) {
  uint32_t hash = example * 2654435761u + weight;
  hash = (hash ^ (hash >> 15)) * 739982445u;
  hash = (hash ^ (hash >> 12)) * 695872825u;
  return (hash >> 16) & 1 ? 1.0f : -1.0f;
}

static float predicted(uint32_t example, const float *weights) {
  float sum = 0;
  for (uint32_t w = 0; w < WEIGHT_COUNT; ++w) sum += feature(example, w) * weights[w];
  return sum;
}

/* The rank's mean squared error, and the gradient of half of it. The target of example e is e % 7.
 */
static float error_and_gradient(int rank, const float *weights, float *gradient) {
  float error = 0;
  memset(gradient, 0, WEIGHT_COUNT * sizeof(float));
  for (uint32_t k = 0; k < EXAMPLE_COUNT; ++k) {
    const uint32_t example = (uint32_t)rank * EXAMPLE_COUNT + k;
    const float distance = predicted(example, weights) - (float)(example % 7);
    error += distance * distance / EXAMPLE_COUNT;
    for (uint32_t w = 0; w < WEIGHT_COUNT; ++w)
      gradient[w] += distance * feature(example, w) / EXAMPLE_COUNT;
  }
  return error;
}

/* Steepest descent; the same gradient, and so the same weights, on every rank. */
static gqsgd_status fit(gqsgd_comm comm, gqsgd_quantizer quantizer, int rank, float *weights) {
  static float gradient[WEIGHT_COUNT];
  for (int step = 0; step < STEP_COUNT; ++step) {
    const float error = error_and_gradient(rank, weights, gradient);
    if (rank == 0 && step % 20 == 0) printf("step %2d: error %.2e\n", step, (double)error);
    gqsgd_status status = gqsgd_allreduce(comm, quantizer, gradient, gradient, WEIGHT_COUNT,
                                          GQSGD_FLOAT32, GQSGD_MEAN, NULL, NULL);
    if (status != GQSGD_OK) return status;
    for (int w = 0; w < WEIGHT_COUNT; ++w) weights[w] -= 0.05f * gradient[w];
  }
  if (rank == 0) printf("in the end: error %.2e\n", error_and_gradient(rank, weights, gradient));
  return GQSGD_OK;
}

static int run_rank(const gqsgd_unique_id *id, int rank, float *weights) {
  gqsgd_comm comm = NULL;
  gqsgd_quantizer quantizer = NULL;
  const int failed = gqsgd_quantizer_create("blocks-8,seed=7", &quantizer) ||
                     gqsgd_comm_create_process(id, rank, RANK_COUNT, "", &comm) ||
                     fit(comm, quantizer, rank, weights);
  if (failed) printf("rank %d: %s\n", rank, gqsgd_last_error());
  gqsgd_comm_destroy(comm);
  gqsgd_quantizer_destroy(quantizer);
  return failed;
}

int main(void) {
  gqsgd_unique_id id;
  /* Seen by all processes, to compare them in the end. */
  float(*weights)[WEIGHT_COUNT] = mmap(NULL, RANK_COUNT * sizeof *weights, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (weights == MAP_FAILED || gqsgd_unique_id_create(&id)) return puts(gqsgd_last_error()), 1;
  int failed = 0, rank = 0, status;
  for (int child = 1; child < RANK_COUNT && rank == 0; ++child)
    if (fork() == 0) rank = child;
  failed = run_rank(&id, rank, weights[rank]);
  if (rank > 0) return failed;
  while (wait(&status) > 0) failed |= status;
  for (int other = 1; other < RANK_COUNT; ++other)
    failed |= memcmp(weights[0], weights[other], sizeof *weights) != 0;
  printf("weights are the same bits on all ranks: %s\n", failed ? "no" : "yes");
  return failed != 0;
}
