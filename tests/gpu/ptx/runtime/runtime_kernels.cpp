// CUDA's kernels: what nvcc registers by name, read from the PTX that it made of the same source.
// GQ_PTX has the files' names, with a colon between two.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/gpu/ptx/block.h"
#include "tests/gpu/ptx/finding.h"
#include "tests/gpu/ptx/runtime/runtime.h"
#include "tests/support/host_device/enqueue_counts.h"

namespace gq::ptx {
namespace {

/** Names of kernels by the address of what launches them. */
std::map<const void*, std::string>& names() {
  static auto* const all = new std::map<const void*, std::string>;
  return *all;
}

Program read_files() {
  const char* const files = getenv("GQ_PTX");
  if (files == nullptr) end_with("GQ_PTX has to name the files of the kernels");
  Program program;
  std::istringstream paths(files);
  std::string path;
  try {
    while (std::getline(paths, path, ':')) read_program(path, &program);
  } catch (const std::exception& error) {
    end_with(error.what());
  }
  return program;
}

/** Launches end the process where there is no such kernel: a device would have it. */
const Kernel& kernel_of(const void* entry) {
  static const Program* const program = new Program(read_files());
  const auto name = names().find(entry);
  if (name == names().end()) end_with("a launch of what was not registered");
  const auto kernel = program->find(name->second);
  if (kernel == program->end()) end_with((name->second + " is in no file of GQ_PTX").c_str());
  return kernel->second;
}

/** Kernels that cudaFuncGetAttributes has loaded. */
struct Loaded {
  std::mutex mutex;
  std::set<const void*> entries;
};
Loaded& loaded() {
  static auto* const all = new Loaded;
  return *all;
}

/** Where GQ_PTX_LOADED is set launches of other kernels end the process: on a device one would wait
 *  for the kernels that run there. */
void check_loaded(const void* entry) {
  static const bool checks = getenv("GQ_PTX_LOADED") != nullptr;
  if (!checks) return;
  const std::lock_guard<std::mutex> lock(loaded().mutex);
  if (loaded().entries.count(entry) > 0) return;
  end_with((names()[entry] + " is launched, and was not loaded before").c_str());
}

/** Null: this thread's launches run on their streams. */
thread_local Recorded* record = nullptr;

}  // namespace

Recorded recorded(const std::function<void()>& launch) {
  Recorded made{};
  record = &made;
  launch();
  record = nullptr;
  return made;
}

}  // namespace gq::ptx

using gq::ptx::noted;

extern "C" {

cudaError_t cudaLaunchKernel(const void* entry, dim3 blocks, dim3 threads, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  const gq::ptx::Kernel& kernel = gq::ptx::kernel_of(entry);
  const bool flat = blocks.y * blocks.z * threads.y * threads.z == 1;
  if (!flat || shared_bytes != 0) return noted(cudaErrorInvalidConfiguration);
  gq::ptx::check_loaded(entry);
  gq::test::enqueue_counts().kernels += 1;
  const std::vector<uint8_t> packed = gq::ptx::packed_parameters(kernel, arguments);
  if (gq::ptx::record != nullptr) {
    *gq::ptx::record = {&kernel, blocks.x, threads.x, packed};
    return cudaSuccess;
  }
  return gq::ptx::enqueue(stream, [&kernel, blocks, threads, packed] {
    gq::ptx::run_kernel(kernel, blocks.x, threads.x, packed);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* entry) {
  const gq::ptx::Kernel& kernel = gq::ptx::kernel_of(entry);
  *attributes = {};
  attributes->sharedSizeBytes = kernel.shared_bytes;
  attributes->maxThreadsPerBlock = static_cast<int>(kernel.threads_max);
  if (getenv("GQ_PTX_FORGETS_LOADS") != nullptr) return cudaSuccess;
  const std::lock_guard<std::mutex> lock(gq::ptx::loaded().mutex);
  gq::ptx::loaded().entries.insert(entry);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void* entry, int,
                                                          size_t) {
  *count = std::max(1, static_cast<int>(gq::ptx::kernel_of(entry).blocks_at_least));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, const void* entry,
                                                                   int threads, size_t shared_bytes,
                                                                   unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(count, entry, threads, shared_bytes);
}

// What the code around kernels calls that nvcc writes.

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* entry, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  gq::ptx::names()[entry] = name;
}
// Variables of headers, which no kernel uses.
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
// Kernels are launched by cudaLaunchKernel alone.
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return noted(cudaErrorNotSupported); }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return noted(cudaErrorNotSupported);
}
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) {
  return noted(cudaErrorNotSupported);
}

}  // extern "C"
