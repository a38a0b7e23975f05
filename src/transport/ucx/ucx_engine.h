// Messages between the ranks of a group over UCX: one rank's end. That peers are authentic and
// alive is checked elsewhere, over other connections; ucx_library.h opens UCX.
#ifndef GQ_TRANSPORT_UCX_UCX_ENGINE_H
#define GQ_TRANSPORT_UCX_UCX_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "src/support/status.h"

namespace gq {

struct UcxOptions {
  const char* library = nullptr;  ///< libucp as a path, or nullptr: the search of open_ucx()
  std::string devices;  ///< UCX_NET_DEVICES where the environment has none; empty: all there are
  uint32_t paths = 1;   ///< connections to each peer, at most kUcxPathsMax; the same on all ranks
};

inline constexpr uint32_t kUcxPathsMax = 16;

class UcxEngine;
struct UcxEngineState;

/** One message or flush on its way. While it is pending it stays where it is, and so do its bytes,
 *  until test() reports done or the engine is destroyed. */
class UcxRequest {
 public:
  UcxRequest() = default;
  UcxRequest(const UcxRequest&) = delete;
  UcxRequest& operator=(const UcxRequest&) = delete;

  /** True from a successful start until test() reports done. */
  bool is_pending() const { return state_ != State::idle; }
  /** Of a receive that is done: what its sender gave to start_send(). */
  uint32_t checksum() const { return checksum_; }
  size_t received_bytes() const { return received_bytes_; }

 private:
  friend class UcxEngine;
  friend struct UcxEngineState;
  enum class State : uint8_t { idle, started, completed };
  enum class Kind : uint8_t { send, receive, flush, greeting };

  State state_ = State::idle;
  Kind kind_ = Kind::send;
  int8_t ucx_result_ = 0;  // once completed
  uint32_t peer_ = 0;
  uint32_t channel_ = 0;
  uint32_t path_ = 0;  // of a flush
  uint32_t checksum_ = 0;
  size_t size_bytes_ = 0;         // of the message, as this rank has it
  size_t least_bytes_ = 0;        // of a receive
  size_t received_bytes_ = 0;     // once a receive is completed
  void* ucx_request_ = nullptr;   // while started
  UcxRequest* next_ = nullptr;    // of all pending ones of an engine
  UcxRequest* before_ = nullptr;  // nullptr of the first of them
};

/** One rank's end. One thread at a time calls its members; the thread may change between calls.
 *  Nothing waits. In a child of fork() only the destructor may be called, and it does nothing.
 *
 *  UCX connects two ranks as they first need it, in an exchange in both directions. Before 1.14 it
 * ends the process if an engine is destroyed during that. So each rank exchanges a greeting with
 * each peer while the group forms: then all are connected before the first of them may leave.
 *
 *  UCX listens on TCP ports and trusts all who reach them. It closes connections that do not begin
 *  as its own do, but messages that are forged can end the process. It belongs into networks whose
 *  hosts are trusted; UCX_NET_DEVICES names the interfaces on which it listens. */
class UcxEngine {
 public:
  /** UNSUPPORTED without a usable libucp, and in a forked child of a process that has an engine;
   *  BACKEND, with UCX's error string, if it fails. */
  static Status open(const UcxOptions& options, uint32_t rank, uint32_t size,
                     std::unique_ptr<UcxEngine>* out);

  /** Never waits for a peer. Pending requests become idle, and UCX no longer uses their bytes.
   *  Sends that are done but not flushed may be lost. */
  ~UcxEngine();
  UcxEngine(const UcxEngine&) = delete;
  UcxEngine& operator=(const UcxEngine&) = delete;

  uint32_t paths() const;

  /** This rank's address, which every peer needs: some hundred bytes, more with more adapters. */
  const std::vector<unsigned char>& address() const;

  /** Connects to `peer`, whose address() the bytes are. Once, before anything is sent to it.
   * PROTOCOL if the bytes are not an address of this peer, VERSION if it uses another version of
   * UCX, INVALID_ARGUMENT if it has another number of paths. */
  Status connect(uint32_t peer, const unsigned char* address, size_t size_bytes);

  /** Messages of one channel between two ranks arrive in the order in which they are sent, and take
   *  the paths in turn: the first one path 0, the next one path 1, .. Until test() reports done the
   *  bytes to send stay as they are, and those to receive are not used. The peer may be this rank.
   *  Channels are below 256. The checksum comes with the message; UCX gives it no meaning. */
  Status start_send(uint32_t peer, uint32_t channel, const void* bytes, size_t size_bytes,
                    UcxRequest* request, uint32_t checksum = 0);
  Status start_receive(uint32_t peer, uint32_t channel, void* bytes, size_t size_bytes,
                       UcxRequest* request) {
    return start_receive(peer, channel, bytes, size_bytes, size_bytes, request);
  }
  /** Of a message that may be shorter: `least_bytes` to `most_bytes`. */
  Status start_receive(uint32_t peer, uint32_t channel, void* bytes, size_t least_bytes,
                       size_t most_bytes, UcxRequest* request);

  /** A message without bytes, done when the peer has received it. It makes UCX connect both ways
   * and for all kinds of messages, which it would otherwise do with the first large one. As many as
   * there are paths connect them all: it takes them in turn, as other messages do. */
  Status start_greeting(uint32_t peer, uint32_t channel, UcxRequest* request);
  /** The greetings of all ranks are done. From then on forked children close this engine's sockets,
   *  and programs that are executed do not get what UCX has opened. An engine that has peers and
   *  never came so far leaves what UCX before 1.14 has allocated to the end of the process. */
  Status set_connected();

  /** Done when all sends to `peer` that are done have left this process by all paths, so that they
   *  arrive even if it ends now. It waits for the system's buffers, not for the peer. Over TCP a
   *  send that is done may otherwise still be in a buffer of UCX. If it fails, the peer has left or
   *  is dead. */
  Status start_flush(uint32_t peer, UcxRequest* request);

  /** *done if the request is complete, with or without failure; it is idle then. A receive of fewer
   *  or more bytes than expected is PROTOCOL, naming the peer and both sizes; PEER_LOST: the
   *  connection failed. A receive from a peer whose connection failed may stay pending for ever:
   *  see failed_peer(). Does not progress. */
  Status test(UcxRequest* request, bool* done);

  /** Advances everything. True if something happened. */
  bool progress();

  /** For epoll and poll: after arm() with *may_sleep it becomes readable with the next event. */
  int event_fd() const;
  /** Without *may_sleep there is something to progress() first. */
  Status arm(bool* may_sleep);

  /** The first peer of which a connection failed, or the number of ranks if there is none. What it
   *  sent before that may still arrive. */
  uint32_t failed_peer() const;
  /** A connection to `peer` has failed. No request may show that: receives belong to none. */
  bool has_failed(uint32_t peer) const;

  /** "UCX 1.13.1 (/usr/lib/libucp.so.0)", for the log. */
  const std::string& version() const;
  /** "tcp/eth0 sysv/memory": what UCX has chosen for messages to `peer`; "" without a connection.
   *  Throws std::bad_alloc. */
  std::string transports_to(uint32_t peer) const;

 private:
  explicit UcxEngine(std::unique_ptr<UcxEngineState> state);
  Status find_tcp(uint32_t peer);
  Status no_memory(uint32_t peer) const;
  void start_flush_of_path(uint32_t peer, UcxRequest* request);

  std::unique_ptr<UcxEngineState> state_;
};

}  // namespace gq

#endif
