// Draws and makes them.
#include "tools/soak_lib/soak_calls.h"

#include <algorithm>

namespace gq::tools {
namespace {

constexpr const char* kSpecs[] = {"blocks-8",  "rotated-8", "rotated-4-8", "rotated-4",
                                  "paper-gl8", "paper-gl4", "paper-ge8",   "paper-ge4",
                                  "none",      "bf16",      "fp16",        "relative-8",
                                  "blocks-8,rounding=independent"};
constexpr int kSchedules = 8;
constexpr int kRequestsMax = 4;
constexpr size_t kTensorsMax = 5;
enum Kind { kBlocking, kInPlace, kMany, kReduceScatter, kAllgather, kRequests, kKinds };

size_t value_bytes(gqsgd_dtype dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

/** Bits that every finite value below 2 may have, for all values in 64 bits. */
uint64_t finite_bits(gqsgd_dtype dtype) {
  if (dtype == GQSGD_FLOAT64) return 0xbfffffffffffffffu;
  return dtype == GQSGD_FLOAT32 ? 0xbfffffffbfffffffu : 0xbfffbfffbfffbfffu;
}

}  // namespace

struct RankCalls::Call {
  uint64_t random;
  int number;
  Kind kind;
  const char* spec;
  gqsgd_dtype dtype;
  gqsgd_op op;
  size_t count;
  int request_count;
  gqsgd_config config;
  gqsgd_quantizer quantizer;
};

uint64_t mixed(uint64_t state) {
  state += 0x9e3779b97f4a7c15u;
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
  state = (state ^ state >> 27) * 0x94d049bb133111ebu;
  return state ^ state >> 31;
}

RankCalls::RankCalls(uint64_t seed, int rank, int size, size_t value_count_max)
    : seed_(seed), rank_(rank), size_(size), value_count_max_(value_count_max),
      input_(value_count_max + 2), result_(value_count_max + 2) {}

RankCalls::Call RankCalls::draw(int number) const {
  Call call{};
  uint64_t state = mixed(seed_ + static_cast<uint64_t>(number));
  const auto below = [&state](uint64_t limit) { return (state = mixed(state)) % limit; };
  call.random = state;
  call.number = number;
  call.kind = static_cast<Kind>(below(kKinds));
  call.spec = kSpecs[below(std::size(kSpecs))];
  call.dtype = static_cast<gqsgd_dtype>(below(4));
  call.op = static_cast<gqsgd_op>(below(2));
  // Of all magnitudes, and now and then none.
  call.count = below(value_count_max_ + 1) >> below(16);
  call.request_count = 1 + static_cast<int>(below(kRequestsMax));
  const gqsgd_config defaults = GQSGD_CONFIG_INIT;
  call.config = defaults;
  if (call.kind != kReduceScatter && call.kind != kAllgather) {
    call.config.schedule = static_cast<gqsgd_schedule>(below(kSchedules));
  }
  return call;
}

void RankCalls::fill(const Call& call) {
  const uint64_t bits = finite_bits(call.dtype);
  uint64_t word = mixed(call.random + static_cast<uint64_t>(rank_));
  const size_t words = call.count * value_bytes(call.dtype) / 8 + 2;
  for (size_t k = 0; k < words && k < input_.size(); ++k) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    input_[k] = (word ^ word >> 29) & bits;
  }
}

/** FNV-1a. */
void RankCalls::note(gqsgd_status status, size_t result_bytes, const unsigned char* result) {
  calls_.made += 1;
  if (status == GQSGD_UNSUPPORTED || status == GQSGD_INVALID_ARGUMENT) calls_.refused += 1;
  const auto add = [this](uint64_t byte) {
    calls_.digest = (calls_.digest ^ byte) * 0x100000001b3u;
  };
  add(static_cast<uint64_t>(status));
  for (size_t k = 0; status == GQSGD_OK && k < result_bytes; ++k) add(result[k]);
}

gqsgd_status RankCalls::make(gqsgd_comm comm, int number) {
  Call call = draw(number);
  gqsgd_status status = gqsgd_quantizer_create(call.spec, &call.quantizer);
  if (status != GQSGD_OK) return status;
  fill(call);
  if (call.kind == kMany) {
    status = many(comm, call);
  } else if (call.kind == kReduceScatter || call.kind == kAllgather) {
    status = slices(comm, call);
  } else if (call.kind == kRequests) {
    status = requests(comm, call);
  } else {
    status = collective(comm, call);
  }
  gqsgd_quantizer_destroy(call.quantizer);
  return status;
}

gqsgd_status RankCalls::make_plain(gqsgd_comm comm, int number, size_t extra_count) {
  Call call = draw(number);
  gqsgd_status status = gqsgd_quantizer_create("", &call.quantizer);
  if (status != GQSGD_OK) return status;
  call.count = value_count_max_ / 2 + extra_count;
  call.dtype = GQSGD_FLOAT32;
  call.config.schedule = GQSGD_SCHEDULE_AUTO;
  fill(call);
  calls_.made += 1;
  status = gqsgd_allreduce(comm, call.quantizer, input_.data(), result_.data(), call.count,
                           call.dtype, call.op, &call.config, nullptr);
  gqsgd_quantizer_destroy(call.quantizer);
  return status;
}

gqsgd_status RankCalls::collective(gqsgd_comm comm, const Call& call) {
  void* const recv = call.kind == kInPlace ? input_.data() : result_.data();
  const gqsgd_status status =
      gqsgd_allreduce(comm, call.quantizer, input_.data(), recv, call.count, call.dtype, call.op,
                      &call.config, nullptr);
  note(status, call.count * value_bytes(call.dtype), static_cast<const unsigned char*>(recv));
  return status;
}

gqsgd_status RankCalls::many(gqsgd_comm comm, const Call& call) {
  const size_t size_bytes = value_bytes(call.dtype);
  const void* send[kTensorsMax];
  void* recv[kTensorsMax];
  size_t counts[kTensorsMax];
  const size_t tensor_count = 1 + call.random % kTensorsMax;
  for (size_t k = 0, first = 0; k < tensor_count; ++k) {
    counts[k] = k + 1 < tensor_count ? (call.count - first) / 2 : call.count - first;
    send[k] = reinterpret_cast<unsigned char*>(input_.data()) + first * size_bytes;
    recv[k] = reinterpret_cast<unsigned char*>(result_.data()) + first * size_bytes;
    first += counts[k];
  }
  const gqsgd_status status =
      gqsgd_allreduce_many(comm, call.quantizer, send, recv, counts, tensor_count, call.dtype,
                           call.op, &call.config, nullptr);
  note(status, call.count * size_bytes, reinterpret_cast<const unsigned char*>(result_.data()));
  return status;
}

/** Reduce-scatter, whose results differ between ranks, or allgather. */
gqsgd_status RankCalls::slices(gqsgd_comm comm, const Call& call) {
  const size_t size_bytes = value_bytes(call.dtype);
  std::vector<size_t> counts(static_cast<size_t>(size_));
  for (size_t k = 0, first = 0; k < counts.size(); ++k) {
    counts[k] = k + 1 < counts.size() ? (call.count - first) / 2 : call.count - first;
    first += counts[k];
  }
  if (call.kind == kReduceScatter) {
    const gqsgd_status status =
        gqsgd_reduce_scatter(comm, call.quantizer, input_.data(), result_.data(), counts.data(),
                             call.dtype, call.op, &call.config, nullptr);
    note(status, 0, nullptr);
    return status;
  }
  const gqsgd_status status = gqsgd_allgather(comm, call.quantizer, input_.data(), result_.data(),
                                              counts.data(), call.dtype, &call.config, nullptr);
  note(status, call.count * size_bytes, reinterpret_cast<const unsigned char*>(result_.data()));
  return status;
}

/** Requests on equal parts, all in flight; the first is tested, too. */
gqsgd_status RankCalls::requests(gqsgd_comm comm, const Call& call) {
  const size_t size_bytes = value_bytes(call.dtype);
  const size_t part = call.count / static_cast<size_t>(call.request_count);
  gqsgd_request started[kRequestsMax] = {};
  gqsgd_status first = GQSGD_OK;
  for (int k = 0; k < call.request_count; ++k) {
    const size_t offset = static_cast<size_t>(k) * part * size_bytes;
    const gqsgd_status status = gqsgd_allreduce_start(
        comm, call.quantizer, reinterpret_cast<unsigned char*>(input_.data()) + offset,
        reinterpret_cast<unsigned char*>(result_.data()) + offset, part, call.dtype, call.op,
        &call.config, nullptr, &started[k]);
    if (first == GQSGD_OK) first = status;
  }
  int32_t is_done = 0;
  if (started[0] != nullptr) {
    const gqsgd_status tested = gqsgd_request_test(started[0], &is_done);
    if (first == GQSGD_OK) first = tested;
  }
  for (int k = is_done; k < call.request_count; ++k) {
    if (started[k] == nullptr) continue;
    const gqsgd_status waited = gqsgd_request_wait(started[k]);
    if (first == GQSGD_OK) first = waited;
  }
  note(first, part * static_cast<size_t>(call.request_count) * size_bytes,
       reinterpret_cast<const unsigned char*>(result_.data()));
  return first;
}

}  // namespace gq::tools
