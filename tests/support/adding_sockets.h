// Socket transports with an allreduce of their own: the last rank to come adds for all.
#ifndef GQ_TESTS_SUPPORT_ADDING_SOCKETS_H
#define GQ_TESTS_SUPPORT_ADDING_SOCKETS_H

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/socket_group.h"
#include "tests/support/wrapped_sockets.h"

namespace gq::test {

/** What ranks have come with to one sum after the other. */
class Adder {
 public:
  explicit Adder(size_t rank_count) : rank_count_(rank_count) {}

  void come(int rank, uint64_t number, int32_t addend, void* numbers, size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Open& open = sums_[number];
    open.places.resize(rank_count_);
    open.places[rank] = numbers;
    if (++open.come < rank_count_) return;
    addend == GQSGD_ADD_FLOAT32 ? add<float>(open.places, count)
                                : add<uint64_t>(open.places, count);
    open.done = true;
  }
  bool done(uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sums_[number].done;
  }

 private:
  struct Open {
    std::vector<void*> places;
    size_t come = 0;
    bool done = false;
  };

  template <typename Number>
  static void add(const std::vector<void*>& places, size_t count) {
    std::vector<Number> sum(count);
    for (const void* place : places) {
      for (size_t k = 0; k < count; ++k) sum[k] += static_cast<const Number*>(place)[k];
    }
    for (void* place : places) std::memcpy(place, sum.data(), count * sizeof(Number));
  }

  const size_t rank_count_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Open> sums_;
};

/** One rank's sockets. */
struct AddingSockets {
  gqsgd_transport sockets;
  Adder* adder;
  uint64_t sums = 0;
  uint64_t early_sums = 0;   ///< that began before the one before them was there
  int32_t failing_code = 0;  ///< not 0: sums fail with it

  bool done(uint64_t request) { return adder->done(request); }
};

inline gqsgd_transport with_allreduce(AddingSockets* self) {
  gqsgd_transport table = wrapped(self);
  table.allreduce = [](void* user, int32_t addend, void* numbers, size_t count, uint64_t* request) {
    AddingSockets& self = *static_cast<AddingSockets*>(user);
    if (self.failing_code != 0) return self.failing_code;
    if (self.sums > 0) self.early_sums += self.done(kFirstOwnRequest + self.sums - 1) ? 0 : 1;
    *request = kFirstOwnRequest + self.sums++;
    self.adder->come(self.sockets.rank, *request, addend, numbers, count);
    return 0;
  };
  return table;
}

/** All ranks of a group; outlives its communicators. */
class AddingGroup {
 public:
  explicit AddingGroup(int rank_count) : adder_(rank_count) {
    for (const gqsgd_transport& table : socket_tables(rank_count))
      users_.push_back({table, &adder_});
  }

  std::vector<gqsgd_comm> comms(const std::string& options) {
    return custom_comms(tables(), options);
  }
  std::vector<gqsgd_transport> tables() {
    std::vector<gqsgd_transport> tables;
    for (AddingSockets& user : users_) tables.push_back(with_allreduce(&user));
    return tables;
  }
  AddingSockets& rank(int rank) { return users_[rank]; }

 private:
  Adder adder_;
  std::deque<AddingSockets> users_;
};

}  // namespace gq::test

#endif
