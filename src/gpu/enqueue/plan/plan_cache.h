// The kinds of calls that ranks have agreed on before, and which of them the next call is expected
// to be: equal on all ranks, because it follows from agreed calls alone.
#ifndef GQ_GPU_ENQUEUE_PLAN_PLAN_CACHE_H
#define GQ_GPU_ENQUEUE_PLAN_PLAN_CACHE_H

#include <algorithm>
#include <memory>
#include <vector>

#include "src/call/control_fields.h"
#include "src/gpu/enqueue/plan/execution_plan.h"
#include "src/gpu/enqueue/plan/operand_addresses.h"

namespace gq {

/** What of a control message decides what is enqueued and sent. */
struct Signature {
  ControlMessage control;

  static Signature of(const ControlMessage& control) {
    Signature signature{control};
    uint32_t* words = signature.control.words;
    words[kControlStatus] = words[kControlSequence] = words[kControlStep] = 0;
    words[kControlIndex] = words[kControlIndex] >> kControlCostsShift;
    words[kControlFields] &= ~(1u << kControlStepOnDeviceShift);  // the plan is the same
    if (!has_segments(control)) words[kControlNormLow] = words[kControlNormHigh] = 0;
    return signature;
  }
  bool operator==(const Signature& other) const {
    for (uint32_t k = 0; k < 16; ++k) {
      if (control.words[k] != other.control.words[k]) return false;
    }
    return true;
  }
};

/** An execution plan, and the addresses of its operands as the device reads them. */
struct CachedPlan {
  Signature signature;
  ExecutionPlan execution_plan;
  size_t next = 0;  ///< the one that followed it last time
  OperandAddresses addresses;
  OperandAddresses tables;                        ///< of its batches (Batches)
  size_t table_pieces = 0;                        ///< that these are for
  const unsigned char* arena = nullptr;           ///< what the addresses are in
  bool captured = false;                          ///< a graph may read them at any time
  std::vector<OperandAddresses> graph_addresses;  ///< earlier ones, which graphs read

  /** The next array takes the place of this one, which graphs read. */
  Status keep_addresses() {
    try {
      graph_addresses.push_back(std::move(addresses));
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory to keep what graphs use");
    }
    return Status();
  }

  bool is_of(const std::vector<Part>* segments) const {
    const std::vector<Part>* own = execution_plan.segments();
    if (segments == nullptr || own == nullptr) return segments == own;
    return std::equal(own->begin(), own->end(), segments->begin(), segments->end(),
                      [](const Part& a, const Part& b) { return a.value_count == b.value_count; });
  }
};

class PlanCache {
 public:
  /** Null if there is none. `segments` are those of the call, whose lengths the signature has a
   *  hash of; null where it has none. */
  CachedPlan* find(const Signature& signature, const std::vector<Part>* segments) {
    for (const auto& plan : plans_) {
      if (plan->signature == signature && plan->is_of(segments)) return plan.get();
    }
    return nullptr;
  }

  /** Of another rank's call. */
  CachedPlan* find(const Signature& signature) {
    for (const auto& plan : plans_) {
      if (plan->signature == signature) return plan.get();
    }
    return nullptr;
  }

  /** What the next call is expected to be; null before the first. */
  CachedPlan* expected() { return plans_.empty() ? nullptr : plans_[plans_[last_]->next].get(); }

  bool is_full() const { return plans_.size() >= kPlansMax; }

  /** Reserves memory for one more, so that follow() cannot fail. May throw std::bad_alloc. */
  void reserve() { plans_.reserve(std::max(kPlansMax, plans_.size() + 1)); }

  /** The ranks have agreed on a call of this kind, which is in the cache, or is `new_plan`. */
  void follow(CachedPlan* called, std::unique_ptr<CachedPlan>* new_plan) {
    size_t number = 0;
    while (number < plans_.size() && plans_[number].get() != called) ++number;
    if (number == plans_.size()) {
      if (is_full()) number = clear();
      if (plans_.empty()) last_ = 0;
      plans_.push_back(std::move(*new_plan));
      plans_[number]->next = number;
    }
    plans_[last_]->next = number;
    last_ = number;
  }

  // A model with hundreds of tensors makes a few dozen kinds of calls.
  static constexpr size_t kPlansMax = 64;

 private:
  /** A sequence of so many kinds of calls has no pattern to follow. What graphs use stays, as if it
   *  were new: ranks whose graphs are others expect the same. */
  size_t clear() {
    std::erase_if(plans_, [](const auto& plan) { return !plan->captured; });
    for (size_t k = 0; k < plans_.size(); ++k) plans_[k]->next = k;
    last_ = plans_.size();  // of the one that comes next
    return plans_.size();
  }

  std::vector<std::unique_ptr<CachedPlan>> plans_;
  size_t last_ = 0;
};

}  // namespace gq

#endif
