/* Processes of any machines fit a straight line to points that each of them draws by itself, with
 * gradients in 8-bit codes; docs/TWO_MACHINES.md starts them. Every one ends with the same bits.
 * Build: cc machines.c $(pkg-config --cflags --libs gqsgd) */
#include <gqsgd.h>
#include <gqsgd_network.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { STEP_COUNT = 100, POINT_COUNT = 64 };

/* From -1 to 1; ranks begin with different states. */
static float draw(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* Of half the mean squared error at points of y = 2 x - 1, with noise. */
static void find_gradient(const float line[2], uint32_t *state, float gradient[2]) {
  gradient[0] = gradient[1] = 0;
  for (int k = 0; k < POINT_COUNT; ++k) {
    const float x = draw(state), y = 2 * x - 1 + 0.1f * draw(state);
    const float error = line[0] * x + line[1] - y;
    gradient[0] += error * x / POINT_COUNT;
    gradient[1] += error / POINT_COUNT;
  }
}

int main(void) {
  gqsgd_comm comm;
  gqsgd_quantizer quantizer;
  int32_t rank, size;
  if (gqsgd_comm_create_env("", &comm) || gqsgd_quantizer_create("blocks-8", &quantizer) ||
      gqsgd_comm_rank(comm, &rank) || gqsgd_comm_size(comm, &size)) {
    fprintf(stderr, "%s\n", gqsgd_last_error());
    return 1;
  }
  float line[2] = {0, 0}, gradient[2];
  uint32_t state = (uint32_t)rank + 1;
  int failed = 0;
  for (int step = 0; step < STEP_COUNT && !failed; ++step) {
    find_gradient(line, &state, gradient);
    failed = gqsgd_allreduce(comm, quantizer, gradient, gradient, 2, GQSGD_FLOAT32, GQSGD_MEAN,
                             NULL, NULL);
    for (int k = 0; k < 2; ++k) line[k] -= gradient[k];
  }
  if (failed) {
    fprintf(stderr, "rank %d: %s\n", (int)rank, gqsgd_last_error());
  } else {
    uint32_t bits[2];
    memcpy(bits, line, sizeof bits);
    printf("rank %d of %d: y = %.2f x %+.2f, bits %08x %08x\n", (int)rank, (int)size, line[0],
           line[1], (unsigned)bits[0], (unsigned)bits[1]);
  }
  gqsgd_quantizer_destroy(quantizer);
  gqsgd_comm_destroy(comm);
  return failed != 0;
}
