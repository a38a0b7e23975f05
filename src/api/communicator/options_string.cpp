// Options of communicators and their ranges.
#include "src/api/communicator/options_string.h"

#include <inttypes.h>
#include <stdlib.h>

#include <new>

#include "kernels/codec/formats.h"
#include "src/api/communicator/costs_file.h"
#include "src/api/quantizer/spec_items.h"
#include "src/execute/workers.h"
#include "src/support/log.h"
#include "src/transport/ucx/ucx_engine.h"

namespace gq {
namespace {

constexpr const char* kOptionList[] = {
    "timeout_ms", "stream_id", "chunk_value_count", "threads",   "costs",   "uncompressed",
    "nodes",      "nccl",      "nontemporal_bytes", "interface", "address", "port",
    "host_id",    "ucx",       "checksum",          "paths",     "nccl_blocking"};
enum OptionIndex {
  kTimeoutMs,
  kStreamId,
  kChunkValueCount,
  kThreads,
  kCosts,
  kUncompressed,
  kNodes,
  kNccl,
  kNontemporalBytes,
  kInterface,
  kAddress,
  kPort,
  kHostId,
  kUcx,
  kChecksum,
  kPaths,
  kNcclBlocking
};

constexpr const char* kUncompressedList[] = {"auto", "never"};
constexpr const char* kNcclBlockingList[] = {"on", "off"};
constexpr const char* kChecksumList[] = {"off", "crc32c"};

// Keeps a chunk's packed size and the control message's 32-bit field far from overflow.
constexpr uint32_t kChunkValueCountMax = 1u << 30;

int64_t default_timeout_ms() {
  const char* text = secure_getenv("GQSGD_TIMEOUT_MS");
  if (text == nullptr) return kTimeoutMsDefault;
  int64_t timeout_ms = 0;
  if (parse_signed(text, &timeout_ms) && (timeout_ms == -1 || timeout_ms > 0) &&
      timeout_ms <= kTimeoutMsMax) {
    return timeout_ms;
  }
  log_line(GQSGD_LOG_WARN,
           "GQSGD_TIMEOUT_MS=%s is not a number of milliseconds; the default %" PRId64 " is used",
           Shown(text).text(), kTimeoutMsDefault);
  return kTimeoutMsDefault;
}

/** Of an option that is one of two words. */
Status read_either(OptionIndex option, const char* const (&words)[2], std::string_view word,
                   bool* is_first) {
  const int index = find_name(names_of(words), word);
  *is_first = index == 0;
  if (index >= 0) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "option %s=%s is neither %s nor %s", kOptionList[option],
              Shown(word).text(), words[0], words[1]);
}

Status read_checksum(std::string_view word, std::optional<ChecksumKind>* checksum) {
  bool is_off = false;
  GQ_TRY(read_either(kChecksum, kChecksumList, word, &is_off));
  *checksum = is_off ? ChecksumKind::off : ChecksumKind::crc32c;
  return Status();
}

/** "0:0:1:1", a number for each rank. */
Status read_nodes(std::string_view text, std::vector<uint32_t>* nodes) {
  nodes->clear();
  for (bool more = true; more;) {
    const size_t end = text.find(':');
    more = end != std::string_view::npos;
    int64_t number = 0;
    if (!parse_signed(text.substr(0, end), &number) || number < 0 || number > UINT32_MAX) {
      return fail(GQSGD_INVALID_ARGUMENT,
                  "option nodes has \"%s\" for rank %zu; it is a number from 0 to %" PRIu32
                  " for each rank, as in nodes=0:0:1:1",
                  Shown(text.substr(0, end)).text(), nodes->size(), UINT32_MAX);
    }
    try {
      nodes->push_back(static_cast<uint32_t>(number));
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for the nodes of so many ranks");
    }
    text.remove_prefix(more ? end + 1 : text.size());
  }
  return Status();
}

/** Where an option is kept that is a name; null for the others. */
std::string* name_of(int option, CommOptions* options) {
  switch (option) {
    case kNccl:
      return &options->nccl;
    case kInterface:
      return &options->network.interface;
    case kAddress:
      return &options->network.address;
    case kHostId:
      return &options->network.host_id;
    case kUcx:
      return &options->network.ucx;
    default:
      return nullptr;
  }
}

Status read_name(std::string_view text, std::string* name) {
  try {
    *name = text;
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for a name of %zu bytes", text.size());
  }
  return Status();
}

struct Range {
  int64_t least;
  int64_t most;
};

Range range_of(int option) {
  switch (option) {
    case kChunkValueCount:
      return {1, kChunkValueCountMax};
    case kThreads:
      return {1, kThreadsMax};
    case kPort:
      return {0, UINT16_MAX};
    case kPaths:
      return {1, kUcxPathsMax};
    default:
      return {0, UINT32_MAX};
  }
}

void set_number(int option, uint32_t value, CommOptions* options) {
  if (option == kStreamId) {
    options->stream_id = value;
    options->stream_id_given = true;
  } else if (option == kThreads) {
    options->threads = value;
  } else if (option == kNontemporalBytes) {
    options->nontemporal_bytes = value;
  } else if (option == kPort) {
    options->network.port = value;
  } else if (option == kPaths) {
    options->network.paths = value;
  } else {
    options->chunk_value_count = (value + kValueAlignment - 1) / kValueAlignment * kValueAlignment;
  }
}

/** `given`: a bit for each option that has come. */
Status read_option(const SpecItem& item, uint32_t* given, CommOptions* options) {
  const int option = find_name(names_of(kOptionList), item.name);
  int64_t number = 0;
  if (option < 0 || !item.has_value) {
    char known[240];
    list_names(names_of(kOptionList), known, sizeof known);
    return fail(GQSGD_INVALID_ARGUMENT, "option \"%s\" is not %s; options are %s",
                Shown(item.name).text(), option < 0 ? "known" : "option=value", known);
  }
  if ((*given >> option & 1) != 0) {
    return fail(GQSGD_INVALID_ARGUMENT, "option %s is given twice", kOptionList[option]);
  }
  *given |= 1u << option;
  if (option == kCosts) {
    options->costs_given = true;
    return read_costs(item.value, &options->choice);
  }
  if (option == kUncompressed) {
    options->uncompressed_given = true;
    return read_either(kUncompressed, kUncompressedList, item.value,
                       &options->choice.may_be_uncompressed);
  }
  if (option == kChecksum) return read_checksum(item.value, &options->checksum);
  if (option == kNcclBlocking) {
    return read_either(kNcclBlocking, kNcclBlockingList, item.value, &options->nccl_blocks);
  }
  if (option == kNodes) return read_nodes(item.value, &options->nodes);
  std::string* const name = name_of(option, options);
  if (name != nullptr) return read_name(item.value, name);
  if (!parse_signed(item.value, &number)) {
    return fail(GQSGD_INVALID_ARGUMENT, "option %s=%s is not an integer", kOptionList[option],
                Shown(item.value).text());
  }
  if (option == kTimeoutMs) return check_timeout(number, &options->timeout_ms);
  const Range range = range_of(option);
  if (number < range.least || number > range.most) {
    return fail(GQSGD_INVALID_ARGUMENT, "option %s=%" PRId64 " is outside %" PRId64 " to %" PRId64,
                kOptionList[option], number, range.least, range.most);
  }
  set_number(option, static_cast<uint32_t>(number), options);
  return Status();
}

}  // namespace

Status check_timeout(int64_t timeout_ms, int64_t* checked_ms) {
  if (timeout_ms < -1 || timeout_ms > kTimeoutMsMax) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "timeout_ms is %" PRId64
                "; allowed are -1 (for ever), 0 (the default) and up to %" PRId64,
                timeout_ms, kTimeoutMsMax);
  }
  *checked_ms = timeout_ms == 0 ? default_timeout_ms() : timeout_ms;
  return Status();
}

Status parse_options(const char* text, CommOptions* options) {
  *options = CommOptions();
  options->timeout_ms = default_timeout_ms();
  read_costs_of_environment(&options->choice);
  return add_options(text, options);
}

Status add_options(const char* text, CommOptions* options) {
  options->costs_given = options->uncompressed_given = options->stream_id_given = false;
  std::string_view rest(text == nullptr ? "" : text);
  if (rest.find_first_not_of(' ') == std::string_view::npos) return Status();
  SpecItem item;
  uint32_t given = 0;
  while (next_item(&rest, &item)) GQ_TRY(read_option(item, &given, options));
  return Status();
}

}  // namespace gq
