// Groups over the stand-in of NCCL, and their calls.
#include "tests/gpu/nccl/group.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gq::test {
namespace {

constexpr unsigned char kUnwritten = 0xA5;

template <typename Function>
Function stand_in_function(const char* name) {
  void* const library = dlopen(GQ_STAND_IN, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

void set_faults(const StandInFaults& faults) {
  stand_in_function<void (*)(const StandInFaults*)>("stand_in_set")(&faults);
}
int made_comms() { return stand_in_function<int (*)()>("stand_in_comms")(); }
int aborted_comms() { return stand_in_function<int (*)()>("stand_in_aborts")(); }
int aborted_inside() { return stand_in_function<int (*)()>("stand_in_aborts_inside")(); }
int crowds() { return stand_in_function<int (*)()>("stand_in_crowds")(); }

StandInRegistrations registrations() {
  return stand_in_function<StandInRegistrations (*)()>("stand_in_registrations")();
}

StandInTraffic traffic() {
  return stand_in_function<StandInTraffic (*)()>("stand_in_traffic")();
}

const NcclLibrary* nccl_of_tests() {
  const NcclLibrary* library = nullptr;
  EXPECT_TRUE(open_nccl(GQ_STAND_IN, NcclSearch::any, &library).ok()) << gqsgd_last_error();
  return library;
}

std::string stand_in_options(const std::string& more) {
  const bool has_timeout = more.find("timeout_ms") != std::string::npos;
  return std::string("nccl=" GQ_STAND_IN) + (has_timeout ? "" : ",timeout_ms=20000") +
         (more.empty() ? "" : "," + more);
}

StreamCall::StreamCall(const Values& input)
    : value_count_(input.size()),
      input_(input),
      send_(input.size() * sizeof(float)),
      recv_(input.size() * sizeof(float)),
      step_(sizeof given_step_) {
  std::copy(input.begin(), input.end(), send_.as<float>());
  std::fill_n(recv_.as<unsigned char>(), input.size() * sizeof(float), kUnwritten);
}

/** On a device step and index come to be when the stream gets there, before the call. */
Config StreamCall::place_step(const Operation& operation) {
  if (!operation.at_device) return config_of(operation);
  given_step_[0] = static_cast<uint32_t>(operation.step);
  given_step_[1] = static_cast<uint32_t>(operation.index);
  (void)host_device()
      .copy(step_.as<uint32_t>(), given_step_, sizeof given_step_, stream.get())
      .ok();
  return config_on_device(step_.as<uint32_t>(), operation.schedule);
}

gqsgd_status StreamCall::make(gqsgd_comm comm, const Operation& operation) {
  const Config config = place_step(operation);
  in_place_ = operation.in_place;
  return enqueue(comm, operation, send_.as<float>(),
                 in_place_ ? send_.as<float>() : recv_.as<float>(), value_count_, config,
                 stream.get());
}

gqsgd_status StreamCall::start(gqsgd_comm comm, const Operation& operation,
                               gqsgd_request* request) {
  const Quantizer quantizer(operation.quantizer);
  const Config config = place_step(operation);
  in_place_ = operation.in_place;
  return gqsgd_allreduce_start(comm, quantizer.get(), send_.as<float>(),
                               in_place_ ? send_.as<float>() : recv_.as<float>(), value_count_,
                               GQSGD_FLOAT32, operation.op, config, stream.get(), request);
}

Values StreamCall::result() const {
  const float* const values = in_place_ ? send_.as<float>() : recv_.as<float>();
  return Values(values, values + value_count_);
}

bool StreamCall::untouched() const {
  const auto* const bytes = recv_.as<unsigned char>();
  const size_t size_bytes = value_count_ * sizeof(float);
  for (size_t k = 0; k < size_bytes; ++k) {
    if (bytes[k] != kUnwritten) return false;
  }
  const auto* const given = reinterpret_cast<const unsigned char*>(input_.data());
  return std::equal(given, given + size_bytes, send_.as<unsigned char>());
}

NcclGroup::NcclGroup(int rank_count, const std::string& options,
                     const std::vector<std::string>& own)
    : DeviceGroup(rank_count) {
  stand_in_function<void (*)(void*)>("stand_in_default_stream")(default_host_stream());
  gqsgd_unique_id id;
  const std::string text = stand_in_options(options);
  EXPECT_EQ(gqsgd_nccl_unique_id_create(text.c_str(), &id), GQSGD_OK) << gqsgd_last_error();
  const std::string failures = run([&](int rank, gqsgd_comm) -> std::string {
    const std::string mine = own.empty() ? text : own[static_cast<size_t>(rank)] + "," + text;
    const gqsgd_status status =
        gqsgd_comm_create_nccl(&id, rank, rank_count, mine.c_str(), comms() + rank);
    return status == GQSGD_OK ? "" : gqsgd_last_error();
  });
  EXPECT_EQ(failures, "");
}

std::vector<Operation> calls_of(const std::string& format,
                                const std::vector<gqsgd_schedule>& schedules) {
  std::vector<Operation> calls;
  for (const gqsgd_schedule schedule : schedules) {
    Operation call;
    call.quantizer = format;
    call.schedule = schedule;
    call.op = calls.size() % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
    call.in_place = calls.size() % 3 == 1;
    call.step = 5 + calls.size();
    call.index = calls.size();
    call.at_device = calls.size() % 2 == 0;
    calls.push_back(call);
  }
  return calls;
}

}  // namespace gq::test
