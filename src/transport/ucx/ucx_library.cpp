// Opening UCX. Its global settings are read from the environment by a constructor of libucs, so
// they are there during dlopen() and gone afterwards.
#include "src/transport/ucx/ucx_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "src/support/immortal.h"
#include "src/support/posix/regular_file.h"
#include "src/support/shown.h"
#include "src/transport/ucx/environment_defaults.h"

namespace gq {
namespace {

constexpr const char* kName = "libucp.so.0";
constexpr const char* kBaseName = "libucs.so.0";
constexpr const char* kHowToInstall =
    "`apt-get install libucx0` or `pip install libucx-cu12` installs UCX; option ucx=FILE or "
    "GQSGD_UCX_LIBRARY says where libucp.so.0 is";

// The handlers of UCX would print backtraces for faults of the host program. Its hooks rewrite the
// first bytes of mmap() and others, to keep a cache of memory that is registered with network
// adapters (UCX_MEM_EVENTS=y enables that). Its warnings are about what this library reports
// itself.
constexpr const char* kGlobalSettings[] = {
    "UCX_HANDLE_ERRORS=none",        "UCX_DEBUG_SIGNO=0",      "UCX_LOG_LEVEL=fatal",
    "UCX_MEM_LOG_LEVEL=fatal",       "UCX_MEM_EVENTS=n",       "UCX_MEM_MMAP_HOOK_MODE=none",
    "UCX_MEM_MALLOC_HOOKS=n",        "UCX_MEM_MALLOC_RELOC=n", "UCX_MEM_CUDA_HOOK_MODE=none",
    "UCX_MEMTYPE_CACHE=n",           "UCX_VFS_ENABLE=n",       "UCX_WARN_UNUSED_ENV_VARS=n",
    "UCX_MEM_DYNAMIC_MMAP_THRESH=n",
};

struct Opened {
  void* handle;
  std::unique_ptr<UcxLibrary> library;
};

/** The path of a library that is open, "" if the loader does not know it. */
const char* path_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

bool is_same_file(const char* one, const char* other) {
  struct stat first, second;
  return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/** dlopen opens a path as it is, and would wait for a writer of a FIFO. */
Status check_file(const char* file) {
  const char* reason = strchr(file, '/') == nullptr ? nullptr : irregular_file(file);
  if (reason == nullptr) return Status();
  return fail(GQSGD_UNSUPPORTED, "UCX is not here: %s: %s; %s",
              Shown(file, Shown::kPathBytes).text(), reason, kHowToInstall);
}

/** The process has libucs, but not libucp: a libucp of another copy would be bound to it. */
Status check_base(const char* file) {
  void* const base = dlopen(kBaseName, RTLD_NOLOAD | RTLD_NOW);
  const char* const slash = strrchr(file, '/');
  if (base == nullptr || slash == nullptr) return Status();
  const std::string beside = std::string(file, slash + 1) + kBaseName;
  if (is_same_file(beside.c_str(), path_of(base))) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "UCX %s belongs to another copy than %s, which this process has loaded: two copies "
              "of UCX do not work in one process",
              Shown(file, Shown::kPathBytes).text(),
              Shown(path_of(base), Shown::kPathBytes).text());
}

Status open_new(const char* file, void** handle) {
  GQ_TRY(check_file(file));
  GQ_TRY(check_base(file));
  {
    const EnvironmentDefaults settings(kGlobalSettings, std::size(kGlobalSettings));
    if (!settings.is_set()) return fail(GQSGD_NO_MEMORY, "no memory for the settings of UCX");
    *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  }
  if (*handle != nullptr) return Status();
  const char* reason = dlerror();
  return fail(GQSGD_UNSUPPORTED, "UCX is not here: %s; %s",
              Shown(reason == nullptr ? file : reason, Shown::kPathBytes).text(), kHowToInstall);
}

Status open_handle(const char* path, void** handle) {
  const bool given = path != nullptr && path[0] != '\0';
  *handle = dlopen(kName, RTLD_NOLOAD | RTLD_NOW);
  if (*handle == nullptr) {
    const char* variable = given ? nullptr : secure_getenv("GQSGD_UCX_LIBRARY");
    if (variable != nullptr && variable[0] == '\0') variable = nullptr;
    return open_new(given ? path : variable != nullptr ? variable : kName, handle);
  }
  if (!given || strchr(path, '/') == nullptr || is_same_file(path, path_of(*handle))) {
    return Status();
  }
  return fail(GQSGD_UNSUPPORTED,
              "option ucx=%s: this process has loaded UCX from %s, and two copies of UCX do not "
              "work in one process; without the option the loaded one is used",
              Shown(path, Shown::kPathBytes).text(),
              Shown(path_of(*handle), Shown::kPathBytes).text());
}

Status find_version(void* handle, UcxLibrary* library) {
  const auto version =
      reinterpret_cast<void (*)(unsigned*, unsigned*, unsigned*)>(dlsym(handle, "ucp_get_version"));
  if (version == nullptr) {
    return fail(GQSGD_UNSUPPORTED, "ucp_get_version is not found in %s: not UCX", library->path);
  }
  version(&library->major, &library->minor, &library->release);
  if (library->major == ucx::kMajor && library->minor >= ucx::kMinorMin) return Status();
  return fail(GQSGD_UNSUPPORTED, "%s is UCX %u.%u.%u; this library needs %u.%u or a later %u.x; %s",
              library->path, library->major, library->minor, library->release, ucx::kMajor,
              ucx::kMinorMin, ucx::kMajor, kHowToInstall);
}

Status find_functions(void* handle, UcxLibrary* library) {
#define GQ_UCX_FIND(member, symbol, result, arguments)                                          \
  library->member = reinterpret_cast<decltype(library->member)>(dlsym(handle, #symbol));        \
  if (library->member == nullptr) {                                                             \
    return fail(GQSGD_UNSUPPORTED, #symbol " is not found in %s (UCX %u.%u.%u)", library->path, \
                library->major, library->minor, library->release);                              \
  }
  GQ_UCX_FUNCTIONS(GQ_UCX_FIND)
#undef GQ_UCX_FIND
  return Status();
}

}  // namespace

Status open_ucx(const char* path, const UcxLibrary** library) {
  static std::mutex mutex;
  auto* const opened = &immortal<std::vector<Opened>>();  // libraries stay open
  const std::lock_guard<std::mutex> lock(mutex);
  try {
    void* handle = nullptr;
    GQ_TRY(open_handle(path, &handle));
    for (const Opened& known : *opened) {
      if (known.handle != handle) continue;
      *library = known.library.get();
      return Status();
    }
    opened->reserve(opened->size() + 1);
    auto made = std::make_unique<UcxLibrary>();
    const char* const file = path_of(handle);
    snprintf(made->path, sizeof made->path, "%s",
             Shown(file[0] == '\0' ? kName : file, Shown::kPathBytes).text());
    GQ_TRY(find_version(handle, made.get()));
    GQ_TRY(find_functions(handle, made.get()));
    *library = made.get();
    opened->push_back({handle, std::move(made)});
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the functions of UCX");
  }
  return Status();
}

}  // namespace gq
