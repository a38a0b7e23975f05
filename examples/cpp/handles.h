// The library's handles as C++ owns them: freed at the end of their scope, failures as exceptions.
#ifndef GQ_EXAMPLES_CPP_HANDLES_H
#define GQ_EXAMPLES_CPP_HANDLES_H

#include <gqsgd_transport.h>

#include <memory>
#include <stdexcept>
#include <string>

/** What a call failed with: its status and the library's sentence. */
struct Failure : std::runtime_error {
  explicit Failure(gqsgd_status code) : std::runtime_error(gqsgd_last_error()), status(code) {}
  gqsgd_status status;
};

inline void check(gqsgd_status status) {
  if (status != GQSGD_OK) throw Failure(status);
}

/** Handles are pointers that are never dereferenced, so that a unique_ptr can hold them. */
struct Destroyer {
  void operator()(gqsgd_quantizer handle) const { gqsgd_quantizer_destroy(handle); }
  void operator()(gqsgd_comm handle) const { gqsgd_comm_destroy(handle); }
};

using Quantizer = std::unique_ptr<gqsgd_quantizer_s, Destroyer>;
using Comm = std::unique_ptr<gqsgd_comm_s, Destroyer>;

inline Quantizer make_quantizer(const std::string& text) {
  gqsgd_quantizer handle = nullptr;
  check(gqsgd_quantizer_create(text.c_str(), &handle));
  return Quantizer(handle);
}

/** Takes `table.user` over, also when it fails. */
inline Comm make_comm(const gqsgd_transport& table, const std::string& options) {
  gqsgd_comm handle = nullptr;
  const gqsgd_status status = gqsgd_comm_create_custom(&table, options.c_str(), &handle);
  if (status != GQSGD_OK) {
    const Failure failure(status);
    table.close(table.user);
    throw failure;
  }
  return Comm(handle);
}

#endif
