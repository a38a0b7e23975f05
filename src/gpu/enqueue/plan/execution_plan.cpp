// The walk of all ranks in step.
#include "src/gpu/enqueue/plan/execution_plan.h"

#include <algorithm>
#include <deque>
#include <map>

#include "src/execute/messages.h"
#include "src/schedule/nodes.h"

namespace gq {
namespace {

/** Whether the stage that adds means of nodes takes weights. */
bool weighs_means(const Coding& coding) {
  return coding.levels == Levels::exponential ||
         (coding.rescale && coding.encodes_nodes_down());
}

/** The messages between two ranks. */
struct Channel {
  std::deque<Transfer> sent;  ///< has not travelled yet; peer is the receiver
  std::deque<Move> expected;  ///< receives of the receiver, in its order, that have not travelled
  uint8_t contents_sent = 0;  ///< in this round, a bit for each content
  uint64_t under_way = 0;     ///< travels during another round
  uint64_t arrived = 0;       ///< has travelled and was not received yet
  uint64_t operands_expected = 0;
  uint64_t operands_received = 0;
  uint64_t operands_merged = 0;
};

struct Walker {
  MoveCursor moves;
  MoveCursor receives;  ///< ahead of the moves
  Move move{};
  bool held = false;  ///< `move` is still to be made
  bool ended = false;
  uint64_t sums_begun = 0;
};

bool receives_words(const Move& move) {
  return move.kind == MoveKind::receive_operand || move.kind == MoveKind::receive_result;
}

/** The values of a message over several origins that `rank` made; may be none. */
Part own_part(const Move& move, uint32_t rank) {
  const uint64_t end = move.first_value + move.value_count;
  const uint64_t first = std::clamp(rank * move.origin_value_count, move.first_value, end);
  const uint64_t last = std::clamp((rank + 1) * move.origin_value_count, move.first_value, end);
  return {first, last - first};
}

}  // namespace

class ExecutionPlanMaker {
 public:
  ExecutionPlanMaker(ExecutionPlan* execution_plan, uint32_t rank, Pace pace)
      : made_(*execution_plan),
        layout_(execution_plan->plan_.layout),
        rank_(rank),
        overlaps_(pace == Pace::overlapped) {}

  Status make() {
    const uint32_t ranks = made_.plan_.shape.ranks;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const MoveCursor moves(made_.plan_.schedule, made_.plan_.shape, rank);
      walkers_.push_back({moves, moves});
    }
    for (;;) {
      events_ = 0;
      uint32_t ended = 0;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        walk(rank);
        ended += walkers_[rank].ended ? 1 : 0;
      }
      travel();
      if (ended == ranks) {
        join();
        return Status();
      }
      if (events_ == 0) {
        return fail(GQSGD_INTERNAL, "schedule %s stuck: %u of %u ranks ended",
                    made_.plan_.schedule->name, ended, ranks);
      }
    }
  }

 private:
  Channel& between(uint32_t from, uint32_t to) { return channels_[{from, to}]; }

  void walk(uint32_t rank) {
    Walker& walker = walkers_[rank];
    while (!walker.ended) {
      if (!walker.held && !walker.moves.next(&walker.move)) {
        walker.ended = true;
        break;
      }
      walker.held = !make_move(rank, walker.move);
      if (walker.held) return;
      ++events_;
    }
  }

  /** False if it has to wait for the next round. */
  bool make_move(uint32_t rank, const Move& move) {
    const bool here = rank == rank_;
    switch (move.kind) {
      case MoveKind::send:
        return send(rank, move);
      case MoveKind::receive_operand:
      case MoveKind::receive_result:
        return receive(rank, move);
      case MoveKind::add_all:
        ++walkers_[rank].sums_begun;
        if (here) sum_ = move;
        return true;
      case MoveKind::await_sum:
        return sums_made_ >= walkers_[rank].sums_begun;
      case MoveKind::merge_norms:
        if (here) add_stage(move, whole(move), operand_bytes(move.peer));
        between(move.peer, rank).operands_merged += 1;
        return true;
      case MoveKind::reduce:
        if (here) add_stages(move, operand_bytes(move.peer));
        between(move.peer, rank).operands_merged += 1;
        return true;
      case MoveKind::reduce_many:
        reduce_many(rank, move);
        return true;
      case MoveKind::dequantize:
        if (here) add_results(move);
        return true;
      case MoveKind::quantize:
        if (makes_second_chunk(rank)) return false;
        if (here) add_stages(move, 0);
        return true;
      case MoveKind::norm:
        if (here) add_stages(move, 0);
        return true;
    }
    return true;
  }

  ExecutionStep& add(ExecutionStep::Kind kind) {
    made_.steps_.push_back({kind});
    return made_.steps_.back();
  }

  static Piece whole(const Move& move) {
    return {{move.first_value, static_cast<size_t>(move.value_count)}};
  }

  void add_stage(const Move& move, const Piece& piece, size_t operand_bytes) {
    ExecutionStep& step = add(ExecutionStep::Kind::stage);
    step.move = move;
    step.piece = piece;
    step.from_bytes = operand_bytes;
  }

  /** Where tensors share groups, stages take all of them at once. */
  template <typename Each>
  void for_pieces(const Move& move, Each each) const {
    Pieces pieces(move, made_.plan_.groups.interleaved ? nullptr : made_.segments());
    for (Piece piece; pieces.next(&piece);) each(piece);
  }

  /** The operand is where its move's words begin. */
  void add_stages(const Move& move, size_t operand_bytes) {
    for_pieces(move, [&](const Piece& piece) {
      add_stage(move, piece, operand_bytes + layout_.between_bytes(move.content, piece.skipped));
    });
  }

  void add_results(const Move& move) {
    for_pieces(move, [&](const Piece& piece) {
      made_.results_.push_back({ExecutionStep::Kind::stage, move, piece});
    });
  }

  void add_copy(size_t from_bytes, size_t to_bytes, size_t size_bytes) {
    if (size_bytes == 0 || from_bytes == to_bytes) return;
    ExecutionStep& step = add(ExecutionStep::Kind::copy);
    step.from_bytes = from_bytes;
    step.to_bytes = to_bytes;
    step.size_bytes = size_bytes;
  }

  /** The place of the operand last received from `peer`. */
  size_t operand_bytes(uint32_t peer) {
    return layout_.landing_bytes(peer, between(peer, rank_).operands_received - 1);
  }

  bool send(uint32_t rank, const Move& move) {
    Channel& channel = between(rank, move.peer);
    if (is_second_chunk(move, channel)) return false;
    channel.contents_sent |= bit_of(move.content);
    const size_t here_bytes = result_here_bytes(layout_, move, rank);
    channel.sent.push_back({move.peer, true, here_bytes,
                            layout_.size_bytes(move.content, move.value_count), 0,
                            counted_values(made_.plan_, move)});
    if (rank != rank_ || move.origin_value_count == 0) return true;
    const Part own = own_part(move, rank);
    add_copy(layout_.offset_bytes(move.content, own.first_value),
             layout_.result_bytes(move.content, own.first_value),
             layout_.size_bytes(move.content, own.value_count));
    return true;
  }

  static uint8_t bit_of(Content content) {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(content));
  }

  /** Whether the message has to wait for the next round. Norms are short and travel with any. */
  bool is_second_chunk(const Move& send, const Channel& channel) const {
    return overlaps_ && send.content != Content::norms &&
           (channel.contents_sent & bit_of(send.content)) != 0;
  }

  /** Whether the codes that the rank makes now could only leave in the next round. There they are
   *  one launch with those of the same chunk for the other ranks. */
  bool makes_second_chunk(uint32_t rank) {
    MoveCursor moves = walkers_[rank].moves;
    Move next{};
    return overlaps_ && moves.next(&next) && next.kind == MoveKind::send &&
           is_second_chunk(next, between(rank, next.peer));
  }

  bool receive(uint32_t rank, const Move& move) {
    Channel& channel = between(move.peer, rank);
    if (channel.arrived == 0) return false;
    channel.arrived -= 1;
    const bool is_operand = move.kind == MoveKind::receive_operand;
    if (is_operand) channel.operands_received += 1;
    if (rank == rank_ && !is_operand && move.content == Content::norms) {
      add_copy(layout_.result_bytes(move.content, move.first_value),
               layout_.offset_bytes(move.content, move.first_value),
               layout_.size_bytes(move.content, move.value_count));
    }
    return true;
  }

  /** Where all ranks have come to it: after the messages of that round, on all of them. */
  void add_sum() {
    ExecutionStep& step = add(ExecutionStep::Kind::sum);
    step.to_bytes = layout_.offset_bytes(sum_.content, sum_.first_value);
    step.size_bytes = layout_.size_bytes(sum_.content, sum_.value_count);
    step.value_count = counted_values(made_.plan_, sum_);
  }

  void reduce_many(uint32_t rank, const Move& move) {
    const Shape& shape = made_.plan_.shape;
    if (rank == rank_) for_pieces(move, [&](const Piece& piece) { add_reduce_many(move, piece); });
    for (uint32_t k = 0; k < operand_count(shape, rank, move); ++k) {
      const uint32_t peer = operand_rank(shape, rank, move, k);
      if (peer != rank) between(peer, rank).operands_merged += 1;
    }
  }

  /** Codes of a node's mean stand for its ranks. Linear ones without scales are added so often:
   *  their sums are integers. */
  uint32_t times_added(const Move& move, uint32_t k) const {
    const Coding& coding = made_.plan_.coding;
    const bool is_mean = move.addends == Addends::nodes;
    const bool is_integer = coding.levels == Levels::linear && !weighs_means(coding);
    return is_mean && is_integer ? made_.plan_.shape.nodes->size_of(k) : 1;
  }

  void add_reduce_many(const Move& move, const Piece& piece) {
    const Shape& shape = made_.plan_.shape;
    add_stage(move, piece, 0);
    made_.steps_.back().first = static_cast<uint32_t>(made_.operands_.size());
    for (uint32_t k = 0; k < operand_count(shape, rank_, move); ++k) {
      const uint32_t peer = operand_rank(shape, rank_, move, k);
      const size_t chunk_bytes = peer == rank_
                                     ? layout_.offset_bytes(move.content, move.first_value)
                                     : operand_bytes(peer);
      made_.operands_.insert(made_.operands_.end(), times_added(move, k),
                             chunk_bytes + layout_.between_bytes(move.content, piece.skipped));
    }
    ExecutionStep& step = made_.steps_.back();
    step.count = static_cast<uint32_t>(made_.operands_.size()) - step.first;
    if (!made_.plan_.adds_values) return;
    made_.operands_.push_back(layout_.offset_bytes(Content::sums, move.first_value) +
                              layout_.between_bytes(Content::sums, piece.skipped));
    made_.operands_.push_back(layout_.scratch_bytes());
  }

  /** Everything sent travels as far as there are places for it. */
  void travel() {
    join();
    parts_shared_ = {};
    const uint32_t first = static_cast<uint32_t>(made_.transfers_.size());
    for (auto& [ends, channel] : channels_) {
      arrive(&channel);
      deliver(ends.first, ends.second, &channel);
    }
    const uint32_t count = static_cast<uint32_t>(made_.transfers_.size()) - first;
    if (count > 0) {
      ExecutionStep& step = add(ExecutionStep::Kind::exchange);
      step.first = first;
      step.count = count;
      step.on_side_stream = unjoined_ = overlaps_;
      if (all_parts_are_shared()) share_blocks(&step);
    }
    uint64_t sums = UINT64_MAX;
    for (const Walker& walker : walkers_) sums = std::min(sums, walker.sums_begun);
    if (sums == sums_made_) return;
    join();
    add_sum();
    sums_made_ = sums;
    ++events_;
  }

  /** Notes a message of this round: results of `from`'s part, or something else. */
  void note(uint32_t from, const Move& receive) {
    const Shape& shape = made_.plan_.shape;
    const Part part = part_of(shape, shape.ranks, from);
    const bool is_part = receive.kind == MoveKind::receive_result && receive.origin == from &&
                         receive.origin_value_count == 0 &&
                         receive.first_value == part.first_value &&
                         receive.value_count == part.value_count;
    const bool is_first = parts_shared_.messages == 0;
    parts_shared_.others |= !is_part || (!is_first && receive.content != parts_shared_.content);
    parts_shared_.content = receive.content;
    parts_shared_.messages += 1;
  }

  /** Whether the messages of this round are every rank's results, sent to all others. */
  bool all_parts_are_shared() const {
    const Shape& shape = made_.plan_.shape;
    const uint64_t all = uint64_t{shape.ranks} * (shape.ranks - 1);
    return shape.slices == nullptr && shape.nodes == nullptr && !parts_shared_.others &&
           parts_shared_.messages == all &&
           part_of(shape, shape.ranks, shape.ranks - 1).value_count > 0;
  }
  void share_blocks(ExecutionStep* step) const {
    const Content content = parts_shared_.content;
    const Shape& shape = made_.plan_.shape;
    const uint64_t shard = shard_value_count(shape, shape.ranks);
    step->from_bytes = layout_.offset_bytes(content, rank_ * shard);
    step->to_bytes = layout_.result_bytes(content, 0);
    step->size_bytes = layout_.result_bytes(content, shard) - step->to_bytes;
  }

  /** Messages in flight during a round can be received in the next one. */
  void arrive(Channel* channel) {
    channel->contents_sent = 0;
    channel->arrived += channel->under_way;
    events_ += channel->under_way;
    channel->under_way = 0;
  }

  /** The next steps follow the messages on the side stream of the round before. If no stage
   *  overlapped them, they stay on the main stream. */
  void join() {
    if (!unjoined_) return;
    unjoined_ = false;
    ExecutionStep& last = made_.steps_.back();
    if (last.kind == ExecutionStep::Kind::exchange) {
      last.on_side_stream = false;
    } else {
      add(ExecutionStep::Kind::join);
    }
  }

  void deliver(uint32_t from, uint32_t to, Channel* channel) {
    for (; !channel->sent.empty(); channel->sent.pop_front()) {
      if (channel->expected.empty() && !look_ahead(from, to)) return;
      const Move& receive = channel->expected.front();
      size_t place_bytes = layout_.result_bytes(receive.content, receive.first_value);
      if (receive.kind == MoveKind::receive_operand) {
        const uint64_t in_use = channel->operands_expected - channel->operands_merged;
        if (in_use == layout_.slot_count()) return;
        place_bytes = layout_.landing_bytes(from, channel->operands_expected);
        channel->operands_expected += 1;
      }
      Transfer transfer = channel->sent.front();
      if (from == rank_) made_.transfers_.push_back(transfer);
      if (to == rank_) {
        made_.transfers_.push_back(
            {from, false, place_bytes, transfer.size_bytes, transfer.here_bytes});
      }
      note(from, receive);
      channel->expected.pop_front();
      (overlaps_ ? channel->under_way : channel->arrived) += 1;
      ++events_;
    }
  }

  /** Finds the next receive of `to` from `from`, noting what it passes. */
  bool look_ahead(uint32_t from, uint32_t to) {
    for (Move move; walkers_[to].receives.next(&move);) {
      if (!receives_words(move)) continue;
      between(move.peer, to).expected.push_back(move);
      if (move.peer == from) return true;
    }
    return false;
  }

  ExecutionPlan& made_;
  const Layout& layout_;
  const uint32_t rank_;
  const bool overlaps_;
  bool unjoined_ = false;  ///< no step has joined the last exchange on the side stream
  std::vector<Walker> walkers_;
  std::map<std::pair<uint32_t, uint32_t>, Channel> channels_;
  Move sum_{};  ///< this rank's next one
  /** The messages of this round. */
  struct {
    uint64_t messages = 0;
    bool others = false;  ///< not all are results of whole parts, and of one content
    Content content{};
  } parts_shared_;
  uint64_t sums_made_ = 0;
  uint64_t events_ = 0;
};

const Nodes* ExecutionPlan::weights() const {
  return weighs_means(plan_.coding) ? plan_.shape.nodes : nullptr;
}

Status ExecutionPlan::make(const Plan& plan, uint32_t rank, const std::vector<Part>* segments,
                           Pace pace) {
  *this = ExecutionPlan();
  plan_ = plan;
  in_segments_ = segments != nullptr;
  if (in_segments_) segments_ = *segments;
  if (plan_.shape.slices != nullptr) plan_.shape.slices = segments_.data();
  return ExecutionPlanMaker(this, rank, pace).make();
}

}  // namespace gq
