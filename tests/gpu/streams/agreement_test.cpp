// Ranks whose calls on memory of devices differ: reported at once, by all of them, whatever was
// called before; nothing is written, and the group stays usable.
#include <gtest/gtest.h>

#include <map>

#include "tests/gpu/streams/local_group.h"

namespace gq::test {
namespace {

constexpr size_t kCount = 700;

Operation usual() { return {"paper-gl8", GQSGD_SCHEDULE_DIRECT}; }

struct Said {
  gqsgd_status status;
  std::string sentence;
  bool untouched;
};

/** Every rank makes the call that `change` makes of the usual one. */
using Change = std::function<void(int rank, Operation* call, size_t* value_count)>;
std::vector<Said> make_calls(const LocalGroup& group, const Change& change) {
  std::vector<Said> said(static_cast<size_t>(group.size()));
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Operation call = usual();
    size_t value_count = kCount;
    change(rank, &call, &value_count);
    const auto inputs = gradients(group.size(), value_count, 9);
    StreamCall made(inputs[static_cast<size_t>(rank)]);
    const gqsgd_status status = made.make(comm, call);
    const std::string sentence = gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    said[static_cast<size_t>(rank)] = {status, sentence, made.untouched()};
    return "";
  }),
            "");
  return said;
}

void expect_works(const LocalGroup& group) {
  for (const Said& said : make_calls(group, [](int, Operation*, size_t*) {})) {
    EXPECT_EQ(said.status, GQSGD_OK) << said.sentence;
    EXPECT_FALSE(said.untouched);
  }
}

const std::map<std::string, Change>& differences() {
  static const std::map<std::string, Change> all = {
      {"count",
       [](int rank, Operation*, size_t* value_count) { *value_count += rank == 1 ? 64 : 0; }},
      {"levels",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->quantizer = "paper-ge8";
       }},
      {"schedule",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->schedule = GQSGD_SCHEDULE_RING;
       }},
      {"op",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->op = GQSGD_SUM;
       }},
      {"step", [](int rank, Operation* call, size_t*) { call->step = rank == 1 ? 8 : 7; }},
  };
  return all;
}

TEST(Agreement, Difference_NamedAtOnceOnAllRanks) {
  const LocalGroup group(3);
  for (int turn = 0; turn < 2; ++turn) {  // before the first call that works, and after it
    for (const auto& [field, change] : differences()) {
      for (const Said& said : make_calls(group, change)) {
        EXPECT_EQ(said.status, GQSGD_MISMATCH) << field << ": " << said.sentence;
        EXPECT_NE(said.sentence.find(field + " differs: rank 0 has"), std::string::npos)
            << said.sentence;
        EXPECT_NE(said.sentence.find("rank 1 has"), std::string::npos) << said.sentence;
        EXPECT_TRUE(said.untouched) << field;
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
    const auto said = make_calls(group, [](int rank, Operation* call, size_t*) {
      if (rank == 2) call->schedule = with_number<gqsgd_schedule>(99);
    });
    EXPECT_EQ(said[2].status, GQSGD_INVALID_ARGUMENT) << said[2].sentence;
    for (const size_t rank : {0u, 1u, 3u}) {
      EXPECT_EQ(said[rank].status, GQSGD_REMOTE_ERROR) << said[rank].sentence;
      EXPECT_NE(said[rank].sentence.find("rank 2 refused"), std::string::npos);
      EXPECT_TRUE(said[rank].untouched);
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
  };
  for (const auto& refused : cases) {
    const auto all = make_calls(group, [&](int, Operation* call, size_t*) {
      call->quantizer = refused.quantizer;
      call->schedule = refused.schedule;
    });
    for (const Said& said : all) {
      EXPECT_EQ(said.status, GQSGD_UNSUPPORTED) << said.sentence;
      EXPECT_NE(said.sentence.find(refused.part), std::string::npos) << said.sentence;
      EXPECT_TRUE(said.untouched);
    }
    expect_works(group);
  }
}

/** One rank calls with host memory, the others with a device's. */
TEST(Agreement, DifferentKindsOfMemory_Named) {
  const LocalGroup group(3);
  const auto inputs = gradients(3, kCount, 9);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      StreamCall made(inputs[static_cast<size_t>(rank)]);
      Values result;
      const std::string said = rank == 1 ? allreduce(comm, usual(), inputs[1], &result)
                                         : gqsgd_status_name(made.make(comm, usual())) +
                                               std::string(": ") + gqsgd_last_error();
      const bool named =
          said.find("MISMATCH") != std::string::npos &&
          said.find("memory differs: rank 0 has device, rank 1 has host") != std::string::npos;
      if (!named) return said;
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
      Values plain(kCount, 1.0f);
      EXPECT_TRUE(host_device().set_current(other_device ? 1 : 0).ok());
      const DeviceMemory there(kCount * sizeof(float));
      EXPECT_TRUE(host_device().set_current(0).ok());
      const DeviceMemory here(kCount * sizeof(float));
      const OwnStream stream;
      float* const wrong = other_device ? there.as<float>() : plain.data();
      float* const values = rank == 0 ? wrong : here.as<float>();
      const gqsgd_status status =
          gqsgd_allreduce(comm, quantizer.get(), values, values, kCount, GQSGD_FLOAT32, GQSGD_SUM,
                          config_at(1, 1), stream.get());
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
