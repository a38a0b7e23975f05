// Failures: one block of memory each, freed by the last status that has it.
#include "src/support/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

namespace gq {
namespace {

/** For want of memory, one for each code; never freed. */
Failure without_memory[] = {
#define GQ_STATUS_FAILURE(name, number, meaning) \
  {0, GQSGD_##name, meaning " (there was no memory for a sentence)"},
    GQSGD_STATUS_TABLE(GQ_STATUS_FAILURE)
#undef GQ_STATUS_FAILURE
};

/** NO_MEMORY for a code of another version. */
Failure* failure_without_memory(gqsgd_status code) {
  Failure* other = nullptr;
  for (Failure& failure : without_memory) {
    if (failure.code == code) return &failure;
    if (failure.code == GQSGD_NO_MEMORY) other = &failure;
  }
  return other;
}

Failure* make_failure(gqsgd_status code, const char* format, va_list arguments) {
  char text[kSentenceBytes];
  const int needed = vsnprintf(text, sizeof text, format, arguments);
  if (needed < 0) text[0] = '\0';
  const size_t size_bytes = strlen(text) + 1;
  // OK is no failure: it would be taken for a success further on.
  if (code == GQSGD_OK) code = GQSGD_INTERNAL;
  void* const memory = malloc(sizeof(Failure) + size_bytes);
  if (memory == nullptr) return failure_without_memory(code);
  char* const sentence = static_cast<char*>(memory) + sizeof(Failure);
  memcpy(sentence, text, size_bytes);
  return new (memory) Failure{1, code, sentence};
}

}  // namespace

bool is_status(int64_t number) {
  switch (number) {
#define GQ_STATUS_CASE(name, number, meaning) case number:
    GQSGD_STATUS_TABLE(GQ_STATUS_CASE)
#undef GQ_STATUS_CASE
    return true;
    default:
      return false;
  }
}

Status fail(gqsgd_status code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Failure* const made = make_failure(code, format, arguments);
  va_end(arguments);
  return Status(made);
}

Failure* Status::failure_of(const StageError& error) {
  Status failed = error.name == nullptr
                      ? fail(GQSGD_INTERNAL, "%s: %s", error.call, error.text)
                      : fail(GQSGD_BACKEND, "%s: CUDA error %d (%s): %s", error.call,
                             static_cast<int>(error.number), error.name, error.text);
  return std::exchange(failed.failure_, nullptr);
}

void Status::share(Failure* failure) {
  if (failure->references.load(std::memory_order_relaxed) == 0) return;
  failure->references.fetch_add(1, std::memory_order_relaxed);
}

void Status::release(Failure* failure) {
  if (failure->references.load(std::memory_order_relaxed) == 0) return;
  if (failure->references.fetch_sub(1, std::memory_order_acq_rel) == 1) free(failure);
}

}  // namespace gq
