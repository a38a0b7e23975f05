// fork, one pipe for the line, waitpid.
#include "tests/unit/transport/children.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "tests/support/sanitized.h"

namespace gq::test {
namespace {

constexpr int kLifetimeSeconds = 60 * kTimeFactor;

}  // namespace

Signal::Signal() {
  if (pipe(ends_) != 0) ends_[0] = ends_[1] = -1;
}

Signal::~Signal() {
  close(ends_[0]);
  close(ends_[1]);
}

void Signal::send() {
  const char byte = 1;
  if (write(ends_[1], &byte, 1) != 1) _exit(97);
}

bool Signal::wait() {
  pollfd watched{ends_[0], POLLIN, 0};
  char byte;
  return poll(&watched, 1, kLifetimeSeconds * 1000) == 1 && read(ends_[0], &byte, 1) == 1;
}

Child::Child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return;
  process_ = fork();
  if (process_ == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(kLifetimeSeconds);
    const std::string line = body();
    const bool written =
        write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size());
    _exit(written ? 0 : 98);
  }
  close(ends[1]);
  result_ = ends[0];
}

Child::Child(Child&& other) noexcept
    : process_(std::exchange(other.process_, -1)), result_(std::exchange(other.result_, -1)) {}

Child::~Child() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    line();
  }
  if (result_ >= 0) close(result_);
}

void Child::signal(int number) const { kill(process_, number); }

std::string Child::line() {
  std::string line;
  char buffer[512];
  ssize_t count;
  // The child's own children may hold the pipe open: its end is the child's end.
  int wait_status = 0;
  waitpid(process_, &wait_status, 0);
  process_ = -1;
  pollfd watched{result_, POLLIN, 0};
  while (poll(&watched, 1, 0) == 1 && (count = read(result_, buffer, sizeof buffer)) > 0) {
    line.append(buffer, static_cast<size_t>(count));
  }
  if (WIFSIGNALED(wait_status)) return "killed by signal " + std::to_string(WTERMSIG(wait_status));
  if (WEXITSTATUS(wait_status) != 0) {
    return "exited with " + std::to_string(WEXITSTATUS(wait_status));
  }
  return line;
}

}  // namespace gq::test
