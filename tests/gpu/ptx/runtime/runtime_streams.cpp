// CUDA's streams, events and graphs, over those of the device of threads.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "tests/gpu/ptx/finding.h"
#include "tests/gpu/ptx/order.h"
#include "tests/gpu/ptx/runtime/runtime.h"

namespace gq::ptx {
namespace {

using test::Capture;
using test::Stream;

/** Of CUDA's: it knows what came before it. */
struct Event : test::Event {
  Event() : test::Event(0) {}
  const std::shared_ptr<Mark> mark = std::make_shared<Mark>();
};

thread_local cudaError_t last_error = cudaSuccess;
/** Captures of this thread, by their streams, and the mode in which it meets captures. */
thread_local std::map<cudaStream_t, cudaStreamCaptureMode> own_captures;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
/** Those of them that a refused call has ended: their streams take nothing before their end. */
thread_local std::set<cudaStream_t> ended_captures;
bool takes_nothing(cudaStream_t handle) { return ended_captures.count(handle) > 0; }
std::atomic<int> global_captures{0};

int own_captures_of(cudaStreamCaptureMode mode) {
  int count = 0;
  for (const auto& [stream, begun] : own_captures) count += begun == mode ? 1 : 0;
  return count;
}

struct Streams {
  std::mutex mutex;
  std::map<cudaStream_t, std::shared_ptr<Stream>> all;
};

Streams& streams() {
  static Streams* const kept = [] {
    auto* const made = new Streams;
    for (const cudaStream_t fixed : {cudaStreamLegacy, cudaStreamPerThread}) {
      made->all[fixed] = std::make_shared<Stream>(0);
    }
    return made;
  }();
  return *kept;
}

Event& event_of(cudaEvent_t handle) { return *reinterpret_cast<Event*>(handle); }

struct Graph {
  std::shared_ptr<Capture> capture;
};
Graph& graph_of(void* handle) { return *static_cast<Graph*>(handle); }

cudaError_t make_stream(cudaStream_t* handle) {
  const auto made = std::make_shared<Stream>(0);
  *handle = reinterpret_cast<cudaStream_t>(static_cast<test::HostStream*>(made.get()));
  const std::lock_guard<std::mutex> lock(streams().mutex);
  streams().all[*handle] = made;
  return cudaSuccess;
}

void wait_for(const std::shared_ptr<Stream>& stream) {
  const auto event = std::make_shared<test::EventState>(0);
  const auto mark = std::make_shared<Mark>();
  stream->run([mark] { mark->record(); });
  stream->run(record_of(event));
  wait_of(event)();
  mark->order_hosts_after();
}

}  // namespace

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void end_with(const char* sentence) {
  fprintf(stderr, "PTX: %s\n", sentence);
  fflush(nullptr);
  _exit(9);
}

bool is_refused_in_captures() {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return false;
  const int own_global = own_captures_of(cudaStreamCaptureModeGlobal);
  if (own_global + own_captures_of(cudaStreamCaptureModeThreadLocal) > 0) {
    for (const auto& [stream, begun] : own_captures) ended_captures.insert(stream);
    return true;
  }
  return capture_mode == cudaStreamCaptureModeGlobal && global_captures > own_global;
}

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
  const std::lock_guard<std::mutex> lock(streams().mutex);
  const auto found = streams().all.find(handle == nullptr ? cudaStreamLegacy : handle);
  return found == streams().all.end() ? nullptr : found->second;
}

cudaError_t enqueue(cudaStream_t handle, std::function<void()> work) {
  const auto stream = stream_of(handle);
  if (!stream) return noted(cudaErrorInvalidResourceHandle);
  if (takes_nothing(handle)) return noted(cudaErrorStreamCaptureInvalidated);
  stream->run([work, hosts = hosts_now()] {
    follow_hosts(hosts);
    try {
      work();
    } catch (const Finding& finding) {
      end_with(finding.what());
    }
  });
  return cudaSuccess;
}

cudaError_t wait_for_stream(cudaStream_t handle) {
  const auto stream = stream_of(handle);
  if (!stream) return noted(cudaErrorInvalidResourceHandle);
  if (stream->capture()) return noted(cudaErrorStreamCaptureUnsupported);
  wait_for(stream);
  return cudaSuccess;
}

void wait_for_device() {
  std::map<cudaStream_t, std::shared_ptr<Stream>> all;
  {
    const std::lock_guard<std::mutex> lock(streams().mutex);
    all = streams().all;
  }
  for (const auto& [handle, stream] : all) {
    if (!stream->capture()) wait_for(stream);
  }
}

}  // namespace gq::ptx

using gq::ptx::noted;
using gq::ptx::stream_of;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = gq::ptx::last_error;
  gq::ptx::last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return gq::ptx::last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "an error";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the stand-in";
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return gq::ptx::make_stream(stream);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return gq::ptx::make_stream(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  std::shared_ptr<gq::test::Stream> ended;  // waits for its work without the lock
  gq::ptx::Streams& streams = gq::ptx::streams();
  const std::lock_guard<std::mutex> lock(streams.mutex);
  const auto found = streams.all.find(handle);
  if (found == streams.all.end()) return noted(cudaErrorInvalidResourceHandle);
  ended = found->second;
  streams.all.erase(found);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return gq::ptx::wait_for_stream(stream); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new gq::ptx::Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &gq::ptx::event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  const auto stream = stream_of(handle);
  if (!stream) return noted(cudaErrorInvalidResourceHandle);
  if (gq::ptx::takes_nothing(handle)) return noted(cudaErrorStreamCaptureInvalidated);
  stream->run([mark = gq::ptx::event_of(event).mark] { mark->record(); });
  if (flags != cudaEventRecordExternal) {
    record(&gq::ptx::event_of(event), stream.get());
    return cudaSuccess;
  }
  if (!stream->capture()) return noted(cudaErrorIllegalState);
  stream->run_at_replay([state = gq::ptx::event_of(event).state] { return record_of(state); });
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  const auto stream = stream_of(handle);
  if (!stream) return noted(cudaErrorInvalidResourceHandle);
  if (gq::ptx::takes_nothing(handle)) return noted(cudaErrorStreamCaptureInvalidated);
  if (flags != cudaEventWaitExternal) {
    if (!wait(stream.get(), gq::ptx::event_of(event))) {
      return noted(cudaErrorStreamCaptureIsolation);
    }
  } else {
    if (!stream->capture()) return noted(cudaErrorIllegalState);
    stream->run_at_replay([state = gq::ptx::event_of(event).state] { return wait_of(state); });
  }
  // A mutation: the order of accesses is as if the wait had been forgotten.
  static const bool forgets = getenv("GQ_PTX_FORGETS_WAITS") != nullptr;
  if (!forgets) stream->run([mark = gq::ptx::event_of(event).mark] { mark->wait(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (gq::ptx::is_refused_in_captures()) return noted(cudaErrorStreamCaptureUnsupported);
  gq::test::EventState& state = *gq::ptx::event_of(event).state;
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.come < state.recorded) return noted(cudaErrorNotReady);
  gq::ptx::event_of(event).mark->order_hosts_after();
  return cudaSuccess;
}
/** No caller may rely on the times of an emulated device. */
cudaError_t cudaEventElapsedTime(float* time_ms, cudaEvent_t, cudaEvent_t) {
  *time_ms = 1;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  wait_of(gq::ptx::event_of(event).state)();
  gq::ptx::event_of(event).mark->order_hosts_after();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const auto stream = stream_of(handle);
  if (!stream) return noted(cudaErrorInvalidResourceHandle);
  *status = stream->capture() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (gq::ptx::takes_nothing(handle)) *status = cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, gq::ptx::capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const auto stream = stream_of(handle);
  if (!stream) return noted(cudaErrorInvalidResourceHandle);
  stream->begin_capture();
  gq::ptx::own_captures[handle] = mode;
  gq::ptx::global_captures += mode == cudaStreamCaptureModeGlobal ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const auto stream = stream_of(handle);
  if (!stream || !stream->capture()) return noted(cudaErrorIllegalState);
  const auto begun = gq::ptx::own_captures.find(handle);
  if (begun == gq::ptx::own_captures.end()) return noted(cudaErrorStreamCaptureWrongThread);
  gq::ptx::global_captures -= begun->second == cudaStreamCaptureModeGlobal ? 1 : 0;
  gq::ptx::own_captures.erase(begun);
  *graph = nullptr;
  if (gq::ptx::ended_captures.erase(handle) > 0) {
    (void)stream->capture()->end();
    return noted(cudaErrorStreamCaptureInvalidated);
  }
  auto* const made = new gq::ptx::Graph{stream->capture()};
  *graph = reinterpret_cast<cudaGraph_t>(made);
  return made->capture->end() ? cudaSuccess : noted(cudaErrorStreamCaptureUnjoined);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = reinterpret_cast<cudaGraphExec_t>(new gq::ptx::Graph(gq::ptx::graph_of(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle) {
  const auto stream = stream_of(handle);
  if (!stream) return noted(cudaErrorInvalidResourceHandle);
  stream->run([hosts = gq::ptx::hosts_now()] { gq::ptx::follow_hosts(hosts); });
  gq::ptx::graph_of(graph).capture->replay(stream.get());
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &gq::ptx::graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete &gq::ptx::graph_of(graph);
  return cudaSuccess;
}

}  // extern "C"
