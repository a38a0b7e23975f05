// What a rank does in each round, and the exchange after it. Numbers travel as float32 in the words
// of a control message that a call has for its arguments.
#include "src/call/measuring.h"

#include <inttypes.h>
#include <string.h>

#include <algorithm>
#include <bit>
#include <new>

#include "src/call/control_fields.h"
#include "src/schedule/nodes.h"
#include "src/support/log.h"
#include "src/transport/culprit.h"

namespace gq {
namespace {

// Words of a control message, from the second on.
constexpr uint32_t kNumbersWord = kControlCountLow;
static_assert(kNumbersWord + kRoundNumberCount == kControlTag);
constexpr uint32_t kElapsedWord = kControlNormLow;
constexpr uint32_t kRoundShift = 8;  // beside the operation

// In an arena: the words that this rank sends, then places for those that it receives. Stages and
// sums have the same memory.
constexpr size_t kOwnBytes = MeasureRounds::kMessageBytes;
constexpr size_t kPlacesBytes = MeasureRounds::kMessageBytes * MeasureRounds::kWindow;

/** Ranks of every node that send to the next node in a round: as many as the smallest has. */
uint32_t far_senders(const Nodes& nodes) {
  uint32_t senders = nodes.part_count();
  for (uint32_t node = 0; node < nodes.count(); ++node) {
    senders = std::min(senders, nodes.size_of(node));
  }
  return senders;
}

}  // namespace

size_t Measuring::workspace_bytes() {
  return std::max(
      {kOwnBytes + kPlacesBytes, StageTimes::workspace_bytes(), MeasureRounds::kSumBytes});
}

Status Measuring::begin(Endpoint& endpoint) {
  *this = Measuring();
  endpoint_ = &endpoint;
  here_ = processors_here();
  call_.operation = Operation::measure_costs;
  call_.format = uncompressed(Format());
  agreement_.begin(call_);
  endpoint.sequence += 1;
  endpoint.messages.begin_call(endpoint.sequence, operation_name(call_));
  // As of the schedule whose control messages have the nodes: who sends to whom follows from them.
  const ControlMessage control =
      Agreement::control_of(endpoint, call_, GQSGD_SCHEDULE_HIERARCHICAL, NormWords());
  return endpoint.host->send_control(endpoint.sequence, control);
}

Status Measuring::advance(bool* done) {
  *done = false;
  if (phase_ == Phase::agree) {
    bool all = false;
    GQ_TRY(agreement_.conclude(*endpoint_, Status(), &all));
    if (!all) return Status();
    if (endpoint_->messages.found()) return endpoint_->messages.failure();
    phase_ = Phase::work;  // a failure from here on is this rank's alone
    GQ_TRY(allocate());
    begin_round();
  }
  while (phase_ != Phase::done) {
    bool all = false;
    if (phase_ == Phase::work) {
      GQ_TRY(work(&all));
      if (!all) return Status();
      find_time();
      GQ_TRY(send_numbers());
    }
    GQ_TRY(read_numbers(&all));
    if (!all) return Status();
    end_round();
    if (rounds_.current().kind == RoundKind::done) GQ_TRY(finish());
  }
  *done = true;
  return Status();
}

Status Measuring::allocate() {
  const Nodes& nodes = endpoint_->nodes;
  MeasuredGroup group;
  group.ranks = endpoint_->size();
  group.has_near = !nodes.is_flat();
  group.far_senders = group.has_near ? far_senders(nodes) : 1;
  group.reads_in_place = endpoint_->reads_in_place();
  group.transport_adds = endpoint_->host->sums() != nullptr;
  GQ_TRY(endpoint_->host->arena(workspace_bytes(), &arena_));
  endpoint_->workspace_bytes.raise_to(workspace_bytes());
  rounds_.begin(group);
  begin_ns_ = now_ns();
  return Status();
}

void Measuring::begin_round() {
  phase_ = Phase::work;
  own_ = slowest_ = RoundNumbers();
  std::fill(std::begin(slowest_.of), std::end(slowest_.of), -3e38f);
  elapsed_ns_ = 0;
  controls_read_ = expected_ = sent_ = received_ = 0;
  sum_begun_ = false;
  round_ns_ = now_ns();
}

Status Measuring::work(bool* done) {
  const MeasureRound& round = rounds_.current();
  *done = true;
  switch (round.kind) {
    case RoundKind::stages:
      return stages_.time_row(*endpoint_, round.row, arena_, &own_);
    case RoundKind::barrier:
      if (!cleared_) memset(arena_, 0, workspace_bytes());  // codes are no floats to add
      cleared_ = true;
      return Status();
    case RoundKind::link:
      return exchange(done);
    case RoundKind::sum:
      return add_sums(done);
    default:
      return Status();
  }
}

/** Messages to the next rank and from the one before, as many under way as the round has. */
Status Measuring::exchange(bool* done) {
  const MeasureRound& round = rounds_.current();
  const Neighbours peers = neighbours();
  HostTransport& host = *endpoint_->host;
  *done = peers.next == endpoint_->rank();
  while (!*done && received_ < round.count) {
    for (; expected_ < std::min(round.count, received_ + round.window); ++expected_) {
      GQ_TRY(host.expect(message_from(peers.previous, expected_)));
    }
    for (; sent_ < std::min(round.count, received_ + round.window); ++sent_, ++steps_made_) {
      GQ_TRY(host.send(message_to(peers.next)));
    }
    const unsigned char* words = nullptr;
    GQ_TRY(host.receive(message_from(peers.previous, received_), &words));
    if (words == nullptr) return Status();
    if (host.reads_in_place()) read_words(words);
    received_ += 1;
    steps_made_ += 1;
  }
  return *done ? Status() : host.flushed(done);
}

Status Measuring::add_sums(bool* done) {
  *done = false;
  const MeasureRound& round = rounds_.current();
  HostSums& sums = *endpoint_->host->sums();
  while (received_ < round.count) {
    const uint64_t addends = round.size_bytes / addend_bytes(Addend::float32);
    if (!sum_begun_) GQ_TRY(sums.begin_sum({Addend::float32, 0, addends, kUncounted}));
    sum_begun_ = true;
    bool added = false;
    GQ_TRY(sums.end_sum(&added));
    if (!added) return Status();
    sum_begun_ = false;
    received_ += 1;
    steps_made_ += 1;
  }
  *done = true;
  return Status();
}

void Measuring::read_words(const unsigned char* words) {
  uint64_t sum = words_read_;
  for (size_t at = 0; at < rounds_.current().size_bytes; at += sizeof sum) {
    uint64_t word;
    memcpy(&word, words + at, sizeof word);
    sum += word;
  }
  words_read_ = sum;
}

/** The numbers of this rank; stages have theirs. */
void Measuring::find_time() {
  const MeasureRound& round = rounds_.current();
  const bool apart = endpoint_->nodes.count() == endpoint_->size() && endpoint_->size() > 1;
  switch (round.kind) {
    case RoundKind::shares:
      own_.of[0] = std::bit_cast<float>(here_.digest);
      break;
    case RoundKind::processors:
      own_.of[0] = static_cast<float>(here_.count) / static_cast<float>(std::max(sharers_, 1u));
      break;
    case RoundKind::machine:
      // Ranks that are alone on their nodes share processors with no other one.
      own_.of[0] = apart ? 0 : -static_cast<float>(node_processors_);
      own_.of[1] = -static_cast<float>(here_.cache_bytes);
      break;
    case RoundKind::barrier:
      own_.of[0] = static_cast<float>(exchange_ns_);
      break;
    case RoundKind::link:
    case RoundKind::sum:
      own_.of[0] = static_cast<float>(now_ns() - round_ns_) / static_cast<float>(round.count);
      break;
    default:
      break;
  }
}

Status Measuring::send_numbers() {
  endpoint_->sequence += 1;
  ControlMessage control;
  uint32_t* words = control.words;
  words[kControlMagicVersion] = kControlMagic | kWireVersion;
  words[kControlSequence] = static_cast<uint32_t>(endpoint_->sequence);
  words[kControlOperation] = static_cast<uint32_t>(Operation::measure_costs) |
                             static_cast<uint32_t>(rounds_.current().kind) << kRoundShift;
  for (size_t i = 0; i < kRoundNumberCount; ++i) {
    words[kNumbersWord + i] = std::bit_cast<uint32_t>(own_.of[i]);
  }
  words[kControlTag] = endpoint_->transport->tag();
  sent_ns_ = now_ns();
  words[kElapsedWord] = std::bit_cast<uint32_t>(static_cast<float>(sent_ns_ - begin_ns_));
  seal(&control, endpoint_->messages.kind());
  phase_ = Phase::numbers;
  return endpoint_->host->send_control(endpoint_->sequence, control);
}

Status Measuring::read_numbers(bool* all) {
  *all = false;
  for (; controls_read_ < endpoint_->size(); ++controls_read_, ++steps_made_) {
    ControlMessage control;
    bool there = false;
    GQ_TRY(endpoint_->host->receive_control(controls_read_, endpoint_->sequence, &control, &there));
    if (!there) return Status();
    if (endpoint_->messages.on() && !is_intact(control)) {
      GQ_TRY(endpoint_->messages.take_damaged_control(controls_read_, endpoint_->sequence));
      return endpoint_->messages.failure();
    }
    GQ_TRY(check_control(controls_read_, control));
    add_numbers(controls_read_, control);
  }
  *all = true;
  return Status();
}

/** All ranks have agreed to measure, and rounds follow from what they exchange. */
Status Measuring::check_control(uint32_t rank, const ControlMessage& control) const {
  GQ_TRY(Agreement::check_damage(*endpoint_, operation_name(call_), rank, control));
  const uint32_t expected = static_cast<uint32_t>(Operation::measure_costs) |
                            static_cast<uint32_t>(rounds_.current().kind) << kRoundShift;
  const uint32_t found = control.words[kControlOperation];
  if (control.words[kControlStatus] == GQSGD_OK && found == expected) return Status();
  endpoint_->transport->abort_group(GQSGD_PROTOCOL, rank);
  return fail(GQSGD_PROTOCOL,
              "call %" PRIu64
              ", measure_costs: the control message of rank %u has 0x%08x in place of 0x%08x: it "
              "was changed on its way or in memory",
              endpoint_->sequence, rank, found, expected);
}

void Measuring::add_numbers(uint32_t rank, const ControlMessage& control) {
  const uint32_t* words = control.words;
  const bool same_node = node_of(rank) == node_of(endpoint_->rank());
  const float first = std::bit_cast<float>(words[kNumbersWord]);
  const RoundKind kind = rounds_.current().kind;
  if (kind == RoundKind::shares) {
    sharers_ += same_node && words[kNumbersWord] == here_.digest ? 1 : 0;
    return;
  }
  if (kind == RoundKind::processors && same_node) node_processors_ += static_cast<double>(first);
  for (size_t i = 0; i < kRoundNumberCount; ++i) {
    slowest_.of[i] = std::max(slowest_.of[i], std::bit_cast<float>(words[kNumbersWord + i]));
  }
  const float elapsed_ns = std::bit_cast<float>(words[kElapsedWord]);
  elapsed_ns_ = std::max(elapsed_ns_, static_cast<double>(elapsed_ns));
}

void Measuring::end_round() {
  exchange_ns_ = static_cast<double>(now_ns() - sent_ns_);
  rounds_.agree(slowest_, elapsed_ns_);
  if (rounds_.current().kind != RoundKind::done) begin_round();
}

Status Measuring::finish() {
  try {
    costs_ = std::make_shared<const CostConstants>(rounds_.constants());
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the constants of the cost model");
  }
  phase_ = Phase::done;
  log_line(GQSGD_LOG_INFO, endpoint_->subject,
           "costs measured in %.0f ms: %.4g us from a send to its arrival, %.4g us of a processor "
           "for a message, %.4g ns for a byte of a link; gqsgd_comm_costs has all",
           elapsed_ns_ * 1e-6, costs_->latency_ns * 1e-3, costs_->message_ns * 1e-3,
           costs_->byte_ns);
  return Status();
}

uint32_t Measuring::node_of(uint32_t rank) const {
  return endpoint_->nodes.count() == 0 ? 0 : endpoint_->nodes.node_of(rank);
}

Measuring::Neighbours Measuring::neighbours() const {
  const Nodes& nodes = endpoint_->nodes;
  const uint32_t rank = endpoint_->rank(), ranks = endpoint_->size();
  if (nodes.is_flat()) return {(rank + 1) % ranks, (rank + ranks - 1) % ranks};
  const uint32_t node = nodes.node_of(rank), local = nodes.local_of(rank);
  if (rounds_.current().inside_node) {
    const uint32_t size = nodes.size_of(node);
    return {nodes.rank_of(node, (local + 1) % size),
            nodes.rank_of(node, (local + size - 1) % size)};
  }
  const uint32_t count = nodes.count();
  if (local >= far_senders(nodes)) return {rank, rank};
  return {nodes.rank_of((node + 1) % count, local),
          nodes.rank_of((node + count - 1) % count, local)};
}

/** The words that all ranks send lie at the beginning of their arenas. */
Message Measuring::message_to(uint32_t peer) const {
  const uint32_t self = endpoint_->rank();
  return Message{peer, self, self, 0, rounds_.current().size_bytes, 0, kUncounted};
}

Message Measuring::message_from(uint32_t peer, uint64_t number) const {
  const MeasureRound& round = rounds_.current();
  const size_t place = kOwnBytes + number % round.window * MeasureRounds::kMessageBytes;
  return Message{peer, peer, peer, 0, round.size_bytes, place};
}

Status Measuring::timed_out(int64_t waited_ms, uint32_t* culprit) {
  if (phase_ == Phase::agree) return agreement_.timed_out(*endpoint_, waited_ms, culprit);
  const MeasureRound& round = rounds_.current();
  const bool adds = phase_ == Phase::work && round.kind == RoundKind::sum;
  if (adds) {
    *culprit = endpoint_->rank();
    return fail(GQSGD_TIMEOUT,
                "call %" PRIu64 ", measure_costs: rank %u waited %" PRId64
                " ms for the transport's own allreduce, which does not say whom it waits for "
                "(timeout_ms sets the limit)",
                endpoint_->sequence, endpoint_->rank(), waited_ms);
  }
  uint32_t peer = controls_read_;
  const char* what = "times";
  if (phase_ == Phase::work) {
    const bool flushing = received_ == round.count;
    peer = flushing ? endpoint_->host->unflushed_peer() : neighbours().previous;
    what = flushing ? "receipt of its messages" : "messages";
  }
  const Culprit found(*endpoint_->host, peer, kStoppedOrSlow);
  *culprit = found.rank();
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ", measure_costs: rank %u waited %" PRId64
              " ms for the %s of rank %u; %s (timeout_ms sets the limit)",
              endpoint_->sequence, endpoint_->rank(), waited_ms, what, peer, found.clause());
}

}  // namespace gq
