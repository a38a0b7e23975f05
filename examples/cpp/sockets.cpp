// Four processes find the eigenvector of a matrix that none of them has as a whole, by power
// iteration: each multiplies with its rows' share, and the products are added in 8-bit codes over a
// transport of this program's own, sockets.
// Build: c++ -std=c++20 sockets.cpp $(pkg-config --cflags --libs gqsgd)
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

#include "handles.h"
#include "socket_transport.h"

namespace {

constexpr int kRankCount = 4;
constexpr size_t kSize = 1024;

/** The matrix is I + 9 v v' with |v| = 1, v being the wave below; a rank has a quarter of 9 v v'.
 */
std::vector<float> wave() {
  std::vector<float> v(kSize);
  for (size_t k = 0; k < kSize; ++k) {
    v[k] = static_cast<float>(std::sin(0.05 * static_cast<double>(k)));
  }
  double square = 0;
  for (const float value : v) square += value * value;
  for (float& value : v) value = static_cast<float>(value / std::sqrt(square));
  return v;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += static_cast<double>(a[k]) * b[k];
  return sum;
}

/** Every rank has the same x, bit for bit, before and after. */
void iterate(gqsgd_comm comm, gqsgd_quantizer quantizer, std::span<const float> v,
             std::vector<float>& x) {
  std::vector<float> product(kSize);
  const double share = 9 * dot(v, x) / kRankCount;
  for (size_t k = 0; k < kSize; ++k) {
    product[k] = static_cast<float>(x[k] / kRankCount + share * v[k]);
  }
  check(gqsgd_allreduce(comm, quantizer, product.data(), x.data(), kSize, GQSGD_FLOAT32, GQSGD_SUM,
                        nullptr, nullptr));
  const double norm = std::sqrt(dot(x, x));
  for (float& value : x) value = static_cast<float>(value / norm);
}

int run_rank(int rank, const std::vector<int>& sockets) try {
  const Comm comm = make_comm(socket_transport(rank, sockets), "timeout_ms=20000");
  const Quantizer quantizer = make_quantizer("rotated-8,seed=7");
  const std::vector<float> v = wave();
  std::vector<float> x(kSize, 1 / std::sqrt(static_cast<float>(kSize)));
  for (int step = 0; step < 8; ++step) iterate(comm.get(), quantizer.get(), v, x);
  const double cosine = std::fabs(dot(x, v));
  if (rank == 0) printf("cosine of the angle to the eigenvector: %.5f\n", cosine);
  return cosine > 0.9999 ? 0 : 1;
} catch (const Failure& failure) {
  printf("rank %d: %s\n", rank, failure.what());
  return 1;
}

/** A pair of connected sockets for each pair of ranks: [rank][peer], -1 for the rank itself. */
std::vector<std::vector<int>> connect_all() {
  std::vector<std::vector<int>> sockets(kRankCount, std::vector<int>(kRankCount, -1));
  for (int a = 0; a < kRankCount; ++a) {
    for (int b = a + 1; b < kRankCount; ++b) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("socketpair");
      sockets[a][b] = ends[0];
      sockets[b][a] = ends[1];
    }
  }
  return sockets;
}

}  // namespace

int main() {
  const std::vector<std::vector<int>> sockets = connect_all();
  int rank = 0;
  for (int child = 1; child < kRankCount && rank == 0; ++child) {
    if (fork() == 0) rank = child;
  }
  // Ends of others are closed here, so that one sees it when a peer has died.
  for (int other = 0; other < kRankCount; ++other) {
    for (const int end : sockets[other]) {
      if (other != rank && end >= 0) close(end);
    }
  }
  int failed = run_rank(rank, sockets[rank]), status = 0;
  if (rank > 0) return failed;
  while (wait(&status) > 0) failed |= status;
  printf("%s\n", failed ? "a rank failed" : "all ranks found it");
  return failed != 0;
}
