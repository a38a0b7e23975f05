// Calls on streams over NCCL give the bits of virtual ranks in one thread: every schedule, every
// kind of format, one to eight ranks, one call after the other without waiting.
#include <gtest/gtest.h>

#include "tests/gpu/nccl/group.h"

namespace gq::test {
namespace {

/** Every rank makes `calls`, waits once, and compares. */
std::string compare(const NcclGroup& group, const std::vector<Operation>& calls,
                    const std::vector<size_t>& value_counts, const std::string& options = "") {
  std::vector<std::vector<Values>> inputs;
  std::vector<Values> expected;
  for (size_t k = 0; k < calls.size(); ++k) {
    inputs.push_back(gradients(group.size(), value_counts[k % value_counts.size()], 40 + k));
    expected.push_back(simulate(calls[k], inputs[k], options));
  }
  return group.run([&](int rank, gqsgd_comm comm) -> std::string {
    std::vector<std::unique_ptr<StreamCall>> made;
    for (size_t k = 0; k < calls.size(); ++k) {
      made.push_back(std::make_unique<StreamCall>(inputs[k][static_cast<size_t>(rank)]));
      if (made[k]->make(comm, calls[k]) != GQSGD_OK) return gqsgd_last_error();
    }
    for (size_t k = 0; k < calls.size(); ++k) {
      if (!made[k]->wait()) return describe(calls[k]) + ": the stream does not get through";
      const std::string found = difference(made[k]->result(), expected[k]);
      if (!found.empty()) return describe(calls[k]) + ": " + found;
    }
    return "";
  });
}

void expect_same_bits(const std::vector<const char*>& formats,
                      const std::vector<gqsgd_schedule>& schedules,
                      const std::string& options = "",
                      const std::vector<size_t>& value_counts = {1000, 1, 4099, 33}) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const NcclGroup group(ranks, options);
    for (const char* format : formats) {
      EXPECT_EQ(compare(group, calls_of(format, schedules), value_counts, options), "")
          << ranks << " ranks, " << format << ", " << options;
    }
  }
}

const std::vector<const char*> kPlain(std::begin(kPresets), std::end(kPresets));
const std::vector<const char*> kBlocks(std::begin(kBlockFormats), std::end(kBlockFormats));
const std::vector<const char*> kWide(std::begin(kWideFormats), std::end(kWideFormats));
const std::vector<gqsgd_schedule> kAll(std::begin(kSchedules), std::end(kSchedules));

TEST(SameBits, Presets_SameBits) { expect_same_bits(kPlain, kAll); }
TEST(SameBits, PresetsInChunks_SameBits) { expect_same_bits(kPlain, kAll, "chunk_value_count=64"); }
TEST(SameBits, BlocksAndRotations_SameBits) { expect_same_bits(kBlocks, kAll); }
TEST(SameBits, BlocksAndRotationsInChunks_SameBits) {
  expect_same_bits(kBlocks, kAll, "chunk_value_count=128");
}
TEST(SameBits, ReencodedByOwners_SameBits) {
  expect_same_bits(kWide,
                   {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_AUTO, GQSGD_SCHEDULE_HIERARCHICAL});
  expect_same_bits(kWide, {GQSGD_SCHEDULE_DIRECT}, "chunk_value_count=256");
}
// A rank's part is at least a group of 8,192 values: some ranks have none.
TEST(SameBits, AdaptiveWidths_SameBits) {
  const std::vector<const char*> formats = {"adaptive-4", "adaptive-3,rounding=nearest",
                                            "adaptive-6,rounding_down=subtractive,rescale=false"};
  for (const char* options : {"", "chunk_value_count=8192"}) {
    expect_same_bits(formats,
                     {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_AUTO, GQSGD_SCHEDULE_HIERARCHICAL},
                     options, {1000, 1, 70001, 8193});
  }
}
TEST(SameBits, RiceCodes_SameBits) {
  const std::vector<const char*> formats = {"rice-4", "rice-3,rounding=nearest",
                                            "rice-6,rounding=independent"};
  for (const char* options : {"", "chunk_value_count=8192"}) {
    expect_same_bits(formats, {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_AUTO}, options,
                     {1000, 1, 70001, 8193});
  }
}
// Owners add the codes of nodes' means as often as a node has ranks, or by weights.
TEST(SameBits, NodesOfDifferentSizes_SameBits) {
  for (const int ranks : {3, 4, 5, 9}) {
    for (const char* chunks : {"", ",chunk_value_count=1024"}) {
      const std::string options = nodes_option(uneven_nodes(ranks)) + chunks;
      const NcclGroup group(ranks, options);
      std::vector<Operation> calls;
      for (const char* format : kNodeFormats) {
        calls.push_back({format, GQSGD_SCHEDULE_HIERARCHICAL});
        calls.back().op = calls.size() % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
        calls.back().in_place = calls.size() % 3 == 1;
      }
      EXPECT_EQ(compare(group, calls, {70001, 1, 4099}, options), "") << options;
    }
  }
}

// More nodes than a kernel has operands as arguments; two ranks on one of them.
TEST(SameBits, ManyNodes_SameBits) {
  std::vector<int32_t> nodes(34);
  for (size_t k = 0; k < nodes.size(); ++k) nodes[k] = static_cast<int32_t>(k % 33);
  const std::string options = nodes_option(nodes);
  EXPECT_EQ(compare(NcclGroup(34, options),
                    {{"relative-8", GQSGD_SCHEDULE_HIERARCHICAL},
                     {"rice-4", GQSGD_SCHEDULE_HIERARCHICAL}},
                    {3000}, options),
            "");
}

// Two nodes by the names of their hosts; without names all ranks are on this machine.
TEST(SameBits, HostsOfRanks_AreTheNodes) {
  const NcclGroup group(4, "", {"host_id=b", "host_id=a", "host_id=a", "host_id=b"});
  const Operation call{"paper-gl8,block=128", GQSGD_SCHEDULE_HIERARCHICAL};
  EXPECT_EQ(compare(group, {call}, {5000}, "nodes=0:1:1:0"), "");
  const Operation other{"relative-8", GQSGD_SCHEDULE_HIERARCHICAL};
  EXPECT_NE(compare(group, {other}, {1000}), "");
  EXPECT_EQ(compare(NcclGroup(4), {other}, {1000}), "");
}

TEST(SameBits, OtherNorms_SameBits) {
  expect_same_bits(
      {"paper-gl8,norm=2:2", "paper-ge8,norm=inf:2", "paper-gl4,norm=1:inf", "paper-ge4,norm=2:1"},
      kAll);
}

TEST(SameBits, SumsOfNccl_SameBits) {
  const std::vector<const char*> formats(std::begin(kNativeFormats), std::end(kNativeFormats));
  expect_same_bits(formats, {GQSGD_SCHEDULE_NATIVE, GQSGD_SCHEDULE_DIRECT});
}

/** The kinds of calls of a step follow each other as in the step before: only the first steps wait
 *  on the host. */
TEST(SameBits, StepsOfATraining_SameBits) {
  const NcclGroup group(4);
  std::vector<Operation> calls;
  for (uint64_t step = 0; step < 12; ++step) {
    for (uint64_t bucket = 0; bucket < 3; ++bucket) {
      Operation call;
      call.quantizer = bucket == 1 ? "blocks-8" : "paper-gl8";
      call.schedule = GQSGD_SCHEDULE_DIRECT;
      call.step = step;
      call.index = bucket;
      call.at_device = bucket == 2;
      calls.push_back(call);
    }
  }
  EXPECT_EQ(compare(group, calls, {4000, 900, 2000}), "");
}

TEST(SameBits, WrongBit_Found) {
  const NcclGroup group(3);
  Operation call;
  call.quantizer = "paper-gl8";
  call.schedule = GQSGD_SCHEDULE_RING;
  StandInFaults flipped{};
  flipped.flip_a_bit = 1;
  set_faults(flipped);
  EXPECT_NE(compare(group, {call}, {3000}).find("expected"), std::string::npos);
  set_faults({});
  EXPECT_EQ(compare(group, {call}, {3000}), "");
}

}  // namespace
}  // namespace gq::test
