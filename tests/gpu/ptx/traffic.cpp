#include "tests/gpu/ptx/traffic.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace gq::ptx {
namespace {

constexpr uint32_t kBanks = 32;
constexpr uint32_t kBankBytes = 4;
constexpr uint32_t kTurnBytes = kBanks * kBankBytes;  // that shared memory gives at once

std::atomic<bool> counting{false};

struct Kernels {
  std::mutex mutex;
  std::map<std::string, Traffic> by_name;
};
Kernels& kernels() {
  static Kernels* const all = new Kernels;
  return *all;
}

/** Numbers, each once; no more than threads of a warp. */
struct DifferentOnes {
  uint32_t count = 0;
  uint64_t number[kWarp];

  /** Neighbours often have the same one: from the last on. */
  uint32_t place_of(uint64_t wanted) {
    for (uint32_t k = count; k-- > 0;) {
      if (number[k] == wanted) return k;
    }
    number[count] = wanted;
    return count++;
  }
};

void add(Requests* sum, const Requests& other) {
  sum->count += other.count;
  sum->sectors += other.sectors;
  sum->least_sectors += other.least_sectors;
  sum->half_sectors += other.half_sectors;
}

}  // namespace

std::map<std::string, Traffic> take_traffic() {
  counting = true;
  const std::lock_guard<std::mutex> lock(kernels().mutex);
  return std::exchange(kernels().by_name, {});
}

TrafficCounter::TrafficCounter(const Kernel& kernel) : counts_(counting) {
  own_.kernel = &kernel;
  if (counts_) own_.made.resize(kernel.code.size());
}

TrafficCounter::~TrafficCounter() {
  if (!counts_) return;
  const std::lock_guard<std::mutex> lock(kernels().mutex);
  Traffic& sum = kernels().by_name[own_.kernel->name];
  sum.kernel = own_.kernel;
  sum.made.resize(std::max(sum.made.size(), own_.made.size()));
  for (size_t k = 0; k < own_.made.size(); ++k) sum.made[k] += own_.made[k];
  add(&sum.loads, own_.loads);
  add(&sum.stores, own_.stores);
  sum.bank_turns += own_.bank_turns;
  sum.least_bank_turns += own_.least_bank_turns;
}

void TrafficCounter::global(bool loads, const uint64_t (&address)[kWarp], Mask threads,
                            uint32_t size_bytes) {
  DifferentOnes sectors;
  Mask accessed[kWarp] = {};  // the bytes of each
  for_each(threads, [&](uint32_t thread) {
    const uint64_t first = address[thread] % kSectorBytes;
    const Mask bytes = size_bytes >= kSectorBytes ? ~Mask{0} : (Mask{1} << size_bytes) - 1;
    accessed[sectors.place_of(address[thread] / kSectorBytes)] |= bytes << first;
  });
  uint64_t bytes = 0, halves = 0;
  for (uint32_t k = 0; k < sectors.count; ++k) {
    bytes += static_cast<uint64_t>(__builtin_popcount(accessed[k]));
    halves += accessed[k] != ~Mask{0} ? 1 : 0;
  }
  Requests& requests = loads ? own_.loads : own_.stores;
  requests.count += 1;
  requests.sectors += sectors.count;
  requests.least_sectors += (bytes + kSectorBytes - 1) / kSectorBytes;
  if (threads == ~Mask{0}) requests.half_sectors += halves;
}

/** As many lanes at once as turns have bytes for; lanes that read one word share it. */
void TrafficCounter::shared(const uint64_t (&address)[kWarp], Mask threads, uint32_t size_bytes) {
  const uint32_t lanes = std::min(kWarp, kTurnBytes / std::max(size_bytes, kBankBytes));
  for (uint32_t first = 0; first < kWarp; first += lanes) {
    DifferentOnes words[kBanks];
    uint32_t turns = 0;
    for (uint32_t lane = first; lane < first + lanes; ++lane) {
      if ((threads >> lane & 1) == 0) continue;
      for (uint32_t byte = 0; byte < std::max(size_bytes, kBankBytes); byte += kBankBytes) {
        const uint64_t word = (address[lane] + byte) / kBankBytes;
        DifferentOnes& in_bank = words[word % kBanks];
        in_bank.place_of(word);
        turns = std::max(turns, in_bank.count);
      }
    }
    own_.bank_turns += turns;
    own_.least_bank_turns += turns > 0 ? 1 : 0;
  }
}

}  // namespace gq::ptx
