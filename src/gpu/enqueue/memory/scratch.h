// What calls on streams need beside packed codes: control messages, norm, gate and step in memory
// of the device, and pinned memory for what the host reads of it.
#ifndef GQ_GPU_ENQUEUE_MEMORY_SCRATCH_H
#define GQ_GPU_ENQUEUE_MEMORY_SCRATCH_H

#include <string.h>

#include "kernels/agreement.h"
#include "src/transport/control_message.h"
#include "src/transport/stream/stream_transport.h"

namespace gq {

static_assert(sizeof(ControlMessage) == kAgreementWords * sizeof(uint32_t));
static_assert(kControlNormLow == kAgreementNormWord);
static_assert(kControlDigestLow == kAgreementReservedWord);

/** Arrays have an element for each rank. */
class Scratch {
 public:
  Status open(const Device& device, uint32_t ranks) {
    controls_bytes_ = ranks * sizeof(ControlMessage);
    const size_t entries_bytes = ranks * sizeof(RankEntries);
    GQ_TRY(device_.reserve(device, kControls + controls_bytes_ + entries_bytes));
    GQ_TRY(pinned_.reserve(device, kPinnedControls + controls_bytes_ + entries_bytes));
    memset(pinned_.data(), 0, pinned_.size_bytes());
    return Status();
  }

  // In memory of the device.
  uint32_t* own_control() const { return device_.as<uint32_t>(kOwnControl); }
  /** In the own control message. Sparse calls have the number of entries in its place. */
  void* own_norm() const { return device_.data() + kOwnNorm; }
  uint64_t* own_entry_count() const { return device_.as<uint64_t>(kOwnNorm); }
  uint32_t* controls() const { return device_.as<uint32_t>(kControls); }
  size_t controls_bytes() const { return controls_bytes_; }
  /** The global norm of a call in one piece. */
  float* norm() const { return device_.as<float>(kNorm); }
  /** Whether results may be written (kernels/stages.h). */
  uint32_t* gate() const { return device_.as<uint32_t>(kGate); }
  /** Two words of norm stages, which are to be cleared before the first one. */
  uint32_t* running_norm() const { return device_.as<uint32_t>(kRunningNorm); }
  /** The step that the device counts, and the index behind it. */
  uint32_t* step() const { return device_.as<uint32_t>(kStep); }
  /** Zero codes since the last sparse entry. */
  uint64_t* zero_codes() const { return device_.as<uint64_t>(kZeroCodes); }
  RankEntries* entries() const { return device_.as<RankEntries>(kControls + controls_bytes_); }

  // In pinned memory.
  /** Of calls that have returned, and of the call that its host waits for. */
  Disagreement* late_disagreement() const { return pinned_.as<Disagreement>(); }
  Disagreement* seen_disagreement() const { return pinned_.as<Disagreement>(kSeen); }
  uint64_t* step_counter() const { return pinned_.as<uint64_t>(kCounter); }
  float* pinned_norm() const { return pinned_.as<float>(kPinnedNorm); }
  ControlMessage* pinned_controls() const { return pinned_.as<ControlMessage>(kPinnedControls); }
  RankEntries* pinned_entries() const {
    return pinned_.as<RankEntries>(kPinnedControls + controls_bytes_);
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
  static constexpr size_t kOwnControl = 0;
  static constexpr size_t kOwnNorm = kOwnControl + kAgreementNormWord * sizeof(uint32_t);
  static constexpr size_t kNorm = sizeof(ControlMessage);
  static constexpr size_t kGate = kNorm + sizeof(float);
  static constexpr size_t kStep = kGate + sizeof(uint32_t);
  static constexpr size_t kZeroCodes = kStep + 2 * sizeof(uint32_t);
  static constexpr size_t kRunningNorm = kZeroCodes + sizeof(uint64_t);
  static constexpr size_t kControls = 128;
  static_assert(kOwnNorm % sizeof(uint64_t) == 0);
  static_assert(kZeroCodes % sizeof(uint64_t) == 0);
  static_assert(kRunningNorm + 2 * sizeof(uint32_t) <= kControls);

  // Places in pinned memory.
  static constexpr size_t kSeen = sizeof(Disagreement);
  static constexpr size_t kCounter = 2 * sizeof(Disagreement);
  static constexpr size_t kPinnedNorm = kCounter + sizeof(uint64_t);
  static constexpr size_t kPinnedControls = kPinnedNorm + sizeof(uint64_t);
  static_assert(kCounter % sizeof(uint64_t) == 0);

  DeviceBuffer device_;
  PinnedBuffer pinned_;
  size_t controls_bytes_ = 0;
};

}  // namespace gq

#endif
