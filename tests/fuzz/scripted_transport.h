// A transport without peers: what they send comes from the fuzzer. Other ranks answer a control
// message with the same one, and send codes of zeros, but for what the input changes.
#ifndef GQ_TESTS_FUZZ_SCRIPTED_TRANSPORT_H
#define GQ_TESTS_FUZZ_SCRIPTED_TRANSPORT_H

#include <gqsgd_transport.h>

#include <map>
#include <vector>

#include "kernels/checksum/crc32c.h"
#include "src/transport/control_message.h"
#include "src/transport/host_transport.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {

class ScriptedTransport {
 public:
  ScriptedTransport(FuzzInput* input, int32_t rank, int32_t size) : input_(input) {
    table_.struct_size_bytes = sizeof table_;
    table_.user = this;
    table_.rank = rank;
    table_.size = size;
    table_.send = send;
    table_.receive = receive;
    table_.test = test;
    table_.progress = progress;
    table_.close = close;
    table_.error_text = error_text;
  }

  const gqsgd_transport& table() const { return table_; }

  /** Functions fail, throw, forget messages and report lengths of their own, as the input says. */
  void misbehave() { misbehaves_ = true; }
  /** What comes has the checksums that FORMAT.md asks for, but for what the input changes. */
  void make_checksums() { makes_checksums_ = true; }
  /** Before each call. */
  void begin_call() {
    call_begins_ = true;
    received_.clear();
  }
  /** Words or a trailer came with another checksum than that of the words. */
  bool has_wrong_checksum() const { return has_wrong_checksum_; }
  /** A peer's control message differed in more than its norm. */
  bool has_changed_control() const { return has_changed_control_; }
  /** A message came with another length than was asked for. */
  bool has_cut_message() const { return has_cut_message_; }
  /** A function has returned a code or thrown. */
  bool has_failed() const { return has_failed_; }

 private:
  struct Pending {
    int32_t peer = 0;
    unsigned char* bytes = nullptr;  // null: a send
    size_t size_bytes = 0;
    bool is_done = false;
  };

  static ScriptedTransport& of(void* user) { return *static_cast<ScriptedTransport*>(user); }

  static int32_t send(void* user, int32_t peer, const void* bytes, size_t size_bytes,
                      uint64_t* request) {
    ScriptedTransport& self = of(user);
    self.note_control(peer, bytes, size_bytes);
    // Reads every byte: a sanitizer sees what is not there.
    unsigned char sum = 0;
    for (size_t k = 0; k < size_bytes; ++k) sum ^= static_cast<const unsigned char*>(bytes)[k];
    self.sum_ = sum;
    return self.start({}, request);
  }
  static int32_t receive(void* user, int32_t peer, void* bytes, size_t size_bytes,
                         uint64_t* request) {
    return of(user).start({peer, static_cast<unsigned char*>(bytes), size_bytes, false}, request);
  }
  static int32_t test(void* user, uint64_t request, int32_t* done, size_t* size_bytes) {
    return of(user).end(request, done, size_bytes);
  }
  static int32_t progress(void* user, int32_t) { return of(user).code(); }
  // Of one that fails the library leaves its buffers as they are: that is a leak, and right.
  static int32_t close(void*) { return 0; }
  static const char* error_text(void* user, int32_t) {
    return of(user).input_->byte() % 2 == 0 ? nullptr : "a message of the transport";
  }

  /** Peers answer a control message: codes may have as many bytes. */
  void note_control(int32_t peer, const void* bytes, size_t size_bytes) {
    ControlMessage control;
    if (size_bytes != sizeof control) return;
    memcpy(&control, bytes, sizeof control);
    if (control.words[kControlMagicVersion] != (kControlMagic | kWireVersion)) return;
    if (call_begins_) sequence_ = control.words[kControlSequence];
    call_begins_ = false;
    own_control_ = control;
    owed_controls_[peer] += 1;
  }
  bool is_control(const Pending& pending) {
    return pending.size_bytes == sizeof(ControlMessage) && owed_controls_[pending.peer] > 0;
  }

  /** 0, or what a function that fails returns. */
  int32_t code() {
    if (!misbehaves_) return 0;
    const uint8_t choice = input_->byte();
    if (choice < 0xf0) return 0;
    has_failed_ = true;
    if (choice == 0xff) throw 1;
    return choice;
  }

  int32_t start(const Pending& pending, uint64_t* request) {
    const int32_t failed = code();
    if (failed != 0) return failed;
    pending_.push_back(pending);
    *request = pending_.size() - 1;
    return 0;
  }

  int32_t end(uint64_t request, int32_t* done, size_t* size_bytes) {
    require(request < pending_.size(), "a request is tested that was never started");
    const int32_t failed = code();
    if (failed != 0) return failed;
    Pending& pending = pending_[request];
    require(!pending.is_done, "a request is tested that is done");
    const uint8_t choice = misbehaves_ ? input_->byte() : 0;
    // Only a few of them: a call waits until its timeout for each.
    if (choice >= 0xfe) return 0;
    pending.is_done = true;
    *done = choice == 0x80 ? INT32_MIN : 1;
    if (pending.bytes != nullptr) fill(pending, choice, size_bytes);
    return 0;
  }

  void fill(const Pending& pending, uint8_t choice, size_t* size_bytes) {
    *size_bytes = pending.size_bytes;
    if (is_control(pending)) {
      owed_controls_[pending.peer] -= 1;
      ControlMessage control = own_control_;
      has_changed_control_ = edit(&control) || has_changed_control_;
      if (makes_checksums_) seal(&control, ChecksumKind::crc32c);
      memcpy(pending.bytes, &control, sizeof control);
    } else if (makes_checksums_ && pending.size_bytes > sizeof(Trailer)) {
      fill_with_trailer(pending);
    } else {
      input_->fill(pending.bytes, pending.size_bytes);
    }
    if (choice == 0x81) *size_bytes = input_->take<size_t>();
    has_cut_message_ = has_cut_message_ || *size_bytes != pending.size_bytes;
  }

  /** Section 17 of FORMAT.md, apart from the library's own lines for it. */
  void fill_with_trailer(const Pending& pending) {
    const size_t words_bytes = pending.size_bytes - sizeof(Trailer);
    input_->fill(pending.bytes, words_bytes);
    const uint32_t behind[] = {sequence_, received_[pending.peer]++, 0};
    Trailer trailer;
    trailer.checksum = crc32c(crc32c(0, pending.bytes, words_bytes), behind, sizeof behind);
    memcpy(pending.bytes + words_bytes, &trailer, sizeof trailer);
    const std::vector<unsigned char> right(pending.bytes, pending.bytes + pending.size_bytes);
    if (input_->byte() % 16 == 0) input_->edit(pending.bytes, pending.size_bytes);
    const bool is_right = memcmp(right.data(), pending.bytes, right.size()) == 0;
    has_wrong_checksum_ = has_wrong_checksum_ || !is_right;
  }

  /** Words of a peer's control message; true if another one than the norm's is changed then. */
  bool edit(ControlMessage* control) {
    const ControlMessage before = *control;
    for (uint32_t edits = input_->byte() % 4; edits > 0; --edits) {
      const uint32_t place = input_->byte() % kControlWordCount;
      control->words[place] ^= input_->take<uint32_t>();
    }
    for (uint32_t place = 0; place < kControlWordCount; ++place) {
      const bool is_norm = place == kControlNormLow || place == kControlNormHigh;
      if (!is_norm && control->words[place] != before.words[place]) return true;
    }
    return false;
  }

  FuzzInput* input_;
  gqsgd_transport table_{};
  std::vector<Pending> pending_;
  ControlMessage own_control_;
  std::map<int32_t, int> owed_controls_;
  unsigned char sum_ = 0;
  uint32_t sequence_ = 0;               // of the call
  std::map<int32_t, uint32_t> received_;  // messages of words in the call, of each peer
  bool call_begins_ = false;
  bool makes_checksums_ = false;
  bool has_wrong_checksum_ = false;
  bool misbehaves_ = false;
  bool has_changed_control_ = false;
  bool has_cut_message_ = false;
  bool has_failed_ = false;
};

}  // namespace gq::test

#endif
