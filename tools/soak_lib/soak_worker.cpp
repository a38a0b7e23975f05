// A process of tools/soak, which lives through all rounds. It reads commands as lines and answers
// each with one line of fields between tabs:
//   id TRANSPORT          -> id HEX, or failed SENTENCE
//   round FIELD...        -> end NUMBER CALLS REFUSED DIGEST HEAP RESIDENT PROPORTIONAL DESCRIPTORS
//                            THREADS MAPPINGS SENTENCE (empty where all was right)
// The fields of a round are those of struct Round, in its order; - for an empty one.
// The arguments are what leaks on purpose (soak_usage.h).
#include <malloc.h>

#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "tools/soak_lib/soak_round.h"

namespace gq::tools {
namespace {

std::string hex_of(const gqsgd_unique_id& id) {
  std::string text;
  for (const unsigned char byte : id.bytes) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", byte);
    text += pair;
  }
  return text;
}

bool read_id(const std::string& text, gqsgd_unique_id* id) {
  if (text == "-") return true;
  if (text.size() != 2 * sizeof id->bytes) return false;
  for (size_t k = 0; k < sizeof id->bytes; ++k) {
    unsigned byte = 0;
    if (std::sscanf(text.c_str() + 2 * k, "%2x", &byte) != 1) return false;
    id->bytes[k] = static_cast<unsigned char>(byte);
  }
  return true;
}

bool read_round(std::istream& fields, Round* round) {
  std::string id, next_id;
  fields >> round->number >> round->transport >> round->rank >> round->size >> round->seed >>
      round->call_count >> round->value_count_max >> round->fault >> round->victim >>
      round->fault_call >> round->delay_us >> round->options >> round->continues >> id >> next_id;
  if (round->options == "-") round->options.clear();
  return !fields.fail() && read_id(id, &round->id) && read_id(next_id, &round->next_id);
}

void print_id(const std::string& transport) {
  gqsgd_unique_id id;
  const gqsgd_status status = make_id(transport, &id);
  if (status == GQSGD_OK) {
    std::printf("id\t%s\n", hex_of(id).c_str());
  } else {
    std::printf("failed\t%s: %s\n", gqsgd_status_name(status), gqsgd_last_error());
  }
}

void print_end(const Round& round, const RoundEnd& end) {
  const Usage usage = usage_now();
  std::printf("end\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%016" PRIx64
              "\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%s\n",
              round.number, end.calls, end.refused, end.digest, usage.heap, usage.resident,
              usage.proportional, usage.descriptors, usage.threads, usage.mappings,
              end.wrong.c_str());
}

int serve(const Leak& leak) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream fields(line);
    std::string command, transport;
    fields >> command;
    Round round;
    if (command == "id" && fields >> transport) {
      print_id(transport);
    } else if (command == "round" && read_round(fields, &round)) {
      print_end(round, run_round(round, leak));
    } else {
      std::fprintf(stderr, "soak-worker: not a command: %s\n", line.c_str());
      return 2;
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gq::tools

int main(int argc, char** argv) {
  mallopt(M_MXFAST, 0);  // what its caches hold counts as in use
  gq::tools::Leak leak;
  for (int k = 1; k < argc; ++k) {
    if (leak.add(argv[k])) continue;
    std::fprintf(stderr, "soak-worker: nothing leaks that is called %s\n", argv[k]);
    return 2;
  }
  return gq::tools::serve(leak);
}
