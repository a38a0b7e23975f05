// What calls on streams need beside packed codes: control messages, norm, gate and step in memory
// of the device, and pinned memory for what the host reads of it.
#ifndef GQ_GPU_ENQUEUE_MEMORY_SCRATCH_H
#define GQ_GPU_ENQUEUE_MEMORY_SCRATCH_H

#include <string.h>

#include <algorithm>

#include "kernels/agreement.h"
#include "kernels/codec/global_norm.h"
#include "src/transport/control_message.h"
#include "src/transport/stream/stream_transport.h"

namespace gq {

static_assert(sizeof(ControlMessage) == kAgreementWords * sizeof(uint32_t));
static_assert(kControlNormLow == kAgreementNormWord);
static_assert(kControlDigestLow == kAgreementReservedWord);

/** Bytes that each rank sends as its control message where devices compare them: norms of a list
 *  follow it. One length for every call, so that ranks whose calls differ, or of which some replay
 *  a graph, still gather as much; in all at most 64 KiB, unless the messages alone are more. */
constexpr size_t control_place_bytes(uint32_t ranks) {
  constexpr size_t kMost = 2048, kMostOfAll = 65536, kUnit = 16;
  return std::clamp(kMostOfAll / ranks / kUnit * kUnit, sizeof(ControlMessage), kMost);
}

/** Control messages of a call, each with norms of segments behind it: in memory of the device this
 *  rank's and those of all ranks, and pinned what the host reads of these. */
struct ControlPlaces {
  uint32_t* own;
  uint32_t* all;
  unsigned char* pinned;
  size_t stride_bytes;  ///< from one rank's to the next
  uint32_t ranks;

  size_t all_bytes() const { return ranks * stride_bytes; }
  size_t norms_max() const { return (stride_bytes - sizeof(ControlMessage)) / sizeof(NormWords); }
  const ControlMessage& seen(uint32_t rank) const {
    return *reinterpret_cast<const ControlMessage*>(pinned + rank * stride_bytes);
  }
};

/** Arrays have an element for each rank. */
class Scratch {
 public:
  /** `control_bytes`: of each rank's control message and the norms behind it. */
  Status open(const Device& device, uint32_t ranks, size_t control_bytes) {
    control_bytes_ = control_bytes;
    ranks_ = ranks;
    const size_t lists_bytes = ranks * (control_bytes + sizeof(RankEntries));
    GQ_TRY(device_.reserve(device, controls_place() + lists_bytes));
    GQ_TRY(pinned_.reserve(device, kPinnedControls + lists_bytes));
    memset(pinned_.data(), 0, pinned_.size_bytes());
    return Status();
  }

  // In memory of the device.
  ControlPlaces controls() const {
    return {device_.as<uint32_t>(kOwnControl), device_.as<uint32_t>(controls_place()),
            pinned_.data() + kPinnedControls, control_bytes_, ranks_};
  }
  /** In the own control message. Sparse calls have the number of entries in its place. */
  void* own_norm() const { return device_.data() + kOwnNorm; }
  uint64_t* own_entry_count() const { return device_.as<uint64_t>(kOwnNorm); }
  /** The global norm of a call in one piece. */
  float* norm() const { return device_.as<float>(kNorm); }
  /** Whether results may be written (kernels/stages.h). */
  uint32_t* gate() const { return device_.as<uint32_t>(kGate); }
  /** Two words of norm stages. */
  uint32_t* running_norm() const { return device_.as<uint32_t>(kRunningNorm); }
  /** The step that the device counts, and the index behind it. */
  uint32_t* step() const { return device_.as<uint32_t>(kStep); }
  /** Zero codes since the last sparse entry. */
  uint64_t* zero_codes() const { return device_.as<uint64_t>(kZeroCodes); }
  RankEntries* entries() const {
    return device_.as<RankEntries>(controls_place() + controls().all_bytes());
  }
  /** What is cleared before the first call, the own control message and norms included. */
  void* first_words() const { return device_.data(); }
  size_t first_words_bytes() const { return controls_place(); }

  // In pinned memory.
  /** Of calls that have returned, and of the call that its host waits for. */
  Disagreement* late_disagreement() const { return pinned_.as<Disagreement>(); }
  Disagreement* seen_disagreement() const { return pinned_.as<Disagreement>(kSeen); }
  uint64_t* step_counter() const { return pinned_.as<uint64_t>(kCounter); }
  float* pinned_norm() const { return pinned_.as<float>(kPinnedNorm); }
  RankEntries* pinned_entries() const {
    return pinned_.as<RankEntries>(kPinnedControls + controls().all_bytes());
  }

  /** Peers may still read this memory. */
  void transfer_ownership(StreamMemory* peers) { peers->transfer_ownership(&device_); }
  /** The device may still use it: it is never freed. */
  void forget() {
    device_.forget();
    pinned_.forget();
  }

 private:
  // Places in memory of the device, in bytes.
  static constexpr size_t kNorm = 0;
  static constexpr size_t kGate = kNorm + sizeof(float);
  static constexpr size_t kStep = kGate + sizeof(uint32_t);
  static constexpr size_t kZeroCodes = kStep + 2 * sizeof(uint32_t);
  static constexpr size_t kRunningNorm = kZeroCodes + sizeof(uint64_t);
  static constexpr size_t kOwnControl = 64;
  static constexpr size_t kOwnNorm = kOwnControl + kAgreementNormWord * sizeof(uint32_t);
  static_assert(kOwnNorm % sizeof(uint64_t) == 0);
  static_assert(kZeroCodes % sizeof(uint64_t) == 0);
  static_assert(kRunningNorm + 2 * sizeof(uint32_t) <= kOwnControl);
  size_t controls_place() const { return kOwnControl + control_bytes_; }

  // Places in pinned memory.
  static constexpr size_t kSeen = sizeof(Disagreement);
  static constexpr size_t kCounter = 2 * sizeof(Disagreement);
  static constexpr size_t kPinnedNorm = kCounter + sizeof(uint64_t);
  static constexpr size_t kPinnedControls = kPinnedNorm + sizeof(uint64_t);
  static_assert(kCounter % sizeof(uint64_t) == 0);

  DeviceBuffer device_;
  PinnedBuffer pinned_;
  size_t control_bytes_ = sizeof(ControlMessage);
  uint32_t ranks_ = 0;
};

}  // namespace gq

#endif
