// The executor on a transport that copies gives the bits that it gives where words are read in
// place.
#include "tests/unit/execute/copying_transport.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/call/virtual/virtual_ranks.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/succeeds.h"

namespace gq {
namespace {

using Values = std::vector<std::vector<float>>;

Values random_values(uint32_t ranks, size_t value_count) {
  std::mt19937 engine(ranks * 1000 + static_cast<uint32_t>(value_count));
  std::normal_distribution<float> normal;
  Values values(ranks, std::vector<float>(value_count));
  for (auto& rank : values) {
    for (float& value : rank) value = normal(engine);
  }
  return values;
}

struct Case {
  const char* quantizer;
  int32_t schedule;
  uint32_t ranks;
  size_t value_count;
  std::vector<uint32_t> nodes = {};  ///< of each rank; empty: all on one
};

enum class Wiring { copying, copying_late, in_place };

Values run(const Case& test, Wiring wiring) {
  Wire wire;
  wire.leaves = wiring == Wiring::copying_late ? Leaves::late : Leaves::at_once;
  std::vector<std::unique_ptr<HostTransport>> transports(test.ranks);
  if (wiring == Wiring::in_place) {
    EXPECT_TRUE(test::succeeds(create_local(test.ranks, transports.data())));
  } else {
    for (uint32_t rank = 0; rank < test.ranks; ++rank) {
      transports[rank] = std::make_unique<CopyingTransport>(&wire, rank, test.ranks);
    }
  }
  Format format;
  EXPECT_TRUE(test::succeeds(parse_quantizer(test.quantizer, &format)));
  const Values send = random_values(test.ranks, test.value_count);
  Values recv(test.ranks, std::vector<float>(test.value_count));
  const std::vector<uint32_t> one_node(test.ranks, 0);
  VirtualRanks ranks;
  EXPECT_TRUE(test::succeeds(ranks.open(test.ranks, transports.data())));
  for (uint32_t rank = 0; rank < test.ranks; ++rank) {
    auto& [endpoint, call, operation] = ranks[rank];
    endpoint.set_transport(std::move(endpoint.host));
    endpoint.stages = cpu_stages_named("scalar");
    endpoint.chunk_value_count = 64;
    endpoint.nodes = Nodes(test.nodes.empty() ? one_node : test.nodes);
    call.format = format;
    call.send = send[rank].data();
    call.recv = recv[rank].data();
    call.value_count = test.value_count;
    call.schedule_id = test.schedule;
  }
  EXPECT_TRUE(test::succeeds(ranks.allreduce()));
  return recv;
}

void expect_same_bits(const char* quantizer, int32_t schedule) {
  for (const uint32_t ranks : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 13u}) {
    for (const size_t value_count : {1u, 33u, 1000u, 5000u}) {
      const Case test{quantizer, schedule, ranks, value_count};
      const Values expected = run(test, Wiring::in_place);
      for (const Wiring wiring : {Wiring::copying, Wiring::copying_late}) {
        EXPECT_EQ(run(test, wiring), expected)
            << quantizer << ", schedule " << schedule << ", " << ranks << " ranks, " << value_count
            << " values, words leave " << (wiring == Wiring::copying ? "at once" : "late");
      }
    }
  }
}

TEST(CopyingTransport, AllSchedules_BitsOfReadingInPlace) {
  for (const char* quantizer : {"none", "paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4",
                                "paper-gl8,block=64", "paper-ge4,block=32"}) {
    for (const int32_t schedule : {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE,
                                   GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT}) {
      expect_same_bits(quantizer, schedule);
    }
  }
}

TEST(CopyingTransport, SumsOfOtherBits_ReceivedWithTheirScales) {
  for (const char* quantizer :
       {"paper-gl8,block=64,rescale=true", "paper-gl4,bits_down=8", "paper-ge8,bits_down=4",
        "paper-gl4,bits_down=8,block=32,rescale=true", "paper-ge8,block=128,rescale=true"}) {
    expect_same_bits(quantizer, GQSGD_SCHEDULE_DIRECT);
  }
}

// Normal values make dense codes with 8 bits; with orders of 2 and 4 bits long calls are sent as
// sparse entries.
TEST(CopyingTransport, SparseCalls_ReceiveEntriesOrTheMovesOfDirect) {
  for (const char* quantizer : {"paper-gl8", "paper-ge8", "paper-gl4,norm=2:2", "paper-ge4"}) {
    expect_same_bits(quantizer, GQSGD_SCHEDULE_SPARSE);
  }
}

// Results go through the hands of owners on their way.
TEST(CopyingTransport, ResultsBetweenNodes_Forwarded) {
  const std::vector<std::vector<uint32_t>> places = {
      {0, 1, 1, 1}, {0, 1, 2, 0, 1, 2}, {4, 4, 9, 9, 4, 9, 9, 9}, {0, 0, 0, 0, 7, 7, 8}};
  for (const auto& nodes : places) {
    const uint32_t ranks = static_cast<uint32_t>(nodes.size());
    for (const char* quantizer : {"none", "paper-gl8", "paper-ge4", "blocks-8", "rotated-4-8",
                                  "relative-8", "paper-ge8,bits_down=4,block=64,rescale=true"}) {
      for (const size_t value_count : {1u, 33u, 5000u}) {
        const Case test{quantizer, GQSGD_SCHEDULE_HIERARCHICAL, ranks, value_count, nodes};
        const Values expected = run(test, Wiring::in_place);
        for (const Wiring wiring : {Wiring::copying, Wiring::copying_late}) {
          EXPECT_EQ(run(test, wiring), expected)
              << quantizer << ", " << ranks << " ranks, " << value_count << " values";
        }
      }
    }
  }
}

}  // namespace
}  // namespace gq
