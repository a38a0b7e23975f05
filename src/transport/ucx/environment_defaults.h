// Environment variables that exist for a moment: a library reads its settings from the environment
// while it is loaded, and in no other way.
#ifndef GQ_TRANSPORT_UCX_ENVIRONMENT_DEFAULTS_H
#define GQ_TRANSPORT_UCX_ENVIRONMENT_DEFAULTS_H

#include <stddef.h>

#include <mutex>

namespace gq {

/** While it lives, getenv() finds each variable of a table that the process has not set itself. A
 *  second one, of another thread, waits. It does not call setenv(), which frees arrays that
 * getenv() of another thread may be reading: it exchanges `environ` for a longer array, which is
 * never freed. */
class EnvironmentDefaults {
 public:
  static constexpr size_t kVariablesMax = 32;

  /** `variables` are strings "NAME=value" that live for ever. Without memory for the array it sets
   *  nothing, and is_set() is false. */
  EnvironmentDefaults(const char* const* variables, size_t count);
  ~EnvironmentDefaults();
  EnvironmentDefaults(const EnvironmentDefaults&) = delete;
  EnvironmentDefaults& operator=(const EnvironmentDefaults&) = delete;

  bool is_set() const { return during_ != nullptr; }

 private:
  bool is_unchanged() const;

  const std::unique_lock<std::mutex> lock_;
  char** before_ = nullptr;
  char** during_ = nullptr;
  size_t count_before_ = 0;
  size_t count_added_ = 0;
  char* added_[kVariablesMax];
};

}  // namespace gq

#endif
