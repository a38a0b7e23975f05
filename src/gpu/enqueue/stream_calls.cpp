// The way of a call: its step, its plan, the ranks' agreement; and the end of all of them.
#include "src/gpu/enqueue/stream_calls.h"

#include "src/call/agreement.h"
#include "src/call/call_log.h"
#include "src/gpu/device/time_range.h"
#include "src/gpu/enqueue/agreement/disagreement.h"

namespace gq {
namespace {

/** What profilers call a call. */
const char* range_name(Operation operation) {
  switch (operation) {
    case Operation::allreduce:
      return "gqsgd.allreduce";
    case Operation::reduce_scatter:
      return "gqsgd.reduce_scatter";
    case Operation::allgather:
      return "gqsgd.allgather";
    case Operation::allreduce_many:
      return "gqsgd.allreduce_many";
    case Operation::measure_costs:  // never on a stream
      break;
  }
  return "gqsgd";
}

}  // namespace

StreamCalls::~StreamCalls() {
  Endpoint& endpoint = group_.endpoint();
  StreamTransport& transport = group_.transport();
  OnDevice here(group_.device());
  const Status entered = here.enter(transport.ordinal());
  if (!entered.ok()) {
    endpoint.failure.keep(entered);
    abandon();
    return;
  }
  bool is_through = group_.wait_for_last_call().ok();
  if (!is_through) {
    endpoint.failure.keep(fail(GQSGD_ABORTED, "the communicator was destroyed during a call"));
    transport.abort_group(GQSGD_ABORTED, endpoint.rank());
    is_through = group_.last_call_ends();
  }
  if (!is_through || !transport.memory().end_use()) abandon();
  requests_.end_passed();
  if (!endpoint.failure.get().ok() || transport.memory().is_lent()) {
    workspace_.transfer_ownership();
    scratch_.transfer_ownership(&transport.memory());
  }
}

/** Memory that a stream still uses, where no wait is possible, is leaked. */
void StreamCalls::abandon() {
  group_.transport().memory().leak_in_use();
  executor_.forget();
  workspace_.forget();
  scratch_.forget();
  requests_.end_all(group_.endpoint().failure.get());
  requests_.forget();
}

Status StreamCalls::open() {
  OnDevice here(group_.device());
  GQ_TRY(here.enter(group_.transport().ordinal()));
  GQ_TRY(group_.device().load_kernels());
  const uint32_t ranks = group_.endpoint().size();
  const bool by_hosts = group_.transport().agrees_on_host();  // who compare the norms apart
  GQ_TRY(scratch_.open(group_.device(), ranks,
                       by_hosts ? sizeof(ControlMessage) : control_place_bytes(ranks)));
  GQ_TRY(group_.open());
  return executor_.open();
}

Status StreamCalls::run(const Call& call, Status own) {
  volatile Disagreement* const found = scratch_.late_disagreement();
  const Status late = late_failure();
  if (!late.ok()) found->found = 0;
  const Status made = make(call, own, scratch_.late_disagreement());
  if (made.ok()) return group_.break_on(late);
  if (!late.ok()) found->found = 1;  // the rest is still there: the next call returns it
  return made;
}

Status StreamCalls::refuse(const Call& call, Status own) {
  return make(call, own, scratch_.late_disagreement());
}

Status StreamCalls::make(const Call& call, Status own, Disagreement* found) {
  const TimeRange range(range_name(call.operation));
  Endpoint& endpoint = group_.endpoint();
  Status refusal = own;
  OnDevice here(group_.device());
  GQ_TRY(endpoint.intact());
  GQ_TRY(group_.late_failure_of_kernels());
  GQ_TRY(group_.transport().check_stream(call.stream));
  GQ_TRY(group_.break_on(here.enter(group_.transport().ordinal())));
  CallOnStream made;
  made.call = call;
  made.disagreement = found;
  GQ_TRY(group_.break_on(group_.device().is_capturing(call.stream, &made.captured)));
  if (made.captured) return group_.break_on(capture_.capture(&made, refusal));
  CallLog log;
  log.begin(endpoint, call);
  endpoint.sequence += 1;
  endpoint.calls += 1;
  const Status counted = call.counts_later ? counter_.take(&made.call) : Status();
  if (refusal.ok()) refusal = counted;
  if (refusal.ok()) refusal = executor_.prepare(&made);
  if (!refusal.ok()) {
    made.control = Agreement::refusal_of(endpoint, call, refusal.code(), {});
    if (!call.counts_later) made.call.step_at = nullptr;  // which may lead anywhere
  }
  const Status ended = executor_.enqueue(&made, refusal);
  log.end(&endpoint, made.call, ended.ok() ? made.plan().schedule->name : "", ended);
  if (!ended.ok()) executor_.keep_failed(&made);
  return ended;
}

void StreamCalls::start(std::shared_ptr<Request> request) {
  const Call& call = request->call();
  std::unique_ptr<PendingOperation> pending;
  OnDevice here(group_.device());  // whose event and memory a request has
  Status own = here.enter(group_.transport().ordinal());
  if (own.ok()) own = capture_.check_request(call);
  if (own.ok()) own = requests_.take(&pending);
  if (own.ok()) own = request->status();
  const Status made = make(call, own, pending ? pending->disagreement.as<Disagreement>() : nullptr);
  requests_.begin(std::move(request), std::move(pending), made);
}

Status StreamCalls::reserve(PlanRequest request) {
  OnDevice here(group_.device());
  GQ_TRY(here.enter(group_.transport().ordinal()));
  return executor_.reserve(request);
}

Status StreamCalls::late_failure() const {
  return describe_disagreement(group_.endpoint(), *scratch_.late_disagreement());
}

Status StreamCalls::broken_on_device() const {
  FusedKernels* const kernels = group_.transport().fused();
  return kernels == nullptr ? Status() : kernels->too_late();
}

}  // namespace gq
