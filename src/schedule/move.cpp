// Parts of a call, and what a rank's moves add up to.
#include "src/schedule/move.h"

#include <algorithm>

#include "src/schedule/make.h"
#include "src/schedule/nodes.h"

namespace gq {

uint64_t shard_value_count(const Shape& shape, uint32_t part_count) {
  if (shape.slices != nullptr) return shape.slice_value_count_max;
  const uint64_t share = shape.value_count / part_count + (shape.value_count % part_count != 0);
  const uint64_t units = share / shape.value_alignment + (share % shape.value_alignment != 0);
  return units * shape.value_alignment;
}

Part part_of(const Shape& shape, uint32_t part_count, uint32_t part) {
  if (shape.slices != nullptr) return shape.slices[part];
  const uint64_t shard = shard_value_count(shape, part_count);
  const uint64_t first_value = std::min(part * shard, shape.value_count);
  return {first_value, std::min(shard, shape.value_count - first_value)};
}

uint32_t shard_count(const Shape& shape) {
  return shape.nodes == nullptr ? shape.ranks : shape.nodes->count() * shape.nodes->part_count();
}

uint32_t operand_count(const Shape& shape, uint32_t rank, const Move& move) {
  switch (move.addends) {
    case Addends::node:
      return shape.nodes->size_of(shape.nodes->node_of(rank));
    case Addends::nodes:
      return shape.nodes->count();
    case Addends::ranks:
      break;
  }
  return shape.ranks;
}

uint32_t operand_rank(const Shape& shape, uint32_t rank, const Move& move, uint32_t k) {
  switch (move.addends) {
    case Addends::node:
      return shape.nodes->rank_of(shape.nodes->node_of(rank), k);
    case Addends::nodes:
      return shape.nodes->owner(k, move.part);
    case Addends::ranks:
      break;
  }
  return k;
}

}  // namespace gq
