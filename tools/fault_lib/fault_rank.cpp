// A rank of tools/netfaults: joins the group of its environment and reduces until a call fails.
//   fault_rank OPTIONS TIMEOUT_MS QUANTIZER SCHEDULE COUNT REQUESTS PAUSE_US CHILD
// TIMEOUT_MS: of the group once it has formed.
// REQUESTS: calls that are under way at a time; 1 blocks. PAUSE_US: between calls. CHILD: 1 forks a
// process that lives on. SIGUSR1 aborts the communicator, in the handler; SIGUSR2 has it destroyed
// after the call at hand.
//
// Lines of standard output, fields between tabs, times in nanoseconds of the monotonic clock:
//   starts TIME                   it joins now
//   begun TRANSPORT CHILD         it has joined; CHILD is the process that it forked, or 0
//   end STATUS RETURNED DESTROYED ACTED CALLS SENTENCE
// RETURNED: when creation or a call failed; DESTROYED: when destroying the communicator returned;
// ACTED: when it aborted or began to destroy, 0 if it did not; CALLS: that returned OK.
#include <gqsgd.h>
#include <gqsgd_network.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

constexpr unsigned kChildSeconds = 60;

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

gqsgd_comm aborted_by_signal = nullptr;
volatile sig_atomic_t is_asked_to_leave = 0;
volatile int64_t acted_ns = 0;

void abort_in_handler(int) {
  if (acted_ns == 0) acted_ns = now_ns();
  gqsgd_comm_abort(aborted_by_signal);
}

void leave_later(int) { is_asked_to_leave = 1; }

struct Work {
  gqsgd_quantizer quantizer = nullptr;
  gqsgd_config config = GQSGD_CONFIG_INIT;
  std::vector<float> input;
  std::vector<std::vector<float>> results;
};

/** As many calls as there are results; *failure is the sentence of the first that fails. */
gqsgd_status call(gqsgd_comm comm, Work* work, std::string* failure) {
  std::vector<gqsgd_request> requests;
  gqsgd_status first = GQSGD_OK;
  const auto note = [&](gqsgd_status status) {
    if (status == GQSGD_OK || first != GQSGD_OK) return;
    first = status;
    *failure = gqsgd_last_error();
  };
  const size_t count = work->input.size();
  if (work->results.size() == 1) {
    note(gqsgd_allreduce(comm, work->quantizer, work->input.data(), work->results[0].data(), count,
                         GQSGD_FLOAT32, GQSGD_SUM, &work->config, nullptr));
    return first;
  }
  for (std::vector<float>& result : work->results) {
    gqsgd_request request = nullptr;
    note(gqsgd_allreduce_start(comm, work->quantizer, work->input.data(), result.data(), count,
                               GQSGD_FLOAT32, GQSGD_SUM, &work->config, nullptr, &request));
    if (request != nullptr) requests.push_back(request);
  }
  for (const gqsgd_request request : requests) note(gqsgd_request_wait(request));
  return first;
}

/** The process id of the child, which has this process's descriptors but for standard output. */
pid_t fork_child() {
  const pid_t child = fork();
  if (child != 0) return child;
  fclose(stdout);
  signal(SIGUSR1, SIG_IGN);
  sleep(kChildSeconds);
  _exit(0);
}

int print_end(gqsgd_status status, int64_t returned_ns, uint64_t calls, const char* sentence) {
  printf("end\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRIu64 "\t%s\n",
         gqsgd_status_name(status), returned_ns, now_ns(), acted_ns, calls, sentence);
  return 0;
}

int run(gqsgd_comm comm, Work* work, useconds_t pause_us) {
  uint64_t calls = 0;
  std::string sentence;
  gqsgd_status status = GQSGD_OK;
  while (is_asked_to_leave == 0 && (status = call(comm, work, &sentence)) == GQSGD_OK) {
    ++calls;
    if (pause_us > 0) usleep(pause_us);
  }
  const int64_t returned_ns = now_ns();
  if (status == GQSGD_OK) acted_ns = returned_ns;
  const gqsgd_status destroyed = gqsgd_comm_destroy(comm);
  if (destroyed != GQSGD_OK) {
    status = destroyed;
    sentence = std::string("gqsgd_comm_destroy: ") + gqsgd_last_error();
  }
  return print_end(status, returned_ns, calls, sentence.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) return 2;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  printf("starts\t%" PRId64 "\n", now_ns());
  gqsgd_comm comm = nullptr;
  Work work;
  work.config.schedule = static_cast<gqsgd_schedule>(atoi(argv[4]));
  gqsgd_status status = gqsgd_comm_create_env(argv[1], &comm);
  if (status == GQSGD_OK) status = gqsgd_quantizer_create(argv[3], &work.quantizer);
  if (status == GQSGD_OK) status = gqsgd_comm_set_timeout(comm, atoi(argv[2]));
  if (status != GQSGD_OK) return print_end(status, now_ns(), 0, gqsgd_last_error());
  int32_t rank = 0;
  const char* transport = "";
  gqsgd_comm_rank(comm, &rank);
  gqsgd_comm_transport(comm, &transport);
  const size_t count = strtoul(argv[5], nullptr, 10);
  work.input.assign(count, static_cast<float>(rank + 1));
  work.results.assign(strtoul(argv[6], nullptr, 10), std::vector<float>(count));
  aborted_by_signal = comm;
  signal(SIGUSR1, abort_in_handler);
  signal(SIGUSR2, leave_later);
  const pid_t child = strcmp(argv[8], "1") == 0 ? fork_child() : 0;
  printf("begun\t%s\t%d\n", transport, static_cast<int>(child));
  return run(comm, &work, static_cast<useconds_t>(strtoul(argv[7], nullptr, 10)));
}
