// Allreduces of a rank on memory of the device, and whether they have the bits of virtual ranks.
#ifndef GQ_TESTS_GPU_ALLREDUCE_CALL_H
#define GQ_TESTS_GPU_ALLREDUCE_CALL_H

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/gpu/device/device.h"
#include "tests/support/operation.h"

namespace gq::test {

inline constexpr int kStreamTimeoutMs = 60000;

/** Memory of a device that calls are done with. CUDA may wait for the whole device when memory is
 *  freed, and on that kernels of other ranks may wait for this one's next call. */
using Kept = std::vector<std::shared_ptr<void>>;

/** Values that trainings hardly have. */
enum class Special { nan, infinite, opposite_infinities, denormal, tiny, huge, zero };
inline constexpr Special kSpecials[] = {
    Special::nan,      Special::infinite, Special::opposite_infinities,
    Special::denormal, Special::tiny,     Special::huge,
    Special::zero};

/** Of some ranks, in a few places or in all. */
std::vector<Values> special_inputs(int rank_count, size_t value_count, Special special);

/** Calls of every schedule, formats of every kind, and what virtual ranks make of them: in place
 *  and not, at every alignment of elements, with steps of the host's and of the device's. */
class DeviceCalls {
 public:
  /** `adds_natively`: the transport can, and exact formats take that schedule as well. */
  DeviceCalls(int rank_count, const std::vector<std::string>& formats, size_t value_count,
              bool adds_natively = false);
  DeviceCalls(std::vector<Values> inputs, const std::vector<std::string>& formats,
              bool adds_natively = false);

  /** Enqueues all calls of rank `rank` on one stream of its own, waits once, compares: "" or what
   *  went wrong. A stream that is not through in time has its group aborted. kept: takes memory
   *  over, where ranks of one device go on to other calls. */
  std::string make_and_compare(int rank, gqsgd_comm comm, int timeout_ms = kStreamTimeoutMs,
                               Kept* kept = nullptr) const;

 protected:
  explicit DeviceCalls(std::vector<Values> inputs) : inputs_(std::move(inputs)) {}
  /** options: of the virtual ranks. */
  void add(const std::string& format, gqsgd_schedule schedule, bool at_device,
           const std::string& options = "", const std::vector<size_t>& counts = {});

 private:
  std::vector<Values> inputs_;
  std::vector<Operation> operations_;
  std::vector<Values> expected_;
};

/** Calls of schedule direct alone, `repeats` of each format, with steps of the host's. */
class DirectCalls : public DeviceCalls {
 public:
  DirectCalls(std::vector<Values> inputs, const std::vector<std::string>& formats, size_t repeats);
};

/** Of schedule direct, on a list of tensors of these lengths. */
class ListCalls : public DeviceCalls {
 public:
  ListCalls(int rank_count, const std::vector<std::string>& formats,
            const std::vector<size_t>& counts);
  ListCalls(std::vector<Values> inputs, const std::vector<std::string>& formats,
            const std::vector<size_t>& counts);
};

/** Calls of schedule hierarchical over these nodes. */
class NodeCalls : public DeviceCalls {
 public:
  NodeCalls(const std::vector<int32_t>& node_ids, const std::vector<std::string>& formats,
            size_t value_count);
};

/** How what is enqueued on a stream becomes a graph. */
class StreamGraph {
 public:
  virtual ~StreamGraph() = default;
  virtual void begin_capture(StreamHandle stream) = 0;
  /** "" or why there is no graph. */
  virtual std::string end_capture(StreamHandle stream) = 0;
  virtual void replay(StreamHandle stream) = 0;
};

/** A call that is made, captured, replayed twice and made again: four steps, which the communicator
 *  counts, or which are in memory of the device. */
class ReplayedCall {
 public:
  ReplayedCall(int rank_count, const Operation& operation, size_t value_count);

  std::string make_and_compare(int rank, gqsgd_comm comm, StreamGraph* graph, int timeout_ms,
                               Kept* kept) const;

 private:
  static constexpr uint64_t kSteps = 4;

  Operation operation_;
  std::vector<Values> inputs_;
  std::vector<Values> expected_;  // of each step
};

/** "" if nothing was copied: kernels have read from each other. */
std::string was_fused(gqsgd_comm comm);

}  // namespace gq::test

#endif
