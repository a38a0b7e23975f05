// More than 1e9 random values through every stage of the C ABI, on the device and on all cores of
// the host: the same bits. GQSGD_GPU_VALUES: values of each format, 2^27 if not set.
#include <gqsgd.h>
#include <gqsgd_stages.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <thread>

#include "tests/gpu/cuda_call.h"
#include "tests/support/inputs.h"

namespace gq::test {
namespace {

const char* const kQuantizers[] = {"paper-gl8", "paper-ge8",  "paper-gl4", "paper-ge4",  "blocks-8",
                                   "rotated-8", "relative-8", "none",      "rotated-4-8"};

/** Whole blocks and rotations, so that ranges of threads begin where stages may. */
constexpr size_t kGrain = 65536;

size_t value_count() {
  const char* text = getenv("GQSGD_GPU_VALUES");
  const size_t wanted = text == nullptr ? size_t{1} << 27 : strtoull(text, nullptr, 10);
  return std::max(kGrain, wanted / kGrain * kGrain);
}

/** Runs `work(first, count)` on all cores for ranges that make up the whole. */
template <typename Work>
void on_all_cores(size_t count, Work work) {
  const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const size_t step = (count / kGrain + threads - 1) / threads * kGrain;
  std::vector<std::thread> team;
  for (size_t first = 0; first < count; first += step) {
    team.emplace_back([=] { work(first, std::min(step, count - first)); });
  }
  for (std::thread& thread : team) thread.join();
}

/** Memory of the device for as long as it lives. */
class DeviceArray {
 public:
  explicit DeviceArray(size_t size_bytes) : size_bytes_(size_bytes) {
    done(cudaMalloc(&memory_, size_bytes + 1));
  }
  ~DeviceArray() { (void)cudaFree(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  template <typename Element>
  Element* as() const {
    return static_cast<Element*>(memory_);
  }
  void put(const void* host) {
    done(cudaMemcpy(memory_, host, size_bytes_, cudaMemcpyHostToDevice));
  }
  template <typename Element>
  bool equals(const std::vector<Element>& host) const {
    std::vector<Element> copy(host.size());
    done(cudaMemcpy(copy.data(), memory_, host.size() * sizeof(Element), cudaMemcpyDeviceToHost));
    return memcmp(copy.data(), host.data(), host.size() * sizeof(Element)) == 0;
  }

 private:
  void* memory_ = nullptr;
  size_t size_bytes_;
};

/** Any pattern of a finite float32, half of them within 2^16 of the largest. */
std::vector<float> random_values(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  on_all_cores(count, [&](size_t first, size_t here) {
    for (size_t e = first; e < first + here; ++e) {
      const uint64_t draw = mix(seed ^ mix(e));
      uint32_t bits = static_cast<uint32_t>(draw);
      if (draw >> 63) bits = (bits & 0x807fffff) | (112 + ((draw >> 33) & 15)) << 23;
      if ((bits & 0x7f800000) == 0x7f800000) bits &= 0xbfffffff;
      memcpy(&values[e], &bits, sizeof bits);
    }
  });
  return values;
}

/** One format on both sides: the host's buffers and the device's. */
class Comparison {
 public:
  Comparison(const char* quantizer, const std::vector<float>& values)
      : name_(quantizer), values_(values), there_values_(values.size() * 4) {
    expect(gqsgd_quantizer_create(quantizer, &quantizer_), "create");
    there_values_.put(values.data());
    gqsgd_norm_count(quantizer_, values.size(), &norm_count_);
    gqsgd_packed_size(quantizer_, values.size(), &packed_bytes_);
    gqsgd_result_size(quantizer_, values.size(), &result_bytes_);
    gqsgd_workspace_size(quantizer_, values.size(), GQSGD_FLOAT32, &workspace_bytes_);
    done(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Comparison() {
    gqsgd_quantizer_destroy(quantizer_);
    (void)cudaStreamDestroy(stream_);
  }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  void run();

 private:
  gqsgd_site site(size_t first) const {
    gqsgd_site site = {};
    site.size = 2;
    site.rank = 1;
    site.step = 9;
    site.first_value = first;
    return site;
  }
  void expect(gqsgd_status status, const char* stage) const {
    EXPECT_EQ(status, GQSGD_OK) << name_ << ", " << stage << ": " << gqsgd_last_error();
  }
  size_t norm_at(size_t first) const {
    return norm_count_ == 1 ? 0 : first / (values_.size() / norm_count_);
  }
  size_t word_at(size_t bytes, size_t first) const { return bytes / 4 * first / values_.size(); }

  const char* name_;
  const std::vector<float>& values_;
  DeviceArray there_values_;
  gqsgd_quantizer quantizer_ = nullptr;
  cudaStream_t stream_ = nullptr;
  size_t norm_count_ = 0, packed_bytes_ = 0, result_bytes_ = 0, workspace_bytes_ = 0;
};

void Comparison::run() {
  // long: four stages one after the other, each on both sides, over shared buffers
  const size_t count = values_.size();
  std::vector<float> norms(norm_count_), scales(norm_count_), results(count);
  std::vector<uint32_t> words(packed_bytes_ / 4), sums(result_bytes_ / 4);
  DeviceArray there_norms(4 * norm_count_), there_scales(4 * norm_count_),
      workspace(workspace_bytes_), there_words(packed_bytes_), there_sums(result_bytes_);
  const gqsgd_site whole = site(0);

  expect(gqsgd_norm(quantizer_, &whole, values_.data(), count, GQSGD_FLOAT32, norms.data(), nullptr,
                    0, nullptr),
         "norm");
  expect(gqsgd_norm(quantizer_, &whole, there_values_.as<void>(), count, GQSGD_FLOAT32,
                    there_norms.as<float>(), workspace.as<void>(), workspace_bytes_, stream_),
         "norm on the device");
  expect(gqsgd_quantize(quantizer_, &whole, there_values_.as<void>(), count, GQSGD_FLOAT32,
                        there_norms.as<float>(), there_words.as<uint32_t>(), nullptr, 0, stream_),
         "quantize on the device");
  on_all_cores(count, [&](size_t first, size_t here) {
    const gqsgd_site part = site(first);
    expect(gqsgd_quantize(quantizer_, &part, &values_[first], here, GQSGD_FLOAT32,
                          &norms[norm_at(first)], &words[word_at(packed_bytes_, first)], nullptr, 0,
                          nullptr),
           "quantize");
  });
  const uint32_t* const there_list[] = {there_words.as<uint32_t>(), there_words.as<uint32_t>()};
  expect(gqsgd_reduce_many(quantizer_, &whole, there_list, count, there_norms.as<float>(),
                           there_sums.as<uint32_t>(), there_scales.as<float>(),
                           workspace.as<void>(), workspace_bytes_, stream_),
         "reduce_many on the device");
  on_all_cores(count, [&](size_t first, size_t here) {
    const gqsgd_site part = site(first);
    const uint32_t* const operand = &words[word_at(packed_bytes_, first)];
    const uint32_t* const list[] = {operand, operand};
    std::vector<float> one(1);
    expect(gqsgd_reduce_many(quantizer_, &part, list, here, &norms[norm_at(first)],
                             &sums[word_at(result_bytes_, first)],
                             norm_count_ == 1 ? one.data() : &scales[norm_at(first)], nullptr, 0,
                             nullptr),
           "reduce_many");
    if (norm_count_ == 1) scales[0] = norms[0];
  });
  done(cudaStreamSynchronize(stream_));
  EXPECT_TRUE(there_norms.equals(norms)) << "norms, " << name_;
  EXPECT_TRUE(there_words.equals(words)) << "codes, " << name_;
  EXPECT_TRUE(there_sums.equals(sums)) << "sums of codes, " << name_;
  EXPECT_TRUE(there_scales.equals(scales)) << "scales, " << name_;
  expect(gqsgd_dequantize(quantizer_, &whole, there_sums.as<uint32_t>(), there_scales.as<float>(),
                          count, GQSGD_FLOAT32, GQSGD_MEAN, there_values_.as<void>(), stream_),
         "dequantize on the device");
  on_all_cores(count, [&](size_t first, size_t here) {
    const gqsgd_site part = site(first);
    expect(gqsgd_dequantize(quantizer_, &part, &sums[word_at(result_bytes_, first)],
                            &scales[norm_at(first)], here, GQSGD_FLOAT32, GQSGD_MEAN,
                            &results[first], nullptr),
           "dequantize");
  });
  done(cudaStreamSynchronize(stream_));
  EXPECT_TRUE(there_values_.equals(results)) << "values, " << name_;
}

TEST(Random, ABillionValues_BitsOfTheHost) {
  size_t seed = 40;
  for (const char* quantizer : kQuantizers) {
    const std::vector<float> values = random_values(value_count(), ++seed);
    Comparison(quantizer, values).run();
  }
}

}  // namespace
}  // namespace gq::test
