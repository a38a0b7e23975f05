// gqsgd_comm_verify: every preset, schedule and type of values on the ranks at hand, against
// virtual ranks, and those against digests of the reference. Built on the C ABI itself.
#include <inttypes.h>
#include <stdio.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "include/gqsgd_model.h"
#include "src/api/call_scope.h"
#include "src/api/communicator/communicator.h"
#include "src/api/verify/verify_cases.h"
#include "src/support/rank_list.h"

namespace gq {
namespace {

using Bytes = std::vector<unsigned char>;

/** The status of a function of the C ABI, with its sentence and the case it was called for. */
Status status_of_case(gqsgd_status code, uint32_t number) {
  if (code == GQSGD_OK) return Status();
  return fail(code, "gqsgd_comm_verify: %s: %s", verify_name(number).c_str(), gqsgd_last_error());
}

/** A failure of this rank alone, in place of its next call, so that no rank waits for it. */
Status refuse(gqsgd_comm comm, const Status& reason) {
  const gqsgd_config config = verify_config(0);
  static_cast<void>(gqsgd_comm_refuse(comm, reason.code(), &config, nullptr));
  return reason;
}

/** Results that differ from what they should be, and the first of them. */
struct Differing {
  uint32_t count = 0;
  uint32_t number = 0;  ///< of its case
  uint64_t digest = 0;

  void add(uint32_t case_number, uint64_t its_digest) {
    if (count++ > 0) return;
    number = case_number;
    digest = its_digest;
  }
};

/** What ranks exchange: numbers of at most 16 bits, which float32 adds to zeros exactly. */
constexpr size_t kFloatsOfOne = 6, kFloatsOfRank = 2 * kFloatsOfOne;

void write_differing(const Differing& one, float* floats) {
  floats[0] = static_cast<float>(one.count);
  floats[1] = static_cast<float>(one.number);
  for (uint32_t k = 0; k < 4; ++k) floats[2 + k] = static_cast<float>(one.digest >> 16 * k & 65535);
}

Differing read_differing(const float* floats) {
  Differing one{static_cast<uint32_t>(floats[0]), static_cast<uint32_t>(floats[1])};
  for (uint32_t k = 0; k < 4; ++k) one.digest |= static_cast<uint64_t>(floats[2 + k]) << 16 * k;
  return one;
}

/** One rank's part of a verification. Its functions may throw std::bad_alloc. */
class Verification {
 public:
  Verification(gqsgd_comm comm, bool flips) : comm_(comm), flips_(flips) {}

  /** Before the first call; then all memory of this size is known to be there. */
  Status prepare();
  Status run_all();
  /** What differs here and on the other ranks. */
  Status exchange();
  /** INTEGRITY where a rank differs. */
  Status conclude() const;

  uint32_t compared() const { return compared_; }
  /** Results of `rank` that differ. */
  uint32_t differing(uint32_t rank) const {
    return of_rank(rank, true).count + of_rank(rank, false).count;
  }
  uint32_t size() const { return size_; }

 private:
  Status run_one(uint32_t number, gqsgd_quantizer quantizer);
  gqsgd_status simulate(uint32_t number, gqsgd_quantizer quantizer, uint32_t ranks,
                        const char* options, Bytes* result) const;
  /** "1 of 204 results of the group differ, first .." */
  std::string described(const Differing& one, bool of_stages) const;
  Differing of_rank(uint32_t rank, bool of_stages) const {
    return read_differing(&all_[rank * kFloatsOfRank + (of_stages ? kFloatsOfOne : 0)]);
  }

  const gqsgd_comm comm_;
  const bool flips_;
  uint32_t rank_ = 0, size_ = 0;
  std::string options_;  // of virtual ranks that are like those of the group
  uint32_t compared_ = 0;
  Differing stages_, results_;     // of this rank
  std::vector<uint64_t> digests_;  // of virtual ranks, by case
  std::vector<float> all_;         // of all ranks
};

Status Verification::prepare() {
  SharedAccess access;
  GQ_TRY(access.begin(comm_));
  const Endpoint& endpoint = access->endpoint;
  rank_ = endpoint.rank();
  size_ = endpoint.size();
  if (access->has_streams_only()) {
    return fail(GQSGD_UNSUPPORTED,
                "rank %u: gqsgd_comm_verify calls with host memory, and this group has calls on "
                "streams only; verify a group of threads, processes, a network or MPI",
                rank_);
  }
  options_ = "stream_id=" + std::to_string(endpoint.stream_id) + ",nodes=";
  for (uint32_t rank = 0; rank < size_; ++rank) {
    if (rank > 0) options_ += ':';
    options_ += std::to_string(endpoint.nodes.node_of(rank));
  }
  digests_.resize(kVerifyCaseCount);
  all_.resize(size_ * kFloatsOfRank);
  return Status();
}

gqsgd_status Verification::simulate(uint32_t number, gqsgd_quantizer quantizer, uint32_t ranks,
                                    const char* options, Bytes* result) const {
  std::vector<Bytes> values;
  std::vector<const void*> send;
  std::vector<void*> recv(ranks);  // of rank 0 alone
  for (uint32_t rank = 0; rank < ranks; ++rank) values.push_back(verify_values(number, rank));
  for (const Bytes& each : values) send.push_back(each.data());
  result->resize(values[0].size());
  recv[0] = result->data();
  const gqsgd_config config = verify_config(number);
  return gqsgd_simulate(quantizer, static_cast<int32_t>(ranks), send.data(), recv.data(),
                        kVerifyValueCount, kVerifyCases[number].dtype, verify_op(number), &config,
                        options);
}

Status Verification::run_one(uint32_t number, gqsgd_quantizer quantizer) {
  const VerifyCase& one = kVerifyCases[number];
  Bytes virtual_result, result(verify_values(number, rank_));
  const Status of_reference = status_of_case(
      simulate(number, quantizer, kReferenceRanks, kReferenceNodes, &virtual_result), number);
  if (!of_reference.ok()) return refuse(comm_, of_reference);
  if (flips_ && compared_ == 0) virtual_result[0] ^= 1;
  const uint64_t of_stages = verify_digest(one.dtype, virtual_result);
  if (of_stages != one.digest) stages_.add(number, of_stages);
  const gqsgd_status simulated =
      simulate(number, quantizer, size_, options_.c_str(), &virtual_result);
  const gqsgd_config config = verify_config(number);
  const gqsgd_status called =
      gqsgd_allreduce(comm_, quantizer, result.data(), result.data(), kVerifyValueCount, one.dtype,
                      verify_op(number), &config, nullptr);
  // So many ranks may not go with a preset, and a transport may have no allreduce of its own.
  const bool is_refused = called == GQSGD_UNSUPPORTED || called == GQSGD_INVALID_ARGUMENT;
  if (is_refused && (called == simulated || one.schedule == GQSGD_SCHEDULE_NATIVE)) {
    return Status();
  }
  GQ_TRY(status_of_case(called, number));
  GQ_TRY(status_of_case(simulated, number));
  if (flips_ && compared_ == 0) result[0] ^= 1;
  compared_ += 1;
  digests_[number] = verify_digest(one.dtype, virtual_result);
  const uint64_t digest = verify_digest(one.dtype, result);
  if (digest != digests_[number]) results_.add(number, digest);
  return Status();
}

Status Verification::run_all() {
  for (uint32_t number = 0; number < kVerifyCaseCount; ++number) {
    gqsgd_quantizer quantizer = nullptr;
    const Status created =
        status_of_case(gqsgd_quantizer_create(kVerifyCases[number].preset, &quantizer), number);
    if (!created.ok()) return refuse(comm_, created);
    const Status run = run_one(number, quantizer);
    gqsgd_quantizer_destroy(quantizer);
    GQ_TRY(run);
  }
  return Status();
}

Status Verification::exchange() {
  float* const own = &all_[rank_ * kFloatsOfRank];
  write_differing(results_, own);
  write_differing(stages_, own + kFloatsOfOne);
  const gqsgd_config config = verify_config(0);
  gqsgd_quantizer none = nullptr;
  const Status created = status_of_case(gqsgd_quantizer_create("none", &none), 0);
  if (!created.ok()) return refuse(comm_, created);
  const gqsgd_status called = gqsgd_allreduce(comm_, none, all_.data(), all_.data(), all_.size(),
                                              GQSGD_FLOAT32, GQSGD_SUM, &config, nullptr);
  gqsgd_quantizer_destroy(none);
  GQ_TRY(status_of_case(called, 0));
  // What this rank found is not to be lost on the way, whatever is wrong with it.
  write_differing(results_, own);
  write_differing(stages_, own + kFloatsOfOne);
  return Status();
}

std::string Verification::described(const Differing& one, bool of_stages) const {
  const uint32_t number = one.number < kVerifyCaseCount ? one.number : 0;
  const uint64_t right = of_stages ? kVerifyCases[number].digest : digests_[number];
  char text[256];
  snprintf(text, sizeof text,
           "%u of %u results of %s differ, first %s: digest %016" PRIx64 ", of %s %016" PRIx64,
           one.count, of_stages ? kVerifyCaseCount : compared_,
           of_stages ? "virtual ranks" : "the group", verify_name(number).c_str(), one.digest,
           of_stages ? "the reference" : "virtual ranks", right);
  return text;
}

Status Verification::conclude() const {
  RankList ranks;
  uint32_t first = size_;
  for (uint32_t rank = 0; rank < size_; ++rank) {
    if (differing(rank) == 0) continue;
    if (first == size_) first = rank;
    ranks.add(rank);
  }
  if (first == size_) return Status();
  const Differing stages = of_rank(first, true), results = of_rank(first, false);
  std::string what;
  if (results.count > 0) what += described(results, false);
  if (results.count > 0 && stages.count > 0) what += ", and ";
  if (stages.count > 0) what += described(stages, true);
  return fail(GQSGD_INTEGRITY,
              "ranks whose results differ: %s. On rank %u: %s; hint: compare gqsgd_build_info() of "
              "the ranks, and run again with GQSGD_FORCE_ISA=scalar",
              ranks.text(), first, what.c_str());
}

Status verify_group(gqsgd_comm comm, int32_t flipped_rank, int32_t* compared, int32_t* differing) {
  int32_t rank = 0;
  const gqsgd_status found = gqsgd_comm_rank(comm, &rank);
  if (found != GQSGD_OK) return fail(found, "%s", gqsgd_last_error());
  try {
    Verification verification(comm, rank == flipped_rank);
    GQ_TRY(verification.prepare());
    if (flipped_rank < -1 || flipped_rank >= static_cast<int64_t>(verification.size())) {
      return refuse(comm, fail(GQSGD_INVALID_ARGUMENT,
                               "rank %d: flipped_rank is %d; it is -1 for none, or a rank, 0 to %u",
                               rank, flipped_rank, verification.size() - 1));
    }
    GQ_TRY(verification.run_all());
    GQ_TRY(verification.exchange());
    if (compared != nullptr) *compared = static_cast<int32_t>(verification.compared());
    for (uint32_t k = 0; differing != nullptr && k < verification.size(); ++k) {
      differing[k] = static_cast<int32_t>(verification.differing(k));
    }
    return verification.conclude();
  } catch (const std::bad_alloc&) {
    return refuse(comm, fail(GQSGD_NO_MEMORY, "rank %d: no memory for gqsgd_comm_verify", rank));
  }
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_comm_verify(gqsgd_comm comm, int32_t flipped_rank, int32_t* compared,
                               int32_t* differing) {
  return gq::in_call_scope(
      [&] { return gq::verify_group(comm, flipped_rank, compared, differing); });
}
