// Reads PTX as nvcc writes it: a statement a line.
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "tests/gpu/ptx/kernel.h"
#include "tests/gpu/ptx/operands.h"
#include "tests/support/mutation.h"

namespace gq::ptx {
namespace {

std::string trimmed(std::string line) {
  line.resize(std::min(line.find("//"), line.size()));
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

/** The number in NAME[number], or `otherwise`. */
uint32_t array_size(const std::string& line, uint32_t otherwise) {
  const size_t open = line.find('[');
  return open == std::string::npos ? otherwise
                                   : static_cast<uint32_t>(std::stoul(line.substr(open + 1)));
}

/** .u64 and the like. */
uint32_t type_size(const std::string& line) {
  for (const char* const type : {".b8", ".u8", ".b16", ".u16", ".b32", ".u32", ".f32", ".s32",
                                 ".b64", ".u64", ".f64", ".s64"}) {
    if (line.find(std::string(type) + " ") != std::string::npos) {
      return static_cast<uint32_t>(std::stoul(type + 2)) / 8;
    }
  }
  throw std::runtime_error("an unknown type");
}

uint32_t alignment(const std::string& line, uint32_t otherwise) {
  const size_t at = line.find(".align ");
  return at == std::string::npos ? otherwise
                                 : static_cast<uint32_t>(std::stoul(line.substr(at + 7)));
}

uint32_t rounded_up(uint32_t size, uint32_t unit) { return (size + unit - 1) / unit * unit; }

/** What a line declares: the last word, without its array and what ends it. */
std::string declared_name(const std::string& line) {
  std::string rest = line.substr(0, line.find_first_of("[;,"));
  return rest.substr(rest.find_last_of(" \t") + 1);
}

class Reader {
 public:
  Reader(const std::string& path, Program* program) : path_(path), program_(program) {}

  void read(std::istream& lines) {
    std::string line;
    while (std::getline(lines, line)) {
      ++number_;
      const std::string text = trimmed(line);
      try {
        if (!text.empty()) take(text);
      } catch (const std::exception& error) {
        throw std::runtime_error(path_ + ":" + std::to_string(number_) + ": " + error.what() +
                                 ": " + text);
      }
    }
    if (kernel_ != nullptr) throw std::runtime_error(path_ + ": ends within a kernel");
  }

 private:
  void take(const std::string& line) {
    if (kernel_ == nullptr) return take_outside(line);
    if (!inside_) return take_head(line);
    take_inside(line);
  }

  void take_outside(const std::string& line) {
    for (const char* const known : {".version", ".target", ".address_size"}) {
      if (begins(line, known)) return;
    }
    if (begins(line, ".shared ")) return shared_of_all_.push_back(line);
    if (begins(line, ".global ")) return;  // of headers: a kernel's use of it is an unknown name
    const size_t entry = line.find(".entry ");
    if (entry == std::string::npos) throw std::runtime_error("neither kernel nor comment");
    const std::string name = line.substr(entry + 7, line.find('(') - entry - 7);
    if (name.find("_GLOBAL__N_") != std::string::npos) {
      throw std::runtime_error(name + ": nvcc may name the types of unnamed namespaces otherwise " +
                               "each time, in the program than in the PTX");
    }
    // Files may have the same instance of a template: it is read again, and compared.
    again_ = Kernel();
    kernel_ = program_->count(name) > 0 ? &again_ : &(*program_)[name];
    kernel_->name = name;
    kernel_->registers.assign(kSpecialCount, 0);
    const char* const mutation = getenv("GQ_MUTATION");
    if (mutation != nullptr) kernel_->registers[kMutation] = test::number_of_mutation(mutation);
    operands_ = Operands(kernel_);
    parameter_end_ = 0;
    for (const std::string& declared : shared_of_all_) declare_shared(declared);
  }

  void declare_shared(const std::string& line) {
    const uint32_t unit = type_size(line);
    const uint32_t offset = rounded_up(kernel_->shared_bytes, alignment(line, unit));
    operands_.declare(declared_name(line), offset);
    kernel_->shared_bytes = offset + unit * array_size(line, 1);
  }

  void take_head(const std::string& line) {
    if (line == "{") {
      inside_ = true;
    } else if (begins(line, ".param ")) {
      const uint32_t unit = type_size(line), size = unit * array_size(line, 1);
      const uint32_t offset = rounded_up(parameter_end_, alignment(line, unit));
      operands_.declare(declared_name(line), offset);
      kernel_->parameters.push_back({offset, size});
      parameter_end_ = offset + size;
    } else if (begins(line, ".maxntid ")) {
      kernel_->threads_max = static_cast<uint32_t>(std::stoul(line.substr(9)));
    } else if (begins(line, ".minnctapersm ")) {
      kernel_->blocks_at_least = static_cast<uint32_t>(std::stoul(line.substr(14)));
    } else if (line != ")") {
      throw std::runtime_error("an unknown property of a kernel");
    }
  }

  void take_inside(const std::string& line) {
    if (line == "}") return end_kernel();
    if (begins(line, ".reg ") || begins(line, ".pragma ")) return;
    if (begins(line, ".shared ")) {
      declare_shared(line);
    } else if (line.front() == '{' && line.back() == '}') {
      take_scope(line.substr(1, line.size() - 2));
    } else if (line.back() == ':') {
      operands_.place_label(line.substr(0, line.size() - 1));
    } else if (line.back() == ';') {
      operands_.add(line.substr(0, line.size() - 1), number_);
    } else {
      throw std::runtime_error("an unknown line");
    }
  }

  /** Statements on a line, with registers of their own. */
  void take_scope(const std::string& line) {
    std::istringstream statements(line);
    std::string part;
    while (std::getline(statements, part, ';')) {
      const std::string statement = trimmed(part);
      if (begins(statement, ".reg ")) {
        operands_.declare_register(declared_name(statement));
      } else if (!statement.empty()) {
        operands_.add(statement, number_);
      }
    }
  }

  void end_kernel() {
    operands_.resolve_labels();
    if (kernel_->code.size() != program_->at(kernel_->name).code.size()) {
      throw std::runtime_error("a second kernel of that name, " + kernel_->name + ", is another");
    }
    kernel_ = nullptr;
    inside_ = false;
  }

  const std::string path_;
  Program* const program_;
  Kernel* kernel_ = nullptr;
  Kernel again_;
  Operands operands_{nullptr};
  bool inside_ = false;
  uint32_t number_ = 0, parameter_end_ = 0;
  std::vector<std::string> shared_of_all_;  // of functions that kernels have inline
};

}  // namespace

void read_program(const std::string& path, Program* program) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be read");
  Reader(path, program).read(file);
}

void read_text(const std::string& text, const std::string& path, Program* program) {
  std::istringstream lines(text);
  Reader(path, program).read(lines);
}

}  // namespace gq::ptx
