// Blocks as threads: what they write and wait for are the memory and atomics of the host.
// clang-format off
#include "tests/support/host_device/device_code_on_host.h"
// clang-format on

#include "tests/support/host_device/host_fused.h"

#include <string.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cuda/fused/fused.cuh"
#include "tests/support/host_device/host_stream.h"
#include "tests/support/inputs.h"

namespace gq::test {
namespace {

/** The threads of a block run one at a time: one passes a barrier when all have reached it. */
template <typename Body>
struct BlockOfStage {
  using Own = typename Body::Own;
  using Shared = typename Body::Shared;
  uint32_t block;
  uint32_t blocks;
  Shared& shared;
  std::unique_ptr<Own[]> own{new Own[Body::kThreads]};

  uint32_t number() const { return block; }
  uint32_t count() const { return blocks; }
  template <bool kBarrier, typename Step>
  void all(Step step) {
    for (uint32_t thread = 0; thread < Body::kThreads; ++thread) {
      step(cuda::Local<Shared, Own>{thread, shared, own[thread]});
    }
  }
};

class HostTeam {
 public:
  HostTeam(uint32_t number, uint32_t count, uint64_t disorder)
      : number_(number), count_(count), disorder_(disorder) {
    memset(&shared_, 0xCA, sizeof shared_);  // no body may rely on what is in it
  }

  uint32_t number() const { return number_; }
  uint32_t count() const { return count_; }
  cuda::FusedShared& shared() { return shared_; }

  template <typename Step>
  void each(Step step) {
    all(step);
  }

  template <typename Step>
  void all(Step step) {
    for (uint32_t thread = 0; thread < cuda::BodyDefaults::kThreads; ++thread) step(thread);
  }

  template <typename Body>
  void run(const Body& body) {
    if (disorder_ != 0) {
      disorder_ = mix(disorder_ + number_);
      std::this_thread::sleep_for(std::chrono::microseconds(disorder_ % 1000));
    }
    BlockOfStage<Body> block{number_, count_, shared_.of_stage<Body>()};
    cuda::run_block(body, block);
  }

 private:
  const uint32_t number_;
  const uint32_t count_;
  uint64_t disorder_;
  cuda::FusedShared shared_;
};

struct ThreadLauncher {
  uint32_t block_count;
  uint64_t disorder;

  template <typename Body>
  StageError run(const Body& body) const {
    std::vector<std::thread> blocks;
    for (uint32_t number = 0; number < block_count; ++number) {
      blocks.emplace_back([&, number] {
        HostTeam team(number, block_count, disorder);
        body.run(team);
      });
    }
    for (std::thread& block : blocks) block.join();
    return {};
  }
};

std::atomic<uint32_t> blocks_there{kFusedBlocks};
std::atomic<uint32_t> queues_there{kFusedQueues};
std::atomic<uint32_t> kernels_enqueued{0};
std::atomic<int> lost_rank{-1};

StageError allreduce(const FusedArgs& args) {
  if (lost_rank == static_cast<int>(args.random.rank)) return {};
  ++kernels_enqueued;
  auto* const stream = static_cast<HostStream*>(args.stream);
  stream->push(
      stream, [](void* kept) { run_fused_on_threads(*static_cast<const FusedArgs*>(kept)); },
      [](void* kept) { delete static_cast<FusedArgs*>(kept); }, new FusedArgs(args));
  return {};
}

StageError blocks_at_once(uint32_t* count) {
  *count = blocks_there;
  return {};
}

uint32_t queues() { return queues_there; }

}  // namespace

void run_fused_on_threads(const FusedArgs& args, uint64_t disorder) {
  (void)cuda::fused_on(ThreadLauncher{args.block_count, disorder}, args);
}

const FusedStages& host_fused_stages() {
  static constexpr FusedStages kStages = {allreduce, blocks_at_once, queues};
  return kStages;
}

void set_fused_blocks_at_once(uint32_t count) { blocks_there = count; }
void set_fused_queues(uint32_t count) { queues_there = count; }
uint32_t fused_kernels_enqueued() { return kernels_enqueued; }
void lose_fused_kernels_of(int rank) { lost_rank = rank; }

}  // namespace gq::test
