// Ranks whose calls on memory of devices differ: reported at once, by all of them, whatever was
// called before; nothing is written, and the group stays usable.
#include <gtest/gtest.h>

#include "tests/gpu/stream_calls/differing_calls.h"
#include "tests/gpu/streams/local_group.h"

namespace gq::test {
namespace {

void expect_works(const LocalGroup& group) {
  for (const CallOutcome& outcome : make_calls(group, [](int, Operation*, size_t*) {})) {
    EXPECT_EQ(outcome.status, GQSGD_OK) << outcome.sentence;
    EXPECT_FALSE(outcome.untouched);
  }
}

TEST(Agreement, Difference_NamedAtOnceOnAllRanks) {
  const LocalGroup group(3);
  for (int turn = 0; turn < 2; ++turn) {  // before the first call that works, and after it
    for (const auto& [field, change] : differences()) {
      for (const CallOutcome& outcome : make_calls(group, change)) {
        EXPECT_EQ(outcome.status, GQSGD_MISMATCH) << field << ": " << outcome.sentence;
        EXPECT_NE(outcome.sentence.find(field + " differs: rank 0 has"), std::string::npos)
            << outcome.sentence;
        EXPECT_NE(outcome.sentence.find("rank 1 has"), std::string::npos) << outcome.sentence;
        EXPECT_TRUE(outcome.untouched) << field;
      }
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(gqsgd_comm_status(group.comm(rank)), GQSGD_OK) << field;
      }
    }
    expect_works(group);
  }
}

TEST(Agreement, Refusal_ReportedToOtherRanks) {
  const LocalGroup group(4);
  for (int turn = 0; turn < 2; ++turn) {
    const auto outcomes = make_calls(group, [](int rank, Operation* call, size_t*) {
      if (rank == 2) call->schedule = with_number<gqsgd_schedule>(99);
    });
    EXPECT_EQ(outcomes[2].status, GQSGD_INVALID_ARGUMENT) << outcomes[2].sentence;
    for (const size_t rank : {0u, 1u, 3u}) {
      EXPECT_EQ(outcomes[rank].status, GQSGD_REMOTE_ERROR) << outcomes[rank].sentence;
      EXPECT_NE(outcomes[rank].sentence.find("rank 2 refused"), std::string::npos);
      EXPECT_TRUE(outcomes[rank].untouched);
    }
    expect_works(group);
  }
}

/** What streams, or this transport on them, do not do is refused on all ranks, in words. */
TEST(Agreement, MissingFeatures_Refused) {
  const LocalGroup group(2);
  const struct {
    const char* quantizer;
    gqsgd_schedule schedule;
    const char* part;
  } cases[] = {
      {"paper-gl8", GQSGD_SCHEDULE_NATIVE, "which on memory of a device is NCCL's"},
      {"paper-gl8,nonfinite=error", GQSGD_SCHEDULE_DIRECT, "nonfinite=error"},
      {"bf16", GQSGD_SCHEDULE_DIRECT, "levels=bf16 works on host memory"},
      {"fp16", GQSGD_SCHEDULE_AUTO, "levels=fp16 works on host memory"},
      {"rice-4,nonfinite=error", GQSGD_SCHEDULE_DIRECT, "nonfinite=error"},
  };
  for (const auto& refused : cases) {
    const auto all = make_calls(group, [&](int, Operation* call, size_t*) {
      call->quantizer = refused.quantizer;
      call->schedule = refused.schedule;
    });
    for (const CallOutcome& outcome : all) {
      EXPECT_EQ(outcome.status, GQSGD_UNSUPPORTED) << outcome.sentence;
      EXPECT_NE(outcome.sentence.find(refused.part), std::string::npos) << outcome.sentence;
      EXPECT_TRUE(outcome.untouched);
    }
    expect_works(group);
  }
}

/** One rank calls with host memory, the others with a device's. */
TEST(Agreement, DifferentKindsOfMemory_Named) {
  const LocalGroup group(3);
  const auto inputs = gradients(3, kUsualCount, 9);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      StreamCall made(inputs[static_cast<size_t>(rank)]);
      Values result;
      const std::string failure = rank == 1 ? allreduce(comm, usual(), inputs[1], &result)
                                            : gqsgd_status_name(made.make(comm, usual())) +
                                                  std::string(": ") + gqsgd_last_error();
      const bool named =
          failure.find("MISMATCH") != std::string::npos &&
          failure.find("memory differs: rank 0 has device, rank 1 has host") != std::string::npos;
      if (!named) return failure;
      return made.wait() && made.untouched() ? "" : "something was written";
    }),
              "");
    expect_works(group);
  }
}

/** Host memory where there is a stream, and memory of another device. */
TEST(Agreement, MemoryOfAnotherDevice_Refused) {
  const LocalGroup group(2);
  expect_works(group);
  for (const bool other_device : {false, true}) {
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      const Quantizer quantizer("paper-gl8");
      Values plain(kUsualCount, 1.0f);
      EXPECT_TRUE(host_device().set_current(other_device ? 1 : 0).ok());
      const DeviceMemory there(kUsualCount * sizeof(float));
      EXPECT_TRUE(host_device().set_current(0).ok());
      const DeviceMemory here(kUsualCount * sizeof(float));
      const OwnStream stream;
      float* const wrong = other_device ? there.as<float>() : plain.data();
      float* const values = rank == 0 ? wrong : here.as<float>();
      const gqsgd_status status =
          gqsgd_allreduce(comm, quantizer.get(), values, values, kUsualCount, GQSGD_FLOAT32,
                          GQSGD_SUM, config_at(1, 1), stream.get());
      const std::string sentence = gqsgd_last_error();
      if (rank == 1) return status == GQSGD_REMOTE_ERROR ? "" : sentence;
      const char* const part = other_device ? "memory of another device" : "memory of the host";
      const bool named = sentence.find(part) != std::string::npos;
      return status == GQSGD_INVALID_ARGUMENT && named ? "" : sentence;
    }),
              "");
    expect_works(group);
  }
}

TEST(Agreement, NoDevice_Unsupported) {
  gqsgd_comm comm = nullptr;
  ASSERT_EQ(gqsgd_comm_create_local(1, "", &comm), GQSGD_OK);
  if (process_device(nullptr) == nullptr) {
    const Quantizer quantizer("paper-gl8");
    float value = 1;
    EXPECT_EQ(gqsgd_allreduce(comm, quantizer.get(), &value, &value, 1, GQSGD_FLOAT32, GQSGD_SUM,
                              nullptr, &value),
              GQSGD_UNSUPPORTED);
    EXPECT_NE(std::string(gqsgd_last_error()).find("there is none"), std::string::npos)
        << gqsgd_last_error();
  }
  gqsgd_comm_destroy(comm);
}

}  // namespace
}  // namespace gq::test
