#include "tests/gpu/ptx/operands.h"

#include <cctype>
#include <limits>
#include <stdexcept>

namespace gq::ptx {
namespace {

/** The words of "a, {b, c}, [d]": braces make one group of several, and so does "a|b". */
std::vector<std::vector<std::string>> groups_of(const std::string& text) {
  std::vector<std::vector<std::string>> groups;
  bool inside = false, is_pair = false;
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    if (!inside || groups.empty()) groups.emplace_back();
    groups.back().push_back(word);
    word.clear();
  };
  for (const char letter : text) {
    if (letter == '{') {
      groups.emplace_back();
      inside = true;
    } else if (letter == '|') {  // a result and its predicate are a group
      end_word();
      inside = is_pair = true;
    } else if (letter == ',' || letter == '}') {
      end_word();
      inside = inside && letter == ',' && !is_pair;
      is_pair = false;
    } else if (!isspace(static_cast<unsigned char>(letter))) {
      word += letter;
    }
  }
  end_word();
  return groups;
}

bool is_number(const std::string& word) {
  return isdigit(static_cast<unsigned char>(word[0])) || word[0] == '-';
}

/** Bits of a literal: 12, -12, 0x1f, 0f3F800000, 0d3FF0000000000000. */
uint64_t literal(const std::string& word) {
  const std::string kind = word.substr(0, 2);
  if (kind == "0f" || kind == "0d") return std::stoull(word.substr(2), nullptr, 16);
  if (word[0] == '-') return static_cast<uint64_t>(std::stoll(word, nullptr, 0));
  return std::stoull(word, nullptr, 0);
}

/** Takes .v2 or .v4 out of a name. */
uint8_t take_vector(std::string* name) {
  for (const uint8_t count : {2, 4}) {
    const std::string part = ".v" + std::to_string(count);
    const size_t at = name->find(part + ".");
    if (at == std::string::npos) continue;
    name->erase(at, part.size());
    return count;
  }
  return 1;
}

/** Whether the first operand is what an instruction writes. */
bool writes(const std::string& name) {
  for (const char* const none : {"st.", "bra", "bar.", "ret", "nanosleep.", "membar.", "fence."}) {
    if (name.rfind(none, 0) == 0) return false;
  }
  return true;
}

/** mov between a register and its parts: how many there are becomes part of the name. */
std::string with_parts(std::string name, size_t outs, size_t ins) {
  if (name.rfind("mov.", 0) != 0 || (outs == 1 && ins == 1)) return name;
  return name + (outs > 1 ? ".unpack" : ".pack") + std::to_string(outs * ins);
}

Operation found_operation(const std::string& name, Kind* kind) {
  for (const auto find : {find_word, find_float, find_access}) {
    if (const Operation found = find(name)) return found;
  }
  if (const Operation found = find_control(name, kind)) return found;
  throw std::runtime_error("unknown instruction " + name);
}

/** A file has hundreds of thousands of statements, and some two hundred names of instructions. */
Operation operation_of(const std::string& name, Kind* kind) {
  thread_local std::unordered_map<std::string, std::pair<Operation, Kind>> known;
  auto found = known.find(name);
  if (found == known.end()) {
    Kind own = *kind;
    const Operation operation = found_operation(name, &own);
    found = known.emplace(name, std::pair(operation, own)).first;
  }
  *kind = found->second.second;
  return found->second.first;
}

}  // namespace

Operands::Operands(Kernel* kernel) : kernel_(kernel) {
  registers_ = {{"%tid.x", kThread},
                {"%ctaid.x", kBlock},
                {"%ntid.x", kThreadCount},
                {"%nctaid.x", kBlockCount},
                {"%laneid", kLane},
                {"%envreg3", kMutation}};
}

void Operands::place_label(const std::string& name) {
  labels_[name] = static_cast<uint32_t>(kernel_->code.size());
}

void Operands::add(const std::string& statement, uint32_t line) {
  Instruction made;
  made.line = line;
  std::string rest = statement;
  if (rest[0] == '@') {
    const size_t end = rest.find_first_of(" \t");
    add_guard(rest.substr(1, end - 1), &made);
    rest = rest.substr(rest.find_first_not_of(" \t", end));
  }
  const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  std::string name = rest.substr(0, end);
  std::vector<Group> groups = groups_of(rest.substr(end));
  made.value_count = take_vector(&name);
  size_t outs = 1, ins = 1;
  if (name.rfind("red.", 0) == 0) {  // an atomic operation without a result
    name = "atom" + name.substr(3);
    made.out[0] = new_register(0);
  } else if (name.rfind("bra", 0) == 0) {
    branches_.push_back({static_cast<uint32_t>(kernel_->code.size()), groups.at(0).at(0)});
    groups.clear();
  } else if (writes(name)) {
    outs = groups.at(0).size();
    if (outs > 4) throw std::runtime_error("too many results");
    for (size_t k = 0; k < outs; ++k) made.out[k] = register_of(groups[0][k]);
    if (name.rfind("shfl.", 0) == 0 && outs == 1) made.out[1] = new_register(0);
    groups.erase(groups.begin());
    ins = groups.empty() ? 0 : groups[0].size();
    if (groups.size() == 1 && groups[0][0] == "%globaltimer") {
      name += ".globaltimer";
      groups.clear();
    }
  }
  uint32_t count = 0;
  for (const Group& group : groups) add_sources(group, &count, &made);
  made.run = operation_of(with_parts(name, outs, ins), &made.kind);
  kernel_->code.push_back(made);
  kernel_->text.push_back(statement);
}

void Operands::add_guard(const std::string& word, Instruction* made) {
  made->guard_inverted = word[0] == '!';
  made->guard = register_of(made->guard_inverted ? word.substr(1) : word);
}

void Operands::add_sources(const Group& group, uint32_t* count, Instruction* made) {
  for (const std::string& word : group) {
    if (*count == kOperandsMax) throw std::runtime_error("too many operands");
    if (word[0] == '[') {
      add_address(word.substr(1, word.size() - 2), made);
      *count += 1;
    } else {
      made->in[(*count)++] = register_of(word);
    }
  }
}

/** "base", "base+8", "base+-8": the base is the operand in whose place the address stands. */
void Operands::add_address(const std::string& text, Instruction* made) {
  const size_t plus = text.find('+');
  const std::string base = text.substr(0, plus);
  if (plus != std::string::npos) made->offset = std::stoll(text.substr(plus + 1));
  made->in[0] = register_of(base);
}

Register Operands::register_of(const std::string& name) {
  if (is_number(name)) return constant(literal(name));
  const auto address = addresses_.find(name);
  if (address != addresses_.end()) return constant(address->second);
  const auto known = registers_.find(name);
  if (known != registers_.end()) return known->second;
  if (name[0] != '%' || name.find('.') != std::string::npos) {
    throw std::runtime_error("unknown name " + name);
  }
  return registers_[name] = new_register(0);
}

Register Operands::constant(uint64_t bits) {
  const auto known = constants_.find(bits);
  return known != constants_.end() ? known->second : constants_[bits] = new_register(bits);
}

Register Operands::new_register(uint64_t bits) {
  if (kernel_->registers.size() > std::numeric_limits<Register>::max()) {
    throw std::runtime_error("too many registers");
  }
  kernel_->registers.push_back(bits);
  return static_cast<Register>(kernel_->registers.size() - 1);
}

void Operands::resolve_labels() {
  for (const auto& [number, label] : branches_) {
    const auto found = labels_.find(label);
    const bool is_there = found != labels_.end() && found->second < kernel_->code.size();
    if (!is_there) throw std::runtime_error("no label " + label);
    kernel_->code[number].target = found->second;
  }
  // So that no thread goes on behind the last instruction.
  const bool ends = !kernel_->code.empty() && kernel_->code.back().kind != Kind::computes;
  if (!ends) throw std::runtime_error("the last instruction goes on");
}

}  // namespace gq::ptx
