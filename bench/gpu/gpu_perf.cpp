// gpu_perf: how fast each stage is on this machine's device, against cudaMemcpyAsync from device to
// device in the same run.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <string>

#include "bench/gpu/cases.h"

namespace gq::bench {
namespace {

constexpr char kUsage[] =
    "usage: gpu_perf [--values N] [--sets N] [--calls N] [--rounds N] [--stage NAME]\n"
    "                [--json FILE]\n"
    "  --values  values per call, default 67108864 (256 MiB of float32)\n"
    "  --sets    copies of all buffers taken in turn, default as many as hold 8 times the L2 "
    "cache\n"
    "  --calls   calls in the graph that is timed, default 2^28 values of them\n"
    "  --rounds  timed rounds over all cases, default 15; the table shows medians\n"
    "  --stage   only names that contain this, and the copy\n"
    "  --json    writes what the table shows and more to a file\n"
    "GB/s counts bytes read and written. \"of copy\" is the share of the copy's, with the least "
    "that\n"
    "is wanted beside it. Status 77: there is no device.\n";

struct Options {
  size_t value_count = size_t{1} << 26;
  size_t set_count = 0;
  size_t call_count = 0;
  size_t round_count = 15;
  std::string stage, json;
};

bool parse_count(const char* text, size_t* count) {
  char* end = nullptr;
  const unsigned long long value = strtoull(text, &end, 10);
  *count = static_cast<size_t>(value);
  return *text >= '1' && *text <= '9' && *end == 0 && value < (1ull << 34);
}

bool parse(int argc, char** argv, Options* options) {
  for (int k = 1; k + 1 < argc; k += 2) {
    const std::string name = argv[k];
    bool good = true;
    if (name == "--values") {
      good = parse_count(argv[k + 1], &options->value_count) && options->value_count % 1024 == 0;
    } else if (name == "--sets") {
      good = parse_count(argv[k + 1], &options->set_count);
    } else if (name == "--calls") {
      good = parse_count(argv[k + 1], &options->call_count);
    } else if (name == "--rounds") {
      good = parse_count(argv[k + 1], &options->round_count);
    } else if (name == "--stage") {
      options->stage = argv[k + 1];
    } else if (name == "--json") {
      options->json = argv[k + 1];
    } else {
      good = false;
    }
    if (!good) return false;
  }
  return argc % 2 == 1;
}

/** A case as a graph of some calls, so that the host's part of a call is not in its time. */
class Timed {
 public:
  Timed(const GpuCase& work, size_t call_count, cudaStream_t stream)
      : work_(work), call_count_(call_count) {
    cudaGraph_t graph = nullptr;
    work.run(0, stream);  // outside of the capture: kernels are loaded when they are first used
    cuda_done(cudaStreamSynchronize(stream), work.stage.c_str());
    cuda_done(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    for (size_t call = 0; call < call_count; ++call) work.run(call, stream);
    cuda_done(cudaStreamEndCapture(stream, &graph), "capture");
    cuda_done(cudaGraphInstantiate(&program_, graph, 0), "cudaGraphInstantiate");
    cuda_done(cudaGraphDestroy(graph), "cudaGraphDestroy");
    cuda_done(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda_done(cudaEventCreate(&end_), "cudaEventCreate");
  }

  /** One replay; the first is not kept. */
  void run(cudaStream_t stream, bool keep) {
    float elapsed_ms = 0;
    cuda_done(cudaEventRecord(begin_, stream), "cudaEventRecord");
    cuda_done(cudaGraphLaunch(program_, stream), "cudaGraphLaunch");
    cuda_done(cudaEventRecord(end_, stream), "cudaEventRecord");
    cuda_done(cudaEventSynchronize(end_), work_.stage.c_str());
    cuda_done(cudaEventElapsedTime(&elapsed_ms, begin_, end_), "cudaEventElapsedTime");
    if (keep) times_us_.push_back(1e3 * elapsed_ms / static_cast<double>(call_count_));
  }

  const GpuCase& work() const { return work_; }
  double quantile_us(double share) const {
    std::vector<double> sorted = times_us_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
  }

 private:
  GpuCase work_;
  size_t call_count_;
  cudaGraphExec_t program_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::vector<double> times_us_;
};

std::vector<Timed> measure(const Options& options, GpuBuffers& buffers) {
  cudaStream_t stream = nullptr;
  cuda_done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  // Every set once at least, and long enough that an event's own time is nothing.
  size_t calls = options.call_count;
  if (calls == 0) calls = std::max(buffers.set_count(), (size_t{1} << 28) / options.value_count);
  std::vector<Timed> all;
  for (const GpuCase& work : gpu_cases(buffers)) {
    const bool wanted = all.empty() || work.stage.find(options.stage) != std::string::npos;
    if (wanted) all.emplace_back(work, calls, stream);
  }
  for (size_t round = 0; round <= options.round_count; ++round) {
    for (Timed& timed : all) timed.run(stream, round > 0);
  }
  return all;
}

/** One case in numbers. */
struct Row {
  double time_us, spread_us, gigabytes, share, billion_values;

  Row(const Timed& timed, const Timed& copy, size_t value_count)
      : time_us(timed.quantile_us(0.5)),
        spread_us(timed.quantile_us(0.9) - timed.quantile_us(0.1)) {
    const auto values = static_cast<double>(value_count);
    gigabytes = timed.work().bytes_per_value * values / time_us / 1e3;
    share = gigabytes / (copy.work().bytes_per_value * values / copy.quantile_us(0.5) / 1e3);
    billion_values = values / time_us / 1e3;
  }
};

void print_table(const std::vector<Timed>& all, size_t value_count) {
  printf("%-16s %-20s %10s %8s %9s %10s %8s %8s\n", "stage", "format", "us", "+-", "GB/s",
         "Gvalues/s", "of copy", "wanted");
  for (const Timed& timed : all) {
    const Row row(timed, all[0], value_count);
    printf("%-16s %-20s %10.2f %8.2f %9.1f %10.2f %8.3f", timed.work().stage.c_str(),
           timed.work().format.c_str(), row.time_us, row.spread_us, row.gigabytes,
           row.billion_values, row.share);
    timed.work().target > 0 ? printf(" %8.2f\n", timed.work().target) : printf("        -\n");
  }
}

bool write_json(const std::string& path, const std::vector<Timed>& all, const Options& options,
                const cudaDeviceProp& device) {
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  fprintf(file,
          "{\"device\": \"%s\", \"processors\": %d, \"l2_bytes\": %d, \"values\": %zu, \"sets\": "
          "%zu, \"rounds\": %zu, \"build\": \"%s\",\n \"rows\": [",
          device.name, device.multiProcessorCount, device.l2CacheSize, options.value_count,
          options.set_count, options.round_count, gqsgd_build_info());
  for (const Timed& timed : all) {
    const Row row(timed, all[0], options.value_count);
    fprintf(file,
            "%s\n  {\"stage\": \"%s\", \"format\": \"%s\", \"bytes_per_value\": %g, \"us\": %.3f, "
            "\"spread_us\": %.3f, \"gb_per_s\": %.2f, \"gvalues_per_s\": %.3f, \"of_copy\": %.4f, "
            "\"target\": %g}",
            &timed == &all[0] ? "" : ",", timed.work().stage.c_str(), timed.work().format.c_str(),
            timed.work().bytes_per_value, row.time_us, row.spread_us, row.gigabytes,
            row.billion_values, row.share, timed.work().target);
  }
  fprintf(file, "\n]}\n");
  return fclose(file) == 0;
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
  cudaDeviceProp device;
  cuda_done(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  if (options.set_count == 0) {
    // The smallest buffers are codes of 4 bits: half an byte a value.
    const size_t least_bytes = options.value_count / 2;
    options.set_count = 8 * static_cast<size_t>(device.l2CacheSize) / least_bytes + 2;
  }
  printf("# %s, %d processors, L2 %d KiB; %zu values, %zu buffer sets, %zu rounds, medians\n# %s\n",
         device.name, device.multiProcessorCount, device.l2CacheSize / 1024, options.value_count,
         options.set_count, options.round_count, gqsgd_build_info());
  GpuBuffers buffers(options.value_count, options.set_count);
  const std::vector<Timed> all = measure(options, buffers);
  print_table(all, options.value_count);
  if (options.json.empty() || write_json(options.json, all, options, device)) return 0;
  fprintf(stderr, "%s cannot be written\n", options.json.c_str());
  return 1;
}

}  // namespace
}  // namespace gq::bench

int main(int argc, char** argv) { return gq::bench::run(argc, argv); }
