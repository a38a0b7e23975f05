// The machine's own words about itself, from /proc and uname.
#include "bench/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace gq::bench {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unnamed processor";
}

int usable_cpus() {
  cpu_set_t set;
  return sched_getaffinity(getpid(), sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

std::string machine() {
  utsname system = {};
  uname(&system);
  return processor() + ", " + std::to_string(sysconf(_SC_NPROCESSORS_ONLN)) + " CPUs (" +
         std::to_string(usable_cpus()) + " for each process), " + system.sysname + " " +
         system.release;
}

bool bind_to_processor(int number) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) == 0) return false;
  int left = number % CPU_COUNT(&usable);
  int processor = 0;
  while (!CPU_ISSET(processor, &usable) || left-- > 0) ++processor;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

size_t calls_per_run(size_t size_bytes, double call_ns) {
  constexpr size_t kRunBytes = size_t{8} << 20, kMostCalls = 128;
  constexpr double kRunNs = 100e6;
  const size_t for_bytes = kRunBytes / std::max(size_bytes, size_t{1});
  const double for_time = std::min(kRunNs / std::max(call_ns, 1.0), double{kMostCalls});
  return std::clamp(std::min(for_bytes, static_cast<size_t>(for_time)), size_t{1}, kMostCalls);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace gq::bench
