// Stages of the C ABI on one of two sides: host memory, or the memory of the device under test.
#ifndef GQ_TESTS_GPU_STAGES_SIDE_H
#define GQ_TESTS_GPU_STAGES_SIDE_H

#include <gqsgd.h>
#include <gqsgd_stages.h>

#include <string>
#include <vector>

#include "tests/gpu/stages/device_memory.h"

namespace gq::test {

using Bytes = std::vector<uint8_t>;

/** One quantizer and one part of a call. */
struct Subject {
  std::string quantizer;
  uint32_t ranks = 3;
  uint32_t reduction_depth = 0;
  gqsgd_dtype dtype = GQSGD_FLOAT32;
  size_t value_count = 0;
  uint64_t first_value = 0;
  size_t offset = 0;  ///< of every buffer from aligned memory, in elements
  uint64_t step = 5, index = 3;

  std::string text() const;
  bool is_adaptive() const { return quantizer.find("adaptive") != std::string::npos; }
};

size_t dtype_bytes(gqsgd_dtype dtype);

/** Runs stages, a buffer in and a buffer out; a stage that fails is a failure of the test. */
class Side {
 public:
  Side(const Subject& subject, bool on_device);
  ~Side() { gqsgd_quantizer_destroy(quantizer_); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  Bytes norm(const Bytes& values);
  Bytes quantize(const Bytes& values, const Bytes& norms, uint32_t rank);
  Bytes reduce(const Bytes& a, const Bytes& b, uint32_t weight_a, uint32_t weight_b);
  /** Words, and the scales in place of the norms or beside them. Words of adaptive widths are then
   *  in place of the first operand. */
  std::vector<Bytes> reduce_many(const std::vector<Bytes>& words, const Bytes& norms,
                                 bool in_place);
  /** The norms count where widths are adaptive. */
  Bytes dequantize(const Bytes& words, const Bytes& norms, const Bytes& scales, gqsgd_op op);
  Bytes widths(const Bytes& norms);

  size_t workspace_bytes() const;

 private:
  gqsgd_site site(uint32_t rank) const;
  /** Memory of this side that begins as `bytes`. */
  struct Place {
    Bytes host;
    std::vector<DeviceBytes> device;
    size_t offset_bytes = 0;
    template <typename Element>
    Element* as() {
      return reinterpret_cast<Element*>(device.empty() ? host.data() + offset_bytes
                                                       : device[0].data());
    }
    Bytes bytes() const;
  };
  Place place(const Bytes& bytes, size_t element_bytes) const;
  Place empty(size_t size_bytes, size_t element_bytes) const;
  void expect_ok(gqsgd_status status, const char* stage) const;

  Subject subject_;
  bool on_device_;
  void* stream_;
  gqsgd_quantizer quantizer_ = nullptr;
};

}  // namespace gq::test

#endif
