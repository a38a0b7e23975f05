// A stand-in for CUDA's runtime: streams are threads, memory is the host's, kernels are executed
// from their PTX. What a device would not survive ends the process with a sentence.
#ifndef GQ_TESTS_GPU_PTX_RUNTIME_RUNTIME_H
#define GQ_TESTS_GPU_PTX_RUNTIME_RUNTIME_H

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "tests/gpu/ptx/concurrent/concurrent.h"
#include "tests/support/host_device/host_streams.h"

namespace gq::ptx {

/** Notes what a call returns as the thread's last error. */
cudaError_t noted(cudaError_t error);

/** Null for a handle that names no stream. */
std::shared_ptr<test::Stream> stream_of(cudaStream_t handle);
/** When the stream's turn comes; a Finding ends the process. */
cudaError_t enqueue(cudaStream_t handle, std::function<void()> work);
/** Waits for all that the stream was given. */
cudaError_t wait_for_stream(cudaStream_t handle);
/** Waits for all that any stream was given, as CUDA may before it frees memory. */
void wait_for_device();
/** Whether this thread may neither allocate nor query an event now, for a capture of its own or, in
 *  mode global, of another thread. */
bool is_refused_in_captures();

/** What `launch` launches, which is not run. */
Recorded recorded(const std::function<void()>& launch);

[[noreturn]] void end_with(const char* sentence);

}  // namespace gq::ptx

#endif
