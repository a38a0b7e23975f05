// Models, collectives, stages, and an allreduce of every schedule.
#include "tests/api/faults/support/every_call.h"

#include <gqsgd_model.h>

namespace gq::test {
namespace {

bool takes(const QuantizerKind& kind, gqsgd_schedule schedule) {
  if (schedule == GQSGD_SCHEDULE_NATIVE) return false;  // threads have none
  if (schedule == GQSGD_SCHEDULE_SPARSE) return kind.in_sparse;
  const bool chain = schedule == GQSGD_SCHEDULE_RING || schedule == GQSGD_SCHEDULE_TREE ||
                     schedule == GQSGD_SCHEDULE_BUTTERFLY;
  return !chain || kind.in_chains;
}

}  // namespace

EveryCall::EveryCall(const QuantizerKind& kind) : group_(1, "timeout_ms=20000") {
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_quantizer_create(kind.spec, &quantizer_))));
  for (size_t e = 0; e < kCallValues; ++e) {
    values_[e] = static_cast<float>(e % 7) / 3;
    if (e % 11 == 0) values_[e] = 1e-40f;  // a denormal
  }
  site_.size = 1;
  add_theory();
  add_calls();
  add_schedules(kind);
}

void EveryCall::add_theory() {
  add({
      {"variance_bound",
       [this] {
         return gqsgd_variance_bound(quantizer_, 3, 1001, GQSGD_SCHEDULE_DIRECT, &number_);
       }},
      {"sparsity_bound",
       [this] {
         const gqsgd_status status =
             gqsgd_sparsity_bound(quantizer_, 7, 1001, GQSGD_SCHEDULE_DIRECT, &number_);
         return status == GQSGD_UNSUPPORTED ? GQSGD_OK : status;  // for infinite norms
       }},
      {"depth_factor",
       [this] { return gqsgd_depth_factor(quantizer_, 7, GQSGD_SCHEDULE_DIRECT, &number_); }},
      {"predict_time",
       [this] {
         return gqsgd_predict_time(quantizer_, GQSGD_SCHEDULE_AUTO, 7, 1001, GQSGD_FLOAT32, "",
                                   &number_);
       }},
      {"expected_error",
       [this] {
         return gqsgd_expected_error(quantizer_, 3, sends_, kCallValues, GQSGD_FLOAT32, nullptr,
                                     2, nullptr, &number_);
       }},
      {"measured_error",
       [this] {
         return gqsgd_measured_error(comm(), quantizer_, values_, kCallValues, GQSGD_FLOAT32,
                                     nullptr, &number_);
       }},
  });
}

void EveryCall::add_calls() {
  add({
      {"reserve",
       [this] { return gqsgd_comm_reserve(comm(), quantizer_, kCallValues, GQSGD_FLOAT32); }},
      {"reduce_scatter",
       [this] {
         return gqsgd_reduce_scatter(comm(), quantizer_, values_, result_, &count_, GQSGD_FLOAT32,
                                     GQSGD_MEAN, nullptr, nullptr);
       }},
      {"allgather",
       [this] {
         return gqsgd_allgather(comm(), quantizer_, values_, result_, &count_, GQSGD_FLOAT32,
                                nullptr, nullptr);
       }},
      {"allreduce_many",
       [this] {
         return gqsgd_allreduce_many(comm(), quantizer_, sends_, receives_, &count_, 1,
                                     GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
       }},
      {"request", [this] { return request(); }},
      {"create and destroy",
       [] {
         gqsgd_comm made = nullptr;
         const gqsgd_status status = gqsgd_comm_create_local(1, "threads=2,costs=builtin", &made);
         return status == GQSGD_OK ? gqsgd_comm_destroy(made) : status;
       }},
      {"create and destroy a process's",
       [] {
         gqsgd_unique_id unique_id;
         gqsgd_comm made = nullptr;
         gqsgd_status status = gqsgd_unique_id_create(&unique_id);
         if (status == GQSGD_OK) {
           status = gqsgd_comm_create_process(&unique_id, 0, 1, "", &made);
         }
         return status == GQSGD_OK ? gqsgd_comm_destroy(made) : status;
       }},
      {"stages", [this] { return stages(); }},
  });
}

void EveryCall::add_schedules(const QuantizerKind& kind) {
  for (int number = GQSGD_SCHEDULE_AUTO; number <= GQSGD_SCHEDULE_SPARSE; ++number) {
    const gqsgd_schedule schedule = with_number<gqsgd_schedule>(number);
    if (!takes(kind, schedule)) continue;
    uses_.push_back({"simulate", [this, schedule] {
                       return gqsgd_simulate(quantizer_, 3, sends_, receives_, kCallValues,
                                             GQSGD_FLOAT32, GQSGD_MEAN, config_of(schedule), "");
                     }});
    uses_.push_back({"allreduce", [this, config = config_of(schedule)] {
                       return gqsgd_allreduce(comm(), quantizer_, values_, result_, kCallValues,
                                              GQSGD_FLOAT32, GQSGD_MEAN, config, nullptr);
                     }});
  }
}

gqsgd_status EveryCall::request() {
  gqsgd_request started = nullptr;
  const gqsgd_status status =
      gqsgd_allreduce_start(comm(), quantizer_, values_, result_, kCallValues, GQSGD_FLOAT32,
                            GQSGD_MEAN, nullptr, nullptr, &started);
  return status == GQSGD_OK ? gqsgd_request_wait(started) : status;
}

gqsgd_status EveryCall::stages() {
  gqsgd_status status = gqsgd_norm(quantizer_, &site_, values_, kCallValues, GQSGD_FLOAT32,
                                   norms_, nullptr, 0, nullptr);
  if (status != GQSGD_OK) return status;
  status = gqsgd_quantize(quantizer_, &site_, values_, kCallValues, GQSGD_FLOAT32, norms_, words_,
                          nullptr, 0, nullptr);
  if (status != GQSGD_OK) return status;
  const uint32_t* operands[] = {words_};
  status = gqsgd_reduce_many(quantizer_, &site_, operands, kCallValues, norms_, sums_, scales_,
                             nullptr, 0, nullptr);
  if (status != GQSGD_OK) return status;
  return gqsgd_dequantize(quantizer_, &site_, sums_, scales_, kCallValues, GQSGD_FLOAT32,
                          GQSGD_MEAN, result_, nullptr);
}

}  // namespace gq::test
