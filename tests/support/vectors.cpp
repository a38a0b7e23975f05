// The reader of test vectors. The folder comes from the build (GQ_VECTORS_FOLDER).
#include "tests/support/vectors.h"

#include <string.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace gq::test {

const std::vector<std::string>& VectorRecord::values(const std::string& key) const {
  const auto found = fields_.find(key);
  if (found == fields_.end()) throw std::runtime_error("no key " + key + " in a record");
  return found->second;
}

const std::string& VectorRecord::text(const std::string& key) const { return values(key).at(0); }

uint64_t VectorRecord::integer(const std::string& key) const { return std::stoull(text(key)); }

std::vector<uint64_t> VectorRecord::integers(const std::string& key) const {
  std::vector<uint64_t> integers;
  for (const std::string& value : values(key)) integers.push_back(std::stoull(value));
  return integers;
}

std::vector<uint64_t> VectorRecord::patterns(const std::string& key) const {
  std::vector<uint64_t> patterns;
  for (const std::string& value : values(key)) patterns.push_back(std::stoull(value, nullptr, 16));
  return patterns;
}

std::vector<uint32_t> VectorRecord::words(const std::string& key) const {
  std::vector<uint32_t> words;
  for (const uint64_t pattern : patterns(key)) words.push_back(static_cast<uint32_t>(pattern));
  return words;
}

std::vector<float> VectorRecord::floats(const std::string& key) const {
  const std::vector<uint32_t> bits = words(key);
  std::vector<float> floats(bits.size());
  if (!bits.empty()) memcpy(floats.data(), bits.data(), bits.size() * sizeof(float));
  return floats;
}

namespace {

/** Appends what a blank line ended. The record `defaults` of a file holds what others leave out. */
void finish_record(VectorRecord& record, VectorRecord& defaults,
                   std::vector<VectorRecord>& records) {
  if (record.empty()) return;
  if (record.name() == "defaults") {
    defaults = record;
  } else {
    record.add_missing(defaults);
    records.push_back(record);
  }
  record = VectorRecord();
}

}  // namespace

std::vector<VectorRecord> read_vectors(const std::string& file_name) {
  std::ifstream file(std::string(GQ_VECTORS_FOLDER) + "/" + file_name);
  if (!file) throw std::runtime_error("cannot read known answers " + file_name);
  std::vector<VectorRecord> records;
  VectorRecord record, defaults;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty()) finish_record(record, defaults, records);
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string key, value;
    words >> key;
    std::vector<std::string> values;
    while (words >> value) values.push_back(value);
    record.add(key, values);
  }
  finish_record(record, defaults, records);
  if (records.empty()) throw std::runtime_error("no known answers in " + file_name);
  return records;
}

std::vector<float> generated_values(uint32_t salt, uint32_t rank, size_t value_count) {
  std::vector<float> values(value_count);
  for (size_t e = 0; e < value_count; ++e) {
    uint32_t m = static_cast<uint32_t>(e) * 2654435761u + rank * 2246822519u + salt * 3266489917u;
    m = (m ^ (m >> 15)) * 2246822519u;
    m ^= m >> 13;
    const int exponent = -23 - 4 * static_cast<int>(e % 8);
    values[e] = std::ldexp(static_cast<float>(static_cast<int32_t>(m) >> 8), exponent);
  }
  return values;
}

void spread_blocks(uint64_t spread, std::vector<float>& values) {
  for (size_t e = 0; e < values.size(); ++e) {
    values[e] = std::ldexp(values[e], -static_cast<int>(7 * (e / 128) % spread));
  }
}

namespace {

template <typename Bits, typename Value>
uint64_t bits_of(Value value) {
  Bits bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/** By the definition of the type: ten bits behind the point, exponents from -14 to 15. */
uint64_t half_pattern(float value) {
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isnan(magnitude)) return 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const double steps = std::rint(std::ldexp(magnitude, 10 - exponent));
  return sign | ((static_cast<uint64_t>(exponent + 14) << 10) + static_cast<uint64_t>(steps));
}

uint64_t bfloat_pattern(float value) {
  const uint64_t bits = bits_of<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

}  // namespace

uint64_t pattern_of(float value, const std::string& dtype) {
  if (dtype == "float16") return half_pattern(value);
  if (dtype == "bfloat16") return bfloat_pattern(value);
  if (dtype == "float64") return bits_of<uint64_t>(static_cast<double>(value));
  if (dtype == "float32") return bits_of<uint32_t>(value);
  throw std::runtime_error("no dtype " + dtype);
}

}  // namespace gq::test
