// Calls of the table: each may fail, and its results are checked as far as possible.
#include "src/transport/custom/table_calls.h"

#include <inttypes.h>
#include <stdio.h>

#include <algorithm>
#include <new>

#include "src/support/catch_all.h"
#include "src/support/shown.h"
#include "src/transport/shared_memory/cause.h"

namespace gq {
namespace {

constexpr size_t kHowBytes = Shown::kTextBytes + 40;

}  // namespace

bool TableCalls::open() {
  sends_.reserve(2 * kSendsMax);
  return receives_.resize(static_cast<uint32_t>(table_.size));
}

bool TableCalls::close() {
  int32_t code = 0;
  ThrownText unheard;
  const bool closed = !throws([&] { code = table_.close(table_.user); }, &unheard) && code == 0;
  if (!closed) staging_.leak();
  return closed;
}

Status TableCalls::intact() const {
  const uint64_t cause = cause_.load(std::memory_order_acquire);
  return cause == 0 ? Status() : explain(unpack_cause(cause), rank(), false, "");
}

void TableCalls::abort_group(gqsgd_status cause, uint32_t culprit) {
  uint64_t none = 0;
  cause_.compare_exchange_strong(none, pack({cause, culprit, rank()}));
}

/** `how` it failed, in words. */
Status TableCalls::backend(const char* function, uint32_t peer, const char* how) {
  char whom[32] = "";
  if (peer != rank()) snprintf(whom, sizeof whom, " rank %u", peer);
  abort_group(GQSGD_BACKEND, peer);
  return fail(GQSGD_BACKEND, "call %" PRIu64 ", rank %u, while %s: the transport's %s%s %s",
              sequence_, rank(), phase(), function, whom, how);
}

Status TableCalls::failed(const char* function, uint32_t peer, int32_t code) {
  const char* text = nullptr;
  ThrownText unheard;
  const auto ask_text = [&] { text = table_.error_text(table_.user, code); };
  if (table_.error_text != nullptr && throws(ask_text, &unheard)) text = nullptr;
  char how[kHowBytes];
  snprintf(how, sizeof how, "failed with code %" PRId32 "%s%s", code, text == nullptr ? "" : ": ",
           Shown(text == nullptr ? "" : text, Shown::kPathBytes).text());
  return backend(function, peer, how);
}

Status TableCalls::threw(const char* function, uint32_t peer, const char* text) {
  char how[kHowBytes];
  snprintf(how, sizeof how, "threw an exception: %s", Shown(text, Shown::kPathBytes).text());
  return backend(function, peer, how);
}

/** Calls a function of the table. */
template <typename Call>
Status TableCalls::ask(const char* function, uint32_t peer, Call call) {
  int32_t code = 0;
  ThrownText text;
  if (throws([&] { code = call(); }, &text)) return threw(function, peer, text);
  return code == 0 ? Status() : failed(function, peer, code);
}

Status TableCalls::send(uint32_t peer, const void* bytes, size_t size_bytes,
                        unsigned char* staged) {
  TableRequest request;
  request.peer = peer;
  request.sent = staged == nullptr ? bytes : nullptr;
  request.staged = staged;
  request.size_bytes = size_bytes;
  try {
    sends_.push_back(request);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for %zu sends", rank(), sends_.size() + 1);
  }
  const Status sent = ask("send to", peer, [&] {
    return table_.send(table_.user, static_cast<int32_t>(peer), bytes, size_bytes,
                       &sends_.back().number);
  });
  if (!sent.ok()) sends_.pop_back();
  return sent;
}

bool TableCalls::is_sending(const void* bytes) const {
  return std::any_of(sends_.begin(), sends_.end(),
                     [bytes](const TableRequest& request) { return request.sent == bytes; });
}

Status TableCalls::receive(uint32_t peer, void* place, size_t size_bytes, unsigned char* staged) {
  if (!receives_.reserve()) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for more receives", rank());
  }
  TableRequest request;
  request.peer = peer;
  request.place = static_cast<unsigned char*>(place);
  request.staged = staged;
  request.size_bytes = size_bytes;
  void* const bytes = staged == nullptr ? place : staged;
  GQ_TRY(ask("receive from", peer, [&] {
    return table_.receive(table_.user, static_cast<int32_t>(peer), bytes, size_bytes,
                          &request.number);
  }));
  receives_.push(request);
  return Status();
}

Status TableCalls::allgather(const ControlMessage& own, ControlMessage* all,
                             TableRequest* request) {
  *request = TableRequest();
  request->peer = rank();
  request->size_bytes = request->come_bytes = sizeof own;
  return ask("allgather", rank(), [&] {
    return table_.allgather(table_.user, &own, all, sizeof own, &request->number);
  });
}

Status TableCalls::allreduce(Addend addend, void* addends, uint64_t addend_count,
                             TableRequest* request) {
  static_assert(static_cast<int32_t>(Addend::uint64) == GQSGD_ADD_UINT64 &&
                static_cast<int32_t>(Addend::float32) == GQSGD_ADD_FLOAT32);
  *request = TableRequest();
  request->peer = rank();
  return ask("allreduce", rank(), [&] {
    return table_.allreduce(table_.user, static_cast<int32_t>(addend), addends, addend_count,
                            &request->number);
  });
}

Status TableCalls::progress(uint32_t timeout_us) {
  return ask("progress", rank(),
             [&] { return table_.progress(table_.user, static_cast<int32_t>(timeout_us)); });
}

Status TableCalls::test(TableRequest* request, const char* what) {
  int32_t done = 0;
  GQ_TRY(ask(what, request->peer, [&] {
    return table_.test(table_.user, request->number, &done, &request->come_bytes);
  }));
  request->done = done != 0;
  return Status();
}

Status TableCalls::oldest_receive(uint32_t peer, size_t size_bytes, TableRequest** out) {
  TableRequest* request = *out = receives_.front(peer);
  if (request == nullptr || request->size_bytes != size_bytes) {
    abort_group(GQSGD_INTERNAL, rank());
    return fail(GQSGD_INTERNAL, "rank %u: %zu bytes from rank %u were not announced", rank(),
                size_bytes, peer);
  }
  if (request->done) return Status();
  request->come_bytes = size_bytes;  // for a transport that has no message for it
  GQ_TRY(test(request, "receive from"));
  if (!request->done || request->come_bytes == size_bytes) return Status();
  abort_group(GQSGD_PROTOCOL, peer);
  return fail(GQSGD_PROTOCOL,
              "call %" PRIu64 ", rank %u, while %s: got %zu of %zu bytes from rank %u", sequence_,
              rank(), phase(), request->come_bytes, size_bytes, peer);
}

Status TableCalls::reap_sends() {
  for (size_t k = sends_.size(); k-- > 0;) {
    GQ_TRY(test(&sends_[k], "send to"));
    if (!sends_[k].done) continue;
    if (sends_[k].staged != nullptr) {
      staging_.give_back(sends_[k].staged, sends_[k].size_bytes - sizeof(Trailer));
    }
    sends_[k] = sends_.back();
    sends_.pop_back();
  }
  return Status();
}

}  // namespace gq
