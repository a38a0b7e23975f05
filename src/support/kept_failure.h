// A status, kept for later.
#ifndef GQ_SUPPORT_KEPT_FAILURE_H
#define GQ_SUPPORT_KEPT_FAILURE_H

#include <utility>

#include "src/support/status.h"

namespace gq {

class KeptFailure {
 public:
  explicit KeptFailure(Status status) : status_(std::move(status)) {}

  bool ok() const { return status_.ok(); }
  Status again() const { return status_; }

 private:
  Status status_;
};

}  // namespace gq

#endif
