// The process-wide log callback: one of the library's few registries, guarded by a mutex.
#include "src/support/log.h"

#include <stdarg.h>
#include <stdio.h>

#include <mutex>

namespace gq {
namespace {

struct Sink {
  std::mutex mutex;
  gqsgd_log_callback callback = nullptr;
  void* user = nullptr;
};

Sink& sink() {
  static Sink* instance = new Sink;  // never destroyed: threads may log while the process exits
  return *instance;
}

}  // namespace

void set_log(gqsgd_log_callback callback, void* user) {
  Sink& target = sink();
  const std::lock_guard<std::mutex> lock(target.mutex);
  target.callback = callback;
  target.user = user;
}

void log_line(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  Sink& target = sink();
  const std::lock_guard<std::mutex> lock(target.mutex);
  if (target.callback != nullptr) target.callback(target.user, line);
}

}  // namespace gq
