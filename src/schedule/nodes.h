// Which ranks share a node: what the hierarchical schedule is made from.
#ifndef GQ_SCHEDULE_NODES_H
#define GQ_SCHEDULE_NODES_H

#include <stdint.h>

#include <vector>

namespace gq {

/** Nodes are numbered by their lowest ranks, and the ranks of a node ("locals") in order. */
class Nodes {
 public:
  Nodes() = default;
  /** ids[rank] is any number, equal for ranks of one node. May throw std::bad_alloc. */
  explicit Nodes(const std::vector<uint32_t>& ids);

  uint32_t count() const { return static_cast<uint32_t>(sizes_.size()); }
  /** Ranks of the largest node: into so many parts the hierarchical schedule cuts a call. */
  uint32_t part_count() const { return part_count_; }
  /** All ranks on one node, or each on its own: then there is no hierarchy. */
  bool is_flat() const { return count() <= 1 || part_count_ == 1; }

  uint32_t node_of(uint32_t rank) const { return node_[rank]; }
  uint32_t local_of(uint32_t rank) const { return local_[rank]; }
  uint32_t size_of(uint32_t node) const { return sizes_[node]; }
  const uint32_t* sizes() const { return sizes_.data(); }
  uint32_t rank_of(uint32_t node, uint32_t local) const { return members_[first_[node] + local]; }

  /** The rank of a node that adds part `part`. */
  uint32_t owner(uint32_t node, uint32_t part) const { return rank_of(node, part % size_of(node)); }

  /** 16 bits that tell different nodes from each other, but for chance (docs/FORMAT.md,
   *  section 11). */
  uint32_t digest() const;

 private:
  std::vector<uint32_t> node_, local_;   // by rank
  std::vector<uint32_t> sizes_, first_;  // by node; where its ranks begin in members_
  std::vector<uint32_t> members_;
  uint32_t part_count_ = 0;
};

}  // namespace gq

#endif
