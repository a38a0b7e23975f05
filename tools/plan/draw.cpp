// Columns of equal time; a move fills those that it touches.
#include "tools/plan/draw.h"

#include <algorithm>
#include <cstddef>

namespace gq::tools {
namespace {

constexpr size_t kColumns = 84;

char letter_of(MoveKind kind) {
  switch (kind) {
    case MoveKind::norm:
      return 'n';
    case MoveKind::quantize:
      return 'q';
    case MoveKind::reduce:
      return 'r';
    case MoveKind::reduce_many:
      return 'R';
    case MoveKind::await_sum:
      return 'a';
    case MoveKind::dequantize:
      return 'd';
    default:
      return ' ';
  }
}

}  // namespace

std::string drawing_of(const std::vector<TimedMove>& moves, uint32_t ranks) {
  const double scale = kColumns / std::max(finish_time(moves), 1e-9);
  std::vector<std::string> processor(ranks, std::string(kColumns, '.'));
  std::vector<std::string> link(ranks, std::string(kColumns, ' '));
  for (const TimedMove& timed : moves) {
    const bool is_send = timed.move.kind == MoveKind::send;
    const char letter =
        is_send ? static_cast<char>('0' + timed.move.peer % 10) : letter_of(timed.move.kind);
    if (letter == ' ' || timed.end <= timed.start) continue;
    const size_t first = std::min(static_cast<size_t>(timed.start * scale), kColumns - 1);
    const size_t end = std::min(static_cast<size_t>(timed.end * scale), kColumns);
    std::string& line = is_send ? link[timed.rank] : processor[timed.rank];
    std::fill(line.begin() + static_cast<ptrdiff_t>(first),
              line.begin() + static_cast<ptrdiff_t>(std::max(end, first + 1)), letter);
  }
  std::string text;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const std::string name = "rank " + std::to_string(rank);
    text += name + std::string(9 - std::min<size_t>(name.size(), 8), ' ') + processor[rank] + '\n';
    text += "     to  " + link[rank] + '\n';
  }
  return text;
}

}  // namespace gq::tools
