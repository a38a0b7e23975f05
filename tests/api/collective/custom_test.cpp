// Allreduces over a custom transport, the sockets of docs/TRANSPORTS.md: every schedule, format and
// type gives the bits of virtual ranks. Its failures are custom_faults_test's matter.
#include <gqsgd_model.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"
#include "tests/support/wrapped_sockets.h"

namespace gq::test {
namespace {

struct Case {
  Operation operation;
  const std::vector<Values>* inputs;
  Values expected;
};

void add_case(const char* format, gqsgd_schedule schedule, const std::vector<Values>& inputs,
              std::vector<Case>* cases) {
  const uint64_t step = cases->size();
  const gqsgd_op op = step % 2 ? GQSGD_SUM : GQSGD_MEAN;
  const Operation operation{format, schedule, op, step % 3 == 0, step, step % 7};
  cases->push_back({operation, &inputs, simulate(operation, inputs)});
}

std::vector<Case> all_cases(const std::vector<std::vector<Values>>& inputs) {
  std::vector<Case> cases;
  for (const std::vector<Values>& of_count : inputs) {
    for (gqsgd_schedule schedule : kSchedules) {
      for (const char* preset : kPresets) add_case(preset, schedule, of_count, &cases);
      for (const char* format : kBlockFormats) add_case(format, schedule, of_count, &cases);
    }
    for (const char* format : kWideFormats) {
      add_case(format, GQSGD_SCHEDULE_DIRECT, of_count, &cases);
    }
    for (const char* format : kHostFormats) {
      add_case(format, GQSGD_SCHEDULE_DIRECT, of_count, &cases);
    }
    for (const char* format : {"paper-gl8", "paper-gl4,norm=2:2"}) {
      add_case(format, GQSGD_SCHEDULE_SPARSE, of_count, &cases);
    }
  }
  return cases;
}

RankBody run_cases(const std::vector<Case>& cases) {
  return [&cases](int rank, gqsgd_comm comm) -> std::string {
    for (const Case& one : cases) {
      Values result;
      const std::string failure = allreduce(comm, one.operation, (*one.inputs)[rank], &result);
      if (!failure.empty()) return failure;
      const std::string wrong = difference(result, one.expected);
      if (!wrong.empty()) return describe(one.operation) + ": " + wrong;
    }
    return "";
  };
}

class CustomTransport : public testing::TestWithParam<int> {};

TEST_P(CustomTransport, AllSchedules_BitsOfVirtualRanks) {
  std::vector<std::vector<Values>> inputs;
  for (size_t count : {0, 1, 33, 1000, 5000}) inputs.push_back(gradients(GetParam(), count, count));
  const std::vector<Case> cases = all_cases(inputs);
  const auto comms = custom_comms(socket_tables(GetParam()), "chunk_value_count=256");
  EXPECT_EQ(run_threads(comms, run_cases(cases)), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, CustomTransport, testing::Values(1, 2, 3, 4, 5, 8));

TEST(CustomTransport, ManyChunksOfDefaultLength_BitsOfVirtualRanks) {
  const std::vector<std::vector<Values>> inputs = {gradients(4, 1000003, 9)};
  std::vector<Case> cases;
  for (gqsgd_schedule schedule : kSchedules) add_case("paper-ge8", schedule, inputs[0], &cases);
  for (const char* format : {"none", "blocks-8", "rotated-4-8", "relative-8"}) {
    add_case(format, GQSGD_SCHEDULE_DIRECT, inputs[0], &cases);
  }
  EXPECT_EQ(run_threads(custom_comms(socket_tables(4), ""), run_cases(cases)), "");
}

/** Notes on which threads the functions of its sockets are called. */
struct Homebody {
  gqsgd_transport sockets;
  std::thread::id home;
  std::atomic<int> calls_from_elsewhere{0};

  const gqsgd_transport& noted() {
    calls_from_elsewhere += std::this_thread::get_id() == home ? 0 : 1;
    return sockets;
  }
  gqsgd_transport table();
};

gqsgd_transport Homebody::table() {
  gqsgd_transport table = sockets;
  table.user = this;
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    const gqsgd_transport& inner = static_cast<Homebody*>(user)->noted();
    return inner.send(inner.user, peer, bytes, size, request);
  };
  table.receive = [](void* user, int32_t peer, void* bytes, size_t size, uint64_t* request) {
    const gqsgd_transport& inner = static_cast<Homebody*>(user)->noted();
    return inner.receive(inner.user, peer, bytes, size, request);
  };
  table.test = [](void* user, uint64_t request, int32_t* done, size_t* size) {
    const gqsgd_transport& inner = static_cast<Homebody*>(user)->noted();
    return inner.test(inner.user, request, done, size);
  };
  table.progress = [](void* user, int32_t timeout_us) {
    const gqsgd_transport& inner = static_cast<Homebody*>(user)->noted();
    return inner.progress(inner.user, timeout_us);
  };
  table.close = [](void* user) {
    const gqsgd_transport& inner = static_cast<Homebody*>(user)->sockets;
    return inner.close(inner.user);
  };
  table.error_text = nullptr;
  return table;
}

TEST(CustomTransport, StagesOnSeveralThreads_CalledOnCallersThread) {
  const std::vector<std::vector<Values>> inputs = {gradients(2, 300001, 9)};
  std::vector<Case> cases;
  for (const char* format : {"none", "paper-gl4", "blocks-8", "rotated-4"}) {
    add_case(format, GQSGD_SCHEDULE_DIRECT, inputs[0], &cases);
  }
  const std::vector<gqsgd_transport> sockets = socket_tables(2);
  Homebody ranks[2];
  std::vector<gqsgd_transport> tables;
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].sockets = sockets[rank];
    tables.push_back(ranks[rank].table());
  }
  const auto body = [&](int rank, gqsgd_comm comm) {
    ranks[rank].home = std::this_thread::get_id();
    return run_cases(cases)(rank, comm);
  };
  EXPECT_EQ(run_threads(custom_comms(tables, "threads=3"), body), "");
  for (const Homebody& rank : ranks) EXPECT_EQ(rank.calls_from_elsewhere, 0);
}

// The same hierarchy by the option, by the table, and by the option where the table says otherwise.
/** Two groups: a request in each, and an allreduce of the first group beside them. */
std::string in_own_order(int rank, gqsgd_comm first, gqsgd_comm second) {
  gqsgd_quantizer quantizer = nullptr;
  gqsgd_request requests[2] = {};
  Values values(3, 1.0f), results[3] = {values, values, values};
  gqsgd_comm const comms[2] = {first, second};
  std::string failure;
  const auto check = [&](gqsgd_status status) {
    if (status != GQSGD_OK && failure.empty()) failure = gqsgd_last_error();
  };
  check(gqsgd_quantizer_create("none", &quantizer));
  for (int k = 0; k < 2; ++k) {
    check(gqsgd_allreduce_start(comms[k], quantizer, values.data(), results[k].data(), 3,
                                GQSGD_FLOAT32, GQSGD_SUM, nullptr, nullptr, &requests[k]));
  }
  const auto call = [&] {  // behind the first group's request
    check(gqsgd_allreduce(first, quantizer, values.data(), results[2].data(), 3, GQSGD_FLOAT32,
                          GQSGD_SUM, nullptr, nullptr));
  };
  if (rank == 0) call();
  check(gqsgd_request_wait(requests[rank == 0 ? 0 : 1]));
  check(gqsgd_request_wait(requests[rank == 0 ? 1 : 0]));
  if (rank != 0) call();
  check(gqsgd_quantizer_destroy(quantizer));
  for (const Values& result : results) {
    if (failure.empty() && result[0] != 2) failure = "another sum";
  }
  return failure;
}

TEST(CustomTransport, RequestsOfTwoGroups_WaitedForInAnyOrder) {
  const auto first = custom_comms(socket_tables(2), "timeout_ms=20000");
  const auto second = custom_comms(socket_tables(2), "timeout_ms=20000");
  const auto body = [&](int rank, gqsgd_comm comm) {
    return in_own_order(rank, comm, second[static_cast<size_t>(rank)]);
  };
  EXPECT_EQ(run_threads(first, body), "");
  for (gqsgd_comm comm : second) gqsgd_comm_destroy(comm);
}

TEST(CustomTransport, Nodes_BitsOfVirtualRanks) {
  const std::vector<std::vector<int32_t>> places = {
      {0, 1, 1, 1}, {0, 1, 2, 0, 1, 2}, {0, 0}, {4, 4, 9, 9, 4, 9, 9, 9}, {-1, 7, -1}};
  for (const std::vector<int32_t>& node_ids : places) {
    const int rank_count = static_cast<int>(node_ids.size());
    const std::string nodes = nodes_option(node_ids);
    const std::vector<Values> inputs = gradients(rank_count, 5000, 77);
    std::vector<Case> cases;
    const auto add = [&](const char* format) {
      const uint64_t step = cases.size();
      const Operation operation{format, GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_MEAN, step % 2 == 0,
                                step};
      cases.push_back({operation, &inputs, simulate(operation, inputs, nodes)});
    };
    for (const char* format : kPresets) add(format);
    for (const char* format : kBlockFormats) add(format);
    for (const char* format : kWideFormats) add(format);
    for (const char* format : kHostFormats) add(format);
    std::vector<gqsgd_transport> tables = socket_tables(rank_count),
                                 said = socket_tables(rank_count),
                                 overruled = socket_tables(rank_count);
    const std::vector<int32_t> other(node_ids.size(), 3);
    for (gqsgd_transport& table : said) table.node_ids = node_ids.data();
    for (gqsgd_transport& table : overruled) table.node_ids = other.data();
    const std::string chunks = "chunk_value_count=256";
    EXPECT_EQ(run_threads(custom_comms(tables, chunks + "," + nodes), run_cases(cases)), "");
    EXPECT_EQ(run_threads(custom_comms(said, chunks), run_cases(cases)), "");
    EXPECT_EQ(run_threads(custom_comms(overruled, nodes), run_cases(cases)), "");
  }
}

/** Bits of a whole number below 128 in a type of two bytes with so many bits of mantissa. */
uint16_t narrow_bits(uint32_t number, int mantissa_bits, uint32_t bias) {
  if (number == 0) return 0;
  uint32_t exponent = 0;
  while (number >> (exponent + 1) != 0) ++exponent;
  const uint32_t fraction = number - (1u << exponent);
  return static_cast<uint16_t>((exponent + bias) << mantissa_bits |
                               fraction << (mantissa_bits - static_cast<int>(exponent)));
}

template <typename Element, typename Convert>
std::vector<unsigned char> whole_numbers_as(size_t value_count, int rank, Convert convert) {
  std::vector<Element> values(value_count);
  for (size_t e = 0; e < value_count; ++e) {
    values[e] = convert(static_cast<uint32_t>(mix(e * 16 + rank) % 128));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  return std::vector<unsigned char>(bytes, bytes + value_count * sizeof(Element));
}

std::vector<unsigned char> whole_numbers(gqsgd_dtype dtype, size_t value_count, int rank) {
  switch (dtype) {
    case GQSGD_FLOAT16:
      return whole_numbers_as<uint16_t>(
          value_count, rank, [](uint32_t number) { return narrow_bits(number, 10, 15); });
    case GQSGD_BFLOAT16:
      return whole_numbers_as<uint16_t>(
          value_count, rank, [](uint32_t number) { return narrow_bits(number, 7, 127); });
    case GQSGD_FLOAT64:
      return whole_numbers_as<double>(value_count, rank, [](uint32_t number) { return number; });
    default:
      return whole_numbers_as<float>(value_count, rank,
                                     [](uint32_t number) { return static_cast<float>(number); });
  }
}

TEST(CustomTransport, EveryType_BitsOfVirtualRanks) {
  constexpr size_t kCount = 3001;
  for (gqsgd_dtype dtype : {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64}) {
    std::vector<std::vector<unsigned char>> inputs;
    for (int rank = 0; rank < 3; ++rank) inputs.push_back(whole_numbers(dtype, kCount, rank));
    std::vector<unsigned char> expected(inputs[0].size());
    const void* send[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
    void* recv[] = {expected.data(), nullptr, nullptr};
    const Config config = config_at(4, 2, GQSGD_SCHEDULE_DIRECT);
    const Quantizer quantizer("blocks-8");
    ASSERT_EQ(gqsgd_simulate(quantizer.get(), 3, send, recv, kCount, dtype, GQSGD_MEAN, config, ""),
              GQSGD_OK);
    const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
      std::vector<unsigned char> result(inputs[rank].size());
      const gqsgd_status status =
          gqsgd_allreduce(comm, quantizer.get(), inputs[rank].data(), result.data(), kCount, dtype,
                          GQSGD_MEAN, config, nullptr);
      if (status != GQSGD_OK) return failure_of(status, "gqsgd_allreduce");
      return result == expected ? "" : "other bits";
    };
    EXPECT_EQ(run_threads(custom_comms(socket_tables(3), ""), body), "") << "dtype " << dtype;
  }
}

/** An allgather among threads, as a transport may have one: the last to come makes it done. */
class Gathering {
 public:
  explicit Gathering(int rank_count) : rank_count_(rank_count) {}

  void come(int rank, uint64_t round, const void* own, void* all, size_t size_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Round& open = rounds_[round];
    const auto* bytes = static_cast<const unsigned char*>(own);
    open.parts.resize(rank_count_);
    open.parts[rank].assign(bytes, bytes + size_bytes);
    open.places.push_back(static_cast<unsigned char*>(all));
    if (static_cast<int>(open.places.size()) < rank_count_) return;
    for (unsigned char* place : open.places) {
      for (const auto& part : open.parts) {
        place = std::copy(part.begin(), part.end(), place);
      }
    }
    open.done = true;
  }
  bool done(uint64_t round) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return rounds_[round].done;
  }

 private:
  struct Round {
    std::vector<std::vector<unsigned char>> parts;
    std::vector<unsigned char*> places;
    bool done = false;
  };
  int rank_count_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Round> rounds_;
};

/** Sockets with an allgather. */
struct GatheringSockets {
  gqsgd_transport sockets;
  Gathering* gathering;
  uint64_t rounds;

  bool done(uint64_t request) { return gathering->done(request); }
};

gqsgd_transport with_allgather(GatheringSockets* self) {
  gqsgd_transport table = wrapped(self);
  table.allgather = [](void* user, const void* own, void* all, size_t size, uint64_t* request) {
    GatheringSockets& self = *static_cast<GatheringSockets*>(user);
    *request = kFirstOwnRequest + self.rounds++;
    self.gathering->come(self.sockets.rank, *request, own, all, size);
    return 0;
  };
  return table;
}

TEST(CustomTransport, TableWithAllgather_ControlMessagesUseIt) {
  constexpr int kRanks = 3;
  Gathering gathering(kRanks);
  std::vector<GatheringSockets> users;
  for (const gqsgd_transport& table : socket_tables(kRanks))
    users.push_back({table, &gathering, 0});
  std::vector<gqsgd_transport> tables;
  for (GatheringSockets& user : users) tables.push_back(with_allgather(&user));
  const std::vector<std::vector<Values>> inputs = {gradients(kRanks, 1000, 5)};
  EXPECT_EQ(run_threads(custom_comms(tables, "chunk_value_count=64"), run_cases(all_cases(inputs))),
            "");
  EXPECT_GT(users[0].rounds, 10u);
}

/** Sockets that keep what is sent until the library waits, as an adapter's queue may. */
struct LateSockets {
  struct Send {
    int32_t peer;
    const unsigned char* bytes;
    std::vector<unsigned char> as_given;
    uint64_t request = 0;
    bool begun = false;
  };

  gqsgd_transport sockets;
  std::vector<Send> sends;
  size_t begun = 0;
  size_t changed = 0;  ///< messages whose bytes were written to before they left

  int32_t done(uint64_t request) {
    const Send& send = sends[request - kFirstOwnRequest];
    int32_t done = 0;
    size_t size = 0;
    if (send.begun) sockets.test(sockets.user, send.request, &done, &size);
    return done;
  }
  void begin_all() {
    for (; begun < sends.size(); ++begun) {
      Send& send = sends[begun];
      changed += std::equal(send.as_given.begin(), send.as_given.end(), send.bytes) ? 0 : 1;
      sockets.send(sockets.user, send.peer, send.bytes, send.as_given.size(), &send.request);
      send.begun = true;
    }
  }
};

gqsgd_transport late(LateSockets* self) {
  gqsgd_transport table = wrapped(self);
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    LateSockets& self = *static_cast<LateSockets*>(user);
    const auto* const begin = static_cast<const unsigned char*>(bytes);
    *request = kFirstOwnRequest + self.sends.size();
    self.sends.push_back({peer, begin, {begin, begin + size}});
    return 0;
  };
  table.progress = [](void* user, int32_t timeout_us) {
    LateSockets& self = *static_cast<LateSockets*>(user);
    if (timeout_us > 0) self.begin_all();
    return self.sockets.progress(self.sockets.user, timeout_us < 100 ? timeout_us : 100);
  };
  return table;
}

// Five chunks over six ranks: what two ranks receive of a third one has different numbers.
TEST(CustomTransport, MessagesThatLeaveLate_BytesStayAsTheyWereGiven) {
  constexpr int kRanks = 6;
  std::vector<LateSockets> users;
  for (const gqsgd_transport& table : socket_tables(kRanks)) users.emplace_back().sockets = table;
  std::vector<gqsgd_transport> tables;
  for (LateSockets& user : users) tables.push_back(late(&user));
  const std::vector<std::vector<Values>> inputs = {gradients(kRanks, 1250, 5)};
  EXPECT_EQ(run_threads(custom_comms(tables, "chunk_value_count=256"),
                        run_cases(all_cases(inputs))),
            "");
  for (const LateSockets& user : users) {
    EXPECT_GT(user.sends.size(), 500u);
    EXPECT_EQ(user.changed, 0u);
  }
}

TEST(CustomTransport, Calls_CountBytesSent) {
  const Operation operation{"paper-gl8", GQSGD_SCHEDULE_DIRECT};
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const std::string failure = allreduce(comm, operation, Values(4096, 1.0f), &result);
    if (!failure.empty()) return failure;
    uint64_t messages = 0, payload = 0, header = 0;
    gqsgd_comm_stat(comm, "messages_sent", &messages);
    gqsgd_comm_stat(comm, "payload_bytes_sent", &payload);
    gqsgd_comm_stat(comm, "header_bytes_sent", &header);
    const bool right = messages == 6 && payload == 6 * 1024 && header == 3 * 80;
    return right ? ""
                 : "rank " + std::to_string(rank) + ": " + std::to_string(messages) + ", " +
                       std::to_string(payload) + ", " + std::to_string(header);
  };
  EXPECT_EQ(run_threads(custom_comms(socket_tables(4), ""), body), "");
}

constexpr unsigned char kOldByte = 0xA5;

/** A rank's sockets, which look at what is sent. */
struct WatchedSockets {
  gqsgd_transport sockets;
  std::atomic<int> messages{0}, with_old_memory{0};

  int32_t done(uint64_t) { return 0; }
};

gqsgd_transport watched(WatchedSockets* self) {
  gqsgd_transport table = wrapped(self);
  table.send = [](void* user, int32_t peer, const void* bytes, size_t size, uint64_t* request) {
    WatchedSockets& self = *static_cast<WatchedSockets*>(user);
    const auto* first = static_cast<const unsigned char*>(bytes);
    const std::vector<unsigned char> old(64, kOldByte);
    self.messages += 1;
    if (std::search(first, first + size, old.begin(), old.end()) != first + size) {
      self.with_old_memory += 1;
    }
    return self.sockets.send(self.sockets.user, peer, bytes, size, request);
  };
  return table;
}

/** What malloc() gives this thread next has kOldByte in it, while what is returned lies behind. */
std::unique_ptr<unsigned char[]> leave_old_memory() {
  constexpr size_t kBlocks = 32, kBlockBytes = 64 << 10;
  std::vector<std::unique_ptr<unsigned char[]>> blocks;
  for (size_t k = 0; k < kBlocks; ++k) {
    blocks.push_back(std::make_unique<unsigned char[]>(kBlockBytes));
    std::memset(blocks.back().get(), kOldByte, kBlockBytes);
  }
  return std::make_unique<unsigned char[]>(kBlockBytes);
}

// A block of 128 codes of which one is a value's: the others are sent all the same.
TEST(Custom, SpaceBetweenTensors_HasNothingOfTheProcess) {
  constexpr size_t kTensors = 64;
  const std::vector<gqsgd_transport> sockets = socket_tables(2);
  WatchedSockets users[2] = {{sockets[0]}, {sockets[1]}};
  const auto body = [&](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("blocks-8");
    Values values(kTensors, 1);
    std::vector<void*> places;
    for (float& value : values) places.push_back(&value);
    const std::vector<size_t> counts(kTensors, 1);
    const auto behind = leave_old_memory();
    const gqsgd_status status =
        gqsgd_allreduce_many(comm, quantizer.get(), places.data(), places.data(), counts.data(),
                             kTensors, GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
    return status == GQSGD_OK ? "" : failure_of(status, "allreduce_many");
  };
  EXPECT_EQ(run_threads(custom_comms({watched(&users[0]), watched(&users[1])}, ""), body), "");
  for (const WatchedSockets& user : users) {
    EXPECT_GT(user.messages, 2);
    EXPECT_EQ(user.with_old_memory, 0);
  }
}

}  // namespace
}  // namespace gq::test
