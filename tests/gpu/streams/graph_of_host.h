// A graph of the device of threads as the checks of tests/gpu take graphs.
#ifndef GQ_TESTS_GPU_STREAMS_GRAPH_OF_HOST_H
#define GQ_TESTS_GPU_STREAMS_GRAPH_OF_HOST_H

#include <string>

#include "tests/gpu/allreduce_call.h"
#include "tests/support/host_device/host_device.h"

namespace gq::test {

class GraphOfHost final : public StreamGraph {
 public:
  void begin_capture(StreamHandle stream) override { graph_.begin_capture(stream); }
  std::string end_capture(StreamHandle stream) override {
    return graph_.end_capture(stream) ? "" : "the capture is not whole";
  }
  void replay(StreamHandle stream) override { graph_.replay(stream); }

 private:
  HostGraph graph_;
};

}  // namespace gq::test

#endif
