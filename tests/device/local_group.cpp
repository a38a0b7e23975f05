// Threads for ranks.
#include "tests/device/local_group.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>

namespace gq::test {

LocalGroup::LocalGroup(int rank_count, const std::string& options)
    : comms_(static_cast<size_t>(rank_count)) {
  EXPECT_EQ(gqsgd_comm_create_local(rank_count, options.c_str(), comms_.data()), GQSGD_OK)
      << gqsgd_last_error();
}

LocalGroup::~LocalGroup() {
  // In threads: where calls are under way one end waits for the other.
  run([this](int rank, gqsgd_comm) {
    destroy(rank);
    return std::string();
  });
}

void LocalGroup::destroy(int rank) {
  gqsgd_comm& comm = comms_[static_cast<size_t>(rank)];
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
  comm = nullptr;
}

std::string LocalGroup::run(
    const std::function<std::string(int rank, gqsgd_comm comm)>& body) const {
  std::mutex mutex;
  std::string lines;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) {
    threads.emplace_back([&, rank] {
      const std::string said = body(rank, comm(rank));
      const std::lock_guard<std::mutex> lock(mutex);
      if (!said.empty()) lines += "rank " + std::to_string(rank) + ": " + said + "\n";
    });
  }
  for (std::thread& thread : threads) thread.join();
  return lines;
}

Calls::Calls(int rank_count, const std::vector<Operation>& operations,
             const std::vector<size_t>& value_counts)
    : operations_(operations) {
  for (size_t k = 0; k < operations.size(); ++k) {
    const size_t value_count = value_counts[k % value_counts.size()];
    inputs_.push_back(gradients(rank_count, value_count, 40 + k));
    expected_.push_back(simulate(operations[k], inputs_[k]));
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

std::vector<Operation> calls_of(const std::string& format, const std::vector<int32_t>& schedules) {
  std::vector<Operation> calls;
  for (const int32_t schedule : schedules) {
    Operation call;
    call.quantizer = format;
    call.schedule = schedule;
    call.op = calls.size() % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
    call.in_place = calls.size() % 3 == 1;
    call.step = 5 + calls.size();
    call.index = calls.size();
    calls.push_back(call);
  }
  return calls;
}

}  // namespace gq::test
