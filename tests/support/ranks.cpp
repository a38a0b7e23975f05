// The two ways to run a group: threads, with abort as the way out of a hang, and forked processes,
// with SIGKILL as theirs.
#include "tests/support/ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tests/support/sanitized.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kSentenceBytes = 2048;
constexpr int kAbortSeconds = 20;

std::string run_body(const RankBody& body, int rank, gqsgd_comm comm) {
  try {
    return body(rank, comm);
  } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  }
}

std::string join(const std::vector<std::string>& sentences) {
  std::string text;
  for (size_t rank = 0; rank < sentences.size(); ++rank) {
    if (sentences[rank].empty()) continue;
    text += "rank " + std::to_string(rank) + ": " + sentences[rank] + "\n";
  }
  return text;
}

/** Counts ranks that are done, and lets one thread wait for all of them. */
class Finish {
 public:
  explicit Finish(int rank_count) : missing_(rank_count) {}
  void arrive() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--missing_ == 0) all_there_.notify_all();
  }
  bool wait(int seconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::chrono::seconds limit(kTimeFactor * seconds);
    return all_there_.wait_for(lock, limit, [this] { return !missing_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_there_;
  int missing_;
};

/** Waits for the threads; false if they had to be aborted. */
bool finish_or_abort(Finish& finish, const std::vector<gqsgd_comm>& comms) {
  if (finish.wait(kWatchdogSeconds)) return true;
  for (gqsgd_comm comm : comms) gqsgd_comm_abort(comm);
  if (finish.wait(kAbortSeconds)) return false;
  std::fprintf(stderr, "watchdog: %zu rank threads neither finish nor abort\n", comms.size());
  std::abort();
}

std::string rank_process(int rank, int rank_count, const std::string& options, const RankBody& body,
                         const CommMaker& make) {
  gqsgd_comm comm = nullptr;
  const gqsgd_status created = make(rank, rank_count, options.c_str(), &comm);
  if (created != GQSGD_OK) return failure_of(created, "the communicator");
  std::string sentence = run_body(body, rank, comm);
  const gqsgd_status destroyed = gqsgd_comm_destroy(comm);
  if (sentence.empty()) sentence = failure_of(destroyed, "gqsgd_comm_destroy");
  return sentence;
}

}  // namespace

std::string failure_of(gqsgd_status status, const char* what) {
  if (status == GQSGD_OK) return "";
  return std::string(what) + ": " + gqsgd_status_name(status) + ": " + gqsgd_last_error();
}

uint64_t counter_of(gqsgd_comm comm, const char* name) {
  uint64_t value = 0;
  if (gqsgd_comm_stat(comm, name, &value) != GQSGD_OK) throw std::runtime_error(name);
  return value;
}

std::string run_threads(int rank_count, const std::string& options, const RankBody& body) {
  std::vector<gqsgd_comm> comms(rank_count);
  const gqsgd_status created = gqsgd_comm_create_local(rank_count, options.c_str(), comms.data());
  if (created != GQSGD_OK) return failure_of(created, "gqsgd_comm_create_local");
  return run_threads(comms, body);
}

std::string run_threads(const std::vector<gqsgd_comm>& comms, const RankBody& body) {
  const int rank_count = static_cast<int>(comms.size());
  Finish finish(rank_count);
  std::vector<std::string> sentences(rank_count);
  std::vector<std::thread> threads;
  threads.reserve(rank_count);
  for (int rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      sentences[rank] = run_body(body, rank, comms[rank]);
      if (!sentences[rank].empty()) gqsgd_comm_abort(comms[rank]);  // The others would wait for it.
      finish.arrive();
    });
  }
  const bool in_time = finish_or_abort(finish, comms);
  for (std::thread& thread : threads) thread.join();

  std::string text = join(sentences);
  if (!in_time) text += "the ranks hung and had to be aborted\n";
  for (gqsgd_comm comm : comms) text += failure_of(gqsgd_comm_destroy(comm), "gqsgd_comm_destroy");
  return text;
}

RankProcesses::RankProcesses(int rank_count, const std::string& options, const RankBody& body,
                             const CommMaker& make)
    : ranks_(rank_count), sentences_(rank_count * kSentenceBytes) {
  gqsgd_unique_id unique_id;
  if (gqsgd_unique_id_create(&unique_id) != GQSGD_OK) std::abort();
  const CommMaker process = [&](int rank, int size, const char* text, gqsgd_comm* comm) {
    return gqsgd_comm_create_process(&unique_id, rank, size, text, comm);
  };
  std::fflush(nullptr);  // A forked copy of unwritten output would be written twice.
  const pid_t parent = getpid();
  for (int rank = 0; rank < rank_count; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) std::abort();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      const std::string sentence =
          rank_process(rank, rank_count, options, body, make ? make : process);
      char* place = sentences_.data() + rank * kSentenceBytes;
      std::memcpy(place, sentence.data(), std::min(sentence.size(), kSentenceBytes - 1));
      _exit(0);
    }
    ranks_[rank].pid = pid;
  }
}

RankProcesses::~RankProcesses() { wait_each(0); }

bool RankProcesses::reap() {
  bool all_ended = true;
  for (Rank& rank : ranks_) {
    if (!rank.ended) rank.ended = waitpid(rank.pid, &rank.wait_status, WNOHANG) == rank.pid;
    all_ended = all_ended && rank.ended;
  }
  return all_ended;
}

std::string RankProcesses::outcome(int rank) const {
  const int status = ranks_[rank].wait_status;
  if (ranks_[rank].overdue) return "hung, and was killed";
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "exit status " + std::to_string(WEXITSTATUS(status));
  return sentences_.data() + rank * kSentenceBytes;
}

std::vector<std::string> RankProcesses::wait_each(int seconds) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(kTimeFactor * seconds);
  while (!reap() && Clock::now() < deadline) usleep(500);
  for (Rank& rank : ranks_) {
    if (rank.ended) continue;
    rank.overdue = true;
    kill(rank.pid, SIGKILL);
    waitpid(rank.pid, &rank.wait_status, 0);
    rank.ended = true;
  }
  std::vector<std::string> outcomes;
  const int rank_count = static_cast<int>(ranks_.size());
  for (int rank = 0; rank < rank_count; ++rank) outcomes.push_back(outcome(rank));
  return outcomes;
}

std::string RankProcesses::wait(int seconds) { return join(wait_each(seconds)); }

std::string run_processes(int rank_count, const std::string& options, const RankBody& body) {
  RankProcesses processes(rank_count, options, body);
  return processes.wait();
}

}  // namespace gq::test
