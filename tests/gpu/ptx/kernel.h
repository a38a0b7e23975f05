// Kernels as a compiler for devices leaves them, in PTX: read once, then carried out a
// warp at a time (warp.h, block.h).
#ifndef GQ_TESTS_GPU_PTX_KERNEL_H
#define GQ_TESTS_GPU_PTX_KERNEL_H

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gq::ptx {

struct Instruction;
struct Warp;

/** Carries an instruction out for some threads of a warp, a bit each. */
using Operation = void (*)(const Instruction& instruction, Warp& warp, uint32_t threads);

/** The number of a register; constants are registers that nothing writes. */
using Register = uint16_t;
inline constexpr uint32_t kOperandsMax = 5;

/** Registers that are there in every kernel, ahead of its own. */
enum Special : Register {
  kAlways,
  kThread,
  kBlock,
  kThreadCount,
  kBlockCount,
  kLane,
  kMutation,  ///< %envreg3: the number of GQ_MUTATION (tests/support/mutation.h), 0 without one
  kSpecialCount
};

/** What an instruction does with the threads that come to it. */
enum class Kind : uint8_t { computes, branches, stops };

/** One statement, its names resolved. */
struct Instruction {
  Operation run = nullptr;
  Register out[4] = {};
  Register in[kOperandsMax] = {};
  Register guard = kAlways;
  bool guard_inverted = false;
  Kind kind = Kind::computes;
  uint8_t value_count = 1;  ///< of a vector in memory
  uint32_t target = 0;      ///< of a branch
  int64_t offset = 0;       ///< of an address
  uint32_t line = 0;        ///< in the text
};

struct Parameter {
  uint32_t offset;
  uint32_t size_bytes;
};

/** Registers that no warp of a kernel has now, the last ones first: they are a megabyte, and most
 *  launches are short. What warps before have left in them stays, and so do constants. */
class RegisterFiles {
 public:
  RegisterFiles() = default;
  RegisterFiles(const RegisterFiles&) {}  // those of another kernel have its constants
  RegisterFiles& operator=(const RegisterFiles&) {
    files_.clear();
    return *this;
  }

  /** Empty if there are none. */
  std::vector<uint64_t> take();
  void give(std::vector<uint64_t> registers);

 private:
  std::mutex mutex_;
  std::vector<std::vector<uint64_t>> files_;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Instruction> code;
  std::vector<uint64_t> registers;  ///< as every thread begins: constants in their places
  uint32_t shared_bytes = 0;
  uint32_t threads_max = 0;       ///< .maxntid
  uint32_t blocks_at_least = 0;   ///< .minnctapersm
  std::vector<std::string> text;  ///< each instruction, for findings
  mutable RegisterFiles files = {};
};

/** By name, as the linker has it. */
using Program = std::map<std::string, Kernel>;

/** Adds the kernels of a file. Throws std::runtime_error with file, line and source where there is
 *  something that it does not know: nothing is skipped. */
void read_program(const std::string& path, Program* program);
void read_text(const std::string& text, const std::string& path, Program* program);

/** Null if there is none. `name` as written, types included; without .v2 and .v4. */
Operation find_word(const std::string& name);
Operation find_float(const std::string& name);
Operation find_access(const std::string& name);
/** Those that do not only compute have a kind, which these set. */
Operation find_control(const std::string& name, Kind* kind);

}  // namespace gq::ptx

#endif
