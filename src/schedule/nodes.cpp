// Numbering nodes and their ranks.
#include "src/schedule/nodes.h"

#include <algorithm>
#include <map>

#include "src/support/fnv1a.h"

namespace gq {

Nodes::Nodes(const std::vector<uint32_t>& ids) : members_(ids.size()) {
  std::map<uint32_t, uint32_t> numbers;
  for (const uint32_t id : ids) {
    const uint32_t node = numbers.try_emplace(id, count()).first->second;
    if (node == count()) sizes_.push_back(0);
    node_.push_back(node);
    local_.push_back(sizes_[node]++);
  }
  uint32_t first = 0;
  for (const uint32_t size : sizes_) {
    first_.push_back(first);
    first += size;
    part_count_ = std::max(part_count_, size);
  }
  for (uint32_t rank = 0; rank < ids.size(); ++rank) {
    members_[first_[node_[rank]] + local_[rank]] = rank;
  }
}

uint32_t Nodes::digest() const {
  Fnv1a32 digest;
  for (const uint32_t node : node_) digest.add_whole(node);
  return (digest.hash() >> 16) ^ (digest.hash() & 0xffff);
}

}  // namespace gq
