// Ranks as threads of this process or as its children.
#include "bench/perf/forked.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

namespace gq::bench {
namespace {

constexpr int kFailed = 2;

/** Zeroed memory that threads and forked processes share; it lives as long as the program. */
template <typename Element>
Element* shared_array(size_t count) {
  void* memory = mmap(nullptr, std::max<size_t>(count * sizeof(Element), 1), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<Element*>(memory);
}

/** Where ranks leave what the others are to know. */
struct Board {
  size_t number_count;
  double* numbers;       ///< [rank][number]
  unsigned char* bytes;  ///< as many as the largest size
};

Board make_board(const Options& options) {
  const size_t contenders = options.formats.size() * options.schedules.size();
  const size_t numbers = std::max<size_t>(1, contenders * options.run_count);
  return {numbers, shared_array<double>(numbers * options.rank_count),
          shared_array<unsigned char>(options.most_bytes)};
}

/** Barriers are allreduces of nothing: they return when all ranks are there, or one has failed. */
class BoardTeam final : public Team {
 public:
  BoardTeam(int rank, gqsgd_comm comm, int rank_count, const Board& board)
      : Team(rank, comm), rank_count_(rank_count), board_(board) {
    require(gqsgd_quantizer_create("none", &none_), "none");
  }
  ~BoardTeam() override { gqsgd_quantizer_destroy(none_); }

  void barrier() override {
    constexpr uint64_t kAt[2] = {0, 0};
    require(gqsgd_allreduce(comm(), none_, nullptr, nullptr, 0, GQSGD_FLOAT32, GQSGD_SUM,
                            GQSGD_SCHEDULE_RING, kAt, nullptr),
            "barrier");
  }
  void most(std::vector<double>* numbers) override {
    gather(*numbers);
    for (size_t k = 0; k < numbers->size(); ++k) {
      for (int rank = 0; rank < rank_count_; ++rank) {
        (*numbers)[k] = std::max((*numbers)[k], of_rank(rank)[k]);
      }
    }
    barrier();
  }
  double sum(double number) override {
    gather({number});
    double sum = 0;
    for (int rank = 0; rank < rank_count_; ++rank) sum += of_rank(rank)[0];
    barrier();
    return sum;
  }
  void spread(std::vector<unsigned char>* bytes) override {
    if (rank() == 0) std::copy(bytes->begin(), bytes->end(), board_.bytes);
    barrier();
    std::copy(board_.bytes, board_.bytes + bytes->size(), bytes->begin());
    barrier();
  }

 private:
  double* of_rank(int rank) const { return board_.numbers + rank * board_.number_count; }
  void gather(const std::vector<double>& numbers) {
    std::copy(numbers.begin(), numbers.end(), of_rank(rank()));
    barrier();
  }

  int rank_count_;
  Board board_;
  gqsgd_quantizer none_ = nullptr;
};

/** Runs one rank and destroys its communicator, so that the others see it leave. */
int run_rank(int rank, gqsgd_comm comm, const Options& options, const Board& board,
             const RankMain& rank_main) {
  int result = kFailed;
  try {
    BoardTeam team(rank, comm, options.rank_count, board);
    result = rank_main(team);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
  gqsgd_comm_destroy(comm);
  return result;
}

int run_threads(const Options& options, const Board& board, const RankMain& rank_main) {
  const int rank_count = options.rank_count;
  std::vector<gqsgd_comm> comms(rank_count);
  require(gqsgd_comm_create_local(rank_count, options.comm_options.c_str(), comms.data()),
          "creating the communicators");
  std::vector<int> results(rank_count, kFailed);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back(
        [&, rank] { results[rank] = run_rank(rank, comms[rank], options, board, rank_main); });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(results.begin(), results.end());
}

int process_main(int rank, const gqsgd_unique_id& unique_id, const Options& options,
                 const Board& board, const RankMain& rank_main) {
  gqsgd_comm comm = nullptr;
  const gqsgd_status status = gqsgd_comm_create_process(&unique_id, rank, options.rank_count,
                                                        options.comm_options.c_str(), &comm);
  if (status == GQSGD_OK) return run_rank(rank, comm, options, board, rank_main);
  std::fprintf(stderr, "rank %d: %s\n", rank, gqsgd_last_error());
  return kFailed;
}

int run_processes(const Options& options, const Board& board, const RankMain& rank_main) {
  gqsgd_unique_id unique_id;
  require(gqsgd_unique_id_create(&unique_id), "gqsgd_unique_id_create");
  std::fflush(nullptr);  // A forked copy of unwritten output would be written twice.
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.rank_count; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw Failure("fork failed");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int result = process_main(rank, unique_id, options, board, rank_main);
      std::fflush(nullptr);
      _exit(result);
    }
    children.push_back(child);
  }
  int result = 0;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    result = std::max(result, WIFEXITED(status) ? WEXITSTATUS(status) : kFailed);
  }
  return result;
}

}  // namespace

int run_team(const Options& options, const RankMain& rank_main) {
  const Board board = make_board(options);
  return options.transport == "process" ? run_processes(options, board, rank_main)
                                        : run_threads(options, board, rank_main);
}

}  // namespace gq::bench
