// Wrong arguments on one rank of three: that rank's sentence has the fault, the others' name the
// rank, no result is touched, and the group stays usable.
#include <gqsgd_model.h>
#include <gqsgd_stages.h>

#include <cstdint>
#include <cstdlib>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr int kCulprit = 1;

struct Fault {
  const char* name;
  Change change;
  gqsgd_status status;
  const char* sentence;
};

const char* const kAddressSpace = "more than an address space|the largest is";

const Fault kFaults[] = {
    {"send is NULL", [](Call& call) { call.send = nullptr; }, GQSGD_INVALID_ARGUMENT,
     "send is NULL, of 1000 elements"},
    {"recv is NULL", [](Call& call) { call.recv = nullptr; }, GQSGD_INVALID_ARGUMENT,
     "recv is NULL, of 1000 elements"},
    {"count times size overflows", [](Call& call) { call.value_count = SIZE_MAX / 2; },
     GQSGD_INVALID_ARGUMENT, kAddressSpace},
    {"count beyond PTRDIFF_MAX bytes",
     [](Call& call) { call.value_count = PTRDIFF_MAX / sizeof(float) + 1; }, GQSGD_INVALID_ARGUMENT,
     kAddressSpace},
    {"send is misaligned",
     [](Call& call) { call.send = reinterpret_cast<const char*>(call.send) + 2; },
     GQSGD_INVALID_ARGUMENT, "send is 0x[0-9a-f]+, which is not aligned to its elements of 4"},
    {"recv is misaligned", [](Call& call) { call.recv = reinterpret_cast<char*>(call.recv) + 1; },
     GQSGD_INVALID_ARGUMENT, "recv is 0x[0-9a-f]+, which is not aligned to its elements of 4"},
    {"send and recv overlap in part",
     [](Call& call) {
       call.value_count = kCallValues / 2;
       call.send = call.result.data();
       call.recv = call.result.data() + 100;
     },
     GQSGD_INVALID_ARGUMENT, "send and recv overlap in 1600 bytes; they must be disjoint or equal"},
    {"unknown dtype", [](Call& call) { call.dtype = with_number<gqsgd_dtype>(17); },
     GQSGD_INVALID_ARGUMENT, "dtype is 17; allowed are GQSGD_FLOAT32"},
    {"unknown op", [](Call& call) { call.op = with_number<gqsgd_op>(-1); }, GQSGD_INVALID_ARGUMENT,
     "op is -1; allowed are GQSGD_SUM"},
    {"unknown schedule", [](Call& call) { call.config.schedule = with_number<gqsgd_schedule>(99); },
     GQSGD_INVALID_ARGUMENT, "config.schedule is 99; allowed are"},
    {"a format without sparse entries",
     [](Call& call) {
       call.use("paper-gl8,block=128");
       call.config.schedule = GQSGD_SCHEDULE_SPARSE;
     },
     GQSGD_INVALID_ARGUMENT,
     "schedule sparse .* does not go with block; use schedule direct, or levels=linear or "
     "exponential with block=0"},
    {"Rice codes as sparse entries",
     [](Call& call) {
       call.use("rice-4");
       call.config.schedule = GQSGD_SCHEDULE_SPARSE;
     },
     GQSGD_INVALID_ARGUMENT,
     "schedule sparse .* does not go with levels=rice; use schedule direct, or levels=linear or "
     "exponential with block=0, rotate=none, width=fixed"},
    {"codes that a transport cannot add",
     [](Call& call) {
       call.use("paper-ge8");
       call.config.schedule = GQSGD_SCHEDULE_NATIVE;
     },
     GQSGD_INVALID_ARGUMENT,
     "schedule native .* needs levels=linear with combine=exact, or levels=none; this format has "
     "levels=exponential,combine=sum: use schedule direct or auto"},
    {"floats of 16 bits in code form",
     [](Call& call) {
       call.use("bf16");
       call.config.schedule = GQSGD_SCHEDULE_RING;
     },
     GQSGD_INVALID_ARGUMENT,
     "schedule ring reduces in code form, and levels=bf16 needs an owner that adds wide and "
     "encodes once; use schedule direct or auto"},
    {"floats of 16 bits that a transport cannot add",
     [](Call& call) {
       call.use("fp16");
       call.config.schedule = GQSGD_SCHEDULE_NATIVE;
     },
     GQSGD_INVALID_ARGUMENT, "schedule native .* levels=fp16 needs an owner"},
    {"sums by a transport that has none",
     [](Call& call) {
       call.use("paper-gl8");
       call.config.schedule = GQSGD_SCHEDULE_NATIVE;
     },
     GQSGD_UNSUPPORTED,
     "schedule native is the transport's own allreduce, which .* MPI has one, .*"},
    {"step too large", [](Call& call) { call.config.step = uint64_t{1} << 32; },
     GQSGD_INVALID_ARGUMENT, "step is 4294967296; the largest is 4294967295"},
    {"index too large", [](Call& call) { call.config.index = 65536; }, GQSGD_INVALID_ARGUMENT,
     "index is 65536; the largest is 65535"},
    {"no quantizer",
     [](Call& call) {
       gqsgd_quantizer_destroy(call.quantizer);
       call.quantizer = nullptr;
     },
     GQSGD_BAD_HANDLE, "quantizer"},
};

class OneWrongArgument : public testing::TestWithParam<Fault> {};

TEST_P(OneWrongArgument, ReportedOnAllRanks_GroupContinues) {
  const Fault& fault = GetParam();
  Group group(3);
  const GroupOutcome outcome = group.call(kCulprit, fault.change);
  EXPECT_TRUE(is(outcome.ranks[kCulprit], fault.status, fault.sentence));
  const std::string told =
      std::string("rank 1 refused its own call with ") + gqsgd_status_name(fault.status);
  EXPECT_TRUE(is(outcome.ranks[0], GQSGD_REMOTE_ERROR, told));
  EXPECT_TRUE(is(outcome.ranks[2], GQSGD_REMOTE_ERROR, told));
  EXPECT_TRUE(outcome.all_untouched);
  EXPECT_TRUE(group.still_works());
}

std::string name_of(const testing::TestParamInfo<Fault>& info) {
  std::string name = info.param.name;
  for (char& letter : name) letter = letter == ' ' ? '_' : letter;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Arguments, OneWrongArgument, testing::ValuesIn(kFaults), name_of);

TEST(Arguments, NoValues_NoBuffersNeeded_CountStillChecked) {
  Group group(3);
  const Change nothing = [](Call& call) {
    call.send = nullptr;
    call.recv = nullptr;
    call.value_count = 0;
  };
  for (const Outcome& outcome : group.call(-1, nullptr, nothing).ranks) EXPECT_TRUE(is_ok(outcome));
  for (const Outcome& outcome : group.call(2, nothing).ranks) {
    EXPECT_TRUE(is(outcome, GQSGD_MISMATCH, "count differs: rank 0 has 1000, rank 2 has 0"));
  }
  EXPECT_TRUE(group.still_works());
}

TEST(Arguments, ElementAlignment_Enough) {
  Group group(2);
  const Change shift = [](Call& call) {
    call.send = call.input.data() + 1;
    call.recv = call.result.data() + 3;
    call.value_count = kCallValues - 3;
  };
  for (const Outcome& outcome : group.call(-1, nullptr, shift).ranks) EXPECT_TRUE(is_ok(outcome));
}

TEST(Arguments, SchedulesInCodeForm_FieldsThatNeedAnOwner_RefusedOnAllRanks) {
  Group group(3);
  const struct {
    const char* quantizer;
    const char* field;
  } cases[] = {{"bits_down=4", "bits_down other than bits"},
               {"blocks-8", "rescale=true"},
               {"rounding_down=subtractive", "rounding_down=subtractive"},
               {"relative-8", "mantissa_bits"}};
  for (const auto& one : cases) {
    for (const gqsgd_schedule schedule :
         {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_BUTTERFLY}) {
      const GroupOutcome outcome = group.call(-1, nullptr, [&](Call& call) {
        call.use(one.quantizer);
        call.config.schedule = schedule;
      });
      for (const Outcome& rank : outcome.ranks) {
        EXPECT_TRUE(is(rank, GQSGD_INVALID_ARGUMENT,
                       std::string("schedule ") + schedule_name(schedule) + " .*" + one.field +
                           ".* use schedule direct or auto"));
      }
      EXPECT_TRUE(outcome.all_untouched);
    }
  }
  EXPECT_TRUE(group.still_works());
}

// With a device the memory is refused, not the stream: tests/gpu/stages has more of it.
TEST(Arguments, StageOnAStream_NoDeviceOrMemory_Refused) {
  Call call(0);
  call.use("paper-gl8");
  const gqsgd_site site = {0, 1, 0, 0, 0, 0, 0, 1, 1};
  void* const legacy_stream = reinterpret_cast<void*>(uintptr_t{1});
  float values[32] = {}, norm = 1;
  const Outcome outcome = outcome_of(gqsgd_norm(call.quantizer, &site, values, 32, GQSGD_FLOAT32,
                                                &norm, nullptr, 0, legacy_stream));
  EXPECT_TRUE(is(outcome, GQSGD_UNSUPPORTED,
                 "stream is 0x1, for memory of a device, and there is none: .*NULL is") ||
              is(outcome, GQSGD_INVALID_ARGUMENT, "values is .* memory of the host"));
  EXPECT_EQ(norm, 1);
}

TEST(Arguments, CallOnAStream_NoDeviceOrMemory_Refused) {
  Group group(3);
  const GroupOutcome outcome =
      group.call(kCulprit, [](Call& call) { call.stream = reinterpret_cast<void*>(uintptr_t{1}); });
  const Outcome& culprit = outcome.ranks[kCulprit];
  EXPECT_TRUE(is(culprit, GQSGD_UNSUPPORTED,
                 "stream is 0x1, for memory of a device, and there is none: .*NULL is") ||
              is(culprit, GQSGD_INVALID_ARGUMENT, "send is .* memory of the host"));
  EXPECT_TRUE(is(outcome.ranks[0], GQSGD_REMOTE_ERROR, "rank 1 refused its own call with "));
  EXPECT_TRUE(outcome.all_untouched);
  EXPECT_TRUE(group.still_works());
}

TEST(Arguments, TimeoutsOfZeroAndForEver_AsDocumented) {
  Group group(1, "timeout_ms=1234");
  int64_t timeout_ms = 0;
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_timeout(group.comm(0), &timeout_ms))));
  EXPECT_EQ(timeout_ms, 1234);
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_set_timeout(group.comm(0), 0))));
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_timeout(group.comm(0), &timeout_ms))));
  EXPECT_EQ(timeout_ms, 300000);
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_set_timeout(group.comm(0), -1))));
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_set_timeout(group.comm(0), INT64_MAX)),
                 GQSGD_INVALID_ARGUMENT, "timeout_ms is"));
}

TEST(Arguments, TimeoutOfZero_DefaultOfTheEnvironment) {
  setenv("GQSGD_TIMEOUT_MS", "4321", 1);
  Group group(1, "timeout_ms=0");
  int64_t created_ms = 0, restored_ms = 0;
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_timeout(group.comm(0), &created_ms))));
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_set_timeout(group.comm(0), 7))));
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_set_timeout(group.comm(0), 0))));
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_timeout(group.comm(0), &restored_ms))));
  unsetenv("GQSGD_TIMEOUT_MS");
  EXPECT_EQ(created_ms, 4321);
  EXPECT_EQ(restored_ms, 4321);
}

/** A measurement of two ranks, of which the second changes its call first. */
std::vector<Outcome> measure(const Group& group,
                             const std::function<void(Call&, double**)>& change) {
  std::vector<Outcome> outcomes(2);
  const auto run = [&](int rank) {
    Call call(rank);
    double error = 0, *place = &error;
    if (rank == 1) change(call, &place);
    outcomes[static_cast<size_t>(rank)] = outcome_of(
        gqsgd_measured_error(group.comm(rank), call.quantizer, call.send, call.value_count,
                             call.dtype, config_of(call.config.schedule), place));
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return outcomes;
}

TEST(Arguments, WrongArgumentsOfAMeasurement_RefusedOnAllRanks) {
  const struct {
    std::function<void(Call&, double**)> change;
    gqsgd_status status;
    const char* sentence;
  } cases[] = {
      {[](Call& call, double**) { call.dtype = with_number<gqsgd_dtype>(9); },
       GQSGD_INVALID_ARGUMENT, "dtype is 9"},
      {[](Call& call, double**) { call.dtype = with_number<gqsgd_dtype>(9), call.value_count = 0; },
       GQSGD_INVALID_ARGUMENT, "dtype is 9"},
      {[](Call& call, double**) { call.send = nullptr; }, GQSGD_INVALID_ARGUMENT, "send is NULL"},
      {[](Call&, double** error) { *error = nullptr; }, GQSGD_INVALID_ARGUMENT, "error is NULL"},
      {[](Call& call, double**) {
         gqsgd_quantizer_destroy(call.quantizer);
         call.quantizer = nullptr;
       },
       GQSGD_BAD_HANDLE, "quantizer"},
  };
  Group group(2, "timeout_ms=3000");
  for (const auto& one : cases) {
    const std::vector<Outcome> outcomes = measure(group, one.change);
    EXPECT_TRUE(is(outcomes[1], one.status, one.sentence));
    EXPECT_TRUE(is(outcomes[0], GQSGD_REMOTE_ERROR, "rank 1 refused its own call"));
    uint64_t step = 1;
    EXPECT_EQ(gqsgd_comm_counter(group.comm(1), &step), GQSGD_OK);
    EXPECT_EQ(step, 0u) << "a measurement uses no step";
  }
  EXPECT_TRUE(group.still_works());
}

TEST(Arguments, ImpossibleCounts_RefusedBeforeAnyArithmetic) {
  Group group(1);
  const char* const too_many = "count is [0-9]+; the largest is 17592186044416";
  for (const char* text : {"none", "paper-gl8", "rotated-8"}) {
    Call call(0);
    call.use(text);
    for (const size_t count : {(size_t{1} << 44) + 1, size_t{1} << 62, SIZE_MAX}) {
      size_t size = 0;
      double theta = 0;
      for (const gqsgd_status status :
           {gqsgd_packed_size(call.quantizer, count, &size),
            gqsgd_result_size(call.quantizer, count, &size),
            gqsgd_norm_count(call.quantizer, count, &size),
            gqsgd_workspace_size(call.quantizer, count, GQSGD_FLOAT32, &size),
            gqsgd_variance_bound(call.quantizer, 4, count, GQSGD_SCHEDULE_DIRECT, &theta),
            gqsgd_comm_reserve(group.comm(0), call.quantizer, count, GQSGD_FLOAT32)}) {
        EXPECT_TRUE(is(outcome_of(status), GQSGD_INVALID_ARGUMENT, too_many)) << text;
      }
    }
  }
}

TEST(Arguments, ImpossibleGroupSizes_Refused) {
  gqsgd_comm comms[1] = {};
  for (const int32_t count : {0, -1, INT32_MIN, INT32_MAX}) {
    EXPECT_TRUE(
        is(outcome_of(gqsgd_comm_create_local(count, "", comms)), GQSGD_INVALID_ARGUMENT, "ranks"))
        << count;
  }
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  struct {
    int32_t rank, size;
  } const places[] = {{0, 0}, {2, 2}, {-1, 2}, {0, -5}, {INT32_MAX, INT32_MAX}};
  for (const auto& place : places) {
    const Outcome outcome = outcome_of(
        gqsgd_comm_create_process(&id, place.rank, place.size, "timeout_ms=1000", comms));
    EXPECT_TRUE(is(outcome, GQSGD_INVALID_ARGUMENT, "rank")) << place.rank << " of " << place.size;
    EXPECT_EQ(comms[0], nullptr);
  }
}

}  // namespace
}  // namespace gq::test
