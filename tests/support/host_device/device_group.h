// Ranks that are threads, each with a communicator on the device that tests have.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_DEVICE_GROUP_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_DEVICE_GROUP_H

#include <gqsgd.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/host_device/host_device.h"

namespace gq::test {

/** Who derives makes the communicators. */
class DeviceGroup {
 public:
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  int size() const { return static_cast<int>(comms_.size()); }
  gqsgd_comm comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  /** Runs `body` on a thread for each rank; lines of what it returned, where it was not "". */
  std::string run(const std::function<std::string(int rank, gqsgd_comm comm)>& body) const;
  void destroy(int rank);

 protected:
  explicit DeviceGroup(int rank_count) : comms_(static_cast<size_t>(rank_count)) {}
  gqsgd_comm* comms() { return comms_.data(); }

 private:
  UseHostDevice device_;
  std::vector<gqsgd_comm> comms_;
};

}  // namespace gq::test

#endif
