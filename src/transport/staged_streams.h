// Ranks that share host memory alone, on memory of devices: words go through their arenas at the
// board.
#ifndef GQ_TRANSPORT_STAGED_STREAMS_H
#define GQ_TRANSPORT_STAGED_STREAMS_H

#include <memory>

#include "src/transport/board_streams.h"

namespace gq {

Status open_staged_streams(BoardTransport& board, const StreamSeat& seat,
                           std::unique_ptr<StreamTransport>* out);

}  // namespace gq

#endif
