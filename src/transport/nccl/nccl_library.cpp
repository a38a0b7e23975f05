// Opening NCCL: a copy that the process has comes first, because a communicator works with the very
// library that made it.
#include "src/transport/nccl/nccl_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "src/support/immortal.h"
#include "src/support/posix/regular_file.h"
#include "src/support/shown.h"

namespace gq {
namespace {

constexpr const char* kName = "libnccl.so.2";

struct Opened {
  void* handle;
  std::unique_ptr<NcclLibrary> library;
};

void* open_file(const char* path, NcclSearch search) {
  if (void* loaded = dlopen(path, RTLD_NOLOAD | RTLD_NOW)) return loaded;
  return search == NcclSearch::loaded_only ? nullptr : dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

/** dlopen opens a path as it is, and would wait for a writer of a FIFO. */
Status check_file(const char* file) {
  const char* reason = strchr(file, '/') == nullptr ? nullptr : irregular_file(file);
  if (reason == nullptr) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "NCCL is not here: %s: %s (option nccl=FILE or GQSGD_NCCL_LIBRARY says where it is)",
              Shown(file, Shown::kPathBytes).text(), reason);
}

Status open_handle(const char* path, NcclSearch search, void** handle) {
  const bool given = path != nullptr && path[0] != '\0';
  const char* file = given ? path : kName;
  const char* variable = given ? nullptr : secure_getenv("GQSGD_NCCL_LIBRARY");
  *handle = given ? nullptr : dlopen(kName, RTLD_NOLOAD | RTLD_NOW);
  if (*handle == nullptr && variable != nullptr) file = variable;
  if (*handle == nullptr) GQ_TRY(check_file(file));
  if (*handle == nullptr) *handle = open_file(file, search);
  if (*handle != nullptr) return Status();
  if (search == NcclSearch::loaded_only) {
    return fail(GQSGD_UNSUPPORTED,
                "%s is not loaded in this process, so that no communicator can be its: option "
                "nccl=FILE names the library that made the communicator",
                Shown(file, Shown::kPathBytes).text());
  }
  const char* reason = dlerror();
  return fail(GQSGD_UNSUPPORTED,
              "NCCL is not here: %s (option nccl=FILE or GQSGD_NCCL_LIBRARY says where it is)",
              Shown(reason == nullptr ? file : reason, Shown::kPathBytes).text());
}

void find_path(void* handle, NcclLibrary* library) {
  link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0';
  const Shown shown(known ? map->l_name : kName, Shown::kPathBytes);
  snprintf(library->path, sizeof library->path, "%s", shown.text());
}

Status find_version(void* handle, NcclLibrary* library) {
  const auto version = reinterpret_cast<nccl::Result (*)(int*)>(dlsym(handle, "ncclGetVersion"));
  library->version = 0;
  if (version == nullptr || version(&library->version) != nccl::kSuccess) {
    return fail(GQSGD_UNSUPPORTED, "ncclGetVersion is not found in %s, or fails: not NCCL",
                library->path);
  }
  if (library->version >= nccl::kVersionMin) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "%s is NCCL of version number %d; this library needs %d (2.14) or later",
              library->path, library->version, nccl::kVersionMin);
}

Status find_functions(void* handle, NcclLibrary* library) {
#define GQ_NCCL_FIND(member, symbol, result, arguments)                                  \
  library->member = reinterpret_cast<decltype(library->member)>(dlsym(handle, #symbol)); \
  if (library->member == nullptr) {                                                      \
    return fail(GQSGD_UNSUPPORTED, #symbol " is not found in %s (version number %d)",    \
                library->path, library->version);                                        \
  }
  GQ_NCCL_FUNCTIONS(GQ_NCCL_FIND)
#undef GQ_NCCL_FIND
#define GQ_NCCL_FIND(member, symbol, result, arguments) \
  library->member = reinterpret_cast<decltype(library->member)>(dlsym(handle, #symbol));
  GQ_NCCL_OPTIONAL_FUNCTIONS(GQ_NCCL_FIND)
#undef GQ_NCCL_FIND
  return Status();
}

}  // namespace

Status open_nccl(const char* path, NcclSearch search, const NcclLibrary** library) {
  static std::mutex mutex;
  auto* const opened = &immortal<std::vector<Opened>>();  // libraries stay open
  const std::lock_guard<std::mutex> lock(mutex);
  void* handle = nullptr;
  GQ_TRY(open_handle(path, search, &handle));
  for (const Opened& known : *opened) {
    if (known.handle != handle) continue;
    *library = known.library.get();
    return Status();
  }
  try {
    opened->reserve(opened->size() + 1);
    auto made = std::make_unique<NcclLibrary>();
    find_path(handle, made.get());
    GQ_TRY(find_version(handle, made.get()));
    GQ_TRY(find_functions(handle, made.get()));
    *library = made.get();
    opened->push_back({handle, std::move(made)});
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the functions of NCCL");
  }
  return Status();
}

}  // namespace gq
