// Graphs of CUDA as tests of captured calls take them.
#ifndef GQ_TESTS_GPU_CUDA_GRAPH_H
#define GQ_TESTS_GPU_CUDA_GRAPH_H

#include <string>

#include "tests/gpu/allreduce_call.h"
#include "tests/gpu/cuda_call.h"

namespace gq::test {

/** Is on the device when its capture has ended: nothing is made or loaded for it later. */
class CudaGraph final : public StreamGraph {
 public:
  ~CudaGraph() override {
    if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }
  void begin_capture(StreamHandle stream) override {
    done(cudaStreamBeginCapture(cuda(stream), cudaStreamCaptureModeThreadLocal));
  }
  std::string end_capture(StreamHandle stream) override {
    cudaError_t error = cudaStreamEndCapture(cuda(stream), &graph_);
    if (error == cudaSuccess) error = cudaGraphInstantiate(&executable_, graph_, 0);
    if (error == cudaSuccess) error = cudaGraphUpload(executable_, cuda(stream));
    if (error == cudaSuccess) error = cudaStreamSynchronize(cuda(stream));
    if (error == cudaSuccess) return "";
    (void)cudaGetLastError();
    return std::string("no graph: ") + cudaGetErrorString(error);
  }
  void replay(StreamHandle stream) override { done(cudaGraphLaunch(executable_, cuda(stream))); }

 private:
  static cudaStream_t cuda(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace gq::test

#endif
