// A profiler of the least kind, which NVTX loads by NVTX_INJECTION64_PATH: it writes down what
// ranges begin and end.
#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::string log;
thread_local int depth = 0;

int NVTX_API push(const char* message) {
  const std::lock_guard<std::mutex> lock(mutex);
  log.append(static_cast<size_t>(depth), ' ').append(message).append("\n");
  return depth++;
}

int NVTX_API pop() { return --depth; }

}  // namespace

extern "C" {

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int count = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &count) == 0) return 0;
  if (count <= NVTX_CBID_CORE_RangePop) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

/** A line for each range, behind a blank for each that it lies in; of the caller's depth if all
 * have ended. */
int profiler_log(const char** text) {
  const std::lock_guard<std::mutex> lock(mutex);
  *text = log.c_str();
  return depth;
}
}
