// Values by integer arithmetic, calls by the C ABI.
#include "tools/verify/cases.h"

#include <cstring>

namespace gq::tools {
namespace {

constexpr const char* kPresets[] = {"none",      "bf16",        "fp16",      "paper-gl8",
                                    "paper-ge8", "paper-gl4",   "paper-ge4", "blocks-8",
                                    "rotated-8", "rotated-4-8", "rotated-4", "relative-8"};
constexpr struct {
  gqsgd_schedule schedule;
  const char* name;
} kSchedules[] = {{GQSGD_SCHEDULE_RING, "ring"},
                  {GQSGD_SCHEDULE_TREE, "tree"},
                  {GQSGD_SCHEDULE_BUTTERFLY, "butterfly"},
                  {GQSGD_SCHEDULE_DIRECT, "direct"},
                  {GQSGD_SCHEDULE_HIERARCHICAL, "hierarchical"},
                  {GQSGD_SCHEDULE_SPARSE, "sparse"}};
constexpr struct {
  gqsgd_dtype dtype;
  const char* name;
} kDtypes[] = {{GQSGD_FLOAT32, "float32"},
               {GQSGD_FLOAT16, "float16"},
               {GQSGD_BFLOAT16, "bfloat16"},
               {GQSGD_FLOAT64, "float64"}};

/** splitmix64. */
uint64_t mixed(uint64_t state) {
  state += 0x9e3779b97f4a7c15u;
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
  state = (state ^ state >> 27) * 0x94d049bb133111ebu;
  return state ^ state >> 31;
}

template <typename Word>
void put(Word word, unsigned char* place) {
  std::memcpy(place, &word, sizeof word);
}

/** Sign and mantissa at random, exponents within 7 of each other, below 2 in magnitude. */
void put_value(gqsgd_dtype dtype, uint64_t random, unsigned char* place) {
  const uint64_t sign = random >> 63;
  const uint64_t below = random >> 56 & 7;
  switch (dtype) {
    case GQSGD_FLOAT64:
      return put<uint64_t>(sign << 63 | (1023 - below) << 52 | (random & ((uint64_t{1} << 52) - 1)),
                           place);
    case GQSGD_FLOAT16:
      return put(static_cast<uint16_t>(sign << 15 | (15 - below) << 10 | (random & 0x3ff)), place);
    case GQSGD_BFLOAT16:
      return put(static_cast<uint16_t>(sign << 15 | (127 - below) << 7 | (random & 0x7f)), place);
    default:
      return put(static_cast<uint32_t>(sign << 31 | (127 - below) << 23 | (random & 0x7fffff)),
                 place);
  }
}

}  // namespace

std::string Case::name() const {
  std::string text = std::string(preset) + ", ";
  for (const auto& each : kSchedules) {
    if (each.schedule == schedule) text += each.name;
  }
  text += ", ";
  for (const auto& each : kDtypes) {
    if (each.dtype == dtype) text += each.name;
  }
  return text;
}

gqsgd_config Case::config() const {
  gqsgd_config config = GQSGD_CONFIG_INIT;
  config.schedule = schedule;
  config.step_source = GQSGD_STEP_GIVEN;
  config.step = number;
  return config;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* preset : kPresets) {
    for (const auto& schedule : kSchedules) {
      for (const auto& dtype : kDtypes) {
        cases.push_back(
            {preset, schedule.schedule, dtype.dtype, static_cast<uint32_t>(cases.size())});
      }
    }
  }
  return cases;
}

size_t value_bytes(gqsgd_dtype dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

Bytes values_of(const Case& one, int32_t rank) {
  const size_t size_bytes = value_bytes(one.dtype);
  Bytes values(kValueCount * size_bytes);
  const uint64_t key = mixed(uint64_t{one.number} << 32 | static_cast<uint32_t>(rank));
  for (size_t k = 0; k < kValueCount; ++k) {
    put_value(one.dtype, mixed(key + k), &values[k * size_bytes]);
  }
  return values;
}

std::string nodes_of_pairs(int32_t rank_count) {
  std::string option = "nodes=";
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    if (rank > 0) option += ':';
    option += std::to_string(rank / 2);
  }
  return option;
}

Bytes simulated(const Case& one, gqsgd_quantizer quantizer, int32_t rank_count,
                gqsgd_status* status) {
  std::vector<Bytes> values;
  for (int32_t rank = 0; rank < rank_count; ++rank) values.push_back(values_of(one, rank));
  std::vector<const void*> send;
  for (const Bytes& each : values) send.push_back(each.data());
  Bytes result(values[0].size());
  std::vector<void*> recv(send.size());  // of rank 0 alone
  recv[0] = result.data();
  const gqsgd_config config = one.config();
  *status = gqsgd_simulate(quantizer, rank_count, send.data(), recv.data(), kValueCount, one.dtype,
                           one.op(), &config, nodes_of_pairs(rank_count).c_str());
  return result;
}

}  // namespace gq::tools
