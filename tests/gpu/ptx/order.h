// What comes before what on a device: along a stream, from what an event was recorded behind to
// what waits for it, from what a host has waited for to what any host enqueues afterwards, and
// between kernels that run at the same time from a release to the acquire that reads it. All hosts
// count as one, since their synchronization is not seen here. Two accesses of a word, one of
// them to write, that nothing puts into an order are a race, whatever a run made of them.
#ifndef GQ_TESTS_GPU_PTX_ORDER_H
#define GQ_TESTS_GPU_PTX_ORDER_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/host_device/zeroed.h"

namespace gq::ptx {

/** A part of an operation: a copy has one, a kernel has one for each block and what that does until
 *  it next releases something. */
struct Stamp {
  uint64_t operation = 0;  ///< 0: none
  uint32_t stream = 0;
  uint32_t block = 0;
  uint32_t release = 0;
};

/** All that has happened before some moment. */
class Clock {
 public:
  void join(const Clock& other);
  /** All of `stream` up to that operation. */
  void join(uint32_t stream, uint64_t operation);
  void join(const Stamp& part);
  bool knows(const Stamp& stamp) const;

 private:
  using Block = std::pair<uint64_t, uint32_t>;  // operation, block
  using Parts = std::map<Block, Stamp>;
  /** For changes: a copy, where another clock has them too. */
  Parts& own_parts();

  std::vector<uint64_t> streams_;
  /** Of kernels that may still run; null: none. All blocks of a launch begin with the same ones,
   *  and most never add any: copies of a clock share them. */
  std::shared_ptr<Parts> parts_;
};

/** Who accesses memory now, and all that came before. */
struct Actor {
  Stamp stamp;
  Clock before;
  std::set<uint64_t> polled = {};  ///< what relaxed loads have read since the last fence
};

/** Whether the order is looked at: GQ_PTX_ORDER is set. It takes eight times the memory. */
bool order_is_checked();

/** The words of an area, and who touched each last. */
class AreaOrder {
 public:
  explicit AreaOrder(size_t size_bytes) : words_((size_bytes + 3) / 4) {}
  /** Throws Finding. Accesses of less than a word are left out: neighbours share it. */
  void touch(size_t offset, size_t size_bytes, bool writes, const Actor& actor);

 private:
  struct Word {
    Stamp written, read;
  };
  std::mutex mutex_;
  test::Zeroed<Word> words_;
};

/** A stream, and what is before its next operation. */
struct OrderedStream {
  OrderedStream();
  uint32_t number;
  Clock clock = {};
};
/** That whose thread this is. */
OrderedStream& this_stream();

/** The next operation of a stream. */
Actor begin_operation(const OrderedStream& stream = this_stream());
/** It has ended; what it has acquired meanwhile is known to the stream. */
void end_operation(const Stamp& stamp, const Clock& acquired,
                   OrderedStream* stream = &this_stream());

// On the thread of a stream.

/** Something that knows what came before it: an event, or the end of a stream's work. */
class Mark {
 public:
  /** What this stream has done is before the mark. */
  void record();
  /** It is before what this stream does next. */
  void wait();
  /** It is before what any host enqueues next. */
  void order_hosts_after();

 private:
  std::mutex mutex_;
  Clock clock_;
};

/** What hosts know now; follow_hosts() makes a stream know it. */
Clock hosts_now();
void follow_hosts(const Clock& hosts);

// In kernels.

void release(uint64_t address, Actor* actor);
void acquire(uint64_t address, Actor* actor);
/** Relaxed loads of the address, and a fence behind them, are an acquire. */
void poll(uint64_t address, Actor* actor);
void fence(Actor* actor);

}  // namespace gq::ptx

#endif
