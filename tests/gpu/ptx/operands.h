// The statements of a kernel, as they are read: names become numbers of registers, constants
// registers of their own, labels the numbers of instructions.
#ifndef GQ_TESTS_GPU_PTX_OPERANDS_H
#define GQ_TESTS_GPU_PTX_OPERANDS_H

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/gpu/ptx/kernel.h"

namespace gq::ptx {

class Operands {
 public:
  explicit Operands(Kernel* kernel);

  /** A name that stands for an address: of a parameter, or in shared memory. */
  void declare(const std::string& name, uint32_t offset) { addresses_[name] = offset; }
  /** A name that is not of the compiler's making. */
  void declare_register(const std::string& name) { registers_[name] = new_register(0); }
  void place_label(const std::string& name);
  /** One statement without its semicolon. Throws std::runtime_error about what it does not know. */
  void add(const std::string& statement, uint32_t line);
  void resolve_labels();

 private:
  using Group = std::vector<std::string>;

  void add_guard(const std::string& word, Instruction* made);
  void add_address(const std::string& text, Instruction* made);
  void add_sources(const Group& group, uint32_t* count, Instruction* made);
  Register register_of(const std::string& name);
  Register constant(uint64_t bits);
  Register new_register(uint64_t bits);

  Kernel* kernel_;
  std::unordered_map<std::string, uint32_t> addresses_;
  std::unordered_map<std::string, Register> registers_;
  std::unordered_map<uint64_t, Register> constants_;
  std::unordered_map<std::string, uint32_t> labels_;
  std::vector<std::pair<uint32_t, std::string>> branches_;
};

}  // namespace gq::ptx

#endif
