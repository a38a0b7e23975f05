// The walk: actors make moves one after the other until none is left; messages are times.
#include "src/plan/cost/cost_walk.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

#include "src/schedule/nodes.h"

namespace gq {
namespace {

/** Links that a rank has: to others of its node, if nodes are given, and to all else. */
enum Reach : size_t { kFar, kNear, kReachCount };

/** A rank whose moves are walked. */
struct Actor {
  uint32_t rank = 0;
  MoveCursor cursor;
  Move move{};
  bool pending = false;  // `move` is still to be made
  bool done = false;
  double processor = 0, link_out[kReachCount] = {}, link_in[kReachCount] = {};  // when each is free
  double busy = 0;
  double sent_far = 0;  // what its bytes take the link, which calls one after another wait for
  double last_arrival = 0;
  std::deque<double> mirror;             // when messages to ranks like this one arrive
  std::vector<std::vector<double>> log;  // the same to actor i
  std::vector<size_t> read;              // by the k-th child or the other actor: messages taken
};

class Walk {
 public:
  Walk(const Plan& plan, const CodecCost& codec, const CostConstants& constants, const Nodes* nodes)
      : plan_(plan),
        codec_(codec),
        constants_(constants),
        nodes_(nodes),
        is_tree_(plan.schedule->id == GQSGD_SCHEDULE_TREE) {}

  WalkTimes run(uint32_t rank) {
    cast(rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (Actor& actor : actors_) moved |= advance(&actor);
    }
    WalkTimes times;
    for (const Actor& actor : actors_) {
      times.finish_ns =
          std::max({times.finish_ns, actor.processor, actor.link_out[kFar] - ahead_ns(kFar),
                    actor.sent_far, actor.link_out[kNear]});
    }
    times.finish_ns += is_tree_ ? deeper_ns() : 0;
    times.busy_ns = average_busy_ns();
    return times;
  }

 private:
  void cast(uint32_t rank) {
    const uint32_t ranks = plan_.shape.ranks;
    const uint32_t partners = std::bit_floor(ranks);
    const bool is_folded = plan_.schedule->id == GQSGD_SCHEDULE_BUTTERFLY && partners != ranks;
    if (is_tree_ || is_folded) rank = 0;
    if (plan_.schedule->id == GQSGD_SCHEDULE_RING) rank = before_a_border(rank);
    add(rank);
    if (is_folded) add(partners);
    for (uint32_t child = 1; is_tree_ && child < ranks; child *= 2) add(child);
    for (Actor& actor : actors_) {
      actor.log.resize(actors_.size());
      actor.read.resize(32);
    }
  }

  void add(uint32_t rank) {
    Actor actor;
    actor.rank = rank;
    actor.cursor = MoveCursor(plan_.schedule, plan_.shape, rank);
    actors_.push_back(std::move(actor));
  }

  bool advance(Actor* actor) {
    bool moved = false;
    while (!actor->done) {
      if (!actor->pending) find(actor);
      if (actor->done || !make(actor, actor->move)) break;
      actor->pending = false;
      moved = true;
    }
    return moved;
  }

  void find(Actor* actor) {
    actor->pending = actor->cursor.next(&actor->move);
    actor->done = !actor->pending;
    if (actor->pending) work(actor, constants_.move_ns);
  }

  bool make(Actor* actor, const Move& move) {
    switch (move.kind) {
      case MoveKind::send:
        send(actor, move);
        return true;
      case MoveKind::receive_operand:
      case MoveKind::receive_result:
        return receive(actor, move);
      case MoveKind::add_all:
        add_all(actor, move);
        return true;
      default:
        work(actor, stage_ns(actor->rank, move));
        return true;
    }
  }

  static void work(Actor* actor, double ns) {
    actor->processor += ns;
    actor->busy += ns;
  }

  /** Merging norms is left out: 2 bytes for each block of one rank's shard. */
  double stage_ns(uint32_t rank, const Move& move) const {
    switch (move.kind) {
      case MoveKind::norm:
        return codec_.of(CostStage::norm, move.value_count);
      case MoveKind::quantize:
        return codec_.of(CostStage::quantize, move.value_count);
      case MoveKind::reduce:
        return codec_.of(CostStage::reduce, move.value_count);
      case MoveKind::reduce_many:
        return codec_.of(CostStage::sum, move.value_count) +
               operands_beyond_two(rank, move) * codec_.of(CostStage::add, move.value_count);
      case MoveKind::dequantize:
        return codec_.of(CostStage::dequantize, move.value_count);
      default:
        return 0;
    }
  }

  /** The transport's own time, measured with ranks that shared what processors there are. */
  void add_all(Actor* actor, const Move& move) {
    const double ranks = plan_.shape.ranks;
    const double steps = 2.0 * std::bit_width(plan_.shape.ranks - 1);
    const double sent_bytes =
        2 * (ranks - 1) / ranks *
        static_cast<double>(plan_.layout.size_bytes(move.content, move.value_count));
    const double bytes_ns = sent_bytes * constants_.native_byte_ns;
    actor->processor +=
        steps * constants_.native_step_ns + std::max(bytes_ns - ahead_ns(kFar), 0.0);
    actor->sent_far += ahead_ns(kFar) > 0 ? sent_bytes * constants_.byte_ns : 0;
  }

  uint32_t operands_beyond_two(uint32_t rank, const Move& move) const {
    const uint32_t operands = operand_count(plan_.shape, rank, move);
    return operands > 2 ? operands - 2 : 0;
  }

  /** The rank, or the first one after it whose next one is on another node. */
  uint32_t before_a_border(uint32_t rank) const {
    if (nodes_ == nullptr) return rank;
    const uint32_t ranks = plan_.shape.ranks;
    while (nodes_->node_of(rank) == nodes_->node_of((rank + 1) % ranks)) rank = (rank + 1) % ranks;
    return rank;
  }

  Reach reach(uint32_t rank, uint32_t peer) const {
    return nodes_ != nullptr && nodes_->node_of(rank) == nodes_->node_of(peer) ? kNear : kFar;
  }

  /** Ranks that send out of this rank's node when it does. */
  uint32_t sharers(uint32_t rank, const Move& move) const {
    const bool one_of_them = is_tree_ || plan_.schedule->id == GQSGD_SCHEDULE_RING;
    if (nodes_ == nullptr || (one_of_them && move.content != Content::norms)) return 1;
    return nodes_->size_of(nodes_->node_of(rank));
  }

  double link_ns(uint32_t rank, const Move& move) const {
    const size_t size_bytes = plan_.layout.size_bytes(move.content, move.value_count);
    const double byte_ns = reach(rank, move.peer) == kNear
                               ? constants_.node_byte_ns
                               : sharers(rank, move) * constants_.byte_ns;
    return static_cast<double>(size_bytes) * byte_ns;
  }

  /** How far bytes may be ahead of their link. */
  double ahead_ns(Reach where) const {
    return where == kNear ? 0 : constants_.burst_bytes * constants_.byte_ns;
  }

  void send(Actor* actor, const Move& move) {
    work(actor, constants_.message_ns);
    const Reach where = reach(actor->rank, move.peer);
    double& link = actor->link_out[where];
    const double bytes_ns = link_ns(actor->rank, move);
    link = std::max(link, actor->processor) + bytes_ns;
    actor->sent_far += where == kFar ? bytes_ns : 0;
    const double gone = std::max(actor->processor, link - ahead_ns(where));
    const double arrival =
        gone + (where == kNear ? constants_.node_latency_ns : constants_.latency_ns);
    actor->last_arrival = arrival;
    const size_t peer = actor_index(move.peer);
    if (move.content != Content::norms && peer < actors_.size()) {
      actor->log[peer].push_back(arrival);
    } else if (move.content == Content::norms || !is_tree_) {
      actor->mirror.push_back(arrival);
    }
  }

  bool receive(Actor* actor, const Move& move) {
    double arrival = 0;
    if (!find_arrival(actor, move, &arrival)) return false;
    const Reach where = reach(actor->rank, move.peer);
    double& link = actor->link_in[where];
    link = std::max(link + link_ns(actor->rank, move), arrival);
    actor->processor = std::max({actor->processor, arrival, link - ahead_ns(where)});
    work(actor, constants_.message_ns);
    return true;
  }

  /** False while the message has not been sent. */
  bool find_arrival(Actor* actor, const Move& move, double* arrival) {
    const bool from_all = move.content == Content::norms;
    const size_t sender = from_all ? actors_.size() : actor_index(stand_in(*actor, move.peer));
    if (sender < actors_.size()) {
      const bool is_child = is_tree_ && move.kind == MoveKind::receive_operand;
      const uint32_t channel =
          is_child ? static_cast<uint32_t>(std::countr_zero(move.peer - actor->rank)) : 31;
      const std::vector<double>& log = actors_[sender].log[is_child ? 0 : index_of(*actor)];
      if (actor->read[channel] == log.size()) return false;
      *arrival = log[actor->read[channel]++];
      return true;
    }
    // A peer that sends more than this rank does is taken to be done when this rank is.
    *arrival = actor->last_arrival;
    if (actor->mirror.empty()) return true;
    *arrival = actor->mirror.front();
    actor->mirror.pop_front();
    return true;
  }

  /** The rank that does what `peer` does. */
  uint32_t stand_in(const Actor& actor, uint32_t peer) const {
    const bool is_child = is_tree_ && peer > actor.rank;
    return is_child ? peer - actor.rank : peer;
  }

  size_t index_of(const Actor& actor) const { return static_cast<size_t>(&actor - actors_.data()); }

  /** actors_.size() for a rank that is not walked; a rank is its own mirror. */
  size_t actor_index(uint32_t rank) const {
    if (is_tree_) {
      if (rank == 0) return 0;
      return std::has_single_bit(rank) ? 1 + static_cast<size_t>(std::countr_zero(rank))
                                       : actors_.size();
    }
    const bool is_second = actors_.size() == 2 && rank == actors_[1].rank;
    const bool is_first = actors_.size() == 2 && rank == actors_[0].rank;
    return is_first ? 0 : is_second ? 1 : actors_.size();
  }

  /** What the last chunk takes to ranks deeper than the root's children, one level at a time. */
  double deeper_ns() const {
    const uint32_t ranks = plan_.shape.ranks;
    const uint32_t deepest = ranks < 2 ? 0 : static_cast<uint32_t>(std::bit_width(ranks)) - 1;
    const uint64_t chunk = std::min(plan_.shape.chunk_value_count, plan_.shape.value_count);
    const double bytes_ns =
        static_cast<double>(plan_.layout.size_bytes(Content::codes, chunk)) * constants_.byte_ns;
    const double hop_ns = std::max(bytes_ns - ahead_ns(kFar), 0.0) + constants_.latency_ns +
                          2 * (constants_.message_ns + constants_.move_ns);
    return deepest > 1 ? (deepest - 1) * hop_ns : 0;
  }

  double busy_of(uint32_t rank) const {
    MoveCursor cursor(plan_.schedule, plan_.shape, rank);
    double busy = 0;
    for (Move move; cursor.next(&move);) {
      const bool is_message = move.kind == MoveKind::send ||
                              move.kind == MoveKind::receive_operand ||
                              move.kind == MoveKind::receive_result;
      busy += constants_.move_ns + (is_message ? constants_.message_ns : stage_ns(rank, move));
    }
    return busy;
  }

  /** Ring and direct: one rank's. Tree: a leaf quantizes and dequantizes and has two messages for
   *  each chunk; each of the n - 1 edges has two more at its upper end, and a reduction.
   *  Butterfly: a rank that stands in for another one, that one, and one without. */
  double average_busy_ns() const {
    const uint32_t ranks = plan_.shape.ranks;
    if (is_tree_ && ranks > 1) {
      const double leaf_ns = busy_of(ranks - 1);
      const uint64_t chunk = plan_.shape.chunk_value_count, values = plan_.shape.value_count;
      const double chunks = static_cast<double>(values / chunk + (values % chunk != 0));
      const double message_pair_ns = chunks * 2 * (constants_.message_ns + constants_.move_ns);
      const double reduce_ns =
          chunks * (codec_.range_ns[static_cast<size_t>(CostStage::reduce)] + constants_.move_ns) +
          static_cast<double>(values) * codec_.value_ns[static_cast<size_t>(CostStage::reduce)];
      const double edge_ns = message_pair_ns + reduce_ns;
      return leaf_ns - message_pair_ns / ranks + edge_ns * (ranks - 1) / ranks;
    }
    if (actors_.size() < 2) return actors_[0].busy;
    const double partners = actors_[1].rank, folded = ranks - partners;
    const double plain = partners > folded ? busy_of(actors_[1].rank - 1) : 0;
    return (folded * (actors_[0].busy + actors_[1].busy) + (partners - folded) * plain) / ranks;
  }

  const Plan& plan_;
  const CodecCost& codec_;
  const CostConstants& constants_;
  const Nodes* nodes_;
  const bool is_tree_;
  std::vector<Actor> actors_;
};

}  // namespace

WalkTimes walk_moves(const Plan& plan, const CodecCost& codec, const CostConstants& constants,
                     uint32_t rank, const Nodes* nodes) {
  return Walk(plan, codec, constants, nodes).run(rank);
}

uint32_t part_count(const Plan& plan) {
  if (plan.schedule->id == GQSGD_SCHEDULE_TREE || plan.schedule->adds_natively) return 1;
  return plan.schedule->id == GQSGD_SCHEDULE_BUTTERFLY ? std::bit_floor(plan.shape.ranks)
                                                       : shard_count(plan.shape);
}

}  // namespace gq
