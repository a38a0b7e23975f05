// The kinds of calls that ranks have agreed on before, and which of them the next call is expected
// to be: equal on all ranks, because it follows from agreed calls alone.
#ifndef GQ_GPU_ENQUEUE_PLAN_CACHE_H
#define GQ_GPU_ENQUEUE_PLAN_CACHE_H

#include <algorithm>
#include <memory>
#include <vector>

#include "src/call/header_fields.h"
#include "src/gpu/enqueue/address_lists.h"
#include "src/gpu/enqueue/execution_plan.h"

namespace gq {

/** What of a header decides what is enqueued and sent. */
struct Signature {
  Header header;

  static Signature of(const Header& header) {
    Signature signature{header};
    uint32_t* words = signature.header.words;
    words[kHeaderStatus] = words[kHeaderSequence] = words[kHeaderStep] = 0;
    words[kHeaderIndex] = words[kHeaderIndex] >> kHeaderCostsShift;
    words[kHeaderFields] &= ~(1u << kHeaderStepOnDeviceShift);  // the program is the same
    if (!has_segments(header)) words[kHeaderNormLow] = words[kHeaderNormHigh] = 0;
    return signature;
  }
  bool operator==(const Signature& other) const {
    for (uint32_t k = 0; k < 16; ++k) {
      if (header.words[k] != other.header.words[k]) return false;
    }
    return true;
  }
};

/** An execution plan, and the arrays of its operands' addresses as the device reads them. */
struct CachedPlan {
  Signature signature;
  ExecutionPlan execution_plan;
  size_t next = 0;  ///< the one that followed it last time
  OwnAddressList lists;
  const unsigned char* listed_arena = nullptr;  ///< what the addresses are in
  bool captured = false;                        ///< a graph may read it at any time
  std::vector<OwnAddressList> earlier_lists;    ///< that graphs read

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
    for (const auto& known : known_) {
      if (known->signature == signature && known->is_of(segments)) return known.get();
    }
    return nullptr;
  }

  /** Of another rank's call. */
  CachedPlan* find(const Signature& signature) {
    for (const auto& known : known_) {
      if (known->signature == signature) return known.get();
    }
    return nullptr;
  }

  /** What the next call is expected to be; null before the first. */
  CachedPlan* expected() { return known_.empty() ? nullptr : known_[known_[last_]->next].get(); }

  bool is_full() const { return known_.size() >= kKnownMax; }

  /** Reserves memory for one more, so that follow() cannot fail. May throw std::bad_alloc. */
  void allocate_workspace() { known_.reserve(std::max(kKnownMax, known_.size() + 1)); }

  /** The ranks have agreed on a call of this kind, which is known, or is `fresh`. */
  void follow(CachedPlan* called, std::unique_ptr<CachedPlan>* fresh) {
    size_t number = 0;
    while (number < known_.size() && known_[number].get() != called) ++number;
    if (number == known_.size()) {
      if (is_full()) number = begin_anew();
      if (known_.empty()) last_ = 0;
      known_.push_back(std::move(*fresh));
      known_[number]->next = number;
    }
    known_[last_]->next = number;
    last_ = number;
  }

  // A model with hundreds of tensors makes a few dozen kinds of calls.
  static constexpr size_t kKnownMax = 64;

 private:
  /** A program of so many kinds of calls has no pattern to follow. What graphs use stays, as if it
   *  were new: ranks whose graphs are others expect the same. */
  size_t begin_anew() {
    std::erase_if(known_, [](const auto& known) { return !known->captured; });
    for (size_t k = 0; k < known_.size(); ++k) known_[k]->next = k;
    last_ = known_.size();  // of the one that comes next
    return known_.size();
  }

  std::vector<std::unique_ptr<CachedPlan>> known_;
  size_t last_ = 0;
};

}  // namespace gq

#endif
