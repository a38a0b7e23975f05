// Joining, collecting lines, and counting what is left behind.
#include "tests/unit/transport/process_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "src/transport/bootstrap/unique_id.h"

namespace gq::test {
namespace {

size_t entries_in(const char* folder, const std::string& part) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += contains(entry.path().filename(), part) ? 1 : 0;
  }
  return count;
}

size_t lines_in(const char* file, const std::string& part) {
  std::ifstream stream(file);
  size_t count = 0;
  for (std::string line; std::getline(stream, line);) count += contains(line, part) ? 1 : 0;
  return count;
}

}  // namespace

gqsgd_unique_id fresh_id() {
  gqsgd_unique_id id{};
  EXPECT_EQ(text_of(make_unique_id(&id)), "OK");
  return id;
}

Child join(const gqsgd_unique_id& id, uint32_t rank, uint32_t size, const RankBody& body,
           int64_t timeout_ms) {
  return Child([=] {
    std::unique_ptr<HostTransport> transport;
    const Status status = create_process(id, rank, size, timeout_ms, &transport);
    return status.ok() ? body(*transport) : text_of(status);
  });
}

std::vector<Child> join_all(uint32_t size, const RankBody& body, const gqsgd_unique_id& id) {
  std::vector<Child> children;
  for (uint32_t rank = 0; rank < size; ++rank) children.push_back(join(id, rank, size, body));
  return children;
}

std::vector<std::string> lines_of(std::vector<Child>& children) {
  std::vector<std::string> lines;
  for (Child& child : children) lines.push_back(child.line());
  return lines;
}

bool contains(const std::string& line, const std::string& part) {
  return line.find(part) != std::string::npos;
}

Footprint footprint() {
  return {entries_in("/proc/self/fd", ""), lines_in("/proc/self/maps", "memfd:gqsgd"),
          entries_in("/proc/self/task", "")};
}

size_t descriptors_of(const std::string& part) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // the folder's own, by now
    count += contains(std::filesystem::read_symlink(entry.path(), closed), part) ? 1 : 0;
  }
  return count;
}

size_t names_left(const gqsgd_unique_id& id) {
  UniqueId parts{};
  EXPECT_EQ(text_of(read_unique_id(id, &parts)), "OK");
  std::string name;
  for (const unsigned char byte : parts.name) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  return lines_in("/proc/net/unix", name) + entries_in("/dev/shm", "gqsgd") +
         entries_in("/tmp", name);
}

}  // namespace gq::test
