// Schedule AUTO over NCCL: with constants short calls are NCCL's own allreduce of floats and long
// ones codes by schedule direct, the same on all ranks, in graphs as well; without them all are
// direct.
#include <gtest/gtest.h>

#include <thread>

#include "src/transport/nccl/nccl_types.h"
#include "tests/gpu/stream_calls/counted_call.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kShort = 100, kLong = 20000;
// Links so slow that calls of some thousand values are long.
constexpr char kCosts[] = "costs=enqueue_ns=10;enqueue_nccl_ns=10;device_link_byte_ns=1";
constexpr char kCostsOfThreads[] =
    "costs=enqueue_ns=10;enqueue_nccl_ns=10;nccl_thread_ns=1000000;device_link_byte_ns=1";

Operation by(const std::string& quantizer, gqsgd_schedule schedule) {
  return {quantizer, schedule};
}

/** One call of each rank and rank 0's result. */
Values call(const NcclGroup& group, const Operation& operation, size_t value_count) {
  const std::vector<Values> inputs = gradients(kRanks, value_count, 12);
  Values result;
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(inputs[static_cast<size_t>(rank)]);
    if (made.make(comm, operation) != GQSGD_OK) return gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    if (rank == 0) result = made.result();
    return "";
  }),
            "")
      << describe(operation);
  return result;
}

uint64_t float_calls(const NcclGroup& group) {
  uint64_t calls = 0;
  EXPECT_EQ(gqsgd_comm_stat(group.comm(0), "native_float_calls", &calls), GQSGD_OK);
  return calls;
}

TEST(AutoOverNccl, ShortCalls_AllreduceOfNccl) {
  const NcclGroup group(kRanks, kCosts);
  const Values floats = call(group, by("none", GQSGD_SCHEDULE_NATIVE), kShort);
  const uint64_t before = float_calls(group);
  for (const char* quantizer : {"paper-gl8", "blocks-8", "paper-ge4", "none"}) {
    EXPECT_EQ(call(group, by(quantizer, GQSGD_SCHEDULE_AUTO), kShort), floats) << quantizer;
  }
  EXPECT_EQ(float_calls(group), before + 4);
}

TEST(AutoOverNccl, LongCalls_CodesByDirect) {
  const NcclGroup group(kRanks, kCosts);
  for (const char* quantizer : {"paper-gl8", "blocks-8", "paper-ge4"}) {
    EXPECT_EQ(call(group, by(quantizer, GQSGD_SCHEDULE_AUTO), kLong),
              call(group, by(quantizer, GQSGD_SCHEDULE_DIRECT), kLong))
        << quantizer;
  }
  EXPECT_EQ(float_calls(group), 0u);
}

TEST(AutoOverNccl, NoConstantsOrNeverUncompressed_Direct) {
  const std::string never = "uncompressed=never,";
  for (const std::string& options : {std::string(), std::string("costs=measure"), never + kCosts}) {
    const NcclGroup group(kRanks, options);
    EXPECT_EQ(call(group, by("paper-gl8", GQSGD_SCHEDULE_AUTO), kShort),
              call(group, by("paper-gl8", GQSGD_SCHEDULE_DIRECT), kShort))
        << options;
    EXPECT_EQ(float_calls(group), 0u) << options;
  }
}

/** The control message has a digest of the constants: also where they lead to the same choice. */
TEST(AutoOverNccl, OtherConstantsOnOneRank_Mismatch) {
  const std::string usual = kCosts, other = usual + ";device_byte_ns=0.001";
  const NcclGroup group(kRanks, "", {usual, other, usual});
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(gradients(kRanks, kShort, 12)[static_cast<size_t>(rank)]);
    if (made.make(comm, by("paper-gl8", GQSGD_SCHEDULE_AUTO)) != GQSGD_MISMATCH) return "no error";
    const std::string sentence = gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    if (!made.untouched()) return "something was written";
    return sentence.find("digest of costs differs") != std::string::npos ? "" : sentence;
  }),
            "");
}

TEST(AutoOverNccl, ReservedMemory_EnoughForEveryChoice) {
  const NcclGroup group(kRanks, kCosts);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("paper-gl4");
    const gqsgd_status status = gqsgd_comm_reserve(comm, quantizer.get(), kLong, GQSGD_FLOAT32);
    return status == GQSGD_OK ? "" : gqsgd_last_error();
  }),
            "");
  uint64_t before = 0, after = 0;
  EXPECT_EQ(gqsgd_comm_stat(group.comm(0), "workspace_bytes", &before), GQSGD_OK);
  for (const size_t value_count : {kShort, size_t{1000}, kLong}) {
    call(group, by("paper-gl4", GQSGD_SCHEDULE_AUTO), value_count);
  }
  EXPECT_EQ(gqsgd_comm_stat(group.comm(0), "workspace_bytes", &after), GQSGD_OK);
  EXPECT_EQ(after, before);
}

/** "" if the call by a communicator that the caller made took codes, else what was wrong. */
std::string call_lent(const nccl::Id& id, int rank, const std::string& costs) {
  const NcclLibrary& library = *nccl_of_tests();
  nccl::Config config;
  nccl::Comm lent = nullptr;
  (void)library.init(&lent, kRanks, id, rank, &config);
  gqsgd_comm comm = nullptr;
  std::string wrong;
  StreamCall made(gradients(kRanks, kLong, 12)[static_cast<size_t>(rank)]);
  uint64_t float_calls = 1;
  if (gqsgd_comm_create_from_nccl(lent, stand_in_options(costs).c_str(), &comm) != GQSGD_OK ||
      made.make(comm, by("paper-gl8", GQSGD_SCHEDULE_AUTO)) != GQSGD_OK || !made.wait() ||
      gqsgd_comm_stat(comm, "native_float_calls", &float_calls) != GQSGD_OK) {
    wrong = gqsgd_last_error();
  } else if (float_calls != 0) {
    wrong = "floats";
  }
  gqsgd_comm_destroy(comm);
  (void)library.destroy(lent);
  return wrong;
}

/** Where a communicator does not block, NCCL creates a thread for each operation, of which codes
 *  have more. */
TEST(AutoOverNccl, LentCommunicator_CodesWhereOthersTakeFloats) {
  const std::string costs = kCostsOfThreads;
  {
    const NcclGroup group(kRanks, costs + ",nccl_blocking=off");
    call(group, by("paper-gl8", GQSGD_SCHEDULE_AUTO), kLong);
    EXPECT_EQ(float_calls(group), 1u);
  }
  const UseHostDevice device;
  nccl::Id id;
  (void)nccl_of_tests()->get_unique_id(&id);
  std::string said[kRanks];
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] { said[rank] = call_lent(id, rank, costs); });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::string& line : said) EXPECT_EQ(line, "");
}

TEST(AutoOverNccl, BlockingCommunicator_CodesWhereOthersTakeFloats) {
  const std::string costs = kCostsOfThreads;
  const NcclGroup blocking(kRanks, costs);
  const Values codes = call(blocking, by("paper-gl8", GQSGD_SCHEDULE_AUTO), kLong);
  EXPECT_EQ(float_calls(blocking), 0u);
  const NcclGroup other(kRanks, kCosts);
  EXPECT_EQ(codes, call(other, by("paper-gl8", GQSGD_SCHEDULE_DIRECT), kLong));
}

/** A captured call has the choice of the call before it. */
TEST(AutoOverNccl, ReplayedShortCall_AllreduceOfNccl) {
  const NcclGroup group(kRanks, kCosts);
  const std::vector<Values> inputs = gradients(kRanks, kShort, 12);
  const Values floats = call(group, by("none", GQSGD_SCHEDULE_NATIVE), kShort);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const Values& input = inputs[static_cast<size_t>(rank)];
    CountedCall counted(by("blocks-8", GQSGD_SCHEDULE_AUTO), kShort);
    HostGraph graph;
    const OwnStream stream;
    const std::string failure = capture(comm, &counted, stream, input, &graph);
    if (!failure.empty()) return failure;
    counted.give(input);
    graph.replay(stream.get());
    if (!stream.synchronize()) return "the stream does not get through";
    return difference(counted.result(), floats);
  }),
            "");
}

}  // namespace
}  // namespace gq::test
