// What the stages ask of memory: sectors of each request, sectors that are stored in part, turns
// that banks of shared memory take; on aligned memory, counted where the kernels' PTX is executed.
//   PROGRAM FILE      prints the table that FILE (docs/results/gpu-memory.md) must have
//   PROGRAM --counts  a line for each kernel of a case, from which tools/gpu_model predicts times
//   PROGRAM --fused-counts  those of fused kernels alone, which are the last of them
//   PROGRAM --lines KERNEL  a line for each instruction that warps came to in kernels of this name
//   Status 1: a budget is exceeded, or FILE has other numbers.
#include <gqsgd_stages.h>
#include <stdio.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/cases.h"
#include "tests/gpu/ptx/checks/fused_counts.h"
#include "tests/gpu/ptx/traffic.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

using bench::cuda_done;
using bench::GpuBuffers;
using bench::GpuCase;
using ptx::Requests;
using ptx::Traffic;

constexpr size_t kValues = 65536;
constexpr size_t kCountedValues = 1 << 20;  // so that what blocks do once counts little
constexpr size_t kSets = 9;
/** The most that a stage may ask of memory: sectors beside the least, bank turns beside the least,
 *  and whether stores may fill sectors in part. */
struct Budget {
  double loads, stores, banks;
  bool half_sectors;
};
constexpr Budget kLines = {1.02, 1.02, 1.1, false};  // tables and norms are read as well
/** Words of a block of adaptive widths, and of a cell of Rice codes, begin where those before them
 *  end: at any half of a sector, or at any word. */
constexpr Budget kPacked = {1.9, 1.3, 1.3, true};

/** Those of gpu_perf, which have float32, and other element types. */
std::vector<GpuCase> cases(GpuBuffers& buffers) {
  std::vector<GpuCase> all = bench::gpu_cases(buffers);
  const auto add = [&](const char* stage, const char* spec, gqsgd_dtype dtype,
                       const char* type, bool quantizes) {
    const auto quantizer = std::make_shared<Quantizer>(spec);
    const auto run = [&buffers, quantizer, dtype, quantizes](size_t set, cudaStream_t stream) {
      gqsgd_site site = {};
      site.size = 8;
      if (quantizes) {
        bench::library_done(
            gqsgd_quantize(quantizer->get(), &site, buffers.values(set), kValues / 2, dtype,
                           buffers.norms(), buffers.codes(set), nullptr, 0, stream),
            "gqsgd_quantize");
      } else {
        bench::library_done(
            gqsgd_dequantize(quantizer->get(), &site, buffers.codes(set), buffers.norms(),
                             kValues / 2, dtype, GQSGD_MEAN, buffers.results(set), stream),
            "gqsgd_dequantize");
      }
    };
    all.push_back({stage, std::string(spec) + ", " + type, 0, 0, run});
  };
  for (const char* const spec : {"paper-gl8", "blocks-8"}) {
    add("quantize", spec, GQSGD_BFLOAT16, "bfloat16", true);
    add("quantize", spec, GQSGD_FLOAT64, "float64", true);
    add("dequantize", spec, GQSGD_BFLOAT16, "bfloat16", false);
    add("dequantize", spec, GQSGD_FLOAT64, "float64", false);
  }
  return all;
}

/** By kernel. */
std::map<std::string, Traffic> run_counted(const GpuCase& test) {
  (void)ptx::take_traffic();
  test.run(1, cudaStreamLegacy);
  cuda_done(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
  return ptx::take_traffic();
}

/** Of all kernels of the case. */
Traffic traffic_of(const GpuCase& test) {
  Traffic sum;
  const auto add = [](Requests* to, const Requests& from) {
    to->count += from.count;
    to->sectors += from.sectors;
    to->least_sectors += from.least_sectors;
    to->half_sectors += from.half_sectors;
  };
  for (const auto& [kernel, traffic] : run_counted(test)) {
    add(&sum.loads, traffic.loads);
    add(&sum.stores, traffic.stores);
    sum.bank_turns += traffic.bank_turns;
    sum.least_bank_turns += traffic.least_bank_turns;
  }
  return sum;
}

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string row_of(const GpuCase& test, const Traffic& traffic) {
  char row[256];
  const auto per_request = [](const Requests& requests, uint64_t sectors) {
    return requests.count == 0 ? 0.0 : ratio(sectors, requests.count);
  };
  snprintf(row, sizeof row, "| %s | `%s` | %.1f | %.1f | %.1f | %.1f | %llu | %.2f |",
           test.stage.c_str(), test.format.c_str(),
           per_request(traffic.loads, traffic.loads.sectors),
           per_request(traffic.loads, traffic.loads.least_sectors),
           per_request(traffic.stores, traffic.stores.sectors),
           per_request(traffic.stores, traffic.stores.least_sectors),
           static_cast<unsigned long long>(traffic.stores.half_sectors),
           ratio(traffic.bank_turns, traffic.least_bank_turns));
  return row;
}

bool is_within(const Budget& budget, const Traffic& traffic) {
  return ratio(traffic.loads.sectors, traffic.loads.least_sectors) <= budget.loads &&
         ratio(traffic.stores.sectors, traffic.stores.least_sectors) <= budget.stores &&
         (budget.half_sectors || traffic.stores.half_sectors == 0) &&
         ratio(traffic.bank_turns, traffic.least_bank_turns) <= budget.banks;
}

int run(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> documented;
  for (std::string line; std::getline(file, line);) documented.push_back(line);
  GpuBuffers buffers(kValues, kSets);
  bool passed = true;
  for (const GpuCase& test : cases(buffers)) {
    if (test.is_yardstick()) continue;
    const Traffic traffic = traffic_of(test);
    const std::string row = row_of(test, traffic);
    const bool packed = test.format == "adaptive-4" || test.format == "rice-4";
    const bool within = is_within(packed ? kPacked : kLines, traffic);
    const bool known = std::find(documented.begin(), documented.end(), row) != documented.end();
    printf("%s%s%s\n", row.c_str(), within ? "" : " EXCEEDED", known ? "" : " NOT IN THE PAGE");
    fflush(stdout);
    passed = passed && within && known;
  }
  return passed ? 0 : 1;
}

/** Calls each(test, kernel, traffic) with the kernels of each case of gpu_perf. */
template <typename Each>
void count_kernels(Each each) {
  GpuBuffers buffers(kCountedValues, kSets);
  for (const GpuCase& test : bench::gpu_cases(buffers)) {
    if (test.is_yardstick()) continue;
    for (const auto& [kernel, traffic] : run_counted(test)) each(test, kernel, traffic);
    fflush(stdout);
  }
}

/** Stage, format, bytes of a value, target, values; then the kernel and what its warps did. */
int print_counts() {
  count_kernels([](const GpuCase& test, const std::string& kernel, const Traffic& traffic) {
    printf("%s\t%s\t%g\t%g\t%zu\t%s\t%llu\t%llu\t%llu\n", test.stage.c_str(),
           test.format.c_str(), test.bytes_per_value, test.target, kCountedValues, kernel.c_str(),
           static_cast<unsigned long long>(traffic.instructions()),
           static_cast<unsigned long long>(traffic.loads.sectors),
           static_cast<unsigned long long>(traffic.stores.sectors));
  });
  print_fused_counts();
  return 0;
}

/** Where kernels whose names contain `name` spend their instructions: stage, format, how often a
 *  warp came to an instruction, its line in the PTX, and the instruction. */
int print_lines(const std::string& name) {
  count_kernels([&](const GpuCase& test, const std::string& kernel, const Traffic& traffic) {
    if (kernel.find(name) == std::string::npos) return;
    for (size_t k = 0; k < traffic.made.size(); ++k) {
      if (traffic.made[k] == 0) continue;
      printf("%s\t%s\t%llu\t%u\t%s\n", test.stage.c_str(), test.format.c_str(),
             static_cast<unsigned long long>(traffic.made[k]), traffic.kernel->code[k].line,
             traffic.kernel->text[k].c_str());
    }
  });
  return 0;
}

}  // namespace
}  // namespace gq::test

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--counts") return gq::test::print_counts();
  if (argc == 2 && std::string(argv[1]) == "--fused-counts") {
    gq::test::print_fused_counts();
    return 0;
  }
  if (argc == 2) return gq::test::run(argv[1]);
  if (argc > 2 && std::string(argv[argc - 2]) == "--lines") {  // behind Meson's FILE
    return gq::test::print_lines(argv[argc - 1]);
  }
  printf("usage: ptx_memory FILE | --counts | --fused-counts | --lines KERNEL\n");
  return 1;
}
