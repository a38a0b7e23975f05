// Whole allreduces give the answers that the reference computed from docs/FORMAT.md alone, bit for
// bit. How the answers are stored is tests/support/vectors.h's matter.
#include <gqsgd.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/ranks.h"
#include "tests/support/vectors.h"

namespace gq::test {
namespace {

struct Named {
  const char* name;
  int32_t number;
};
constexpr Named kDtypes[] = {{"float32", GQSGD_FLOAT32},
                             {"float16", GQSGD_FLOAT16},
                             {"bfloat16", GQSGD_BFLOAT16},
                             {"float64", GQSGD_FLOAT64}};
constexpr Named kScheduleNames[] = {{"ring", GQSGD_SCHEDULE_RING},
                                    {"tree", GQSGD_SCHEDULE_TREE},
                                    {"butterfly", GQSGD_SCHEDULE_BUTTERFLY},
                                    {"direct", GQSGD_SCHEDULE_DIRECT}};

template <size_t kCount>
int32_t number_of(const Named (&table)[kCount], const std::string& name) {
  for (const Named& row : table) {
    if (name == row.name) return row.number;
  }
  throw std::runtime_error("unknown name in the known answers: " + name);
}

size_t element_bytes(int32_t dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

using Buffer = std::vector<unsigned char>;

/** Patterns as memory holds them: the low bytes of each. */
Buffer buffer_of(const std::vector<uint64_t>& patterns, int32_t dtype) {
  const size_t size = element_bytes(dtype);
  Buffer buffer(patterns.size() * size);
  for (size_t k = 0; k < patterns.size(); ++k) std::memcpy(&buffer[k * size], &patterns[k], size);
  return buffer;
}

std::vector<uint64_t> patterns_of(const Buffer& buffer, int32_t dtype) {
  const size_t size = element_bytes(dtype);
  std::vector<uint64_t> patterns(buffer.size() / size);
  for (size_t k = 0; k < patterns.size(); ++k) std::memcpy(&patterns[k], &buffer[k * size], size);
  return patterns;
}

uint64_t checksum(const std::vector<uint64_t>& patterns) {
  uint64_t sum = 0;
  for (size_t k = 0; k < patterns.size(); ++k) sum += (2 * k + 1) * patterns[k];
  return sum;
}

std::string quantizer_text(const VectorRecord& record) {
  std::string text = "levels=" + record.text("levels");
  if (record.text("levels") != "none") {
    text += ",bits=" + record.text("bits") + ",combine=" + record.text("combine") +
            ",norm=" + record.text("q") + ":" + record.text("p");
  }
  return text + ",rounding=" + record.text("rounding") + ",seed=" + record.text("seed");
}

Buffer input_of(const VectorRecord& record, uint32_t rank, int32_t dtype) {
  const std::string key = "rank_" + std::to_string(rank);
  if (record.has(key)) return buffer_of(record.patterns(key), dtype);
  const std::vector<float> values = generated_values(static_cast<uint32_t>(record.integer("salt")),
                                                     rank, record.integer("value_count"));
  Buffer buffer(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(buffer.data(), values.data(), buffer.size());
  return buffer;
}

/** Runs the record's allreduce with virtual ranks; rank 0's result. */
std::vector<uint64_t> result_of(const VectorRecord& record) {
  const int32_t dtype = number_of(kDtypes, record.text("dtype"));
  const size_t rank_count = record.integer("rank_count");
  const size_t value_count = record.integer("value_count");
  std::vector<Buffer> inputs;
  std::vector<const void*> send;
  std::vector<void*> recv(rank_count, nullptr);
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    inputs.push_back(input_of(record, rank, dtype));
    if (inputs[rank].size() != value_count * element_bytes(dtype)) {
      throw std::runtime_error("a known input has the wrong length");
    }
    send.push_back(inputs[rank].data());
  }
  Buffer result(value_count * element_bytes(dtype));
  recv[0] = result.data();

  gqsgd_quantizer quantizer = nullptr;
  const std::string text = quantizer_text(record);
  gqsgd_status status = gqsgd_quantizer_create(text.c_str(), &quantizer);
  const uint64_t at[2] = {record.integer("step"), record.integer("index")};
  const std::string options = "stream_id=" + record.text("stream_id");
  if (status == GQSGD_OK) {
    status =
        gqsgd_simulate(quantizer, static_cast<int32_t>(rank_count), send.data(), recv.data(),
                       value_count, dtype, record.text("op") == "sum" ? GQSGD_SUM : GQSGD_MEAN,
                       number_of(kScheduleNames, record.text("schedule")), at, options.c_str());
  }
  const std::string failure = failure_of(status, text.c_str());
  gqsgd_quantizer_destroy(quantizer);
  if (!failure.empty()) throw std::runtime_error(failure);
  return patterns_of(result, dtype);
}

class KnownAnswers : public testing::TestWithParam<const char*> {};

TEST_P(KnownAnswers, EqualTheReference) {
  for (const VectorRecord& record : read_vectors(GetParam())) {
    SCOPED_TRACE(record.name());
    std::vector<uint64_t> result;
    ASSERT_NO_THROW(result = result_of(record));
    if (record.has("result")) {
      EXPECT_EQ(result, record.patterns("result"));
    } else {
      EXPECT_EQ(checksum(result), record.integer("result_checksum"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, KnownAnswers,
                         testing::Values("allreduce.txt", "allreduce_large.txt",
                                         "allreduce_special.txt"),
                         [](const auto& info) {
                           const std::string file = info.param;
                           return file.substr(0, file.find('.'));
                         });

}  // namespace
}  // namespace gq::test
