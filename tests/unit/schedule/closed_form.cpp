// The formulas. They share no line with src/schedule: logarithms are counted, parts are cut, again.
#include "tests/unit/schedule/closed_form.h"

#include <algorithm>

namespace gq {
namespace {

uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

uint32_t log2_up(uint64_t ranks) {
  uint32_t log2 = 0;
  while ((uint64_t{1} << log2) < ranks) ++log2;
  return log2;
}

/** A call cut into `parts`: lengths of runs of parts, and the messages that carry them. */
struct Cut {
  Cut(const Shape& shape, uint64_t parts)
      : call(shape.value_count),
        chunk(shape.chunk_value_count),
        shard(divide_up(divide_up(call, parts), shape.value_alignment) * shape.value_alignment) {}

  /** Values in parts first .. first + count - 1. */
  uint64_t values(uint64_t first, uint64_t count = 1) const {
    return std::min((first + count) * shard, call) - std::min(first * shard, call);
  }
  uint64_t messages(uint64_t first, uint64_t count = 1) const {
    return divide_up(values(first, count), chunk);
  }
  /** Messages if every part is sent by itself. */
  uint64_t messages_of_all() const {
    if (call == 0) return 0;
    return call / shard * divide_up(shard, chunk) + divide_up(call % shard, chunk);
  }

  uint64_t call;
  uint64_t chunk;
  uint64_t shard;
};

/** Every part but the own one while reducing, every part but the next rank's with the results. */
ClosedForm ring(const Shape& shape, uint32_t rank) {
  if (shape.ranks == 1) return {0, 0, 0};
  const Cut cut(shape, shape.ranks);
  const uint32_t next = (rank + 1) % shape.ranks;
  return {2 * cut.messages_of_all() - cut.messages(rank) - cut.messages(next),
          2 * cut.call - cut.values(rank) - cut.values(next), shape.ranks - 1};
}

/** Every part but the own one to its owner, the own result to all the others. */
ClosedForm direct(const Shape& shape, uint32_t rank) {
  if (shape.ranks == 1) return {0, 0, 0};
  const Cut cut(shape, shape.ranks);
  const uint64_t others = shape.ranks - 1;
  return {cut.messages_of_all() - cut.messages(rank) + others * cut.messages(rank),
          cut.call - cut.values(rank) + others * cut.values(rank), 0};
}

/** The call to the parent and to each child. */
ClosedForm tree(const Shape& shape, uint32_t rank) {
  uint32_t edges = rank == 0 ? 0 : 1;
  for (uint64_t distance = 1; rank + distance < shape.ranks; distance *= 2) {
    if (rank % (2 * distance) != 0) break;
    ++edges;
  }
  return {edges * divide_up(shape.value_count, shape.chunk_value_count), edges * shape.value_count,
          log2_up(shape.ranks)};
}

/** With P = 2^m partners: m blocks halving from P/2 parts, m blocks doubling from one part, and the
 *  call in two halves between the ranks of a folded pair. */
ClosedForm butterfly(const Shape& shape, uint32_t rank) {
  uint64_t partners = 1;
  while (2 * partners <= shape.ranks) partners *= 2;
  const Cut cut(shape, partners);
  ClosedForm form{0, 0, log2_up(shape.ranks)};
  if (rank >= partners || rank + partners < shape.ranks) {
    const uint64_t half = partners / 2;
    form = {cut.messages(0, half) + cut.messages(half, half), cut.call, form.chain};
  }
  if (rank >= partners) return form;
  for (uint64_t parts = partners / 2; parts > 0; parts /= 2) {
    const uint64_t own = rank / parts * parts;
    const uint64_t other = (rank ^ parts) / parts * parts;
    form.messages_sent += cut.messages(other, parts) + cut.messages(own, parts);
    form.values_sent += cut.values(other, parts) + cut.values(own, parts);
  }
  return form;
}

ClosedForm of_codes(const std::string& schedule, const Shape& shape, uint32_t rank) {
  if (schedule == "ring") return ring(shape, rank);
  if (schedule == "tree") return tree(shape, rank);
  if (schedule == "butterfly") return butterfly(shape, rank);
  if (schedule == "native") return {0, 0, shape.ranks > 1 ? 1u : 0u};
  return direct(shape, rank);
}

}  // namespace

/** Norms go to owners and back as codes of the direct schedule do. */
ClosedForm closed_form(const std::string& schedule, const Shape& shape, uint32_t rank) {
  ClosedForm form = of_codes(schedule, shape, rank);
  if (!shape.block_norms) return form;
  const ClosedForm exchange = direct(shape, rank);
  form.messages_sent += exchange.messages_sent;
  form.norm_values_sent = exchange.values_sent;
  return form;
}

}  // namespace gq
