// Paths that a caller names: what is no regular file is an error at once, never a wait.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "include/gqsgd_log.h"
#include "include/gqsgd_nccl.h"
#include "tests/api/faults/support/call.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

namespace fs = std::filesystem;

/** A folder with one thing of each kind, removed at the end. */
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/gqsgd_paths_XXXXXX";
    path_ = mkdtemp(name);
    EXPECT_EQ(mkfifo(of("fifo").c_str(), 0600), 0);
    fs::create_symlink("fifo", of("link"));
    fs::create_directory(of("folder"));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    of("socket").copy(address.sun_path, sizeof address.sun_path - 1);
    socket_ = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Folder() {
    close(socket_);
    fs::remove_all(path_);
  }
  std::string of(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  int socket_ = -1;
};

struct Thing {
  std::string path, reason;
};

std::vector<Thing> things_in(const Folder& folder) {
  return {{folder.of("fifo"), "it is a FIFO, not a regular file"},
          {folder.of("link"), "it is a FIFO, not a regular file"},
          {folder.of("socket"), "it is a socket, not a regular file"},
          {folder.of("folder"), "it is a directory, not a regular file"},
          {"/dev/zero", "it is a device, not a regular file"}};
}

/** The line of a process that is killed if it waits. */
std::string line_in_time(const std::function<std::string()>& body) {
  return Child([&] {
           alarm(20);
           return body();
         })
      .line();
}

std::string create_local(const std::string& options) {
  gqsgd_comm comm = nullptr;
  const Outcome outcome = outcome_of(gqsgd_comm_create_local(1, options.c_str(), &comm));
  gqsgd_comm_destroy(comm);
  return outcome.text();
}

TEST(Paths, CostsOption_NoRegularFile_InvalidArgumentAtOnce) {
  const Folder folder;
  for (const Thing& thing : things_in(folder)) {
    EXPECT_EQ(line_in_time([&] { return create_local("costs=" + thing.path); }),
              "INVALID_ARGUMENT: costs=" + thing.path + " cannot be read: " + thing.reason +
                  "; gqsgd-calibrate writes such a file, and measure and builtin need none");
  }
}

TEST(Paths, CostsOfEnvironment_NoRegularFile_OneWarningAtOnce) {
  const Folder folder;
  for (const Thing& thing : things_in(folder)) {
    const std::string line = line_in_time([&] {
      setenv("GQSGD_COSTS", thing.path.c_str(), 1);
      static std::string warnings;
      gqsgd_set_log(
          GQSGD_LOG_WARN, [](void*, gqsgd_log_level, const char* text) { warnings += text; },
          nullptr);
      return create_local("") + " " + warnings;
    });
    EXPECT_EQ(line, "OK GQSGD_COSTS: costs=" + thing.path + " cannot be read: " + thing.reason +
                        "; gqsgd-calibrate writes such a file, and measure and builtin need none; "
                        "schedule auto goes on without constants, as direct");
  }
}

TEST(Paths, NcclLibrary_NoRegularFile_UnsupportedAtOnce) {
  const Folder folder;
  for (const Thing& thing : things_in(folder)) {
    const std::string sentence = "UNSUPPORTED: NCCL is not here: " + thing.path + ": " +
                                 thing.reason +
                                 " (option nccl=FILE or GQSGD_NCCL_LIBRARY says where it is)";
    const auto make_id = [](const std::string& options) {
      gqsgd_unique_id id;
      return outcome_of(gqsgd_nccl_unique_id_create(options.c_str(), &id)).text();
    };
    EXPECT_EQ(line_in_time([&] { return make_id("nccl=" + thing.path); }), sentence);
    EXPECT_EQ(line_in_time([&] {
                setenv("GQSGD_NCCL_LIBRARY", thing.path.c_str(), 1);
                return make_id("");
              }),
              sentence);
  }
}

TEST(Paths, CostsFile_Regular_ReadToItsEndUpToTheLimit) {
  const Folder folder;
  const std::string path = folder.of("costs");
  for (const size_t size_bytes : {size_t{0}, size_t{1}, size_t{16383}, size_t{16384}}) {
    std::ofstream(path) << std::string(size_bytes, '\n');
    const std::string line = create_local("costs=" + path);
    EXPECT_EQ(line, size_bytes < 16384 ? "OK"
                                       : "INVALID_ARGUMENT: costs=" + path +
                                             " cannot be read: File too large; gqsgd-calibrate "
                                             "writes such a file, and measure and builtin need "
                                             "none");
  }
}

}  // namespace
}  // namespace gq::test
