// Events in order of time: a rank makes a move, or a link takes the next message.
#include "tools/plan/timeline.h"

#include <algorithm>
#include <deque>
#include <queue>

namespace gq {
namespace {

enum class Turn {
  move,        // the rank can make its next move
  link_free,   // its link out has finished a message
  link_start,  // its link out can take the next one: after peers that waited for the same link in
};

struct Event {
  double time;
  uint64_t number;  ///< among equal times, first come first served
  uint32_t rank;
  Turn turn;

  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : number > other.number;
  }
};

struct Rank {
  MoveCursor cursor;
  Move move{};
  bool waits = false;                        ///< for a message from move.peer
  bool sends = false;                        ///< the link out is busy
  double inward_free = 0;                    ///< when the link in is free
  std::deque<Move> outbox;                   ///< posted, not yet on the link
  std::vector<std::deque<double>> arrivals;  ///< by peer: when messages are there
};

class Clockwork {
 public:
  Clockwork(const Schedule& schedule, const Shape& shape, const Machine& machine)
      : shape_(shape), machine_(machine), ranks_(shape.ranks) {
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      ranks_[rank].cursor = MoveCursor(&schedule, shape, rank);
      ranks_[rank].arrivals.resize(shape.ranks);
      at(0, rank, Turn::move);
    }
  }

  std::vector<TimedMove> run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.turn == Turn::move) go_on(event.rank, event.time);
      if (event.turn == Turn::link_free) at(event.time, event.rank, Turn::link_start);
      if (event.turn == Turn::link_start) start_message(event.rank, event.time);
    }
    return std::move(moves_);
  }

 private:
  void at(double time, uint32_t rank, Turn turn) {
    events_.push({time, event_count_++, rank, turn});
  }

  double share(uint64_t value_count) const {
    return static_cast<double>(value_count) / static_cast<double>(shape_.chunk_value_count);
  }

  double time_of(uint32_t rank, const Move& move) const {
    switch (move.kind) {
      case MoveKind::norm:
        return machine_.norm * share(move.value_count);
      case MoveKind::quantize:
        return machine_.quantize * share(move.value_count);
      case MoveKind::reduce:
        return machine_.reduce * share(move.value_count);
      case MoveKind::reduce_many:
        return machine_.reduce * share(move.value_count) * (operand_count(shape_, rank, move) - 1);
      case MoveKind::await_sum:  // as many bytes as the best of allreduces take
        return machine_.latency +
               2 * machine_.link * share(move.value_count) * (shape_.ranks - 1) / shape_.ranks;
      case MoveKind::dequantize:
        return machine_.dequantize * share(move.value_count);
      default:
        return 0;
    }
  }

  void go_on(uint32_t rank, double now) {
    Rank& self = ranks_[rank];
    if (!self.waits && !self.cursor.next(&self.move)) return;
    const Move& move = self.move;
    double end = now + time_of(rank, move);
    if (move.kind == MoveKind::receive_operand || move.kind == MoveKind::receive_result) {
      std::deque<double>& arrivals = self.arrivals[move.peer];
      self.waits = arrivals.empty();
      if (self.waits) return;
      end = std::max(now, arrivals.front());
      arrivals.pop_front();
    }
    if (move.kind == MoveKind::add_all && ++sums_begun_ == shape_.ranks) wake_for_sum(now);
    if (move.kind == MoveKind::await_sum) {
      self.waits = sums_begun_ < shape_.ranks;
      if (self.waits) return;
    }
    if (move.kind == MoveKind::send) {
      self.outbox.push_back(move);
      if (!self.sends) at(now, rank, Turn::link_start);
      self.sends = true;
    } else {
      moves_.push_back({rank, move, now, end});
    }
    at(end, rank, Turn::move);
  }

  /** Ranks that wait for the one sum that a call may have. */
  void wake_for_sum(double now) {
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      const Rank& one = ranks_[rank];
      if (one.waits && one.move.kind == MoveKind::await_sum) at(now, rank, Turn::move);
    }
  }

  /** The first message posted whose peer can take it: peers do not hold up each other. */
  void start_message(uint32_t rank, double now) {
    Rank& self = ranks_[rank];
    self.sends = !self.outbox.empty();
    if (!self.sends) return;
    const auto free_at = [this](const Move& move) { return ranks_[move.peer].inward_free; };
    const auto first =
        std::min_element(self.outbox.begin(), self.outbox.end(), [&](const Move& a, const Move& b) {
          return std::max(now, free_at(a)) < std::max(now, free_at(b));
        });
    if (free_at(*first) > now) return at(free_at(*first), rank, Turn::link_start);
    const Move move = *first;
    self.outbox.erase(first);
    Rank& peer = ranks_[move.peer];
    const double link = move.content == Content::norms ? machine_.norm_link : machine_.link;
    const double end = now + link * share(move.value_count);
    peer.inward_free = end;
    peer.arrivals[rank].push_back(end + machine_.latency);
    moves_.push_back({rank, move, now, end + machine_.latency});
    at(end, rank, Turn::link_free);
    if (peer.waits && peer.move.peer == rank) at(now, move.peer, Turn::move);
  }

  Shape shape_;
  Machine machine_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t event_count_ = 0;
  uint32_t sums_begun_ = 0;
  std::vector<TimedMove> moves_;
};

}  // namespace

std::vector<TimedMove> timeline(const Schedule& schedule, const Shape& shape,
                                const Machine& machine) {
  return Clockwork(schedule, shape, machine).run();
}

double finish_time(const std::vector<TimedMove>& moves) {
  double time = 0;
  for (const TimedMove& move : moves) time = std::max(time, move.end);
  return time;
}

}  // namespace gq
