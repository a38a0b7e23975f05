// A block of threads, executed one at a time: each runs until it waits for others or has ended.
#ifndef GQ_TESTS_GPU_PTX_BLOCK_H
#define GQ_TESTS_GPU_PTX_BLOCK_H

#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/ptx/global_memory.h"
#include "tests/gpu/ptx/shared_memory.h"
#include "tests/gpu/ptx/traffic.h"
#include "tests/gpu/ptx/warp.h"

namespace gq::ptx {

/** What all blocks of a launch have in common. */
struct Launch {
  const Kernel& kernel;
  uint32_t blocks;
  uint32_t threads;
  std::vector<uint8_t> parameters;
  Actor actor = {};                     ///< what its blocks begin as
  const uint64_t* time_ns = nullptr;    ///< %globaltimer; null: the clock of this machine
  Clock acquired = {};                  ///< by those that have ended
  Reach reach = {};
  TrafficCounter traffic{kernel};
};

enum class Progress : uint8_t {
  made,     ///< something came further
  waiting,  ///< for other blocks, kernels or the host
  ended,
};

class Block {
 public:
  Block(Launch* launch, uint32_t number);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /** Lets every thread run that can. Throws Finding, which names the place. */
  Progress advance();

  Launch& launch() { return launch_; }
  SharedMemory& shared() { return shared_; }
  const Actor& actor() const { return actor_; }

 private:
  void give_registers(Warp* warp);
  void take_registers(Warp* warp);
  /** False if all that ran gave way again. */
  bool run(Warp* warp);
  bool pass_barrier();
  std::string place_of(const Warp& warp, uint32_t instruction, uint32_t thread) const;
  [[noreturn]] void report_stuck() const;

  Launch& launch_;
  const uint32_t number_;
  SharedMemory shared_;
  Actor actor_;
  std::vector<Warp> warps_;
};

/** Throws Finding about a launch that no device makes. */
void check_launch(const Launch& launch);
/** Runs a kernel to its end. Blocks wait for each other
 *  and for other kernels where they say so (nanosleep). Throws Finding. */
void run_kernel(const Kernel& kernel, uint32_t blocks, uint32_t threads,
                std::vector<uint8_t> parameters);
/** The parameters of a launch in one piece. */
std::vector<uint8_t> packed_parameters(const Kernel& kernel, void** arguments);

}  // namespace gq::ptx

#endif
