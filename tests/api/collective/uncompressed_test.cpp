// The counter uncompressed_bytes_sent, for every collective and schedule: what a format's messages
// would carry as float32 is what the format `none` sends where both cut a call into the same parts.
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/adding_sockets.h"
#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

/** Parts of these, for each rank, are multiples of every block and rotation. */
constexpr size_t kPartValues = 4096;

struct Bytes {
  uint64_t payload = 0, uncompressed = 0;
};

Bytes bytes_of(gqsgd_comm comm) {
  return {counter_of(comm, "payload_bytes_sent"), counter_of(comm, "uncompressed_bytes_sent")};
}

/** Makes one call on a group of `ranks`. */
using MakeCall = std::function<gqsgd_status(gqsgd_comm comm, gqsgd_quantizer quantizer, int ranks)>;

MakeCall allreduce_by(gqsgd_schedule schedule) {
  return [schedule](gqsgd_comm comm, gqsgd_quantizer quantizer, int ranks) {
    Values values(kPartValues * static_cast<size_t>(ranks), 1.0f);
    return gqsgd_allreduce(comm, quantizer, values.data(), values.data(), values.size(),
                           GQSGD_FLOAT32, GQSGD_SUM, config_of(schedule), nullptr);
  };
}

gqsgd_status start_and_wait(gqsgd_comm comm, gqsgd_quantizer quantizer, int ranks) {
  Values values(kPartValues * static_cast<size_t>(ranks), 1.0f);
  gqsgd_request request = nullptr;
  const gqsgd_status status =
      gqsgd_allreduce_start(comm, quantizer, values.data(), values.data(), values.size(),
                            GQSGD_FLOAT32, GQSGD_SUM, nullptr, nullptr, &request);
  return status == GQSGD_OK ? gqsgd_request_wait(request) : status;
}

gqsgd_status reduce_tensors(gqsgd_comm comm, gqsgd_quantizer quantizer, int ranks) {
  Values values(kPartValues * static_cast<size_t>(ranks), 1.0f);
  Values more = values;
  const void* const send[] = {values.data(), more.data()};
  void* const recv[] = {values.data(), more.data()};
  const size_t counts[] = {values.size(), more.size()};
  return gqsgd_allreduce_many(comm, quantizer, send, recv, counts, 2, GQSGD_FLOAT32, GQSGD_MEAN,
                              nullptr, nullptr);
}

gqsgd_status scatter_slices(gqsgd_comm comm, gqsgd_quantizer quantizer, int ranks) {
  const std::vector<size_t> counts(static_cast<size_t>(ranks), kPartValues);
  const Values values(kPartValues * counts.size(), 1.0f);
  Values slice(kPartValues);
  return gqsgd_reduce_scatter(comm, quantizer, values.data(), slice.data(), counts.data(),
                              GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
}

gqsgd_status gather_slices(gqsgd_comm comm, gqsgd_quantizer quantizer, int ranks) {
  const std::vector<size_t> counts(static_cast<size_t>(ranks), kPartValues);
  const Values slice(kPartValues, 1.0f);
  Values values(kPartValues * counts.size());
  return gqsgd_allgather(comm, quantizer, slice.data(), values.data(), counts.data(), GQSGD_FLOAT32,
                         nullptr, nullptr);
}

/** Floats count as what they are; codes count as the floats. */
std::string compare_formats(gqsgd_comm comm, int ranks, const std::vector<std::string>& formats,
                            const MakeCall& call) {
  const auto sent_by = [&](const std::string& format, Bytes* sent) {
    const Quantizer quantizer(format);
    const Bytes before = bytes_of(comm);
    const gqsgd_status status = call(comm, quantizer.get(), ranks);
    const Bytes after = bytes_of(comm);
    *sent = {after.payload - before.payload, after.uncompressed - before.uncompressed};
    return failure_of(status, format.c_str());
  };
  Bytes floats, codes;
  std::string failure = sent_by("none", &floats);
  if (!failure.empty()) return failure;
  if (floats.payload == 0 || floats.payload != floats.uncompressed) return "none has a ratio";
  for (const std::string& format : formats) {
    failure = sent_by(format, &codes);
    if (!failure.empty()) return failure;
    if (codes.uncompressed == floats.payload && codes.payload < floats.payload) continue;
    return format + ": " + std::to_string(codes.payload) + " bytes, as floats " +
           std::to_string(codes.uncompressed) + ", and those are " + std::to_string(floats.payload);
  }
  return "";
}

std::string compare_on_threads(int ranks, const std::string& options,
                               const std::vector<std::string>& formats, const MakeCall& call) {
  return run_threads(ranks, options + "chunk_value_count=2048", [&](int, gqsgd_comm comm) {
    return compare_formats(comm, ranks, formats, call);
  });
}

const std::vector<std::string> kEverywhere = {"paper-gl8", "paper-ge4", "paper-gl8,block=32",
                                              "paper-ge8,rotate=hadamard"};
const std::vector<std::string> kWide = {"paper-gl4", "blocks-8", "rotated-4-8", "rotated-4"};

class Uncompressed : public testing::TestWithParam<int> {};

TEST_P(Uncompressed, OfEverySchedule_IsTheBytesOfFloats) {
  for (const gqsgd_schedule schedule : {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE,
                                        GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT}) {
    EXPECT_EQ(compare_on_threads(GetParam(), "", kEverywhere, allreduce_by(schedule)), "")
        << schedule_name(schedule);
  }
  EXPECT_EQ(compare_on_threads(GetParam(), "", kWide, allreduce_by(GQSGD_SCHEDULE_DIRECT)), "");
}

TEST_P(Uncompressed, OfOtherCollectives_IsTheBytesOfFloats) {
  EXPECT_EQ(compare_on_threads(GetParam(), "", kWide, start_and_wait), "");
  EXPECT_EQ(compare_on_threads(GetParam(), "", kWide, reduce_tensors), "");
  EXPECT_EQ(compare_on_threads(GetParam(), "", kEverywhere, reduce_tensors), "");
  EXPECT_EQ(compare_on_threads(GetParam(), "", kWide, scatter_slices), "");
  EXPECT_EQ(compare_on_threads(GetParam(), "", kWide, gather_slices), "");
}

TEST_P(Uncompressed, OverACustomTransport_IsTheBytesOfFloats) {
  AddingGroup group(GetParam());
  const auto body = [&](int, gqsgd_comm comm) -> std::string {
    const std::string direct =
        compare_formats(comm, GetParam(), kWide, allreduce_by(GQSGD_SCHEDULE_DIRECT));
    if (!direct.empty()) return direct;
    return compare_formats(comm, GetParam(), {"paper-gl8", "paper-gl8,block=32"},
                           allreduce_by(GQSGD_SCHEDULE_NATIVE));
  };
  EXPECT_EQ(run_threads(group.comms(""), body), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Uncompressed, testing::Values(2, 3, 4, 8));

TEST(UncompressedHierarchy, IsTheBytesOfFloats) {
  for (const char* nodes : {"nodes=0:0:1:1,", "nodes=0:1:0:1,"}) {
    EXPECT_EQ(compare_on_threads(4, nodes, kWide, allreduce_by(GQSGD_SCHEDULE_HIERARCHICAL)), "");
  }
}

}  // namespace
}  // namespace gq::test
