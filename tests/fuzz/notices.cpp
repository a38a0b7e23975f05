// A rank of a network group that has formed, whose peers are the fuzzer: the notices that come over
// its connections, whole or cut, in any order, and the ends of the connections.
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "src/transport/network/network_transport.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/silent_engine.h"

namespace gq::test {
namespace {

constexpr int kStepsMax = 64;
constexpr uint32_t kRanksMax = 5;

class Rank {
 public:
  explicit Rank(FuzzInput* input) : input_(input) {
    size_ = 2 + input->byte() % (kRanksMax - 1);
    rank_ = input->byte() % size_;
    NetworkGroup group;
    group.rank = rank_;
    group.size = size_;
    group.nodes.resize(size_);
    group.links.resize(size_);
    require(UcxEngine::open(UcxOptions(), rank_, size_, &group.engine).ok(), "no engine");
    peers_.resize(size_, -1);
    for (uint32_t peer = 0; peer < size_; ++peer) {
      if (peer != rank_) connect(&group.links[peer], &peers_[peer]);
    }
    require(transport_.open(std::move(group)).ok(), "no transport");
  }
  ~Rank() {
    for (uint32_t peer = 0; peer < size_; ++peer) hang_up(peer);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void run() {
    ControlMessage control;
    control.words[kControlMagicVersion] = kControlMagic | kWireVersion;
    control.words[kControlSequence] = 1;
    require(transport_.send_control(1, control).ok(), "no call begins");
    for (int k = 0; k < kStepsMax && input_->left_bytes() > 0; ++k) {
      step(input_->byte() % size_);
      const Status status = transport_.check();
      require(status.ok() || may_break_, "a group breaks for nothing");
      require(!status.ok() || !must_break_, "a group goes on after an abort");
      require(status_.ok() || status.code() == status_.code(), "the status of a group changes");
      status_ = status;
      for (uint32_t peer = 0; peer < size_; ++peer) {
        require(transport_.culprit_behind(peer) < size_, "the culprit is no rank");
      }
    }
  }

 private:
  static void connect(std::unique_ptr<TcpSocket>* here, int* there) {
    int ends[2];
    ForkHold hold;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
            "no sockets");
    *here = std::make_unique<TcpSocket>(ends[0]);
    *there = ends[1];
  }

  void step(uint32_t peer) {
    switch (input_->byte() % 8) {
      case 0:
        hang_up(peer);
        return;
      case 1:
        survive(peer);
        return;
      case 2:
        await(peer);
        return;
      case 3:
        may_break_ = must_break_ = true;
        transport_.abort_group(GQSGD_ABORTED, rank_);
        return;
      default:
        send_notice(peer);
    }
  }

  /** The death of a peer shows after some time, which may have passed or not. */
  void hang_up(uint32_t peer) {
    if (peers_[peer] < 0) return;
    may_break_ = true;
    close(peers_[peer]);
    peers_[peer] = -1;
  }

  /** What ranks do once their group has failed. */
  void survive(uint32_t peer) {
    GroupRegisters& registers = *transport_.registers();
    if (transport_.check().ok()) return;
    registers.publish(RegisterWords(), false);
    registers.look(0);
    RegisterWords found;
    static_cast<void>(registers.read(peer, &found));
    const UnheardLimits limits{input_->take<uint32_t>(), input_->take<uint32_t>()};
    static_cast<void>(registers.is_gone(peer, limits));
  }

  void await(uint32_t peer) {
    ControlMessage found;
    bool there = false;
    if (transport_.receive_control(peer, 1, &found, &there).ok()) {
      require(there == (peer == rank_), "a control message that was not sent");
    }
    static_cast<void>(transport_.wait(0).ok());
  }

  /** A correct notice, but for what the input changes; the last bytes of it may be missing. */
  void send_notice(uint32_t peer) {
    if (peers_[peer] < 0) return;
    Notice notice, correct;
    notice.kind = static_cast<NoticeKind>(1 + input_->byte() % 4);
    const uint32_t about = input_->byte() % size_;
    if (notice.kind == NoticeKind::cause) {
      notice.word = pack(Cause{GQSGD_ABORTED, about, peer});
    } else if (notice.kind == NoticeKind::awaited) {
      notice.word = pack(Awaited{AwaitedKind::message, about, input_->byte()});
    } else if (notice.kind == NoticeKind::word) {
      const uint32_t word = input_->byte() % kRegisterWords;
      notice.kind = static_cast<NoticeKind>(4 | word << kNoticeNumberShift);
    }
    correct = notice;
    input_->edit(&notice, sizeof notice);
    const uint8_t cut = input_->byte();
    const size_t size_bytes = cut < 0xf0 ? sizeof notice : cut - 0xf0;
    const bool is_correct =
        memcmp(&notice, &correct, sizeof notice) == 0 && size_bytes == sizeof notice;
    if (is_correct && notice.kind == NoticeKind::cause && !may_break_) must_break_ = true;
    if (!is_correct || notice.kind == NoticeKind::cause) may_break_ = true;
    (void)!::send(peers_[peer], &notice, size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  FuzzInput* input_;
  NetworkTransport transport_;
  uint32_t size_ = 0;
  uint32_t rank_ = 0;
  std::vector<int> peers_;  // the other ends; -1 of one that has hung up
  Status status_;
  bool may_break_ = false;
  bool must_break_ = false;
};

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::FuzzInput input(bytes, size_bytes);
  gq::test::Rank(&input).run();
  return 0;
}
