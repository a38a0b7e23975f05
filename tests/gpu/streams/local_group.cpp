// Threads of one local group, and calls that are compared with what virtual ranks make.
#include "tests/gpu/streams/local_group.h"

#include <gtest/gtest.h>

#include <memory>

namespace gq::test {

LocalGroup::LocalGroup(int rank_count, const std::string& options) : DeviceGroup(rank_count) {
  EXPECT_EQ(gqsgd_comm_create_local(rank_count, options.c_str(), comms()), GQSGD_OK)
      << gqsgd_last_error();
}

Calls::Calls(int rank_count, const std::vector<Operation>& operations,
             const std::vector<size_t>& value_counts, const std::string& options)
    : operations_(operations) {
  for (size_t k = 0; k < operations.size(); ++k) {
    const std::vector<size_t>& counts = operations[k].counts;
    const size_t value_count =
        counts.empty() ? value_counts[k % value_counts.size()] : total_of(counts);
    inputs_.push_back(gradients(rank_count, value_count, 40 + k));
    expected_.push_back(simulate(operations[k], inputs_[k], options));
  }
}

std::string Calls::make_and_compare(int rank, gqsgd_comm comm) const {
  std::vector<std::unique_ptr<StreamCall>> made;
  for (size_t k = 0; k < operations_.size(); ++k) {
    made.push_back(std::make_unique<StreamCall>(inputs_[k][static_cast<size_t>(rank)]));
    made[k]->stream.sleep((rank * 3 + static_cast<int>(k)) % 5);
    if (made[k]->make(comm, operations_[k]) != GQSGD_OK) {
      return describe(operations_[k]) + ": " + gqsgd_last_error();
    }
  }
  for (size_t k = 0; k < operations_.size(); ++k) {
    if (!made[k]->wait()) return describe(operations_[k]) + ": the stream does not get through";
    const std::string found = difference(made[k]->result(), expected_[k]);
    if (!found.empty()) return describe(operations_[k]) + ": " + found;
  }
  return "";
}

}  // namespace gq::test
