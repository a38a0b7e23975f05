// Groups of custom communicators over socket pairs, all in this process, one for each thread.
#ifndef GQ_TESTS_SUPPORT_SOCKET_GROUP_H
#define GQ_TESTS_SUPPORT_SOCKET_GROUP_H

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/cpp/socket_transport.h"

namespace gq::test {

/** A table for each rank, connected with each other. */
inline std::vector<gqsgd_transport> socket_tables(int rank_count) {
  std::vector<std::vector<int>> fds(rank_count, std::vector<int>(rank_count, -1));
  for (int a = 0; a < rank_count; ++a) {
    for (int b = a + 1; b < rank_count; ++b) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("socketpair");
      fds[a][b] = ends[0];
      fds[b][a] = ends[1];
    }
  }
  std::vector<gqsgd_transport> tables;
  for (int rank = 0; rank < rank_count; ++rank) {
    tables.push_back(socket_transport(rank, fds[rank]));
  }
  return tables;
}

/** Communicators over tables, in rank order. */
inline std::vector<gqsgd_comm> custom_comms(const std::vector<gqsgd_transport>& tables,
                                            const std::string& options) {
  std::vector<gqsgd_comm> comms(tables.size());
  for (size_t rank = 0; rank < tables.size(); ++rank) {
    if (gqsgd_comm_create_custom(&tables[rank], options.c_str(), &comms[rank]) != GQSGD_OK) {
      throw std::runtime_error(gqsgd_last_error());
    }
  }
  return comms;
}

}  // namespace gq::test

#endif
