// What meson.build compiles once for all sources of the library: each includes what it needs all
// the same, which a build by clang, where this is not used, shows.
#ifndef GQ_STANDARD_ONCE_H
#define GQ_STANDARD_ONCE_H

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#endif
