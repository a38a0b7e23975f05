// Which words a move sends or receives: where they lie with their maker, and where here.
#ifndef GQ_EXECUTE_MESSAGES_H
#define GQ_EXECUTE_MESSAGES_H

#include "src/execute/endpoint.h"
#include "src/plan/plan.h"
#include "src/transport/host_transport.h"

namespace gq {

/** Values that the words of a move stand for: norms stand for none, and of what fills gaps a move
 *  has its part. */
inline uint64_t counted_values(const Plan& plan, const Move& move) {
  if (move.content == Content::norms) return 0;
  const uint64_t all = plan.shape.value_count;
  if (plan.given_value_count == all) return move.value_count;
  const double given = static_cast<double>(plan.given_value_count) / static_cast<double>(all);
  return static_cast<uint64_t>(static_cast<double>(move.value_count) * given + 0.5);
}

static_assert(sizeof(Trailer) <= Layout::kRoomBytes);

/** The message of a move whose words lie, or are put, at `here_bytes` of the own arena. */
inline Message message_of(const Plan& plan, const Move& move, size_t here_bytes) {
  const Layout& layout = plan.layout;
  const uint64_t last_value = move.first_value + move.value_count - 1;
  const uint32_t last_origin = move.origin_value_count == 0
                                   ? move.origin
                                   : static_cast<uint32_t>(last_value / move.origin_value_count);
  Message message{move.peer,
                  move.origin,
                  last_origin,
                  layout.offset_bytes(move.content, move.first_value),
                  layout.size_bytes(move.content, move.value_count),
                  here_bytes,
                  counted_values(plan, move)};
  message.has_room = has_room(layout, move.content);
  return message;
}

/** What a move's words are, for sentences. */
inline MessageContent content_of(const Move& move, const Shape& shape) {
  const char* const words = move.content == Content::norms   ? "norms"
                            : move.content == Content::codes ? "codes"
                                                             : "sums in codes and their scales";
  return {words, move.first_value, move.value_count, shape.chunk_value_count};
}

/** Bytes of the arena of this rank for a call, with trailers behind the words where peers read
 *  them in place. */
inline size_t arena_bytes_of(const Plan& plan, Endpoint& endpoint) {
  constexpr size_t kLineBytes = 64;
  const size_t words_bytes = plan.layout.arena_bytes();
  if (!endpoint.messages.on() || !endpoint.reads_in_place()) return words_bytes;
  const size_t begin_bytes = (words_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  MoveCursor cursor(plan.schedule, plan.shape, endpoint.rank());
  return begin_bytes + endpoint.messages.place_trailers(begin_bytes, [&](uint32_t* peer) {
    Move move;
    do {
      if (!cursor.next(&move)) return false;
    } while (move.kind != MoveKind::send);
    *peer = move.peer;
    return true;
  });
}

/** A result lies where peers' results are put, unless this rank alone made it. */
inline size_t result_here_bytes(const Layout& layout, const Move& move, uint32_t rank) {
  const bool made_here = move.origin == rank && move.origin_value_count == 0;
  return made_here ? layout.offset_bytes(move.content, move.first_value)
                   : layout.result_bytes(move.content, move.first_value);
}

}  // namespace gq

#endif
