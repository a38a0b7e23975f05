// Collectives on several buffers, by ranks on one thread: the same bits over a transport that
// copies as over one that reads in place, for any chunk; tensors in one call as in one flat array.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/call/virtual/virtual_ranks.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/inputs.h"
#include "tests/support/succeeds.h"
#include "tests/unit/execute/copying_transport.h"

namespace gq {
namespace {

using test::Values;

enum class Wiring { copying, in_place };

/** What is asked of all ranks; lengths of tensors, or of the slices of ranks. */
struct Case {
  Operation operation;
  const char* quantizer;
  uint32_t ranks;
  std::vector<uint64_t> lengths;
  int32_t schedule = GQSGD_SCHEDULE_DIRECT;
  uint64_t chunk = 64;
  Wiring wiring = Wiring::in_place;
  bool results_in_place = false;
};

uint64_t alignment_of(const Format& format) {
  return value_alignment(format.block, format.rotate == Rotate::hadamard);
}

/** One rank's buffers, each its own allocation; results are those of the whole call, with gaps. */
class RankBuffers {
 public:
  RankBuffers(const Case& test, const Format& format, uint32_t rank) {
    const bool gathers = test.operation == Operation::allgather;
    const bool scatters = test.operation == Operation::reduce_scatter;
    const size_t count = test.lengths.size();
    buffers_.places.in_place = test.results_in_place;
    uint64_t first = 0;
    for (size_t k = 0; k < count; ++k) {
      buffers_.segments.parts.push_back({first, test.lengths[k]});
      value_count_ = first + test.lengths[k];
      first += (test.lengths[k] + alignment_of(format) - 1) / alignment_of(format) *
               alignment_of(format);
    }
    const Values all = test::gradients(static_cast<int>(test.ranks), value_count_, 3)[rank];
    for (size_t k = 0; k < count; ++k) {
      const Part part = buffers_.segments.parts[k];
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(part.first_value);
      given_.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(part.value_count));
      results_.emplace_back(part.value_count, -1.0f);
      if (test.results_in_place) results_[k] = given_[k];
    }
    for (size_t k = 0; k < count; ++k) {
      Values& from = test.results_in_place ? results_[k] : given_[k];
      const bool own = k == rank;
      buffers_.places.of.push_back({gathers && !own ? nullptr : from.data(),
                                    scatters && !own ? nullptr : results_[k].data()});
    }
  }

  void attach_to(Call* call) const { buffers_.attach_to(call); }
  uint64_t value_count() const { return value_count_; }
  const std::vector<Values>& results() const { return results_; }
  const std::vector<Values>& given() const { return given_; }

 private:
  SegmentedBuffers buffers_;
  std::vector<Values> given_, results_;
  uint64_t value_count_ = 0;
};

/** Every rank's results. */
std::vector<std::vector<Values>> run(const Case& test) {
  Wire wire;
  std::vector<std::unique_ptr<HostTransport>> transports(test.ranks);
  EXPECT_TRUE(test::succeeds(create_local(test.ranks, transports.data())));
  Format format;
  EXPECT_TRUE(test::succeeds(parse_quantizer(test.quantizer, &format)));
  for (uint32_t rank = 0; rank < test.ranks && test.wiring == Wiring::copying; ++rank) {
    transports[rank] = std::make_unique<CopyingTransport>(&wire, rank, test.ranks);
  }
  VirtualRanks ranks;
  EXPECT_TRUE(test::succeeds(ranks.open(test.ranks, transports.data())));
  std::vector<std::unique_ptr<RankBuffers>> buffers;
  for (uint32_t rank = 0; rank < test.ranks; ++rank) {
    buffers.push_back(std::make_unique<RankBuffers>(test, format, rank));
    auto& [endpoint, call, operation] = ranks[rank];
    endpoint.set_transport(std::move(endpoint.host));
    endpoint.stages = cpu_stages_named("scalar");
    endpoint.chunk_value_count = test.chunk;
    call.operation = test.operation;
    call.format = format;
    call.value_count = buffers[rank]->value_count();
    call.schedule_id = test.schedule;
    buffers[rank]->attach_to(&call);
  }
  EXPECT_TRUE(test::succeeds(ranks.allreduce()));
  std::vector<std::vector<Values>> results;
  for (const auto& rank : buffers) results.push_back(rank->results());
  return results;
}

const char* const kFormats[] = {"paper-gl8",
                                "paper-ge8,norm=2:2",
                                "paper-gl4,norm=1:inf",
                                "none",
                                "fp16",
                                "blocks-8",
                                "rotated-4-8",
                                "paper-gl8,rotate=hadamard",
                                "relative-8",
                                "paper-ge4,block=128,rounding=correlated"};

std::vector<uint64_t> lengths_for(uint32_t count) {
  const uint64_t lengths[] = {1000, 0, 33, 5000, 1, 2048, 700, 0};
  std::vector<uint64_t> result;
  for (uint32_t k = 0; k < count; ++k) result.push_back(lengths[k % 8] + k / 8);
  return result;
}

class Segmented : public testing::TestWithParam<std::tuple<Operation, const char*>> {};

TEST_P(Segmented, AnyTransport_SameBits) {
  const auto [operation, quantizer] = GetParam();
  for (const uint32_t ranks : {1u, 2u, 3u, 5u, 8u}) {
    const bool many = operation == Operation::allreduce_many;
    Case test{operation, quantizer, ranks, lengths_for(many ? 7 : ranks)};
    const auto expected = run(test);
    const std::string what = std::string(quantizer) + ", ranks " + std::to_string(ranks);
    test.wiring = Wiring::copying;
    EXPECT_EQ(run(test), expected) << what << ", copied";
    test.chunk = 4096;
    EXPECT_EQ(run(test), expected) << what << ", longer chunks";
    if (operation == Operation::reduce_scatter) continue;  // other slices are only read
    test.results_in_place = true;
    EXPECT_EQ(run(test), expected) << what << ", in place";
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      EXPECT_EQ(expected[rank], expected[0]) << what << ": rank " << rank << " has other bits";
    }
  }
}

TEST(SegmentedReduceScatter, InPlace_SameBits) {
  for (const char* quantizer : kFormats) {
    Case test{Operation::reduce_scatter, quantizer, 3, {5000, 70, 3000}};
    const auto expected = run(test);
    test.results_in_place = true;
    test.wiring = Wiring::copying;
    const auto in_place = run(test);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(in_place[rank][rank], expected[rank][rank]) << quantizer << ", rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Operations, Segmented,
    testing::Combine(testing::Values(Operation::allreduce_many, Operation::reduce_scatter,
                                     Operation::allgather),
                     testing::ValuesIn(kFormats)),
    [](const auto& info) {
      return std::string(kOperationList[static_cast<size_t>(std::get<0>(info.param))]) + "_" +
             std::to_string(info.index);
    });

}  // namespace
}  // namespace gq
