// Command lines of --name number.
#ifndef GQ_BENCH_GPU_NUMBER_OPTIONS_H
#define GQ_BENCH_GPU_NUMBER_OPTIONS_H

#include <stddef.h>
#include <stdlib.h>

#include <initializer_list>
#include <string>

namespace gq::bench {

struct NumberOption {
  const char* name;
  size_t* value;
};

/** Whether a program's arguments are some of these names, each with a number above 0. */
inline bool read_number_options(int argc, char** argv,
                                std::initializer_list<NumberOption> options) {
  for (int k = 1; k + 1 < argc; k += 2) {
    const long long number = atoll(argv[k + 1]);
    size_t* value = nullptr;
    for (const NumberOption& option : options) {
      if (option.name == std::string(argv[k])) value = option.value;
    }
    if (value == nullptr || number <= 0) return false;
    *value = static_cast<size_t>(number);
  }
  return argc % 2 == 1;
}

}  // namespace gq::bench

#endif
