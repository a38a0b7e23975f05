// Segments as peers get them: what they can do with the descriptors, and what a rank takes for a
// peer's memory.
#include "src/transport/process/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>

#include <memory>

#include "tests/support/old_kernel/old_kernel.h"
#include "tests/unit/transport/exchange.h"

namespace gq::test {
namespace {

constexpr uint32_t kRanks = 3;
constexpr size_t kPage = 4096;  // of a mapping that a peer tries; any length does
constexpr int kSealFutureWrite = 0x0010;
constexpr int kResizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

Descriptor copy_of(int file) { return Descriptor(fcntl(file, F_DUPFD_CLOEXEC, 0)); }

/** The error of a mapping of the first page with these rights; 0 if there is none. */
int error_of_mapping(int file, int protection) {
  errno = 0;
  void* const base = mmap(nullptr, kPage, protection, MAP_SHARED, file, 0);
  if (base == MAP_FAILED) return errno;
  munmap(base, kPage);
  return 0;
}

int error_of(int result) { return result == 0 ? 0 : errno; }

/** True where the kernel itself knows the seal. */
bool kernel_seals_writing() {
  const Descriptor file(memfd_create("gqsgd-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return fcntl(file.number(), F_ADD_SEALS, kSealFutureWrite) == 0;
}

/** A file of `size_bytes` with these seals. */
Descriptor file_with(int seals, size_t size_bytes) {
  Descriptor file(memfd_create("gqsgd-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.number(), static_cast<off_t>(size_bytes)), 0);
  EXPECT_EQ(fcntl(file.number(), F_ADD_SEALS, seals), 0);
  return file;
}

class Segments : public testing::Test {
 protected:
  void TearDown() override { run_without_write_seal(0); }

  /** A rank's segment, and a peer's view of it. */
  void make() {
    ASSERT_EQ(text_of(own_.make(kRanks)), "OK");
    wakeup_ = own_.take_wakeup_file();
    ASSERT_EQ(text_of(peer_.attach({copy_of(own_.descriptor()), copy_of(wakeup_.number())}, 1,
                                   kRanks, own_.seals())),
              "OK");
  }

  OwnSegment own_;
  Descriptor wakeup_;
  PeerSegment peer_;
};

TEST_F(Segments, MemoryReadByPeers_NotMappedForWriting) {
  make();
  const int file = own_.descriptor();
  const int due = kernel_seals_writing() ? EPERM : 0;
  EXPECT_EQ(error_of_mapping(file, PROT_READ | PROT_WRITE), due);
  EXPECT_EQ(error_of_mapping(file, PROT_READ), 0);
  if (due == 0) return;  // a kernel before 5.1
  EXPECT_EQ(pwrite(file, "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(error_of(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage)), EPERM);
  void* const control = const_cast<Control*>(peer_.control());
  EXPECT_EQ(error_of(mprotect(control, page_bytes(), PROT_READ | PROT_WRITE)), EACCES);
}

TEST_F(Segments, AnyFile_NotResizedOrUnsealed) {
  make();
  for (const int file : {own_.descriptor(), wakeup_.number()}) {
    EXPECT_EQ(error_of(ftruncate(file, 0)), EPERM);
    EXPECT_EQ(error_of(ftruncate(file, off_t{1} << 41)), EPERM);
    EXPECT_EQ(error_of(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE)), EPERM);
  }
}

TEST_F(Segments, Peers_WriteWakeupWordsOnly) {
  make();
  wake(&peer_.page()->wakeup, WakeupScope::machine);
  EXPECT_EQ(own_.page()->wakeup.count.load(), 1u);
  EXPECT_EQ(error_of_mapping(wakeup_.number(), PROT_READ | PROT_WRITE), 0);
  own_.control()->controls_sent.store(7);
  EXPECT_EQ(peer_.control()->controls_sent.load(), 7u);
}

TEST_F(Segments, SealedArena_Grows) {
  make();
  for (size_t size_bytes : {size_t{1}, size_t{100000}, size_t{5} << 20}) {
    ASSERT_EQ(text_of(own_.grow_arena(size_bytes)), "OK");
    own_.arena()[size_bytes - 1] = 99;
    ASSERT_EQ(text_of(peer_.reach(size_bytes, own_.arena_bytes())), "OK");
    EXPECT_EQ(peer_.arena()[size_bytes - 1], 99);
  }
}

TEST_F(Segments, ArenaShorterThanClaimed_Protocol) {
  make();
  ASSERT_EQ(text_of(own_.grow_arena(page_bytes())), "OK");
  for (const uint64_t said_bytes : {uint64_t{1} << 20, uint64_t{1} << 39, UINT64_MAX}) {
    const std::string line = text_of(peer_.reach(2 * page_bytes(), said_bytes));
    EXPECT_EQ(line.rfind("PROTOCOL: rank 1 ", 0), 0u) << line;
  }
  EXPECT_EQ(text_of(peer_.reach(page_bytes(), own_.arena_bytes())), "OK");
}

TEST_F(Segments, FileWritableByPeers_NotTakenForMemory) {
  make();
  PeerSegment peer;
  const std::string shrinking = text_of(peer.attach(
      {copy_of(own_.descriptor()), file_with(F_SEAL_SEAL, kPage)}, 2, kRanks, own_.seals()));
  EXPECT_EQ(shrinking.rfind("PROTOCOL: what rank 2 sent is not", 0), 0u) << shrinking;
  const std::string empty = text_of(peer.attach(
      {copy_of(own_.descriptor()), file_with(kResizeSeals, 0)}, 2, kRanks, own_.seals()));
  EXPECT_EQ(empty.rfind("PROTOCOL: the shared memory of rank 2 has 0 bytes", 0), 0u) << empty;
  if (!kernel_seals_writing()) return;  // nothing more is asked of a peer there
  const std::string open =
      text_of(peer.attach({file_with(kResizeSeals, size_t{1} << 20), copy_of(wakeup_.number())}, 2,
                          kRanks, own_.seals()));
  EXPECT_EQ(open.rfind("PROTOCOL: what rank 2 sent is not its shared memory", 0), 0u) << open;
}

TEST_F(Segments, KernelWithoutTheSeal_OtherSealsSet) {
  run_without_write_seal(1);
  make();
  EXPECT_EQ(own_.seals(), kResizeSeals);
  EXPECT_EQ(fcntl(own_.descriptor(), F_GET_SEALS), kResizeSeals);
  EXPECT_EQ(error_of_mapping(own_.descriptor(), PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(error_of(ftruncate(own_.descriptor(), 0)), EPERM);
  ASSERT_EQ(text_of(own_.grow_arena(100000)), "OK");
  EXPECT_EQ(text_of(peer_.reach(100000, own_.arena_bytes())), "OK");
}

}  // namespace
}  // namespace gq::test
