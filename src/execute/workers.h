// The threads that a rank computes on beside that of its progress loop: the option `threads`.
#ifndef GQ_EXECUTE_WORKERS_H
#define GQ_EXECUTE_WORKERS_H

#include <stdint.h>

#include <atomic>
#include <memory>

#include "kernels/stages.h"
#include "src/support/posix/quiet_thread.h"

namespace gq {

inline constexpr uint32_t kThreadsMax = 256;

/** One error of stages that several threads call. Read when all have returned. */
class OneError {
 public:
  void add(const StageError& error) {
    if (failed(error) && !kept_.exchange(true, std::memory_order_relaxed)) error_ = error;
  }
  const StageError& get() const { return error_; }

 private:
  std::atomic<bool> kept_{false};
  StageError error_;
};

/** Tiles of a job are claimed one by one, by the thread that has the job and by workers that are
 *  awake: none of them is waited for before it has claimed one. A worker that finds nothing looks
 *  for some microseconds, since stages follow each other closely, and then sleeps. */
class Workers {
 public:
  Workers() = default;
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /** Makes thread_count - 1 threads; later jobs allocate nothing. `operand_count`: capacity of each
   *  thread's operand array. Once. */
  Status start(uint32_t thread_count, uint32_t rank, uint32_t operand_count);

  /** The caller's thread included; 1 before start(). */
  uint32_t thread_count() const { return thread_count_; }

  /** The operand array for the tile that `thread` computes. */
  const uint32_t** operands(uint32_t thread) const {
    return operands_.get() + static_cast<size_t>(thread) * operand_count_;
  }

  /** Gives each thread so many bytes of its own, which stay. */
  Status reserve_scratch(size_t size_bytes);
  size_t scratch_bytes() const { return scratch_bytes_; }

  /** Those of the thread. */
  void* scratch(uint32_t thread) const {
    return scratch_.get() + static_cast<size_t>(thread) * scratch_bytes_;
  }

  /** Calls body(part, thread) once for each tile, by several threads at once, thread 0 being the
   *  calling one; returns when all tiles are done. One job at a time. */
  template <typename Body>
  void run(uint32_t part_count, const Body& body) {
    const Job job = [](const void* context, uint32_t part, uint32_t thread) {
      (*static_cast<const Body*>(context))(part, thread);
    };
    run(part_count, job, &body);
  }

 private:
  using Job = void (*)(const void* context, uint32_t part, uint32_t thread);
  struct Worker {
    Workers* workers = nullptr;
    uint32_t number = 0;
    QuietThread thread;
  };

  static void* work_on(void* worker);
  void run(uint32_t part_count, Job job, const void* context);
  void stop();
  bool await_job();
  void work(uint32_t thread);
  bool claim(uint32_t* part);
  void await_parts();

  uint32_t thread_count_ = 1;
  uint32_t operand_count_ = 0;
  std::unique_ptr<Worker[]> workers_;
  std::unique_ptr<const uint32_t*[]> operands_;
  std::unique_ptr<unsigned char[]> scratch_;
  size_t scratch_bytes_ = 0;  // of each thread
  // Of the job: written while no tile of it can be claimed, read by those that have claimed one.
  Job job_ = nullptr;
  const void* context_ = nullptr;
  uint32_t part_count_ = 0;
  // Cache lines of their own: every claim and every end of a tile writes them.
  alignas(64) std::atomic<uint32_t> unclaimed_{0};  // parts, or kStopped
  std::atomic<uint32_t> sleepers_{0};               // workers that only a wake brings back
  alignas(64) std::atomic<uint32_t> unmade_{0};     // parts
  std::atomic<uint32_t> caller_sleeps_{0};
};

}  // namespace gq

#endif
