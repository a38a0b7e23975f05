// The two sides of tests of whole groups: stages of a CPU on host memory, and those under test.
#ifndef GQ_TESTS_GPU_STAGES_GROUP_SIDES_H
#define GQ_TESTS_GPU_STAGES_GROUP_SIDES_H

#include <string.h>

#include <type_traits>
#include <vector>

#include "kernels/codec/narrow.h"
#include "tests/gpu/stages/image.h"
#include "tests/support/host_device/host_groups.h"
#include "tests/unit/kernels/support/outcome.h"

namespace gq::test {

using Bytes = std::vector<uint8_t>;

/** A value as an element of the type. */
inline void put(int32_t dtype, float value, uint8_t* to) {
  if (dtype == GQSGD_FLOAT32) {
    memcpy(to, &value, sizeof value);
  } else if (dtype == GQSGD_FLOAT64) {
    const double wide = value;
    memcpy(to, &wide, sizeof wide);
  } else {
    const uint16_t bits = dtype == GQSGD_FLOAT16 ? float_to_half<true>(value, 0)
                                                 : float_to_bfloat<true>(value, 0);
    memcpy(to, &bits, sizeof bits);
  }
}

/** The stages of a CPU on host memory. */
struct HostSide {
  template <typename Element>
  Element* place(Element* host, size_t) {
    return host;
  }
  template <typename Args>
  void run(std::vector<Args>& all) {
    for (const Args& args : all) {
      if constexpr (requires { run_rice(scalar_stages(), args); }) {
        if (args.coding.levels == Levels::rice) {
          run_rice(scalar_stages(), args);
          continue;
        }
      }
      run_groups(scalar_stages(), args);
    }
  }
};

inline StageError enqueue(const std::vector<NormArgs>& all, const BatchTable& table) {
  return cuda_batch_stages().norm(all.data(), all.size(), table);
}
inline StageError enqueue(const std::vector<QuantizeArgs>& all, const BatchTable& table) {
  return cuda_batch_stages().quantize(all.data(), all.size(), table);
}
inline StageError enqueue(const std::vector<ReduceManyArgs>& all, const BatchTable& table) {
  return cuda_batch_stages().reduce_many(all.data(), all.size(), table);
}
inline StageError enqueue(const std::vector<DequantizeArgs>& all, const BatchTable& table) {
  return cuda_batch_stages().dequantize(all.data(), all.size(), table);
}

/** Those under test, on images of the same memory: pieces in one launch. */
struct DeviceSide {
  Image image;

  template <typename Element>
  Element* place(Element* host, size_t size_bytes) {
    if constexpr (std::is_const_v<Element>) {
      return image.input(host, size_bytes);
    } else {
      return image.output(host, size_bytes);
    }
  }
  template <typename Args>
  void run(std::vector<Args>& all) {
    void* const table = image.scratch(all.size() * kBatchPieceBytes);
    StageError error;
    image.run([&](void* stream) {
      for (Args& args : all) args.stream = stream;
      error = enqueue(all, {table});
    });
    EXPECT_FALSE(failed(error));
  }
};

}  // namespace gq::test

#endif
