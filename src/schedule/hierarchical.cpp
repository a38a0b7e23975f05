// Hierarchical: direct inside a node, direct between nodes. N nodes, P ranks in the largest; the
// call is cut into P parts of N shards. In a node of k ranks part p belongs to local p mod k, its
// owner there, and shard (p, b) in the end to the owner on node b.
//
//   steps      4: codes to the owner on the own node, node sums to the owner of a shard, results to
//              the owners of its part, results to all ranks of a node
//   values     in a group of equal nodes, between nodes 2 (N - 1) / N of the call from each node
//   roundings  no chain of reductions; two re-encodes, one on nodes of a single rank whose codes
//              have to be no others
//
// The call goes through in steps, as direct does (steps.h), chunk by chunk of all shards. Phase
// `phase` of step s works on chunk s - pipeline_depth * kDelay[phase]: what a rank waits for was
// sent so many steps earlier, and between two ranks messages keep one order: that of the phases in
// a step, then of parts, then of shards from the own node's next one on.
#include "include/gqsgd.h"
#include "src/schedule/make.h"
#include "src/schedule/nodes.h"

namespace gq {
namespace {

enum Phase : uint32_t {
  kScatter,     // every shard: codes to its part's owner on this node
  kAddNode,     // shards of own parts: add the node's codes, send the sum to the shard's owner
  kAddAll,      // own shards: add the nodes' sums, send the result
  kFetch,       // other shards of own parts: take their results, pass them on to the node
  kTakeOwn,     // this node's shards of other parts: results from their owners
  kTakeOthers,  // other nodes' shards of other parts: results that the owner here has fetched
  kPhaseCount
};

constexpr uint64_t kDelay[kPhaseCount] = {0, 1, 2, 3, 3, 4};
constexpr uint64_t kDelayMost = 4;

uint32_t reduction_depth(uint32_t) { return 0; }

/** A rank among its node's. */
struct NodePosition {
  const Nodes& nodes;
  bool encodes_down;
  uint32_t rank, node, local, locals;

  NodePosition(const Shape& shape, uint32_t self)
      : nodes(*shape.nodes),
        encodes_down(shape.encodes_nodes_down),
        rank(self),
        node(nodes.node_of(self)),
        local(nodes.local_of(self)),
        locals(nodes.size_of(node)) {}

  /** Parts that a local owns. */
  uint64_t parts_of(uint32_t owner) const {
    return (nodes.part_count() - owner + locals - 1) / locals;
  }
  uint32_t rank_of(uint32_t other) const { return nodes.rank_of(node, other); }
  /** Whether sums of this node are other words than codes of its ranks. */
  bool adds_node() const { return locals > 1 || encodes_down; }
  Content node_sums() const { return encodes_down ? Content::sums : Content::codes; }

  /** Shards of each part that a phase handles. */
  uint64_t shards_in(uint32_t phase) const {
    switch (phase) {
      case kScatter:
      case kAddNode:
        return nodes.count();
      case kFetch:
      case kTakeOthers:
        return nodes.count() - 1;
      default:
        return 1;
    }
  }
  uint64_t slots_in(uint32_t phase) const {
    const uint64_t own = parts_of(local);
    const bool all = phase == kScatter, others = phase == kTakeOwn || phase == kTakeOthers;
    const uint64_t parts = all ? nodes.part_count() : others ? nodes.part_count() - own : own;
    return parts * shards_in(phase);
  }
};

/** The subject of a round: chunk `chunk` of shard (part, node). */
struct Slot {
  uint32_t phase;
  uint64_t chunk;  ///< may lie beyond the shard's end: then there is nothing to do
  uint32_t owner;  ///< local that owns the part here
  uint32_t part;
  uint32_t node;
};

uint64_t chunks_per_shard(const Shape& shape) {
  return chunk_count_of(shard_value_count(shape, shard_count(shape)), shape);
}

uint64_t slots_per_step(const NodePosition& position) {
  uint64_t slots = 0;
  for (uint32_t phase = 0; phase < kPhaseCount; ++phase) slots += position.slots_in(phase);
  return slots;
}

uint64_t round_count(const Shape& shape, uint32_t rank) {
  const uint64_t chunks = chunks_per_shard(shape);
  return chunks == 0 ? 0
                     : (chunks + shape.pipeline_depth * kDelayMost) *
                           slots_per_step(NodePosition(shape, rank));
}

/** Others' parts first, beginning with those of the next local while scattering, and of the one
 *  before where results are taken, which they reach here first. */
uint32_t owner_at(const NodePosition& position, uint32_t phase, uint64_t* turn) {
  if (phase == kAddNode || phase == kAddAll || phase == kFetch) return position.local;
  const bool scatters = phase == kScatter;
  for (uint32_t distance = 1; distance < position.locals; ++distance) {
    const uint32_t owner = scatters ? rank_after(position.local, distance, position.locals)
                                    : rank_before(position.local, distance, position.locals);
    const uint64_t slots = position.parts_of(owner) * position.shards_in(phase);
    if (*turn < slots) return owner;
    *turn -= slots;
  }
  return position.local;
}

Slot slot_at(const Shape& shape, const NodePosition& position, uint64_t round) {
  const uint64_t slots = slots_per_step(position);
  const uint64_t step = round / slots;
  uint64_t turn = round % slots;
  uint32_t phase = 0;
  while (turn >= position.slots_in(phase)) turn -= position.slots_in(phase++);
  const uint64_t begin = shape.pipeline_depth * kDelay[phase];
  const uint64_t chunk = step < begin ? chunks_per_shard(shape) : step - begin;
  const uint32_t owner = owner_at(position, phase, &turn);
  const uint64_t shards = position.shards_in(phase);
  const uint32_t part = static_cast<uint32_t>(owner + turn / shards * position.locals);
  const bool own_shard = phase == kAddAll || phase == kTakeOwn;
  const uint64_t distance = own_shard ? 0 : 1 + turn % shards;
  return {phase, chunk, owner, part, rank_after(position.node, distance, position.nodes.count())};
}

uint32_t move_count(const NodePosition& position, const Slot& slot) {
  const uint32_t locals = position.locals - 1, nodes = position.nodes.count() - 1;
  switch (slot.phase) {
    case kScatter:
      return slot.owner == position.local ? 1 : 2;
    case kAddNode:
      return locals + (position.adds_node() ? 1 : 0) + (slot.node == position.node ? 0 : 1);
    case kAddAll:
      return 2 * nodes + locals + 2;
    case kFetch:
      return locals + 2;
    default:
      return 2;
  }
}

Round round_at(const Shape& shape, uint32_t rank, uint64_t round) {
  const NodePosition position(shape, rank);
  const Slot slot = slot_at(shape, position, round);
  const uint32_t shard = slot.part * position.nodes.count() + slot.node;
  const Part chunk = chunk_of(part_of(shape, shard_count(shape), shard), slot.chunk, shape);
  return {chunk.first_value, chunk.value_count, move_count(position, slot)};
}

/** The local, or the owner of the part on the node, that is `distance` after this one. */
uint32_t local_after(const NodePosition& position, uint32_t distance) {
  return position.rank_of(rank_after(position.local, distance, position.locals));
}
uint32_t owner_after(const NodePosition& position, const Slot& slot, uint32_t distance) {
  return position.nodes.owner(rank_after(position.node, distance, position.nodes.count()),
                              slot.part);
}

Move add_node_move(const NodePosition& position, const Slot& slot, uint32_t index) {
  const uint32_t locals = position.locals - 1;
  if (index < locals) return receive_operand_move(local_after(position, 1 + index));
  if (index == locals && position.adds_node()) return reduce_many_of(Addends::node, slot.part);
  return of(position.node_sums(),
            send_move(position.nodes.owner(slot.node, slot.part), position.rank));
}

Move add_all_move(const NodePosition& position, const Slot& slot, uint32_t index) {
  const uint32_t nodes = position.nodes.count() - 1;
  if (index < nodes) {
    return of(position.node_sums(), receive_operand_move(owner_after(position, slot, 1 + index)));
  }
  if (index == nodes) {
    return of(position.node_sums(), reduce_many_of(Addends::nodes, slot.part));
  }
  index -= nodes + 1;
  if (index < nodes) {
    return of(Content::sums, send_move(owner_after(position, slot, 1 + index), position.rank));
  }
  index -= nodes;
  if (index == position.locals - 1) return of(Content::sums, dequantize_move(position.rank));
  return of(Content::sums, send_move(local_after(position, 1 + index), position.rank));
}

/** Results that `from` has, made by `maker`; owners pass them on. */
Move take_move(const NodePosition& position, uint32_t from, uint32_t maker, uint32_t passes,
               uint32_t index) {
  if (index == 0) return of(Content::sums, receive_result_move(from, maker));
  if (index <= passes) return of(Content::sums, send_move(local_after(position, index), maker));
  return of(Content::sums, dequantize_move(maker));
}

Move move_at(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  const NodePosition position(shape, rank);
  const Slot slot = slot_at(shape, position, round);
  const uint32_t maker = position.nodes.owner(slot.node, slot.part);
  switch (slot.phase) {
    case kScatter:
      return index == 0 ? quantize_move() : send_move(position.rank_of(slot.owner), rank);
    case kAddNode:
      return add_node_move(position, slot, index);
    case kAddAll:
      return add_all_move(position, slot, index);
    case kFetch:
      return take_move(position, maker, maker, position.locals - 1, index);
    default:
      return take_move(position, position.rank_of(slot.owner), maker, 0, index);
  }
}

}  // namespace

const Schedule kHierarchical = {"hierarchical",  GQSGD_SCHEDULE_HIERARCHICAL,
                                reduction_depth, round_count,
                                round_at,        move_at,
                                false,           true};

}  // namespace gq
