// Fills a stream with one call: the stages and messages of a program, with the caller's buffers.
#ifndef GQ_ENQUEUE_ENQUEUER_H
#define GQ_ENQUEUE_ENQUEUER_H

#include "src/enqueue/known_programs.h"
#include "src/execute/endpoint.h"

namespace gq {

/** Where on the device a call finds what is no word of it. */
struct CallPlaces {
  unsigned char* arena;
  const float* norm;     ///< the global one, where there are none of blocks
  const uint32_t* gate;  ///< 0: values may be written
};

class Enqueuer {
 public:
  Enqueuer(const Endpoint& endpoint, StreamTransport& transport, const Call& call,
           const KnownProgram& known, const CallPlaces& places)
      : endpoint_(endpoint),
        transport_(transport),
        call_(call),
        known_(known),
        plan_(known.program.plan()),
        places_(places) {}

  /** Everything up to the words of the result. */
  Status moves() const;
  /** Values, if the gate is open by then. */
  Status results() const;
  /** Messages alone, for a rank whose call the others' is not: they wait for nobody. */
  Status messages() const;

 private:
  Status message(const ProgramStep& step) const;
  Status stage(const ProgramStep& step) const;
  Status sum(const ProgramStep& step) const;
  Status take_norms(const Move& move) const;
  Status quantize(const Move& move) const;
  Status reduce(const Move& move, size_t operand_bytes) const;
  Status merge_norms(const Move& move, size_t operand_bytes) const;
  Status reduce_many(const ProgramStep& step) const;
  Status dequantize(const Move& move) const;

  const Stages& stages() const { return *transport_.device().stages; }
  RandomSite site_of(const Move& move) const { return random_site(endpoint_, call_, move.hop); }
  Range range_of(const Move& move) const {
    return {move.first_value, static_cast<size_t>(move.value_count)};
  }
  uint32_t* words_at(size_t offset_bytes) const {
    return reinterpret_cast<uint32_t*>(places_.arena + offset_bytes);
  }
  uint32_t* own_words(Content content, const Move& move) const {
    return words_at(plan_.layout.offset_bytes(content, move.first_value));
  }
  uint16_t* norms_at(size_t offset_bytes) const {
    return reinterpret_cast<uint16_t*>(places_.arena + offset_bytes);
  }
  uint16_t* own_norms(const Move& move) const {
    return norms_at(plan_.layout.offset_bytes(Content::norms, move.first_value));
  }
  NormView norms_of(const Move& move) const {
    return plan_.coding.block == 0 ? NormView{places_.norm, nullptr}
                                   : NormView{nullptr, own_norms(move)};
  }

  const Endpoint& endpoint_;
  StreamTransport& transport_;
  const Call& call_;
  const KnownProgram& known_;
  const Plan& plan_;
  const CallPlaces places_;
};

}  // namespace gq

#endif
