// gpu_local_perf: how long an allreduce of threads takes, all ranks on one GPU or spread over
// several, and how long a host needs to fill its stream with it.
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <thread>
#include <vector>

#include "bench/gpu/call_times.h"
#include "bench/gpu/cases.h"
#include "bench/gpu/number_options.h"

namespace gq::bench {
namespace {

constexpr char kUsage[] =
    "usage: gpu_local_perf [--values N] [--ranks N] [--devices N] [--calls N] [--fused 1]\n"
    "  --values  values of each rank, default 6553600 (25 MiB of float32)\n"
    "  --fused   1: calls of 2^10 to 2^23 values by fused kernels (schedule direct) beside\n"
    "            the same moves by stages (schedule hierarchical)\n"
    "  --ranks   threads, default 2, 4 and 8\n"
    "  --devices which ranks take in turn, default 1\n"
    "  --calls   timed calls of each kind, default 20, of which the median is shown\n"
    "Status 77: there is no device, or not so many.\n";

struct Options {
  size_t value_count = 6553600;
  size_t rank_count = 0;
  size_t device_count = 1;
  size_t call_count = 20;
  size_t fused = 0;
};

struct Kind {
  const char* quantizer;
  gqsgd_schedule schedule;
  const char* name;
};

constexpr Kind kKinds[] = {{"none", GQSGD_SCHEDULE_DIRECT, "direct"},
                           {"blocks-8", GQSGD_SCHEDULE_DIRECT, "direct"},
                           {"adaptive-4", GQSGD_SCHEDULE_DIRECT, "direct"},
                           {"paper-gl8", GQSGD_SCHEDULE_DIRECT, "direct"},
                           {"paper-gl8", GQSGD_SCHEDULE_RING, "ring"},
                           {"paper-ge4", GQSGD_SCHEDULE_DIRECT, "direct"}};

/** The same moves by one kernel of each rank and by stages. */
constexpr Kind kSweep[] = {{"paper-gl8", GQSGD_SCHEDULE_DIRECT, "fused"},
                           {"paper-gl8", GQSGD_SCHEDULE_HIERARCHICAL, "stages"},
                           {"blocks-8", GQSGD_SCHEDULE_DIRECT, "fused"},
                           {"blocks-8", GQSGD_SCHEDULE_HIERARCHICAL, "stages"},
                           {"none", GQSGD_SCHEDULE_DIRECT, "fused"},
                           {"none", GQSGD_SCHEDULE_HIERARCHICAL, "stages"}};
/** The last are the capacity of fused kernels; of float32 they have a quarter (kernels/fused.h). */
constexpr size_t kSweepLog2[] = {10, 12, 14, 16, 18, 20, 21, 22, 23};
constexpr size_t kFloatsLog2 = 21;

/** Times of rank 0, of a call until it returns and until its stream is through. */
struct Times {
  std::vector<double> filled_us, through_us;
};

/** One rank's calls, each waited for; the first two make what the others find. */
void make_calls(gqsgd_comm comm, const Kind& kind, const Options& options, Times* times) {
  gqsgd_quantizer quantizer = nullptr;
  library_done(gqsgd_quantizer_create(kind.quantizer, &quantizer), kind.quantizer);
  gqsgd_config config = GQSGD_CONFIG_INIT;
  config.schedule = kind.schedule;
  cudaStream_t stream = nullptr;
  void* values = nullptr;
  cuda_done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  cuda_done(cudaMalloc(&values, 4 * options.value_count), "values");
  cuda_done(cudaMemsetAsync(values, 0x3e, 4 * options.value_count, stream), "values");
  for (size_t call = 0; call < options.call_count + 2; ++call) {
    cuda_done(cudaStreamSynchronize(stream), "the call before");
    const auto begin = Clock::now();
    library_done(gqsgd_allreduce(comm, quantizer, values, values, options.value_count,
                                 GQSGD_FLOAT32, GQSGD_MEAN, &config, stream),
                 "gqsgd_allreduce");
    const double filled_us = us_since(begin);
    cuda_done(cudaStreamSynchronize(stream), "a call");
    if (times == nullptr || call < 2) continue;
    times->filled_us.push_back(filled_us);
    times->through_us.push_back(us_since(begin));
  }
  cuda_done(cudaFree(values), "values");
  cuda_done(cudaStreamDestroy(stream), "a stream");
  gqsgd_quantizer_destroy(quantizer);
}

void measure(size_t rank_count, const Kind& kind, const Options& options) {
  std::vector<gqsgd_comm> comms(rank_count);
  library_done(gqsgd_comm_create_local(static_cast<int32_t>(rank_count), "", comms.data()),
               "gqsgd_comm_create_local");
  Times times;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      cuda_done(cudaSetDevice(static_cast<int>(rank % options.device_count)), "cudaSetDevice");
      make_calls(comms[rank], kind, options, rank == 0 ? &times : nullptr);
      library_done(gqsgd_comm_destroy(comms[rank]), "gqsgd_comm_destroy");
    });
  }
  for (std::thread& thread : threads) thread.join();
  printf("%5zu  %8zu  %-10s %-7s %12.1f %12.1f\n", rank_count, options.value_count, kind.quantizer,
         kind.name, median(times.through_us), median(times.filled_us));
  fflush(stdout);
}

bool parse(int argc, char** argv, Options* options) {
  return read_number_options(argc, argv,
                             {{"--values", &options->value_count},
                              {"--ranks", &options->rank_count},
                              {"--devices", &options->device_count},
                              {"--calls", &options->call_count},
                              {"--fused", &options->fused}});
}

void measure_all(size_t rank_count, const Options& options) {
  if (options.fused == 0) {
    for (const Kind& kind : kKinds) measure(rank_count, kind, options);
    return;
  }
  Options here = options;
  for (const size_t log2 : kSweepLog2) {
    here.value_count = size_t{1} << log2;
    for (const Kind& kind : kSweep) {
      const bool fits = log2 <= kFloatsLog2 || kind.quantizer != std::string("none");
      if (fits) measure(rank_count, kind, here);
    }
  }
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) return fputs(kUsage, stderr), 2;
  int device_count = 0;
  const cudaError_t error = cudaGetDeviceCount(&device_count);
  if (error != cudaSuccess || device_count == 0) {
    fprintf(stderr, "no device: %s\n", cudaGetErrorString(error));
    return 77;
  }
  if (options.device_count > static_cast<size_t>(device_count)) {
    fprintf(stderr, "%zu devices are wanted, %d are there\n", options.device_count, device_count);
    return 77;
  }
  std::vector<size_t> rank_counts = {2, 4, 8};
  if (options.rank_count > 0) rank_counts = {options.rank_count};
  printf("# ranks on %zu of the devices, medians of %zu calls\n", options.device_count,
         options.call_count);
  printf("ranks    values  format     schedule   us a call  us to fill\n");
  for (const size_t rank_count : rank_counts) measure_all(rank_count, options);
  return 0;
}

}  // namespace
}  // namespace gq::bench

int main(int argc, char** argv) { return gq::bench::run(argc, argv); }
