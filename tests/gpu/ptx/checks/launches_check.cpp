// What one call over NCCL enqueues, counted at CUDA's runtime: kernels, copies, and NCCL's
// collectives and groups of messages. Each kind of call has a budget.
//   PROGRAM FILE   prints the table that FILE (docs/results/gpu-launches.md) must have
//   Status 1: a budget is exceeded, ranks differ, a call fails, or FILE or the cost model has other
//   numbers.
#include <cuda_runtime_api.h>
#include <gqsgd_nccl.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <barrier>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/plan/cost/device_cost.h"
#include "tests/gpu/cuda_call.h"
#include "tests/support/host_device/enqueue_counts.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr size_t kChunkValues = 1024;
constexpr size_t kListChunkValues = 65536;  // so that a part of a list is one chunk
constexpr size_t kGroupValues = 32768;      // of adaptive widths
constexpr size_t kShortGroupValues = 8192;

struct Case {
  const char* quantizer;
  int ranks;
  size_t chunks;   ///< that each rank's part of the call has
  size_t tensors;  ///< 1: a call in one piece
  uint64_t budget;
  gqsgd_schedule schedule = GQSGD_SCHEDULE_DIRECT;
};

// 9 or 12, and 5 for each further chunk; else the number itself: more is a change to be explained.
constexpr Case kCases[] = {
    {"paper-gl8", 2, 1, 1, 9},
    {"paper-gl8", 8, 1, 1, 9},
    {"paper-gl8", 32, 1, 1, 9},
    {"paper-gl8", 8, 2, 1, 14},
    {"paper-gl8", 8, 4, 1, 24},
    {"paper-gl8", 8, 1, 200, 9},
    {"blocks-8", 2, 1, 1, 12},
    {"blocks-8", 8, 1, 1, 12},
    {"blocks-8", 32, 1, 1, 12},
    {"blocks-8", 8, 2, 1, 17},
    {"blocks-8", 8, 4, 1, 27},
    {"blocks-8", 8, 1, 200, 12},
    {"rotated-4-8", 8, 1, 1, 12},
    {"relative-8", 8, 1, 1, 9},
    {"none", 8, 1, 1, 18},
    {"none", 8, 1, 1, 6, GQSGD_SCHEDULE_NATIVE},
    {"adaptive-4", 2, 1, 1, 12},
    {"adaptive-4", 8, 1, 1, 12},
    {"adaptive-4", 2, 2, 1, 17},
    {"adaptive-4", 8, 1, 200, 13},
    {"rice-4", 2, 1, 1, 8},
    {"rice-4", 8, 1, 1, 8},
    {"rice-4", 8, 1, 200, 9},
    // Both shards of a part travel together.
    {"paper-gl8", 8, 1, 1, 13, GQSGD_SCHEDULE_HIERARCHICAL},
    {"blocks-8", 8, 1, 1, 16, GQSGD_SCHEDULE_HIERARCHICAL},
    {"relative-8", 8, 1, 1, 13, GQSGD_SCHEDULE_HIERARCHICAL},
    {"adaptive-4", 8, 1, 1, 15, GQSGD_SCHEDULE_HIERARCHICAL},
    {"rice-4", 8, 1, 1, 11, GQSGD_SCHEDULE_HIERARCHICAL},
};

bool has_groups(const Case& test) {
  return strncmp(test.quantizer, "adaptive", 8) == 0 || strncmp(test.quantizer, "rice", 4) == 0;
}

/** Two nodes of four ranks each. */
bool is_over_nodes(const Case& test) { return test.schedule == GQSGD_SCHEDULE_HIERARCHICAL; }

/** Values of a chunk: a group, where there are groups; one that is alone may be short. */
size_t chunk_values(const Case& test) {
  if (test.tensors > 1) return kListChunkValues;
  return has_groups(test) ? kGroupValues : kChunkValues;
}

/** Tensors of uneven lengths, which fill the chunks of all ranks. */
std::vector<size_t> lengths_of(const Case& test) {
  const bool short_groups = has_groups(test) && test.chunks == 1;
  const size_t chunk = test.tensors > 1 ? kChunkValues
                       : short_groups   ? kShortGroupValues
                                        : chunk_values(test);
  const size_t total = chunk * test.chunks * static_cast<size_t>(test.ranks);
  if (test.tensors == 1) return {total};
  std::vector<size_t> lengths;
  size_t left = total;
  for (size_t k = 0; k < test.tensors; ++k) {
    lengths.push_back(k + 1 == test.tensors ? left : left / (2 * (test.tensors - k)) + k % 3);
    left -= lengths.back();
  }
  return lengths;
}

/** One rank's buffers and calls. */
class Rank {
 public:
  Rank(const Case& test, gqsgd_comm comm)
      : comm_(comm),
        quantizer_(test.quantizer),
        schedule_(test.schedule),
        lengths_(lengths_of(test)) {
    done(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (const size_t length : lengths_) {
      void* values = nullptr;
      done(cudaMalloc(&values, (length + 1) * sizeof(float)));
      done(cudaMemsetAsync(values, 0, (length + 1) * sizeof(float), stream_));
      values_.push_back(values);
    }
  }
  ~Rank() {
    for (void* const values : values_) (void)cudaFree(values);
    (void)cudaStreamDestroy(stream_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /** What the third call of its kind enqueues: from the second on it is expected. */
  std::string count(EnqueueCounts* counts) {
    constexpr int kCalls = 3;
    for (int call = 0; call < kCalls; ++call) {
      enqueue_counts() = EnqueueCounts();
      if (make() != GQSGD_OK) return gqsgd_last_error();
      *counts = enqueue_counts();
    }
    done(cudaStreamSynchronize(stream_));
    return "";
  }

 private:
  gqsgd_status make() {
    if (lengths_.size() == 1) {
      return gqsgd_allreduce(comm_, quantizer_.get(), values_[0], values_[0], lengths_[0],
                             GQSGD_FLOAT32, GQSGD_MEAN, config_of(schedule_), stream_);
    }
    return gqsgd_allreduce_many(comm_, quantizer_.get(), values_.data(), values_.data(),
                                lengths_.data(), lengths_.size(), GQSGD_FLOAT32, GQSGD_MEAN,
                                config_of(schedule_), stream_);
  }

  gqsgd_comm comm_;
  Quantizer quantizer_;
  gqsgd_schedule schedule_;
  std::vector<size_t> lengths_;
  std::vector<void*> values_;
  cudaStream_t stream_ = nullptr;
};

/** Of the rank that enqueues most. */
std::string count(const Case& test, EnqueueCounts* most) {
  std::string options = "chunk_value_count=" + std::to_string(chunk_values(test));
  if (is_over_nodes(test)) options.append(",").append(nodes_option({0, 0, 0, 0, 1, 1, 1, 1}));
  gqsgd_unique_id id;
  if (gqsgd_nccl_unique_id_create("", &id) != GQSGD_OK) return gqsgd_last_error();
  std::mutex mutex;
  std::string failures;
  std::vector<std::thread> threads;
  // Memory is freed when no rank waits for another any more: that may wait for the whole device.
  std::barrier all_have_called(test.ranks);
  for (int rank = 0; rank < test.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      gqsgd_comm comm = nullptr;
      EnqueueCounts own;
      std::string failure;
      if (gqsgd_comm_create_nccl(&id, rank, test.ranks, options.c_str(), &comm) != GQSGD_OK) {
        failure = gqsgd_last_error();
        all_have_called.arrive_and_drop();
      } else {
        Rank calls(test, comm);
        failure = calls.count(&own);
        if (!failure.empty()) gqsgd_comm_abort(comm);
        all_have_called.arrive_and_wait();
        gqsgd_comm_destroy(comm);
      }
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure.empty()) failures.append(failure).append("\n");
      if (own.all() > most->all()) *most = own;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures;
}

std::string row_of(const Case& test, const EnqueueCounts& counts) {
  std::string row = "| `";
  row.append(test.quantizer).append("`");
  if (test.schedule != GQSGD_SCHEDULE_DIRECT) row.append(", ").append(schedule_name(test.schedule));
  if (is_over_nodes(test)) row.append(" on 2 nodes");
  row.append(" |");
  for (const uint64_t number :
       {uint64_t(test.ranks), uint64_t(test.chunks), uint64_t(test.tensors), counts.kernels,
        counts.collectives, counts.copies, counts.all(), test.budget}) {
    row.append(" ").append(std::to_string(number)).append(" |");
  }
  return row;
}

std::vector<std::string> lines_of(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/** Whether AUTO's cost model counts the same. It is asked about calls in one piece by direct
 *  and native, and takes adaptive widths for blocks. */
bool is_as_modelled(const Case& test, const EnqueueCounts& counts) {
  if (test.tensors > 1 || has_groups(test) || is_over_nodes(test)) return true;
  Format format;
  const size_t value_count = lengths_of(test)[0];
  PlanRequest request{&format,     test.schedule,      static_cast<uint32_t>(test.ranks),
                      value_count, chunk_values(test), false};
  request.stages_are_launches = true;
  Plan plan;
  const bool planned =
      parse_quantizer(test.quantizer, &format).ok() && make_plan(request, &plan).ok();
  if (!planned) return false;
  const DeviceOperations operations = device_operations(plan);
  return operations.kernels == counts.kernels && operations.exchanges == counts.collectives;
}

int run(const char* path) {
  const std::vector<std::string> documented = lines_of(path);
  bool passed = true;
  for (const Case& test : kCases) {
    EnqueueCounts counts;
    const std::string failures = count(test, &counts);
    const std::string row = row_of(test, counts);
    const bool known =
        std::find(documented.begin(), documented.end(), row) != documented.end();
    const bool within = counts.all() <= test.budget, modelled = is_as_modelled(test, counts);
    printf("%s%s%s%s\n", row.c_str(), within ? "" : " EXCEEDED", known ? "" : " NOT IN THE PAGE",
           modelled ? "" : " NOT AS MODELLED");
    printf("%s", failures.c_str());
    fflush(stdout);
    passed = passed && failures.empty() && within && known && modelled;
  }
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace gq::test

int main(int argc, char** argv) {
  if (argc == 2) return gq::test::run(argv[1]);
  printf("usage: ptx_launches FILE\n");
  return 1;
}
