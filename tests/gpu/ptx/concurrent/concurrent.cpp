#include "tests/gpu/ptx/concurrent/concurrent.h"

#include <memory>
#include <random>

#include "tests/gpu/ptx/block.h"
#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

/** While these steps last, half of the blocks rest: some come much later than others. */
constexpr uint64_t kRestSteps = 100;
/** So many without progress mean that there will be none. */
constexpr uint64_t kIdleStepsMax = 50000;

/** A block that has not ended. */
struct Live {
  uint32_t stream;
  uint32_t number;
  bool rests;
  std::unique_ptr<Block> block;
};

class Concurrent {
 public:
  Concurrent(std::vector<OrderedStream>* streams, const NextLaunch& next, const Schedule& schedule)
      : streams_(*streams),
        next_(next),
        schedule_(schedule),
        random_(schedule.seed),
        launches_(streams->size()) {}

  void run() {
    for (uint32_t stream = 0; stream < streams_.size(); ++stream) begin_next(stream);
    for (uint64_t step = 0, last_progress = 0; !live_.empty(); ++step, time_ns_ += kStepNs) {
      if (schedule_.before_step) schedule_.before_step(time_ns_);
      if (step % kRestSteps == 0) {
        for (Live& live : live_) live.rests = random_() % 2 == 0;
      }
      if (advance(random_() % live_.size())) last_progress = step;
      if (step - last_progress > kIdleStepsMax) throw Finding("kernels wait without end");
    }
  }

 private:
  /** False if the block is not further than before. */
  bool advance(size_t at) {
    Live& live = live_[at];
    if (live.rests) return false;
    if (schedule_.is_held && schedule_.is_held(live.stream, live.number)) return false;
    const Progress progress = live.block->advance();
    if (progress == Progress::ended) end(at);
    return progress != Progress::waiting;
  }

  void begin_next(uint32_t stream) {
    const std::optional<Recorded> next = next_(stream);
    if (!next) return;
    launches_[stream].reset(new Launch{*next->kernel, next->blocks, next->threads,
                                       next->parameters, begin_operation(streams_[stream]),
                                       &time_ns_});
    check_launch(*launches_[stream]);
    for (uint32_t number = 0; number < next->blocks; ++number) {
      live_.push_back(
          {stream, number, false, std::make_unique<Block>(launches_[stream].get(), number)});
    }
  }

  void end(size_t at) {
    const uint32_t stream = live_[at].stream;
    Launch& launch = *launches_[stream];
    launch.acquired.join(live_[at].block->actor().before);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
    for (const Live& other : live_) {
      if (other.stream == stream) return;
    }
    end_operation(launch.actor.stamp, launch.acquired, &streams_[stream]);
    begin_next(stream);
  }

  std::vector<OrderedStream>& streams_;
  const NextLaunch& next_;
  const Schedule& schedule_;
  std::mt19937_64 random_;
  uint64_t time_ns_ = 0;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Live> live_;
};

}  // namespace

void run_concurrently(std::vector<OrderedStream>* streams, const NextLaunch& next,
                      const Schedule& schedule) {
  Concurrent(streams, next, schedule).run();
}

}  // namespace gq::ptx
