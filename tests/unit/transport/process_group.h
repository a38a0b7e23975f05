// A group of processes under test: every rank a child that joins and then runs one function.
#ifndef GQ_TESTS_UNIT_TRANSPORT_PROCESS_GROUP_H
#define GQ_TESTS_UNIT_TRANSPORT_PROCESS_GROUP_H

#include <functional>
#include <string>
#include <vector>

#include "src/transport/process/process.h"
#include "tests/unit/transport/children.h"
#include "tests/unit/transport/exchange.h"

namespace gq::test {

using RankBody = std::function<std::string(HostTransport&)>;

inline const RankBody kJustJoin = [](HostTransport&) { return "joined"; };
inline const RankBody kExchange = [](HostTransport& transport) {
  return text_of(exchange(transport, 1));
};

gqsgd_unique_id fresh_id();

/** A child that joins as `rank` of `size` and returns the failure of that, or the line of `body`.
 */
Child join(const gqsgd_unique_id& id, uint32_t rank, uint32_t size, const RankBody& body,
           int64_t timeout_ms = kTimeoutMs);

/** One child per rank. */
std::vector<Child> join_all(uint32_t size, const RankBody& body,
                            const gqsgd_unique_id& id = fresh_id());

std::vector<std::string> lines_of(std::vector<Child>& children);

bool contains(const std::string& line, const std::string& part);

/** Descriptors, mappings of segments and threads of this process. */
struct Footprint {
  size_t descriptors, mappings, threads;
};
Footprint footprint();

/** Descriptors of this process for files whose names contain `part`. */
size_t descriptors_of(const std::string& part);

/** Sockets and files on this machine that bear the name in `id`. */
size_t names_left(const gqsgd_unique_id& id);

}  // namespace gq::test

#endif
