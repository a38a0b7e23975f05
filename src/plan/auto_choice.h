// What AUTO means on one communicator: its constants, whether it may leave compression out, and the
// choices made so far, so that a training loop pays for each of its calls once.
#ifndef GQ_PLAN_AUTO_CHOICE_H
#define GQ_PLAN_AUTO_CHOICE_H

#include <atomic>
#include <memory>

#include "src/plan/choose.h"

namespace gq {

/** The options of a communicator that AUTO uses. */
struct AutoOptions {
  std::shared_ptr<const CostConstants> costs;  ///< nullptr: AUTO is direct, and compresses
  bool measures = false;  ///< without costs: ranks measure them before the first call of AUTO
  bool may_be_uncompressed = true;
};

/** Times of a call as the constants have them. */
struct AutoReason {
  uint64_t chosen_ns = 0;
  uint64_t direct_ns = 0;
};

class AutoChoice {
 public:
  void set(const AutoOptions& options);
  /** Ends needs_measuring(). */
  void set_measured(std::shared_ptr<const CostConstants> costs);

  /** What control messages carry, so that ranks with other constants are found out: 0 without any.
   */
  uint32_t digest() const { return digest_; }
  /** For the thread inside a call. */
  const AutoOptions& options() const { return options_; }
  bool may_be_uncompressed() const { return options_.may_be_uncompressed; }
  /** True if calls of AUTO may send float32 words. */
  bool leaves_out_compression() const {
    return (options_.costs || options_.measures) && may_be_uncompressed();
  }

  /** False: AUTO is direct. */
  bool has_costs() const { return options_.costs != nullptr; }
  /** True before ranks have measured what the options leave to them. */
  bool needs_measuring() const { return options_.measures && !has_costs(); }
  /** The constants, or null: for any thread, at any moment. */
  const CostConstants* seen_costs() const { return seen_costs_.load(std::memory_order_acquire); }

  /** question.schedule_id is not looked at. Allocates where a call is the first of its kind. */
  Status take(const CostQuestion& question, Choice* choice);
  /** Predicts again what made take() choose, for the log; there are constants. */
  Status explain(CostQuestion question, AutoReason* reason) const;

 private:
  // A model with hundreds of tensors makes a few dozen kinds of calls.
  static constexpr size_t kKeptCount = 64;

  struct Kept {
    uint64_t value_count = 0;
    uint32_t fields = 0;
    int32_t dtype = -1;  // none yet
    bool is_short = false;
    Choice choice{};
  };

  AutoOptions options_;
  uint32_t digest_ = 0;
  std::atomic<const CostConstants*> seen_costs_{nullptr};  // of the options, once they are there
  Kept kept_[kKeptCount];
};

}  // namespace gq

#endif
