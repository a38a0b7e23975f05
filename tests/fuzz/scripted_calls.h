// Calls of one rank whose peers are the fuzzer: quantizer, count, schedule and kind of call from
// the input.
#ifndef GQ_TESTS_FUZZ_SCRIPTED_CALLS_H
#define GQ_TESTS_FUZZ_SCRIPTED_CALLS_H

#include <gqsgd.h>

#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/scripted_transport.h"

namespace gq::test {

/** A quantizer of a list that has every field of the format. */
inline gqsgd_quantizer make_quantizer(FuzzInput* input) {
  static constexpr const char* kSpecs[] = {"none",
                                           "bf16",
                                           "fp16",
                                           "paper-gl8",
                                           "paper-ge8",
                                           "paper-gl4",
                                           "paper-ge4",
                                           "blocks-8",
                                           "rotated-8",
                                           "rotated-4-8",
                                           "rotated-4",
                                           "relative-8",
                                           "paper-gl8,norm=l2",
                                           "paper-ge8,norm=l1",
                                           "paper-gl8,combine=sum",
                                           "paper-ge8,combine=average",
                                           "paper-gl4,nonfinite=error",
                                           "blocks-8,nonfinite=error",
                                           "paper-gl8,block=32",
                                           "levels=linear,bits=4,bits_down=8",
                                           "adaptive-3",
                                           "adaptive-6",
                                           "levels=linear,width=adaptive,mean_bits=2.5",
                                           "rice-4",
                                           "levels=rice,mean_bits=2.5,nonfinite=error"};
  gqsgd_quantizer quantizer = nullptr;
  const gqsgd_status made =
      gqsgd_quantizer_create(kSpecs[input->byte() % std::size(kSpecs)], &quantizer);
  return made == GQSGD_OK ? quantizer : nullptr;
}

class ScriptedCalls {
 public:
  ScriptedCalls(FuzzInput* input, gqsgd_comm comm, uint32_t ranks)
      : input_(input), comm_(comm), ranks_(ranks) {}

  gqsgd_status call(gqsgd_schedule schedule) {
    const gqsgd_quantizer quantizer = make_quantizer(input_);
    const size_t count = input_->take<uint16_t>() % kCountMost;
    const gqsgd_dtype dtype = static_cast<gqsgd_dtype>(input_->byte() % 4);
    const gqsgd_op op = static_cast<gqsgd_op>(input_->byte() % 2);
    gqsgd_config config = GQSGD_CONFIG_INIT;
    const uint8_t kind = input_->byte() % 4;
    if (kind < 2) config.schedule = schedule;
    const size_t element_bytes = dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
    // The last element ends where the block ends.
    std::vector<unsigned char> send(count * ranks_ * element_bytes, 0x3c);
    std::vector<unsigned char> recv(send.size(), 0x11);
    const std::vector<size_t> counts(ranks_, count);
    const std::vector<unsigned char> before = recv;
    const gqsgd_status status =
        call(kind, quantizer, send.data(), recv.data(), counts, dtype, op, &config);
    gqsgd_quantizer_destroy(quantizer);
    const bool is_shared = status == GQSGD_MISMATCH || status == GQSGD_REMOTE_ERROR ||
                           status == GQSGD_NONFINITE || status == GQSGD_INVALID_ARGUMENT;
    if (is_shared) require(recv == before, "a shared error has written to the output");
    require(status != GQSGD_INTERNAL, "INTERNAL");
    return status;
  }

 private:
  static constexpr size_t kCountMost = 4097;

  gqsgd_status call(uint8_t kind, gqsgd_quantizer quantizer, const void* send, void* recv,
                    const std::vector<size_t>& counts, gqsgd_dtype dtype, gqsgd_op op,
                    const gqsgd_config* config) {
    const size_t count = counts[0];
    switch (kind) {
      case 1:
        return gqsgd_allreduce_many(comm_, quantizer, &send, &recv, &count, 1, dtype, op, config,
                                    nullptr);
      case 2:
        return gqsgd_reduce_scatter(comm_, quantizer, send, recv, counts.data(), dtype, op, config,
                                    nullptr);
      case 3:
        return gqsgd_allgather(comm_, quantizer, send, recv, counts.data(), dtype, config, nullptr);
      default:
        return gqsgd_allreduce(comm_, quantizer, send, recv, count, dtype, op, config, nullptr);
    }
  }

  FuzzInput* input_;
  gqsgd_comm comm_;
  uint32_t ranks_;
};

// Short chunks: more messages. A call that waits ends soon.
inline constexpr char kWithChecksums[] = "timeout_ms=2,chunk_value_count=256,checksum=crc32c";
/** For peers that change words: they could not make their checksums. */
inline constexpr char kWithoutChecksums[] = "timeout_ms=2,chunk_value_count=256,checksum=off";

/** Three calls over `transport`, or until one fails; check(status) after each. */
template <typename Check>
void make_calls(FuzzInput* input, ScriptedTransport* transport, const char* options,
                gqsgd_schedule schedule, Check check) {
  constexpr int kCalls = 3;
  const gqsgd_transport& table = transport->table();
  gqsgd_comm comm = nullptr;
  if (gqsgd_comm_create_custom(&table, options, &comm) != GQSGD_OK) return;
  ScriptedCalls calls(input, comm, static_cast<uint32_t>(table.size));
  for (int k = 0; k < kCalls; ++k) {
    transport->begin_call();
    const gqsgd_status status = calls.call(schedule);
    check(status);
    if (status != GQSGD_OK) break;
  }
  gqsgd_comm_destroy(comm);
}

}  // namespace gq::test

#endif
