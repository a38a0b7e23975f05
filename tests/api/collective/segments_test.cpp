// Tensors and slices through the C ABI: the bits of one flat array, norms of each tensor's own,
// slices of any length, results equal on all ranks, threads and processes, now and as requests.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;

using Tensors = std::vector<Values>;

std::vector<size_t> counts_of(const Tensors& tensors) {
  std::vector<size_t> counts;
  for (const Values& tensor : tensors) counts.push_back(tensor.size());
  return counts;
}

/** tensors[rank][k], of these lengths. */
std::vector<Tensors> make_tensors(const std::vector<size_t>& counts, int rank_count = kRanks) {
  std::vector<Tensors> tensors(static_cast<size_t>(rank_count));
  for (size_t k = 0; k < counts.size(); ++k) {
    const std::vector<Values> values = gradients(rank_count, counts[k], 100 + k);
    for (size_t rank = 0; rank < tensors.size(); ++rank) tensors[rank].push_back(values[rank]);
  }
  return tensors;
}

/** One call of allreduce_many, in place or not, now or as a request. */
std::string reduce_many(gqsgd_comm comm, const Operation& operation, const Tensors& given,
                        bool starts, Tensors* results) {
  const Quantizer quantizer(operation.quantizer);
  Tensors copies = given;
  *results = given;
  std::vector<const void*> send;
  std::vector<void*> recv;
  for (size_t k = 0; k < given.size(); ++k) {
    if (!operation.in_place) std::fill((*results)[k].begin(), (*results)[k].end(), -1.0f);
    send.push_back(operation.in_place ? (*results)[k].data() : copies[k].data());
    recv.push_back((*results)[k].data());
  }
  std::vector<size_t> counts = counts_of(given);
  if (!starts) {
    return failure_of(gqsgd_allreduce_many(comm, quantizer.get(), send.data(), recv.data(),
                                           counts.data(), counts.size(), GQSGD_FLOAT32,
                                           operation.op, config_of(operation), nullptr),
                      "gqsgd_allreduce_many");
  }
  gqsgd_request request = nullptr;
  const gqsgd_status started = gqsgd_allreduce_many_start(
      comm, quantizer.get(), send.data(), recv.data(), counts.data(), counts.size(), GQSGD_FLOAT32,
      operation.op, config_of(operation), nullptr, &request);
  if (started != GQSGD_OK) return failure_of(started, "start");
  counts.assign(counts.size(), 7);  // the arrays were copied
  send.assign(send.size(), nullptr);
  recv.assign(recv.size(), nullptr);
  return failure_of(gqsgd_request_wait(request), "wait");
}

/** What every rank ends with; the first failure fails the test. */
Tensors reduce_on_threads(const Operation& operation, const std::vector<Tensors>& tensors,
                          bool starts = false, const std::string& options = "") {
  std::vector<Tensors> results(tensors.size());
  const auto body = [&](int rank, gqsgd_comm comm) {
    const auto r = static_cast<size_t>(rank);
    return reduce_many(comm, operation, tensors[r], starts, &results[r]);
  };
  EXPECT_EQ(run_threads(static_cast<int>(tensors.size()), options, body), "")
      << describe(operation);
  for (const Tensors& result : results) EXPECT_EQ(result, results[0]) << describe(operation);
  return results[0];
}

/** The tensors in one array, each from a multiple of `alignment` on, zeros between them. */
Values flat(const Tensors& tensors, size_t alignment) {
  Values all;
  for (const Values& tensor : tensors) {
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    all.insert(all.end(), tensor.begin(), tensor.end());
  }
  return all;
}

TEST(AllreduceMany, Blocks_BitsOfOneFlatArray) {
  const struct {
    const char* quantizer;
    size_t alignment;
    bool direct_only;
  } formats[] = {
      {"blocks-8", 128, true},
      {"relative-8,block=128", 128, true},
      {"paper-gl8,block=32", 32, false},
      {"paper-ge8,block=64,rounding=correlated", 64, false},
      {"paper-gl4,block=2048", 2048, false},
      {"levels=exponential,bits=8,bits_down=4,block=64,rescale=true", 64, true},
      {"levels=linear,bits=4,bits_down=8,rounding_down=subtractive,block=128", 128, true},
      {"bf16", 32, true},
      {"fp16", 32, true},
      {"rice-4", 32, true},
      {"rice-3,rounding=independent", 32, true},
      {"none", 32, false}};
  const std::vector<Tensors> tensors = make_tensors({1000, 1, 0, 5000, 33, 128, 20000, 7});
  for (const auto& format : formats) {
    std::vector<Values> arrays;
    for (const Tensors& rank : tensors) arrays.push_back(flat(rank, format.alignment));
    for (const gqsgd_schedule schedule : kSchedules) {
      if (format.direct_only && schedule != GQSGD_SCHEDULE_DIRECT) continue;
      const Operation operation{format.quantizer, schedule, GQSGD_MEAN, false, 3, 1};
      const Values expected = simulate(operation, arrays);
      for (const char* options : {"", "chunk_value_count=512"}) {
        const Tensors result = reduce_on_threads(operation, tensors, false, options);
        Values padded = flat(result, format.alignment);
        for (size_t e = 0; e < padded.size(); ++e) {
          if (arrays[0][e] == 0 && arrays[1][e] == 0 && arrays[2][e] == 0) padded[e] = expected[e];
        }
        EXPECT_EQ(difference(padded, expected), "") << describe(operation) << options;
      }
    }
  }
}

TEST(AllreduceMany, Nodes_BitsOfOneFlatArray_BlockingAndRequest) {
  const std::string nodes = nodes_option({0, 1, 1, 0, 1});
  const std::vector<Tensors> tensors = make_tensors({1000, 1, 0, 5000, 33, 128, 20000, 7}, 5);
  for (const char* quantizer : {"blocks-8", "paper-gl4,block=128", "relative-8,block=128"}) {
    std::vector<Values> arrays;
    for (const Tensors& rank : tensors) arrays.push_back(flat(rank, 128));
    const Operation operation{quantizer, GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_MEAN, false, 3, 1};
    const Values expected = simulate(operation, arrays, nodes);
    for (const char* chunks : {"", ",chunk_value_count=512"}) {
      const Tensors result = reduce_on_threads(operation, tensors, false, nodes + chunks);
      const Values found = flat(result, 128);
      size_t begin = 0;
      for (const Tensors::value_type& tensor : result) {
        const auto there = [&](const Values& all) {
          return Values(all.begin() + static_cast<long>(begin),
                        all.begin() + static_cast<long>(begin + tensor.size()));
        };
        EXPECT_EQ(difference(there(found), there(expected)), "") << describe(operation) << chunks;
        begin = (begin + tensor.size() + 127) / 128 * 128;
      }
      EXPECT_EQ(reduce_on_threads(operation, tensors, true, nodes + chunks), result);
    }
  }
}

TEST(AllreduceMany, OneTensor_BitsOfAllreduce) {
  const std::vector<Tensors> tensors = make_tensors({3001});
  std::vector<Values> arrays;
  for (const Tensors& rank : tensors) arrays.push_back(rank[0]);
  for (const char* quantizer : {"paper-gl8", "paper-ge8,norm=2:2", "paper-ge4,norm=1:inf", "none",
                                "rotated-8", "paper-gl8,rotate=hadamard,norm=2:1"}) {
    const Operation operation{quantizer, GQSGD_SCHEDULE_DIRECT, GQSGD_SUM, false, 9, 2};
    EXPECT_EQ(difference(reduce_on_threads(operation, tensors)[0], simulate(operation, arrays)), "")
        << describe(operation);
  }
}

// With one norm for all, a tensor of small values would come back as zeros.
TEST(AllreduceMany, EachTensor_NormOfItsOwn) {
  std::vector<Tensors> tensors = make_tensors({4000, 4000});
  for (Tensors& rank : tensors) {
    for (float& value : rank[1]) value *= 1e-6f;
  }
  for (const char* quantizer : {"paper-gl8", "paper-gl8,norm=2:2", "paper-gl8,rotate=hadamard"}) {
    const Tensors result =
        reduce_on_threads({quantizer, GQSGD_SCHEDULE_DIRECT, GQSGD_MEAN}, tensors);
    for (size_t k = 0; k < 2; ++k) {
      double error = 0, signal = 0;
      for (size_t e = 0; e < 4000; ++e) {
        const double mean =
            (static_cast<double>(tensors[0][k][e]) + tensors[1][k][e] + tensors[2][k][e]) / kRanks;
        error += (result[k][e] - mean) * (result[k][e] - mean);
        signal += mean * mean;
      }
      EXPECT_LT(error, 0.7 * signal) << quantizer << ", tensor " << k;
    }
  }
}

TEST(AllreduceMany, InPlaceAndRequest_SameBits) {
  const std::vector<Tensors> tensors = make_tensors({1000, 0, 70000, 3});
  for (const char* quantizer : {"paper-gl8", "rotated-4", "relative-8"}) {
    Operation operation{quantizer, GQSGD_SCHEDULE_DIRECT, GQSGD_MEAN, false, 1, 0};
    const Tensors expected = reduce_on_threads(operation, tensors);
    EXPECT_EQ(reduce_on_threads(operation, tensors, true), expected);
    operation.in_place = true;
    EXPECT_EQ(reduce_on_threads(operation, tensors), expected);
    EXPECT_EQ(reduce_on_threads(operation, tensors, true), expected);
  }
}

TEST(AllreduceMany, NoTensors_RanksStillCompared) {
  EXPECT_TRUE(
      reduce_on_threads({"blocks-8", GQSGD_SCHEDULE_DIRECT}, std::vector<Tensors>(3)).empty());
  EXPECT_EQ(reduce_on_threads({"paper-gl8", GQSGD_SCHEDULE_TREE}, make_tensors({0, 0})),
            Tensors(2));
}

/** Slices of three ranks, one of them empty in some. */
const std::vector<std::vector<size_t>> kSlices = {
    {1000, 1000, 1000}, {1, 0, 2}, {0, 5000, 33}, {70000, 127, 4096}, {0, 0, 0}};

const char* const kSliceFormats[] = {
    "paper-gl8",   "paper-ge8,norm=2:2", "paper-gl4",
    "none",        "blocks-8",           "rotated-8",
    "rotated-4-8", "relative-8",         "paper-ge4,block=64,rounding=correlated",
    "adaptive-4",  "rice-4"};

struct SliceCall {
  const char* quantizer;
  std::vector<size_t> counts;
  bool in_place = false;
  bool starts = false;
  gqsgd_op op = GQSGD_SUM;
};

size_t offset_of(const std::vector<size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, size_t{0});
}

std::string reduce_scatter(gqsgd_comm comm, const SliceCall& call, int rank, const Values& given,
                           Values* result) {
  const Quantizer quantizer(call.quantizer);
  Values send = given, own(call.counts[static_cast<size_t>(rank)], -1.0f);
  float* recv = call.in_place ? send.data() + offset_of(call.counts, rank) : own.data();
  const Config config = config_at(4, 2);
  gqsgd_request request = nullptr;
  const gqsgd_status status =
      call.starts
          ? gqsgd_reduce_scatter_start(comm, quantizer.get(), send.data(), recv, call.counts.data(),
                                       GQSGD_FLOAT32, call.op, config, nullptr, &request)
          : gqsgd_reduce_scatter(comm, quantizer.get(), send.data(), recv, call.counts.data(),
                                 GQSGD_FLOAT32, call.op, config, nullptr);
  if (status != GQSGD_OK) return failure_of(status, "gqsgd_reduce_scatter");
  if (call.starts && gqsgd_request_wait(request) != GQSGD_OK) return failure_of(1, "wait");
  *result = Values(recv, recv + own.size());
  return "";
}

std::string allgather(gqsgd_comm comm, const SliceCall& call, int rank, const Values& given,
                      Values* result) {
  const Quantizer quantizer(call.quantizer);
  const size_t offset = offset_of(call.counts, rank), own = call.counts[static_cast<size_t>(rank)];
  const Values slice(given.data() + offset, given.data() + offset + own);
  result->assign(given.size(), -1.0f);
  if (own > 0) std::memcpy(result->data() + offset, slice.data(), own * sizeof(float));
  const float* send = call.in_place ? result->data() + offset : slice.data();
  const Config config = config_at(4, 2);
  gqsgd_request request = nullptr;
  const gqsgd_status status =
      call.starts
          ? gqsgd_allgather_start(comm, quantizer.get(), send, result->data(), call.counts.data(),
                                  GQSGD_FLOAT32, config, nullptr, &request)
          : gqsgd_allgather(comm, quantizer.get(), send, result->data(), call.counts.data(),
                            GQSGD_FLOAT32, config, nullptr);
  if (status != GQSGD_OK) return failure_of(status, "gqsgd_allgather");
  return call.starts ? failure_of(gqsgd_request_wait(request), "wait") : "";
}

using Collective = std::string (*)(gqsgd_comm, const SliceCall&, int, const Values&, Values*);

std::vector<Values> on_threads(Collective collective, const SliceCall& call,
                               const std::vector<Values>& given, const char* options = "") {
  std::vector<Values> results(given.size());
  const auto body = [&](int rank, gqsgd_comm comm) {
    return collective(comm, call, rank, given[static_cast<size_t>(rank)],
                      &results[static_cast<size_t>(rank)]);
  };
  EXPECT_EQ(run_threads(kRanks, options, body), "") << call.quantizer;
  return results;
}

class Slices : public testing::TestWithParam<const char*> {};

TEST_P(Slices, InPlaceRequestsThreadsAndChunks_SameBits) {
  for (const auto& counts : kSlices) {
    const std::vector<Values> given = gradients(kRanks, offset_of(counts, kRanks), 8);
    for (const Collective collective : {&reduce_scatter, &allgather}) {
      SliceCall call{GetParam(), counts};
      const std::vector<Values> expected = on_threads(collective, call, given);
      EXPECT_EQ(on_threads(collective, call, given, "chunk_value_count=1024"), expected);
      EXPECT_EQ(on_threads(collective, call, given, "threads=3"), expected);
      call.in_place = true;
      EXPECT_EQ(on_threads(collective, call, given), expected);
      call.starts = true;
      EXPECT_EQ(on_threads(collective, call, given), expected);
    }
  }
}

TEST_P(Slices, AllFormats_WithinNoiseOfOneRounding) {
  const std::vector<size_t> counts{3000, 0, 9000};
  const std::vector<Values> given = gradients(kRanks, 12000, 21);
  SliceCall call{GetParam(), counts};
  call.op = GQSGD_MEAN;
  const std::vector<Values> means = on_threads(&reduce_scatter, call, given);
  const std::vector<Values> gathered = on_threads(&allgather, call, given);
  double error = 0, signal = 0, gather_error = 0, gather_signal = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const size_t offset = offset_of(counts, rank);
    EXPECT_EQ(gathered[static_cast<size_t>(rank)], gathered[0]) << "on every rank";
    for (size_t e = 0; e < counts[static_cast<size_t>(rank)]; ++e) {
      const double mean = (static_cast<double>(given[0][offset + e]) + given[1][offset + e] +
                           given[2][offset + e]) /
                          kRanks;
      const double own = given[static_cast<size_t>(rank)][offset + e];
      error += std::pow(means[static_cast<size_t>(rank)][e] - mean, 2);
      signal += mean * mean;
      gather_error += std::pow(gathered[0][offset + e] - own, 2);
      gather_signal += own * own;
    }
  }
  EXPECT_LT(error, 0.8 * signal) << "norms 2 with 8 bits are the noisiest";
  EXPECT_LT(gather_error, 0.8 * gather_signal);
  if (std::string(GetParam()) != "none") return;
  EXPECT_LT(error, 1e-12 * signal);
  EXPECT_EQ(gather_error, 0);
}

INSTANTIATE_TEST_SUITE_P(Formats, Slices, testing::ValuesIn(kSliceFormats),
                         [](const auto& info) { return "format" + std::to_string(info.index); });

TEST(ProcessSlices, Processes_BitsOfThreads) {
  for (const char* quantizer : {"blocks-8", "paper-ge8,norm=2:2", "rotated-4", "rice-4"}) {
    const SliceCall call{quantizer, {5000, 0, 70000}};
    const std::vector<Values> given = gradients(kRanks, 75000, 8);
    for (const Collective collective : {&reduce_scatter, &allgather}) {
      const std::vector<Values> expected = on_threads(collective, call, given);
      const auto body = [&](int rank, gqsgd_comm comm) {
        Values result;
        const auto r = static_cast<size_t>(rank);
        const std::string failure = collective(comm, call, rank, given[r], &result);
        return failure.empty() ? difference(result, expected[r]) : failure;
      };
      EXPECT_EQ(run_processes(kRanks, "", body), "") << quantizer;
    }
  }
}

}  // namespace
}  // namespace gq::test
