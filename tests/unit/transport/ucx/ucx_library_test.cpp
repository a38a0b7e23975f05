// UCX in a process that is not its own: what may not change there, how it is found, what is said if
// it cannot be used.
#include "src/transport/ucx/ucx_library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "src/support/log.h"
#include "src/transport/ucx/environment_defaults.h"
#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/process_group.h"
#include "tests/unit/transport/ucx/ucx_ranks.h"

namespace gq::test {
namespace {

/** In a process of its own, as a library is loaded once. */
std::string in_child(const std::function<std::string()>& body) { return Child(body).line(); }

/** All that a handler is. */
std::string signal_handlers() {
  std::string all;
  for (int number = 1; number <= 64; ++number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (sigaction(number, nullptr, &action) != 0) continue;
    char line[80];
    snprintf(line, sizeof line, "%d:%p:%x ", number, reinterpret_cast<void*>(action.sa_handler),
             static_cast<unsigned>(action.sa_flags));
    all += line;
  }
  stack_t stack;
  sigaltstack(nullptr, &stack);
  return all + (stack.ss_sp == nullptr ? "no stack" : "a stack");
}

/** The first bytes of functions that UCX could rewrite. */
std::string code_of_functions() {
  std::string all;
  for (const char* name :
       {"mmap", "munmap", "mremap", "madvise", "brk", "sbrk", "shmat", "shmdt", "malloc", "free",
        "realloc", "posix_memalign", "dlopen", "sigaction", "signal"}) {
    const void* const function = dlsym(RTLD_DEFAULT, name);
    if (function != nullptr) all.append(static_cast<const char*>(function), 16);
  }
  return all;
}

std::set<std::string> threads() {
  std::set<std::string> names;
  DIR* const folder = opendir("/proc/self/task");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') names.insert(entry->d_name);
  }
  closedir(folder);
  return names;
}

/** The line of a file of /proc that begins with `name`. */
std::string line_of(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) == 0) return line.substr(name.size());
  }
  return "";
}

size_t descriptors() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

long resident_kib() { return atol(line_of("/proc/self/status", "VmRSS:").c_str()); }

/** Of the body: its line, and all that it prints. */
std::string with_output(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  dup2(ends[1], STDOUT_FILENO);
  dup2(ends[1], STDERR_FILENO);
  std::string line = body();
  fflush(stdout);
  fflush(stderr);
  char buffer[4096];
  const ssize_t count = read(ends[0], buffer, sizeof buffer);
  if (count > 0) line += " PRINTED: " + std::string(buffer, static_cast<size_t>(count));
  return line;
}

class UcxInProcess : public testing::Test {
 protected:
  void SetUp() override { GQ_SKIP_WITHOUT_UCX(); }
};

TEST_F(UcxInProcess, OpenUseDestroy_LeavesTheProcessAsItWas) {
  SharedArray<PostedAddress> addresses(2);
  const auto body = [&addresses](uint32_t number) -> std::string {
    const std::string handlers = signal_handlers(), code = code_of_functions();
    std::thread([] {}).join();  // ThreadSanitizer makes one of its own with the first of a process
    const std::set<std::string> threads_before = threads();
    char** const environment = environ;
    const size_t descriptors_before = descriptors();
    const long resident_before = resident_kib();
    UcxRank rank(number, addresses.data(), 2);
    Status status = rank.open();
    if (!status.ok()) return text_of(status);
    if (environ != environment) return "another environ";
    for (const char* name : {"UCX_HANDLE_ERRORS", "UCX_LOG_LEVEL", "UCX_MEM_EVENTS"}) {
      if (getenv(name) != nullptr) return std::string(name) + " is left";
    }
    const long opened_kib = resident_kib() - resident_before;
    for (const std::string& thread : threads()) {
      if (threads_before.count(thread) != 0) continue;
      const std::string blocked = line_of("/proc/self/task/" + thread + "/status", "SigBlk:\t");
      // All but SIGKILL, SIGSTOP and two of the C library's, which a beginning thread blocks too.
      constexpr uint64_t kAll = 0xfffffffe7ffbfeff;
      if ((strtoull(blocked.c_str(), nullptr, 16) & kAll) != kAll) {
        return "a thread has the signal mask " + blocked;
      }
    }
    status = rank.connect();
    if (status.ok()) status = rank.greet();
    std::string bytes = pattern(3000000, number);
    UcxRequest send;
    if (status.ok()) {
      status = rank.engine().start_send(1 - number, 1, bytes.data(), bytes.size(), &send);
    }
    std::string received(bytes.size(), 'x');
    if (status.ok()) status = rank.receive(1 - number, 1, &received);
    if (status.ok()) status = rank.wait(&send);
    if (status.ok()) status = rank.barrier();
    if (!status.ok()) return text_of(status);
    rank.progress_for_ms(20);
    if (signal_handlers() != handlers) return "handlers: " + handlers + "->" + signal_handlers();
    if (code_of_functions() != code) return "a function was rewritten";
    rank.destroy();
    usleep(20000);
    if (threads().size() != threads_before.size()) return "threads are left";
    if (signal_handlers() != handlers) return "handlers after the end";
    if (descriptors() > descriptors_before + 2) {
      return std::to_string(descriptors() - descriptors_before) + " descriptors are left";
    }
    return opened_kib < 100 << 10 ? "OK" : std::to_string(opened_kib) + " KiB";
  };
  Child one([&] { return with_output([&] { return body(0); }); });
  Child other([&] { return with_output([&] { return body(1); }); });
  EXPECT_EQ(one.line(), "OK");
  EXPECT_EQ(other.line(), "OK");
}

TEST_F(UcxInProcess, ADeadPeer_PrintsNothing) {
  SharedArray<PostedAddress> addresses(2);
  for (const Wire& wire : kWires) {
    addresses[0].size_bytes = addresses[1].size_bytes = 0;
    Child one = ucx_child(0, 2, addresses.data(), wire, [](UcxRank& rank) {
      return with_output([&rank]() -> std::string {
        if (const Status status = rank.barrier(); !status.ok()) return text_of(status);
        const std::string bytes = pattern(100000, 1);
        std::vector<UcxRequest> sends(20);
        for (size_t i = 0; i < sends.size(); ++i) {
          (void)rank.engine().start_send(1, 1, bytes.data(), bytes.size(), &sends[i]);
          (void)rank.wait(&sends[i], 50);
        }
        rank.destroy();
        return "OK";
      });
    });
    Child other = ucx_child(1, 2, addresses.data(), wire, [](UcxRank& rank) {
      return rank.barrier().ok() ? "OK" : "no barrier";
    });
    EXPECT_EQ(other.line(), "OK");
    EXPECT_EQ(one.line(), "OK") << wire.name;
  }
}

TEST_F(UcxInProcess, UsersOwnSettings_Win) {
  const std::string line = in_child([]() -> std::string {
    setenv("UCX_HANDLE_ERRORS", "bt", 1);
    const std::string handlers = signal_handlers();
    const UcxLibrary* library = nullptr;
    const Status status = open_ucx(library_under_test().library, &library);
    if (!status.ok()) return text_of(status);
    if (strcmp(getenv("UCX_HANDLE_ERRORS"), "bt") != 0) return "another value";
    return signal_handlers() == handlers ? "ignored" : "OK";
  });
  EXPECT_EQ(line, "OK");
}

TEST_F(UcxInProcess, LoadedCopy_IsUsed_AndAnotherIsUnsupported) {
  const std::string line = in_child([]() -> std::string {
    const UcxLibrary* library = nullptr;
    Status status = open_ucx(library_under_test().library, &library);
    if (!status.ok()) return text_of(status);
    const UcxLibrary* again = nullptr;
    setenv("GQSGD_UCX_LIBRARY", "/nowhere/libucp.so.0", 1);
    status = open_ucx(nullptr, &again);
    if (!status.ok() || again != library) return "another: " + text_of(status);
    status = open_ucx(library->path, &again);
    if (!status.ok() || again != library) return "by its path: " + text_of(status);
    return text_of(open_ucx("/nowhere/libucp.so.0", &again));
  });
  EXPECT_TRUE(contains(line, "UNSUPPORTED: option ucx=/nowhere/libucp.so.0: this process has"))
      << line;
}

std::string opening(const std::string& path) {
  return in_child([&path] {
    const UcxLibrary* library = nullptr;
    return text_of(open_ucx(path.c_str(), &library));
  });
}

TEST(UcxLibrary, MissingFile_SentenceSaysHowToInstall) {
  const std::string line = opening("/nowhere/libucp.so.0");
  EXPECT_TRUE(contains(line, "UNSUPPORTED: UCX is not here: /nowhere/libucp.so.0: ")) << line;
  EXPECT_TRUE(contains(line, "`apt-get install libucx0`")) << line;
  EXPECT_TRUE(contains(line, "`pip install libucx-cu12`")) << line;
}

TEST(UcxLibrary, VariableWithAMissingFile_Unsupported) {
  const std::string line = in_child([] {
    setenv("GQSGD_UCX_LIBRARY", "/nowhere/libucp.so.0", 1);
    const UcxLibrary* library = nullptr;
    return text_of(open_ucx(nullptr, &library));
  });
  EXPECT_TRUE(contains(line, "UNSUPPORTED: UCX is not here: /nowhere/libucp.so.0: ")) << line;
}

TEST(UcxLibrary, AnotherLibrary_Unsupported) {
  EXPECT_TRUE(contains(opening("libm.so.6"), "UNSUPPORTED: ucp_get_version is not found in "))
      << opening("libm.so.6");
}

TEST(UcxLibrary, Fifo_UnsupportedAtOnce) {
  const std::string path = testing::TempDir() + "gqsgd_ucx_fifo";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const std::string line = opening(path);
  unlink(path.c_str());
  EXPECT_TRUE(contains(line, "it is a FIFO, not a regular file")) << line;
}

TEST(EnvironmentDefaults, Variables_AreThereForALifetime_AndUsersStay) {
  setenv("GQ_TEST_OURS", "user", 1);
  unsetenv("GQ_TEST_NEW");
  char** const before = environ;
  {
    const char* const variables[] = {"GQ_TEST_OURS=default", "GQ_TEST_NEW=default"};
    const EnvironmentDefaults defaults(variables, 2);
    ASSERT_TRUE(defaults.is_set());
    EXPECT_STREQ(getenv("GQ_TEST_OURS"), "user");
    EXPECT_STREQ(getenv("GQ_TEST_NEW"), "default");
  }
  EXPECT_EQ(environ, before);
  EXPECT_STREQ(getenv("GQ_TEST_OURS"), "user");
  EXPECT_EQ(getenv("GQ_TEST_NEW"), nullptr);
}

TEST(EnvironmentDefaults, ChangesMeanwhile_Stay) {
  setenv("GQ_TEST_CHANGED", "before", 1);
  setenv("GQ_TEST_REMOVED", "before", 1);
  for (int i = 0; i < 3; ++i) {
    const std::string value = std::to_string(i);
    setenv("GQ_TEST_REMOVED", "before", 1);
    {
      const char* const variables[] = {"GQ_TEST_NEW=default", "GQ_TEST_ALSO=default"};
      const EnvironmentDefaults defaults(variables, 2);
      if (i != 1) setenv(("GQ_TEST_ADDED_" + value).c_str(), "added", 1);
      setenv("GQ_TEST_CHANGED", value.c_str(), 1);
      unsetenv("GQ_TEST_REMOVED");
      setenv("GQ_TEST_ALSO", "by another thread", 1);
    }
    EXPECT_EQ(getenv("GQ_TEST_NEW"), nullptr);
    EXPECT_STREQ(getenv("GQ_TEST_ALSO"), "by another thread");
    EXPECT_STREQ(getenv("GQ_TEST_CHANGED"), value.c_str());
    EXPECT_EQ(getenv("GQ_TEST_REMOVED"), nullptr);
    EXPECT_EQ(getenv(("GQ_TEST_ADDED_" + value).c_str()) != nullptr, i != 1);
    unsetenv("GQ_TEST_ALSO");
  }
}

TEST(EnvironmentDefaults, OfAnotherThreadThatReads_AlwaysTheSame) {
  setenv("GQ_TEST_READ", "always", 1);
  std::atomic<bool> is_over{false};
  std::atomic<long> wrong{0}, reads{0};
  std::thread reader([&] {
    while (!is_over.load()) {
      const char* value = getenv("GQ_TEST_READ");
      wrong += value == nullptr || strcmp(value, "always") != 0;
      ++reads;
    }
  });
  while (reads.load() == 0) {
  }
  for (int i = 0; i < 20000; ++i) {
    const char* const variables[] = {"GQ_TEST_NEW=default"};
    const EnvironmentDefaults defaults(variables, 1);
  }
  is_over = true;
  reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace gq::test
