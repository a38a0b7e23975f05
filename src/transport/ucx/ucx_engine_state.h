// What an engine holds, and the steps of its requests, for the files that implement it.
#ifndef GQ_TRANSPORT_UCX_UCX_ENGINE_STATE_H
#define GQ_TRANSPORT_UCX_UCX_ENGINE_STATE_H

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

#include "src/support/posix/fork.h"
#include "src/transport/ucx/ucx_descriptors.h"
#include "src/transport/ucx/ucx_engine.h"
#include "src/transport/ucx/ucx_library.h"

namespace gq {

/** A message's channel, path and sender, by which it is received, and its checksum above them. */
inline ucx::Tag tag_of(uint32_t channel, uint32_t path, uint32_t sender, uint32_t checksum = 0) {
  return static_cast<ucx::Tag>(checksum) << 32 | channel << 24 | path << 20 | sender;
}
inline constexpr ucx::Tag kMatchedTag = 0xffffffffu;
inline constexpr uint32_t kChecksumInTag = 32;
inline constexpr ucx::Tag kSenderInTag = 0xffffffu;  // with its path
inline constexpr uint32_t kChannels = 256;

/** Of the messages that a flush sends; the peer drops them. */
inline constexpr unsigned kFlushMessage = 0;

/** Takes the paths in turn. */
class PathTurn {
 public:
  uint32_t take(uint32_t path_count) {
    const uint32_t path = next_;
    next_ = static_cast<uint8_t>((path + 1) % path_count);
    return path;
  }

 private:
  uint8_t next_ = 0;
};

/** An engine that is there, or is being made, for UcxEngineState::check_process(). */
class CountedEngine {
 public:
  CountedEngine();
  ~CountedEngine();
  CountedEngine(const CountedEngine&) = delete;
  CountedEngine& operator=(const CountedEngine&) = delete;
};

struct UcxEngineState {
  struct Peer {
    UcxEngineState* state = nullptr;
    uint32_t rank = 0;
    std::vector<ucx::Endpoint> endpoints;  ///< one for each path, once connected
    bool uses_tcp = false;
    bool has_failed = false;  ///< one of the connections
    PathTurn sends[kChannels];
    PathTurn receives[kChannels];
  };

  UcxEngineState(const UcxLibrary& library, const UcxOptions& options, uint32_t own_rank,
                 uint32_t rank_count);
  ~UcxEngineState();
  UcxEngineState(const UcxEngineState&) = delete;
  UcxEngineState& operator=(const UcxEngineState&) = delete;

  /** UNSUPPORTED in a child of a process that has an engine, or was making one: then locks may be
   *  held there, and a half of UCX loaded. */
  static Status check_process(uint32_t rank);
  Status create(const std::string& devices);
  Status create_context(const std::string& devices);
  Status create_worker();
  Status pack_address();
  Status check_can_start(uint32_t peer, const UcxRequest& request) const;
  Status check_can_send(uint32_t peer, const UcxRequest& request) const;
  void begin(UcxRequest* request, UcxRequest::Kind kind, uint32_t peer);
  void started(UcxRequest* request, ucx::ResultPointer result);
  bool may_not_be_destroyed() const;
  void close(Peer* peer);
  void unlink(UcxRequest* request);
  void free_request(UcxRequest* request);
  Status failure(const char* call, ucx::Result result) const;
  Status failure(const UcxRequest& request) const;
  Status wrong_size(const UcxRequest& request) const;

  static void on_sent(void* ucx_request, ucx::Result result, void* request);
  static void on_received(void* ucx_request, ucx::Result result, const ucx::TagInfo* info,
                          void* request);
  static void on_failed(void* peer, ucx::Endpoint endpoint, ucx::Result result);

  const CountedEngine counted;
  const UcxLibrary& ucx;
  const uint32_t paths;
  const uint32_t rank;
  const uint64_t generation = fork_generation();
  uint32_t failed_peer;
  bool is_connected = false;
  int event_fd = -1;
  UcxDescriptors descriptors;
  ucx::Context context = nullptr;
  ucx::Worker worker = nullptr;
  UcxRequest* first_pending = nullptr;
  std::vector<Peer> peers;
  std::vector<unsigned char> address;
  std::string version;
};

}  // namespace gq

#endif
