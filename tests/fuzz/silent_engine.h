// A UCX that is not there, in place of the library's engine: what is sent has left at once, and
// nothing ever comes. For one source file of a program.
#ifndef GQ_TESTS_FUZZ_SILENT_ENGINE_H
#define GQ_TESTS_FUZZ_SILENT_ENGINE_H

#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/transport/ucx/ucx_engine.h"

namespace gq {

struct UcxEngineState {
  UcxEngineState() : event_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~UcxEngineState() { close(event_fd); }
  const int event_fd;
  const std::vector<unsigned char> address;
  const std::string version = "none";
};

UcxEngine::UcxEngine(std::unique_ptr<UcxEngineState> state) : state_(std::move(state)) {}
UcxEngine::~UcxEngine() = default;

Status UcxEngine::open(const UcxOptions&, uint32_t, uint32_t, std::unique_ptr<UcxEngine>* out) {
  out->reset(new UcxEngine(std::make_unique<UcxEngineState>()));
  return Status();
}

uint32_t UcxEngine::paths() const { return 1; }
const std::vector<unsigned char>& UcxEngine::address() const { return state_->address; }
Status UcxEngine::connect(uint32_t, const unsigned char*, size_t) { return Status(); }
Status UcxEngine::set_connected() { return Status(); }

Status UcxEngine::start_send(uint32_t, uint32_t, const void*, size_t, UcxRequest* request,
                             uint32_t) {
  request->state_ = UcxRequest::State::completed;
  return Status();
}
Status UcxEngine::start_receive(uint32_t, uint32_t, void*, size_t, size_t, UcxRequest* request) {
  request->state_ = UcxRequest::State::started;
  return Status();
}
Status UcxEngine::start_greeting(uint32_t, uint32_t, UcxRequest* request) {
  request->state_ = UcxRequest::State::completed;
  return Status();
}
Status UcxEngine::start_flush(uint32_t, UcxRequest* request) {
  request->state_ = UcxRequest::State::completed;
  return Status();
}
Status UcxEngine::test(UcxRequest* request, bool* done) {
  *done = request->state_ == UcxRequest::State::completed;
  if (*done) request->state_ = UcxRequest::State::idle;
  return Status();
}

bool UcxEngine::progress() { return false; }
int UcxEngine::event_fd() const { return state_->event_fd; }
Status UcxEngine::arm(bool* may_sleep) {
  *may_sleep = true;
  return Status();
}
uint32_t UcxEngine::failed_peer() const { return UINT32_MAX; }
bool UcxEngine::has_failed(uint32_t) const { return false; }
const std::string& UcxEngine::version() const { return state_->version; }
std::string UcxEngine::transports_to(uint32_t) const { return "silence"; }

}  // namespace gq

#endif
