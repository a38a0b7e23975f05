// Whole allreduces give the answers that the reference computed from docs/FORMAT.md alone, bit for
// bit. How the answers are stored is tests/support/vectors.h's matter.
#include "tests/support/vectors.h"

#include <gqsgd.h>
#include <gqsgd_model.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

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
                                    {"direct", GQSGD_SCHEDULE_DIRECT},
                                    {"hierarchical", GQSGD_SCHEDULE_HIERARCHICAL},
                                    {"native", GQSGD_SCHEDULE_NATIVE},
                                    {"sparse", GQSGD_SCHEDULE_SPARSE}};

template <size_t kCount>
int32_t number_of(const Named (&table)[kCount], const std::string& name) {
  for (const Named& row : table) {
    if (name == row.name) return row.number;
  }
  throw std::runtime_error("unknown name in the known answers: " + name);
}

size_t element_bytes(gqsgd_dtype dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

using Buffer = std::vector<unsigned char>;

/** Patterns as memory holds them: the low bytes of each. */
Buffer buffer_of(const std::vector<uint64_t>& patterns, gqsgd_dtype dtype) {
  const size_t size = element_bytes(dtype);
  Buffer buffer(patterns.size() * size);
  for (size_t k = 0; k < patterns.size(); ++k) std::memcpy(&buffer[k * size], &patterns[k], size);
  return buffer;
}

std::vector<uint64_t> patterns_of(const Buffer& buffer, gqsgd_dtype dtype) {
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

/** The fields that a record names: files of the paper's formats leave out the others. */
std::string quantizer_spec(const VectorRecord& record) {
  std::string text = "levels=" + record.text("levels");
  if (record.text("levels") != "none") {
    text += record.has("mean_bits") ? ",mean_bits=" + record.text("mean_bits")
                                    : ",bits=" + record.text("bits");
    text += ",combine=" + record.text("combine") + ",norm=" + record.text("q") + ":" +
            record.text("p");
  }
  for (const char* field :
       {"width", "bits_down", "block", "rounding_down", "rotate", "mantissa_bits"}) {
    if (record.has(field)) text += std::string(",") + field + "=" + record.text(field);
  }
  if (record.has("rescale")) text += record.integer("rescale") ? ",rescale=true" : ",rescale=false";
  return text + ",rounding=" + record.text("rounding") + ",seed=" + record.text("seed");
}

/** The generated values, with others in the places that the record names. */
std::vector<float> made_values(const VectorRecord& record, uint32_t rank) {
  std::vector<float> values = generated_values(static_cast<uint32_t>(record.integer("salt")), rank,
                                               record.integer("value_count"));
  if (record.has("spread")) spread_blocks(record.integer("spread"), values);
  if (record.has("kept_modulus")) {
    const uint64_t modulus = record.integer("kept_modulus");
    for (size_t e = 0; e < values.size(); ++e) values[e] = (e + rank) % modulus ? 0 : values[e];
  }
  if (!record.has("special_ranks")) return values;
  const std::vector<uint64_t> ranks = record.integers("special_ranks");
  const std::vector<uint64_t> elements = record.integers("special_elements");
  const std::vector<float> specials = record.floats("special_values");
  for (size_t k = 0; k < ranks.size(); ++k) {
    if (ranks[k] == rank) values.at(elements.at(k)) = specials.at(k);
  }
  return values;
}

Buffer input_of(const VectorRecord& record, uint32_t rank, gqsgd_dtype dtype) {
  const std::string key = "rank_" + std::to_string(rank);
  if (record.has(key)) return buffer_of(record.patterns(key), dtype);
  std::vector<uint64_t> patterns;
  for (const float value : made_values(record, rank)) {
    patterns.push_back(pattern_of(value, record.text("dtype")));
  }
  return buffer_of(patterns, dtype);
}

/** Of the communicator that a record is for. */
std::string options_of(const VectorRecord& record) {
  const std::string stream = "stream_id=" + record.text("stream_id");
  return record.has("nodes") ? stream + ",nodes=" + record.text("nodes") : stream;
}

/** A record as arguments of the C ABI. */
struct Call {
  explicit Call(const VectorRecord& answer)
      : record(answer),
        dtype(static_cast<gqsgd_dtype>(number_of(kDtypes, answer.text("dtype")))),
        op(answer.text("op") == "sum" ? GQSGD_SUM : GQSGD_MEAN),
        schedule(static_cast<gqsgd_schedule>(number_of(kScheduleNames, answer.text("schedule")))),
        rank_count(static_cast<int>(answer.integer("rank_count"))),
        value_count(answer.integer("value_count")),
        config(config_at(answer.integer("step"), answer.integer("index"), schedule)),
        quantizer(quantizer_spec(answer)) {
    for (int rank = 0; rank < rank_count; ++rank) {
      inputs.push_back(input_of(answer, static_cast<uint32_t>(rank), dtype));
      if (inputs.back().size() != value_count * element_bytes(dtype)) {
        throw std::runtime_error("a known input has the wrong length");
      }
    }
  }

  /** "" if `result` holds the test vector. */
  std::string judge(const Buffer& result) const {
    const std::vector<uint64_t> patterns = patterns_of(result, dtype);
    const bool equal = record.has("result")
                           ? patterns == record.patterns("result")
                           : checksum(patterns) == record.integer("result_checksum");
    return equal ? "" : record.name() + ": another result than the reference";
  }

  const VectorRecord& record;
  gqsgd_dtype dtype;
  gqsgd_op op;
  gqsgd_schedule schedule;
  int rank_count;
  size_t value_count;
  Config config;
  Quantizer quantizer;
  std::vector<Buffer> inputs;
};

std::string simulate_call(const Call& call, const char* more_options = "") {
  std::vector<const void*> send;
  for (const Buffer& input : call.inputs) send.push_back(input.data());
  std::vector<Buffer> results(call.rank_count, Buffer(call.inputs[0].size()));
  std::vector<void*> recv;
  for (Buffer& result : results) recv.push_back(result.data());
  const std::string options = options_of(call.record) + more_options;
  const gqsgd_status status =
      gqsgd_simulate(call.quantizer.get(), call.rank_count, send.data(), recv.data(),
                     call.value_count, call.dtype, call.op, call.config, options.c_str());
  std::string failure = failure_of(status, call.record.name().c_str());
  for (const Buffer& result : results) failure += failure.empty() ? call.judge(result) : "";
  return failure;
}

/** Runs calls one after the other on this rank. */
RankBody run_calls(const std::vector<const VectorRecord*>& records) {
  return [&records](int rank, gqsgd_comm comm) {
    std::string failure;
    for (const VectorRecord* record : records) {
      const Call call(*record);
      Buffer result(call.inputs[rank].size());
      const gqsgd_status status =
          gqsgd_allreduce(comm, call.quantizer.get(), call.inputs[rank].data(), result.data(),
                          call.value_count, call.dtype, call.op, call.config, nullptr);
      failure = failure_of(status, record->name().c_str());
      if (failure.empty()) failure = call.judge(result);
      if (!failure.empty()) break;
    }
    return failure;
  };
}

class Vectors : public testing::TestWithParam<const char*> {};

TEST_P(Vectors, VirtualRanks_ResultsOfTheReference) {
  for (const VectorRecord& record : read_vectors(GetParam())) {
    EXPECT_EQ(simulate_call(Call(record)), "");
  }
}

// Groups of adaptive widths are cut between granules where several threads compute; of Rice codes a
// thread has whole groups.
TEST(ThreadVectors, CodesInGroups_ResultsOfTheReference) {
  for (const char* file : {"allreduce_adaptive.txt", "allreduce_rice.txt"}) {
    for (const VectorRecord& record : read_vectors(file)) {
      EXPECT_EQ(simulate_call(Call(record), ",threads=3"), "");
    }
  }
}

// One group of ranks for all records that can share it.
TEST_P(Vectors, ThreadsAndProcesses_ResultsOfTheReference) {
  const std::vector<VectorRecord> records = read_vectors(GetParam());
  std::map<std::pair<int, std::string>, std::vector<const VectorRecord*>> groups;
  for (const VectorRecord& record : records) {
    const int rank_count = static_cast<int>(record.integer("rank_count"));
    groups[{rank_count, options_of(record)}].push_back(&record);
  }
  for (const auto& [group, members] : groups) {
    EXPECT_EQ(run_threads(group.first, group.second, run_calls(members)), "");
    EXPECT_EQ(run_processes(group.first, group.second, run_calls(members)), "");
  }
}

std::string described(const std::string& text) {
  std::string full(512, '\0');
  size_t size_bytes = 0;
  const Quantizer quantizer(text);
  if (gqsgd_quantizer_describe(quantizer.get(), full.data(), full.size(), &size_bytes) !=
      GQSGD_OK) {
    return "no description of " + text;
  }
  return full.substr(0, size_bytes - 1);
}

TEST(PresetVectors, Presets_FieldsOfTheReference) {
  for (const VectorRecord& record : read_vectors("allreduce_presets.txt")) {
    const std::string preset = record.text("preset") + ",seed=" + record.text("seed");
    ASSERT_EQ(described(preset), described(quantizer_spec(record))) << record.name();
  }
}

// Threads and processes have no allreduce of their own: tests/api/mpi has groups that do.
TEST(SumVectors, VirtualRanksAndOtherSchedules_SumsOfTheReference) {
  for (const VectorRecord& record : read_vectors("allreduce_native.txt")) {
    Call call(record);
    EXPECT_EQ(simulate_call(call), "");
    for (const gqsgd_schedule schedule :
         {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_BUTTERFLY}) {
      call.schedule = schedule;
      EXPECT_EQ(simulate_call(call), "") << schedule;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Vectors,
                         testing::Values("allreduce.txt", "allreduce_large.txt",
                                         "allreduce_special.txt", "allreduce_blocks.txt",
                                         "allreduce_presets.txt", "allreduce_sparse.txt",
                                         "allreduce_hierarchical.txt", "allreduce_narrow.txt",
                                         "allreduce_adaptive.txt", "allreduce_rice.txt"),
                         [](const auto& info) {
                           const std::string file = info.param;
                           return file.substr(0, file.find('.'));
                         });

}  // namespace
}  // namespace gq::test
