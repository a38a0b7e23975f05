// Reads the test vectors of tests/vectors (tests/vectors/README.md): records of `key value value
// ..` lines. A missing file, key or digit throws, so that no test passes on answers that it never
// saw.
#ifndef GQ_TESTS_SUPPORT_VECTORS_H
#define GQ_TESTS_SUPPORT_VECTORS_H

#include <stdint.h>

#include <map>
#include <string>
#include <vector>

namespace gq::test {

class VectorRecord {
 public:
  void add(const std::string& key, std::vector<std::string> values) { fields_[key] = values; }
  void add_missing(const VectorRecord& defaults) {
    fields_.insert(defaults.fields_.begin(), defaults.fields_.end());
  }
  bool empty() const { return fields_.empty(); }
  bool has(const std::string& key) const { return fields_.count(key) != 0; }

  const std::string& name() const { return text("case"); }
  const std::string& text(const std::string& key) const;
  uint64_t integer(const std::string& key) const;
  std::vector<uint64_t> integers(const std::string& key) const;
  std::vector<uint64_t> patterns(const std::string& key) const;
  std::vector<uint32_t> words(const std::string& key) const;
  std::vector<float> floats(const std::string& key) const;
  float number(const std::string& key) const { return floats(key).at(0); }

 private:
  const std::vector<std::string>& values(const std::string& key) const;
  std::map<std::string, std::vector<std::string>> fields_;
};

/** The records of tests/vectors/<file_name>; at least one. */
std::vector<VectorRecord> read_vectors(const std::string& file_name);

/** The generated values of a rank, as the heads of the files define them. */
std::vector<float> generated_values(uint32_t salt, uint32_t rank, size_t value_count);

/** Multiplies value e by 2^-(7 (e div 128) mod spread): blocks of 128 with norms of many sizes. */
void spread_blocks(uint64_t spread, std::vector<float>& values);

/** The pattern of a value in "float32", "float16", "bfloat16" or "float64", rounded to nearest
 * even.
 */
uint64_t pattern_of(float value, const std::string& dtype);

}  // namespace gq::test

#endif
