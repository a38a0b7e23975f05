// A survivor of a failed group whose peers are the fuzzer: what they write into their registers,
// who dies, how groups form, and when, in any order.
#include "src/survivors/membership.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {
namespace {

constexpr int kStepsMax = 200;

class Survivor {
 public:
  explicit Survivor(FuzzInput* input) : input_(input) {
    options_.size = 1 + input->byte() % 8;
    options_.rank = input->byte() % options_.size;
    options_.patience_us = input->byte() % 4 == 0 ? kForEverUs : 300000;
    options_.silence_us = 100000;
    membership_ = std::make_unique<Membership>(options_, CallReport(), 0);
  }

  void run() {
    for (int k = 0; k < kStepsMax && input_->left_bytes() > 0; ++k) {
      step();
      now_us_ += input_->take<uint16_t>() * uint64_t{16};
      const uint64_t version = membership_->version();
      const bool had_decided = has_decided();
      const Proposal before = membership_->decision();
      membership_->advance(now_us_);
      require(membership_->version() >= version, "a version goes back");
      require(!had_decided || (has_decided() && membership_->decision() == before),
              "a decision changes");
      if (has_decided()) check_decision();
      static_cast<void>(membership_->missing());
    }
  }

 private:
  bool has_decided() const { return membership_->outcome() == Membership::Outcome::decided; }

  void check_decision() const {
    const Proposal& decision = membership_->decision();
    require(decision.members.has(options_.rank), "a rank goes on in a group of others");
    require(decision.source < options_.size, "the source is no rank");
    for (uint32_t rank = options_.size; rank < kSurvivorRanksMax; ++rank) {
      require(!decision.members.has(rank), "a member is no rank");
    }
  }

  void step() {
    const uint32_t peer = input_->byte() % options_.size;
    switch (input_->byte() % 8) {
      case 0:
        if (peer != options_.rank) membership_->mark_dead(peer);
        return;
      case 1:
        if (membership_->needs_offer()) membership_->set_offer(input_->take<GroupName>());
        return;
      case 2:
      case 3:
        membership_->end_forming(membership_->to_form(), input_->byte() % 2 == 0);
        return;
      default:
        membership_->see(peer, register_of(peer), now_us_);
    }
  }

  /** Of a peer that does as this rank does, but for some words. */
  Register register_of(uint32_t peer) {
    Register found = membership_->own();
    found.beat = ++beat_;
    if (input_->byte() % 2 == 0) found.lead_ballot = ballot_of(1 + input_->byte() % 4, peer);
    unsigned char* const bytes = reinterpret_cast<unsigned char*>(&found);
    for (uint32_t edits = input_->byte() % 4; edits > 0; --edits) {
      const size_t word = input_->byte() % kRegisterWordCount;
      const uint64_t changed = input_->take<uint64_t>();
      memcpy(bytes + word * sizeof changed, &changed, sizeof changed);
    }
    return found;
  }

  FuzzInput* input_;
  MembershipOptions options_;
  std::unique_ptr<Membership> membership_;
  uint64_t now_us_ = 0;
  uint64_t beat_ = 1;
};

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::FuzzInput input(bytes, size_bytes);
  gq::test::Survivor(&input).run();
  return 0;
}
