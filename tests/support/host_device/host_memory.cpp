// A map of blocks; shared ones are nameless files, which others find among this process's
// descriptors. Behind each of them lies the number of those who have it open.
#include "tests/support/host_device/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/support/host_device/host_device.h"

namespace gq::test {
namespace {

constexpr size_t kCountBytes = 4096;

struct Block {
  size_t size_bytes;
  int32_t ordinal;
  int file;  // -1: of this process alone
};

struct Memory {
  std::mutex mutex;
  std::map<const unsigned char*, Block> blocks;
  std::map<const unsigned char*, size_t> opened;
  size_t fail_from = 0;
  size_t released_while_open = 0;
};

Memory& memory() {
  static Memory* const all = new Memory;
  return *all;
}

std::atomic<bool> no_exports{false};
std::atomic<bool> no_opens{false};
std::atomic<bool> no_pages{false};
std::atomic<size_t> pages{0};
std::atomic<uint64_t> domain_now{1};

/** The contents of a CUDA handle are unspecified, too. */
struct Ticket {
  pid_t process;
  int file;
  size_t size_bytes;
};
static_assert(sizeof(Ticket) <= sizeof(IpcHandle));

std::atomic<uint32_t>& open_count(const unsigned char* block, size_t size_bytes) {
  return *reinterpret_cast<std::atomic<uint32_t>*>(const_cast<unsigned char*>(block + size_bytes));
}

/** Null where the system refuses. */
unsigned char* map_shared(int file, size_t size_bytes) {
  void* const mapped =
      mmap(nullptr, size_bytes + kCountBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<unsigned char*>(mapped);
}

unsigned char* make_block(size_t size_bytes, int* file) {
  *file = -1;
  if (size_bytes == 0 || size_bytes % kExportUnitBytes != 0) {
    return static_cast<unsigned char*>(aligned_alloc(256, (size_bytes + 255) / 256 * 256));
  }
  *file = memfd_create("gqsgd-test", MFD_CLOEXEC);
  if (*file < 0 || ftruncate(*file, static_cast<off_t>(size_bytes + kCountBytes)) != 0) abort();
  return map_shared(*file, size_bytes);
}

Status export_memory(void* pointer, IpcHandle* handle) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (no_exports) return fail(GQSGD_BACKEND, "the double exports nothing");
  const auto block = all.blocks.find(static_cast<unsigned char*>(pointer));
  if (block == all.blocks.end() || block->second.file < 0) {
    return fail(GQSGD_BACKEND, "%p is not memory of whole units", pointer);
  }
  const Ticket ticket{getpid(), block->second.file, block->second.size_bytes};
  std::memset(handle->bytes, 0, sizeof handle->bytes);
  std::memcpy(handle->bytes, &ticket, sizeof ticket);
  return Status();
}

Status open_memory(const IpcHandle& handle, void** out) {
  Ticket ticket{};
  std::memcpy(&ticket, handle.bytes, sizeof ticket);
  if (no_opens) return fail(GQSGD_BACKEND, "the double opens nothing");
  if (ticket.process == getpid()) return fail(GQSGD_BACKEND, "memory of this very process");
  const std::string path =
      "/proc/" + std::to_string(ticket.process) + "/fd/" + std::to_string(ticket.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return fail(GQSGD_BACKEND, "%s: %s", path.c_str(), std::strerror(errno));
  unsigned char* const block = map_shared(file, ticket.size_bytes);
  close(file);
  if (block == nullptr) return fail(GQSGD_BACKEND, "%s cannot be mapped", path.c_str());
  open_count(block, ticket.size_bytes) += 1;
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.opened[block] = ticket.size_bytes;
  *out = block;
  return Status();
}

void close_memory(void* pointer) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto opened = all.opened.find(static_cast<unsigned char*>(pointer));
  if (opened == all.opened.end()) abort();
  const size_t size_bytes = opened->second;
  open_count(opened->first, size_bytes) -= 1;
  all.opened.erase(opened);
  munmap(pointer, size_bytes + kCountBytes);
}

}  // namespace

Status allocate_block(size_t size_bytes, int32_t ordinal, void** out) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.fail_from == 1) return fail(GQSGD_NO_MEMORY, "the device has no memory left");
  if (all.fail_from > 1) --all.fail_from;
  int file = -1;
  unsigned char* const block = make_block(size_bytes, &file);
  if (block == nullptr) abort();
  std::memset(block, 0xEE, size_bytes);  // its contents are unspecified
  all.blocks[block] = {size_bytes, ordinal, file};
  *out = block;
  return Status();
}

void release_block(void* pointer) {
  if (pointer == nullptr) return;
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.blocks.find(static_cast<unsigned char*>(pointer));
  if (found == all.blocks.end()) abort();
  const Block block = found->second;
  all.blocks.erase(found);
  if (block.file < 0) return free(pointer);
  if (open_count(static_cast<unsigned char*>(pointer), block.size_bytes) > 0) {
    all.released_while_open += 1;
  }
  munmap(pointer, block.size_bytes + kCountBytes);
  close(block.file);
}

int32_t ordinal_of_block(const void* pointer) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto* byte = static_cast<const unsigned char*>(pointer);
  auto block = all.blocks.upper_bound(byte);
  if (block == all.blocks.begin()) return kNoBlock;
  --block;
  return byte < block->first + block->second.size_bytes ? block->second.ordinal : kNoBlock;
}

Status register_page(void* page, size_t, void** on_device) {
  if (no_pages) return fail(GQSGD_BACKEND, "the double registers nothing");
  ++pages;
  *on_device = page;
  return Status();
}
void unregister_page(void*) { --pages; }

Status identity(int32_t ordinal, DeviceIdentity* identity) {
  *identity = {};
  std::memcpy(identity->bytes, &ordinal, sizeof ordinal);
  return Status();
}

const Ipc& host_ipc() {
  static const Ipc kIpc = {[]() -> uint64_t { return domain_now; },
                           export_memory,
                           open_memory,
                           close_memory,
                           register_page,
                           unregister_page,
                           identity};
  return kIpc;
}

size_t shared_size(const IpcHandle& handle) {
  Ticket ticket{};
  std::memcpy(&ticket, handle.bytes, sizeof ticket);
  return ticket.size_bytes;
}

void refuse_exports(bool refuse) { no_exports = refuse; }
void refuse_pages(bool refuse) { no_pages = refuse; }
size_t pages_registered() { return pages; }
void refuse_opens(bool refuse) { no_opens = refuse; }
void move_to_domain(uint64_t domain) { domain_now = domain; }

size_t blocks_open() {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  return memory().opened.size();
}
size_t released_while_open() {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  return memory().released_while_open;
}

size_t allocations_in_use() {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  return memory().blocks.size();
}

void fail_allocations_from(size_t nth) {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  memory().fail_from = nth;
}

}  // namespace gq::test
