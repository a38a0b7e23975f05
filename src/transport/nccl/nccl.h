// Ranks that reach each other by NCCL, on the device that is current when they are made.
#ifndef GQ_TRANSPORT_NCCL_NCCL_H
#define GQ_TRANSPORT_NCCL_NCCL_H

#include <memory>
#include <string>

#include "include/gqsgd.h"
#include "src/transport/nccl/nccl_library.h"
#include "src/transport/stream/stream_transport.h"

namespace gq {

/** NCCL's own unique id, marked as such. */
Status make_nccl_id(const NcclLibrary& library, gqsgd_unique_id* unique_id);

struct NcclOptions {
  int64_t timeout_ms;          ///< -1: for ever
  const std::string& host_id;  ///< equal for ranks of one node; empty: those of one machine
  /** NCCL's functions return when their work is enqueued, and a thread of this library ends what
   *  takes longer than `timeout_ms`. Otherwise recent versions of NCCL create a thread for each
   *  operation. One that a caller made is taken to block. */
  bool blocks;
};

/** Joins a group of `size` ranks; returns when all are there and every pair has exchanged a word,
 *  or TIMEOUT after `timeout_ms`. */
Status create_nccl(const Device& device, const NcclLibrary& library,
                   const gqsgd_unique_id& unique_id, uint32_t rank, uint32_t size,
                   const NcclOptions& options, std::unique_ptr<StreamTransport>* out);

/** An end on a communicator that the caller made with this same NCCL library and destroys later. */
Status borrow_nccl(const Device& device, const NcclLibrary& library, void* nccl_comm,
                   const NcclOptions& options, std::unique_ptr<StreamTransport>* out);

}  // namespace gq

#endif
