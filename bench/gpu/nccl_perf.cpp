// gpu_nccl_perf: how long an allreduce over NCCL takes, and how long a host needs to enqueue it,
// beside NCCL's own allreduces of float32 and bf16 in the same run.
#include <cuda_runtime_api.h>
#include <gqsgd_nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu/call_times.h"
#include "bench/gpu/cases.h"
#include "bench/gpu/number_options.h"
#include "src/transport/nccl/nccl_library.h"

namespace gq::bench {
namespace {

constexpr char kUsage[] =
    "usage: gpu_nccl_perf [--values N] [--ranks N] [--calls N] [--limit SECONDS]\n"
    "  --values  values of each rank, default 6553600 and 65536 (25 MiB, 256 KiB of float32)\n"
    "  --ranks   threads with a GPU each, or all on the only one, default 1, 2, 4 and 8\n"
    "  --calls   timed calls of each kind, default 20, of which the median is shown\n"
    "  --limit   seconds for the ranks of one group, default 60: then it hangs\n"
    "Several ranks on one GPU need NCCL 2.30. GQSGD_NCCL_LIBRARY names another NCCL.\n"
    "Status 77: there is no device, no NCCL, or not so many ranks are possible.\n";

constexpr size_t kUntimedCalls = 3;       // the first ones agree on a signature and connect
constexpr int kSharedGpuVersion = 23000;  // of 2.30.0: earlier ones refuse a second rank on a GPU

struct Options {
  size_t value_count = 0;
  size_t rank_count = 0;
  size_t call_count = 20;
  size_t limit_s = 60;
};

/** Whose allreduce it is: NCCL's, or one of a communicator of this library. */
enum class Calls { nccl_float32, nccl_bf16, blocking, not_blocking };

struct Kind {
  const char* format;
  const char* name;
  Calls calls;
  gqsgd_schedule schedule;
};

constexpr const char* kFormats[] = {"none", "paper-gl8", "blocks-8", "adaptive-4", "rotated-4"};

bool is_of_nccl(const Kind& kind) {
  return kind.calls == Calls::nccl_float32 || kind.calls == Calls::nccl_bf16;
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds = {{"float32", "NCCL's", Calls::nccl_float32, GQSGD_SCHEDULE_AUTO},
                             {"bf16", "NCCL's", Calls::nccl_bf16, GQSGD_SCHEDULE_AUTO}};
  for (const char* format : kFormats) {
    kinds.push_back({format, "auto", Calls::blocking, GQSGD_SCHEDULE_AUTO});
    kinds.push_back({format, "blocking", Calls::blocking, GQSGD_SCHEDULE_DIRECT});
    kinds.push_back({format, "not-blocking", Calls::not_blocking, GQSGD_SCHEDULE_DIRECT});
  }
  return kinds;
}

/** What the ranks of a group share. */
struct Group {
  Group(const NcclLibrary& nccl, const Options& settings, size_t ranks, bool shares)
      : library(nccl),
        options(settings),
        rank_count(ranks),
        shares_a_gpu(shares),
        all(static_cast<ptrdiff_t>(ranks)) {}

  const NcclLibrary& library;
  const Options& options;
  const size_t rank_count;
  const bool shares_a_gpu;
  nccl::Id plain_id;
  gqsgd_unique_id id, not_blocking_id;
  std::barrier<> all;
};

std::vector<size_t> value_counts(const Options& options) {
  if (options.value_count > 0) return {options.value_count};
  return {6553600, 65536};
}

void nccl_done(const NcclLibrary& library, nccl::Result result, const char* what) {
  if (result == nccl::kSuccess) return;
  fprintf(stderr, "%s: %s\n", what, library.error_string(result));
  exit(1);
}

/** A thread's communicators and memory. Only while all ranks are here is memory allocated or
 *  freed: CUDA could wait for a message of another one. */
class Rank {
 public:
  Rank(Group& group, size_t rank) : group_(group), rank_(rank) {
    cuda_done(cudaSetDevice(group.shares_a_gpu ? 0 : static_cast<int>(rank)), "cudaSetDevice");
    cuda_done(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    const size_t most = value_counts(group.options).front();
    cuda_done(cudaMalloc(&values_, 4 * most), "values");
    cuda_done(cudaMalloc(&results_, 4 * most), "results");
    cuda_done(cudaMemsetAsync(values_, 0x3e, 4 * most, stream_), "values");
    cuda_done(cudaStreamSynchronize(stream_), "values");
    group.all.arrive_and_wait();  // all streams are there before NCCL's, in queues of their own
    join();
    group.all.arrive_and_wait();
    for (const char* format : kFormats) {
      const Quantizer quantizer = quantizer_of(format);
      for (gqsgd_comm comm : {comm_, not_blocking_comm_}) {
        library_done(gqsgd_comm_reserve(comm, quantizer.get(), most, GQSGD_FLOAT32),
                     "gqsgd_comm_reserve");
      }
    }
  }
  ~Rank() {
    group_.all.arrive_and_wait();
    library_done(gqsgd_comm_destroy(not_blocking_comm_), "gqsgd_comm_destroy");
    library_done(gqsgd_comm_destroy(comm_), "gqsgd_comm_destroy");
    nccl_done(group_.library, group_.library.destroy(plain_comm_), "ncclCommDestroy");
    group_.all.arrive_and_wait();
    cuda_done(cudaFree(results_), "results");
    cuda_done(cudaFree(values_), "values");
    cuda_done(cudaStreamDestroy(stream_), "a stream");
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void measure(const Kind& kind, size_t value_count) const {
    const Quantizer quantizer = quantizer_of(is_of_nccl(kind) ? "none" : kind.format);
    std::vector<double> enqueued_us, through_us;
    group_.all.arrive_and_wait();
    for (size_t call = 0; call < group_.options.call_count + kUntimedCalls; ++call) {
      const auto begin = Clock::now();
      enqueue(kind, quantizer.get(), value_count);
      const double returned_us = us_since(begin);
      cuda_done(cudaStreamSynchronize(stream_), "a call");
      if (call < kUntimedCalls) continue;
      enqueued_us.push_back(returned_us);
      through_us.push_back(us_since(begin));
    }
    if (rank_ != 0) return;
    printf("%5zu  %8zu  %-10s %-8s %12.1f %13.1f\n", group_.rank_count, value_count, kind.format,
           kind.name, median(through_us), median(enqueued_us));
    fflush(stdout);
  }

 private:
  void join() {
    const auto rank = static_cast<int32_t>(rank_);
    const auto rank_count = static_cast<int32_t>(group_.rank_count);
    nccl::Config config;
    config.blocking = 1;  // as where NCCL is called without a configuration
    nccl_done(group_.library,
              group_.library.init(&plain_comm_, rank_count, group_.plain_id, rank, &config),
              "ncclCommInitRankConfig");
    group_.all.arrive_and_wait();
    library_done(gqsgd_comm_create_nccl(&group_.id, rank, rank_count, "", &comm_),
                 "gqsgd_comm_create_nccl");
    group_.all.arrive_and_wait();
    library_done(gqsgd_comm_create_nccl(&group_.not_blocking_id, rank, rank_count,
                                        "nccl_blocking=off", &not_blocking_comm_),
                 "gqsgd_comm_create_nccl");
  }

  void enqueue(const Kind& kind, gqsgd_quantizer quantizer, size_t value_count) const {
    if (is_of_nccl(kind)) {
      const bool is_bf16 = kind.calls == Calls::nccl_bf16;
      nccl_done(group_.library,
                group_.library.all_reduce(values_, results_, value_count,
                                          is_bf16 ? nccl::kBfloat16 : nccl::kFloat32, nccl::kSum,
                                          plain_comm_, stream_),
                "ncclAllReduce");
      return;
    }
    gqsgd_config config = GQSGD_CONFIG_INIT;
    config.schedule = kind.schedule;
    library_done(
        gqsgd_allreduce(kind.calls == Calls::blocking ? comm_ : not_blocking_comm_, quantizer,
                        values_, results_, value_count, GQSGD_FLOAT32, GQSGD_MEAN, &config,
                        stream_),
        "gqsgd_allreduce");
  }

  Group& group_;
  const size_t rank_;
  cudaStream_t stream_ = nullptr;
  void *values_ = nullptr, *results_ = nullptr;
  nccl::Comm plain_comm_ = nullptr;
  gqsgd_comm comm_ = nullptr, not_blocking_comm_ = nullptr;
};

char hanging_group[96];

void end_at_limit(int) {
  const ssize_t written = write(STDERR_FILENO, hanging_group, strlen(hanging_group));
  _exit(written > 0 ? 1 : 2);
}

void measure_group(const NcclLibrary& library, size_t rank_count, bool shares_a_gpu,
                   const Options& options) {
  snprintf(hanging_group, sizeof hanging_group, "%zu ranks: no end after %zu s\n", rank_count,
           options.limit_s);
  signal(SIGALRM, end_at_limit);
  alarm(static_cast<unsigned>(options.limit_s));
  Group group(library, options, rank_count, shares_a_gpu);
  nccl_done(library, library.get_unique_id(&group.plain_id), "ncclGetUniqueId");
  for (gqsgd_unique_id* id : {&group.id, &group.not_blocking_id}) {
    library_done(gqsgd_nccl_unique_id_create("", id), "gqsgd_nccl_unique_id_create");
  }
  std::vector<std::thread> threads;
  for (size_t index = 0; index < rank_count; ++index) {
    threads.emplace_back([&group, index] {
      const Rank rank(group, index);
      for (const size_t value_count : value_counts(group.options)) {
        for (const Kind& kind : all_kinds()) rank.measure(kind, value_count);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  alarm(0);
}

bool parse(int argc, char** argv, Options* options) {
  return read_number_options(argc, argv,
                             {{"--values", &options->value_count},
                              {"--ranks", &options->rank_count},
                              {"--calls", &options->call_count},
                              {"--limit", &options->limit_s}});
}

/** Before CUDA and NCCL begin. Ranks that share a GPU wait for each other in its queues of streams
 *  and where kernels are loaded (tests/gpu/nccl_check.cpp). */
void let_ranks_share_a_gpu() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  setenv("NCCL_RAS_ENABLE", "0", 0);
}

/** Of the numbers of ranks that are wanted those that there can be. With several GPUs each rank has
 *  its own: NCCL's limit of blocks, which ranks on one GPU need, would slow the others down. */
std::vector<size_t> possible_counts(const Options& options, size_t device_count, int version) {
  std::vector<size_t> wanted = {1, 2, 4, 8};
  if (options.rank_count > 0) wanted = {options.rank_count};
  const bool several = device_count > 1 || version < kSharedGpuVersion;
  std::erase_if(wanted, [&](size_t count) { return several && count > device_count; });
  return wanted;
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) return fputs(kUsage, stderr), 2;
  let_ranks_share_a_gpu();
  int device_count = 0;
  const cudaError_t error = cudaGetDeviceCount(&device_count);
  if (error != cudaSuccess || device_count == 0) {
    fprintf(stderr, "no device: %s\n", cudaGetErrorString(error));
    return 77;
  }
  const NcclLibrary* library = nullptr;
  if (const Status opened = open_nccl("", NcclSearch::any, &library); !opened.ok()) {
    fprintf(stderr, "%s\n", opened.sentence());
    return 77;
  }
  const auto counts = possible_counts(options, static_cast<size_t>(device_count), library->version);
  if (counts.empty()) {
    fprintf(stderr, "%zu ranks are wanted, there are %d devices and version number %d of NCCL\n",
            options.rank_count, device_count, library->version);
    return 77;
  }
  if (device_count == 1) setenv("NCCL_MAX_CTAS", "4", 0);  // each leaves processors to the others
  const char* const blocks = getenv("NCCL_MAX_CTAS");
  const char* const folder_end = strrchr(library->path, '/');
  printf("# %s, version number %d, NCCL_MAX_CTAS %s\n",
         folder_end == nullptr ? library->path : folder_end + 1, library->version,
         blocks == nullptr ? "not set" : blocks);
  printf("# ranks %s, medians of %zu calls\n",
         device_count == 1 ? "share a GPU" : "have a GPU each", options.call_count);
  printf("ranks    values  format     schedule   us a call us to enqueue\n");
  fflush(stdout);
  for (const size_t count : counts) measure_group(*library, count, device_count == 1, options);
  return 0;
}

}  // namespace
}  // namespace gq::bench

int main(int argc, char** argv) { return gq::bench::run(argc, argv); }
