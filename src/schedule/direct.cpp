// Direct: every rank sends each part straight to its owner, which adds all of them wide, encodes
// once and sends the result to all.
//
//   steps      2, of n - 1 messages each
//   values     2 (n - 1) / n of the call sent by each rank
//   roundings  no chain of reductions; one re-encode
//
// A rank goes through three phases: codes to their owners, the own part, results of the others. The
// first and the last take chunk 0 of every part, then chunk 1 and so on, so that owners reduce
// early chunks while late ones are on their way. Each rank begins with the rank after it, so that
// no two begin with the same.
#include "include/gqsgd.h"
#include "src/schedule/make.h"

namespace gq {
namespace {

uint32_t combines(uint32_t) { return 0; }

enum class Phase { scatter, own, gather };

/** Where a round stands: one chunk of one rank's part. */
struct Place {
  Phase phase;
  uint64_t chunk;
  uint32_t owner;
};

uint64_t chunks_per_part(const Shape& shape) {
  return chunk_count_of(shard_value_count(shape, shape.ranks), shape);
}

uint64_t round_count(const Shape& shape, uint32_t) {
  return chunks_per_part(shape) * (2 * uint64_t{shape.ranks} - 1);
}

Place place_of(const Shape& shape, uint32_t rank, uint64_t round) {
  const uint64_t chunks = chunks_per_part(shape);
  const uint64_t others = shape.ranks - 1;
  if (round < chunks * others) {
    return {Phase::scatter, round / others, rank_after(rank, 1 + round % others, shape.ranks)};
  }
  round -= chunks * others;
  if (round < chunks) return {Phase::own, round, rank};
  round -= chunks;
  return {Phase::gather, round / others, rank_before(rank, 1 + round % others, shape.ranks)};
}

/** By index and not as a list: with n ranks the own part takes 2 n + 1 moves. */
Move own_move(const Shape& shape, uint32_t rank, uint32_t index) {
  const uint32_t ranks = shape.ranks;
  if (index == 0) return quantize_move();
  if (index < ranks) return receive_operand_move(rank_before(rank, index, ranks));
  if (index == ranks) return reduce_many_move();
  if (index < 2 * ranks) return send_move(rank_after(rank, index - ranks, ranks), rank);
  return dequantize_move(rank);
}

Round round_at(const Shape& shape, uint32_t rank, uint64_t round) {
  const Place place = place_of(shape, rank, round);
  const Part part = part_of(shape, shape.ranks, place.owner);
  const Part chunk = chunk_of(part, place.chunk, shape);
  const uint32_t move_count = place.phase == Phase::own ? 2 * shape.ranks + 1 : 2;
  return {chunk.first_value, chunk.value_count, move_count};
}

Move move_at(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  const Place place = place_of(shape, rank, round);
  switch (place.phase) {
    case Phase::scatter:
      return index == 0 ? quantize_move() : send_move(place.owner, rank);
    case Phase::own:
      return own_move(shape, rank, index);
    case Phase::gather:
      break;
  }
  return index == 0 ? receive_result_move(place.owner, place.owner) : dequantize_move(place.owner);
}

}  // namespace

const Schedule kDirect = {"direct", GQSGD_SCHEDULE_DIRECT, combines, round_count, round_at,
                          move_at};

}  // namespace gq
