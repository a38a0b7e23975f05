// Which words a move sends or receives: where they lie with their maker, and where here.
#ifndef GQ_EXECUTE_MESSAGES_H
#define GQ_EXECUTE_MESSAGES_H

#include "src/plan/layout.h"
#include "src/transport/host_transport.h"

namespace gq {

/** Values that the words of a move stand for: norms stand for none. */
inline uint64_t counted_values(const Move& move) {
  return move.content == Content::norms ? 0 : move.value_count;
}

/** The message of a move whose words lie, or are put, at `here_bytes` of the own arena. */
inline Message message_of(const Layout& layout, const Move& move, size_t here_bytes) {
  const uint64_t last_value = move.first_value + move.value_count - 1;
  const uint32_t last_origin = move.origin_value_count == 0
                                   ? move.origin
                                   : static_cast<uint32_t>(last_value / move.origin_value_count);
  return Message{move.peer,
                 move.origin,
                 last_origin,
                 layout.offset_bytes(move.content, move.first_value),
                 layout.size_bytes(move.content, move.value_count),
                 here_bytes,
                 counted_values(move)};
}

/** A result lies where peers' results are put, unless this rank alone made it. */
inline size_t result_here_bytes(const Layout& layout, const Move& move, uint32_t rank) {
  const bool made_here = move.origin == rank && move.origin_value_count == 0;
  return made_here ? layout.offset_bytes(move.content, move.first_value)
                   : layout.result_bytes(move.content, move.first_value);
}

}  // namespace gq

#endif
