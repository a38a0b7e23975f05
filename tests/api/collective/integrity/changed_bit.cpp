// Sockets between threads; the next call begins when all ranks have ended the first.
#include "tests/api/collective/integrity/changed_bit.h"

#include <barrier>

#include "tests/support/config.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"

namespace gq::test {
namespace {

std::vector<Values> inputs_of(const Case& one) {
  std::vector<Values> inputs = gradients(one.ranks, kCaseValues, 5);
  if (one.schedule == GQSGD_SCHEDULE_SPARSE && !one.dense) {
    for (Values& values : inputs) {
      for (size_t e = 0; e < values.size(); ++e) {
        if (e % 100 != 0) values[e] = 0;
      }
    }
  }
  return inputs;
}

}  // namespace

gqsgd_transport flipping(FlippingSockets* self) {
  gqsgd_transport table = wrapped(self);
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    FlippingSockets& self = *static_cast<FlippingSockets*>(user);
    const auto* begin = static_cast<const unsigned char*>(bytes);
    if (self.sizes.size() == self.message) {
      self.changed.assign(begin, begin + size);
      const size_t bit = self.random % (8 * size);
      self.changed[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
      begin = self.changed.data();
    }
    self.sizes.push_back(size);
    return self.sockets.send(self.sockets.user, peer, begin, size, request);
  };
  return table;
}

std::string describe(const Case& one) {
  return std::string(one.quantizer) + " " + schedule_name(one.schedule) + ", kind " +
         std::to_string(static_cast<int>(one.kind)) + ", " + std::to_string(one.ranks) + " ranks";
}

gqsgd_status call(const Case& one, gqsgd_comm comm, gqsgd_quantizer quantizer, Values input,
                  Values* result) {
  const size_t ranks = static_cast<size_t>(one.ranks), slice = kCaseValues / ranks;
  const Config config = config_of(one.schedule);
  result->assign(kCaseValues, -7);
  switch (one.kind) {
    case Kind::allreduce:
      return gqsgd_allreduce(comm, quantizer, input.data(), result->data(), kCaseValues,
                             GQSGD_FLOAT32, GQSGD_MEAN, config, nullptr);
    case Kind::many: {
      const size_t counts[] = {700, 0, kCaseValues - 700};
      const void* send[] = {input.data(), nullptr, input.data() + 700};
      void* recv[] = {result->data(), nullptr, result->data() + 700};
      return gqsgd_allreduce_many(comm, quantizer, send, recv, counts, 3, GQSGD_FLOAT32, GQSGD_MEAN,
                                  config, nullptr);
    }
    case Kind::reduce_scatter: {
      const std::vector<size_t> counts(ranks, slice);
      return gqsgd_reduce_scatter(comm, quantizer, input.data(), result->data(), counts.data(),
                                  GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
    }
    default: {
      const std::vector<size_t> counts(ranks, slice);
      return gqsgd_allgather(comm, quantizer, input.data(), result->data(), counts.data(),
                             GQSGD_FLOAT32, nullptr, nullptr);
    }
  }
}

TwoCalls make_two_calls(const Case& one, const Change& change, const std::string& options) {
  const std::vector<Values> inputs = inputs_of(one);
  std::vector<FlippingSockets> users;
  for (const gqsgd_transport& table : socket_tables(one.ranks)) {
    users.emplace_back().sockets = table;
  }
  if (change.sender >= 0) {
    users[change.sender].message = change.message;
    users[change.sender].random = change.random;
  }
  std::vector<gqsgd_transport> tables;
  for (FlippingSockets& user : users) tables.push_back(flipping(&user));
  std::string all = options;
  if (one.schedule == GQSGD_SCHEDULE_HIERARCHICAL) all += ",nodes=0:0:1:1";
  TwoCalls made;
  made.outcomes.resize(one.ranks);
  made.sizes.resize(one.ranks);
  std::barrier at_end(one.ranks);
  made.failure = run_threads(custom_comms(tables, all), [&](int rank, gqsgd_comm comm) {
    const Quantizer quantizer(one.quantizer);
    Outcome& outcome = made.outcomes[rank];
    outcome.first = call(one, comm, quantizer.get(), inputs[rank], &outcome.result);
    if (outcome.first != GQSGD_OK) outcome.sentence = gqsgd_last_error();
    made.sizes[rank] = users[rank].sizes;
    at_end.arrive_and_wait();
    Values later;
    outcome.second = call(one, comm, quantizer.get(), inputs[rank], &later);
    if (outcome.second != GQSGD_OK) outcome.later = gqsgd_last_error();
    at_end.arrive_and_wait();  // a rank that leaves closes its sockets
    return std::string();
  });
  return made;
}

}  // namespace gq::test
