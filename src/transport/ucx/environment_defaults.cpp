// An array of pointers instead of `environ`, and what is done if another thread calls setenv()
// meanwhile.
#include "src/transport/ucx/environment_defaults.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace gq {
namespace {

std::mutex one_at_a_time;

/** Pointers behind it. */
struct Array {
  Array* older;
  size_t capacity;

  char** pointers() { return reinterpret_cast<char**>(this + 1); }
};

// Under the lock. Only the newest is used again: older ones stay, because another thread may still
// read them.
Array* newest = nullptr;
bool is_reusable = false;

char** array_of(size_t count) {
  if (!is_reusable || count > newest->capacity) {
    const size_t capacity = count + 64;
    auto* const made = static_cast<Array*>(calloc(1, sizeof(Array) + capacity * sizeof(char*)));
    if (made == nullptr) return nullptr;
    *made = {newest, capacity};
    newest = made;
    is_reusable = true;
  }
  return newest->pointers();
}

size_t name_bytes(const char* variable) {
  return static_cast<size_t>(strchr(variable, '=') - variable);
}

bool has_same_name(const char* one, const char* other) {
  const size_t size_bytes = name_bytes(other) + 1;
  return strncmp(one, other, size_bytes) == 0;
}

bool contains(char* const* variables, size_t count, const char* variable) {
  for (size_t i = 0; i < count; ++i) {
    if (has_same_name(variables[i], variable)) return true;
  }
  return false;
}

}  // namespace

EnvironmentDefaults::EnvironmentDefaults(const char* const* variables, size_t count)
    : lock_(one_at_a_time), before_(environ) {
  while (before_ != nullptr && before_[count_before_] != nullptr) ++count_before_;
  for (size_t i = 0; i < count && i < kVariablesMax; ++i) {
    if (contains(before_, count_before_, variables[i])) continue;
    added_[count_added_++] = const_cast<char*>(variables[i]);
  }
  during_ = array_of(count_before_ + count_added_ + 1);
  if (during_ == nullptr) return;
  for (size_t i = 0; i < count_before_; ++i) during_[i] = before_[i];
  for (size_t i = 0; i < count_added_; ++i) during_[count_before_ + i] = added_[i];
  during_[count_before_ + count_added_] = nullptr;
  __atomic_store_n(&environ, during_, __ATOMIC_RELEASE);
}

bool EnvironmentDefaults::is_unchanged() const {
  if (environ != during_) return false;
  for (size_t i = 0; i < count_before_; ++i) {
    if (during_[i] != before_[i]) return false;
  }
  for (size_t i = 0; i < count_added_; ++i) {
    if (during_[count_before_ + i] != added_[i]) return false;
  }
  return during_[count_before_ + count_added_] == nullptr;
}

EnvironmentDefaults::~EnvironmentDefaults() {
  if (during_ == nullptr) return;
  if (is_unchanged()) {
    __atomic_store_n(&environ, before_, __ATOMIC_RELEASE);
    return;
  }
  // Another thread has set or removed a variable: its change stays, and what was added goes.
  if (environ == during_) is_reusable = false;
  for (size_t i = 0; i < count_added_; ++i) {
    char name[64];
    const size_t size_bytes = name_bytes(added_[i]);
    if (size_bytes >= sizeof name) continue;
    memcpy(name, added_[i], size_bytes);
    name[size_bytes] = '\0';
    const char* value = getenv(name);
    if (value == added_[i] + size_bytes + 1) unsetenv(name);
  }
}

}  // namespace gq
