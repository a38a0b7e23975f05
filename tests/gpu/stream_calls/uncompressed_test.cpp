// The counter uncompressed_bytes_sent of calls on streams: what a format's messages would carry as
// float32 is what the format `none` sends. The same for ranks over NCCL and for threads.
#include <gtest/gtest.h>

#include "tests/gpu/stream_calls/stream_group.h"

namespace gq::test {
namespace {

/** For each rank: parts are multiples of every block and rotation. */
constexpr size_t kPartValues = 2048;

struct Bytes {
  uint64_t payload = 0, uncompressed = 0;
};

Bytes bytes_of(gqsgd_comm comm) {
  Bytes bytes;
  EXPECT_EQ(gqsgd_comm_stat(comm, "payload_bytes_sent", &bytes.payload), GQSGD_OK);
  EXPECT_EQ(gqsgd_comm_stat(comm, "uncompressed_bytes_sent", &bytes.uncompressed), GQSGD_OK);
  return bytes;
}

std::string send_by(gqsgd_comm comm, const Operation& operation, const Values& input, Bytes* sent) {
  StreamCall call(input);
  const Bytes before = bytes_of(comm);
  if (call.make(comm, operation) != GQSGD_OK || !call.wait()) return gqsgd_last_error();
  const Bytes after = bytes_of(comm);
  *sent = {after.payload - before.payload, after.uncompressed - before.uncompressed};
  return "";
}

void expect_bytes_of_floats(int ranks, gqsgd_schedule schedule,
                            const std::vector<const char*>& formats) {
  const StreamGroup group(ranks);
  const Values input(kPartValues * static_cast<size_t>(ranks), 1.0f);
  EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
    Bytes floats, codes;
    std::string failure = send_by(comm, {"none", schedule}, input, &floats);
    if (!failure.empty()) return failure;
    if (floats.payload == 0 || floats.payload != floats.uncompressed) return "none has a ratio";
    for (const char* format : formats) {
      failure = send_by(comm, {format, schedule}, input, &codes);
      if (!failure.empty()) return failure;
      if (codes.uncompressed == floats.payload && codes.payload < floats.payload) continue;
      return std::string(format) + ": " + std::to_string(codes.payload) + " bytes, as floats " +
             std::to_string(codes.uncompressed) + " of " + std::to_string(floats.payload);
    }
    return "";
  }),
            "")
      << ranks << " ranks, " << schedule_name(schedule);
}

TEST(UncompressedOnStreams, OfEverySchedule_IsTheBytesOfFloats) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const auto schedule : kSchedules) {
      expect_bytes_of_floats(ranks, schedule, {"paper-gl8", "paper-ge4", "paper-gl8,block=32"});
    }
    expect_bytes_of_floats(ranks, GQSGD_SCHEDULE_DIRECT, {"paper-gl4", "blocks-8", "rotated-4"});
    expect_bytes_of_floats(ranks, GQSGD_SCHEDULE_HIERARCHICAL, {"blocks-8", "rotated-4-8"});
  }
}

#ifndef GQ_LOCAL_GROUP  // threads have no sums of their own
TEST(UncompressedOnStreams, OfSumsOfNccl_IsTheBytesOfFloats) {
  expect_bytes_of_floats(3, GQSGD_SCHEDULE_NATIVE, {"paper-gl8", "paper-gl8,block=32"});
}
#endif

TEST(UncompressedOnStreams, OfSparseEntries_IsAllValuesOfTheCall) {
  const StreamGroup group(3);
  Values input(6000);
  for (size_t k = 0; k < 70; ++k) input[3 * k] = 1;
  EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
    Bytes sent;
    const std::string failure = send_by(comm, {"paper-gl8", GQSGD_SCHEDULE_SPARSE}, input, &sent);
    if (!failure.empty()) return failure;
    const bool right = sent.payload == 2 * 4 * 70 && sent.uncompressed == 2 * 4 * 6000;
    return right ? "" : std::to_string(sent.payload) + " " + std::to_string(sent.uncompressed);
  }),
            "");
}

}  // namespace
}  // namespace gq::test
