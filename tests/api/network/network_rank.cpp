// A rank of the tests between hosts: joins by its environment, calls, and writes what came of it.
//   network_rank CALLS COUNT MODE   MODE: "leaves" exits right after its last call returned OK,
//                                   "stays" destroys its communicator first
// Lines of standard output: "begun", then "ok TRANSPORT XOR" (of the last result's 32-bit words) or
// "NAME: sentence".
#include <gqsgd.h>
#include <gqsgd_network.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vector>

namespace {

int fail(gqsgd_status status) {
  printf("%s: %s\n", gqsgd_status_name(status), gqsgd_last_error());
  return 1;
}

/** Small integers, which differ between ranks. */
std::vector<float> values_of(int32_t rank, size_t count) {
  std::vector<float> values(count);
  for (size_t e = 0; e < count; ++e) {
    values[e] = static_cast<float>((e * 7 + static_cast<size_t>(rank) * 13) % 31) - 15;
  }
  return values;
}

uint32_t xor_of(const std::vector<float>& values) {
  uint32_t sum = 0;
  for (const float value : values) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    sum ^= word;
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const long calls = strtol(argv[1], nullptr, 10);
  const size_t count = strtoul(argv[2], nullptr, 10);
  const bool leaves = strcmp(argv[3], "leaves") == 0;
  gqsgd_comm comm = nullptr;
  gqsgd_quantizer quantizer = nullptr;
  gqsgd_status status = gqsgd_comm_create_env(getenv("NETWORK_RANK_OPTIONS"), &comm);
  if (status == GQSGD_OK) status = gqsgd_quantizer_create("blocks-8", &quantizer);
  if (status != GQSGD_OK) return fail(status);
  int32_t rank = 0;
  const char* transport = "";
  gqsgd_comm_rank(comm, &rank);
  gqsgd_comm_transport(comm, &transport);
  const std::vector<float> input = values_of(rank, count);
  std::vector<float> result(count);
  printf("begun\n");
  for (long k = 0; k < calls; ++k) {
    status = gqsgd_allreduce(comm, quantizer, input.data(), result.data(), count, GQSGD_FLOAT32,
                             GQSGD_SUM, nullptr, nullptr);
    if (status != GQSGD_OK) return fail(status);
  }
  printf("ok %s %u\n", transport, xor_of(result));
  if (leaves) _exit(0);
  status = gqsgd_comm_destroy(comm);
  return status == GQSGD_OK ? 0 : fail(status);
}
