// The two sides of tests of whole groups: stages of a CPU on host memory, and those under test.
#ifndef GQ_TESTS_GPU_STAGES_GROUP_SIDES_H
#define GQ_TESTS_GPU_STAGES_GROUP_SIDES_H

#include <string.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/codec/narrow.h"
#include "src/schedule/move.h"
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

/** What both kinds of groups need of a call, on one side: its layout, values, and pieces. */
template <typename Side, typename Case>
class GroupCall {
 protected:
  /** alignment: of the tensors' first values. */
  GroupCall(const Case& test, const Coding& coding, uint64_t alignment)
      : test_(test), coding_(coding) {
    uint64_t end = 0;
    for (const uint64_t length : test.tensors) {
      parts_.push_back({end, length});
      end += divided_up(length, alignment) * alignment;
    }
    const uint64_t count =
        parts_.empty() ? test.value_count : parts_.back().first_value + parts_.back().value_count;
    groups_ = test.slice ? consecutive_groups(count, coding_) : interleaved_groups(count, coding_);
    coding_.group_values = groups_.group_values;
    coding_.group_planes = groups_.group_planes;
    coding_.group_planes_down = groups_.group_planes_down;
    end_ = test.slice ? count : groups_.padded_count();
    buffer_bytes_ = bytes_of(count + test.offset + parts_.size());
  }

  size_t bytes_of(uint64_t count) const { return count * dtype_size_bytes(test_.dtype); }

  /** value(e): of a rank, in the call. */
  template <typename Value>
  Bytes values_of(Value value) const {
    Bytes values(buffer_bytes_);
    const auto fill = [&](const Part& part, size_t before) {
      for (uint64_t e = part.first_value; e < part.first_value + part.value_count; ++e) {
        put(test_.dtype, value(e), &values[bytes_of(e + test_.offset + before)]);
      }
    };
    if (parts_.empty()) fill({0, groups_.value_count}, 0);
    for (size_t k = 0; k < parts_.size(); ++k) fill(parts_[k], k);
    return values;
  }

  /** Arguments of each piece: make(range). Tensors have buffers of their own. */
  template <typename Make>
  void run(Side& side, const void* send, void* recv, Make make) const {
    std::vector<SegmentPlace> places;
    for (size_t k = 0; k < parts_.size(); ++k) {
      const size_t skipped = bytes_of(parts_[k].first_value + test_.offset + k);
      places.push_back({parts_[k].first_value, parts_[k].value_count,
                        static_cast<const uint8_t*>(send) + skipped,
                        static_cast<uint8_t*>(recv) + skipped});
    }
    GroupedValues grouped{groups_};
    if (!places.empty()) {
      grouped.segments = side.place(std::as_const(places).data(), places.size() * sizeof places[0]);
      grouped.segment_count = static_cast<uint32_t>(places.size());
    }
    const uint64_t step = piece_values();
    std::vector<decltype(make(Range()))> all;
    for (uint64_t first = 0; first < end_; first += step) {
      all.push_back(make({first, static_cast<size_t>(std::min(step, end_ - first)), {}, &grouped}));
    }
    side.run(all);
  }

  /** Where words of the ranks begin for each piece, one list after the other. */
  std::vector<const uint32_t*> operand_lists(Side& side, const std::vector<Words>& all) const {
    std::vector<const uint32_t*> operands, lists;
    for (const Words& words : all) operands.push_back(side.place(words.data(), 4 * words.size()));
    for (uint64_t first = 0; first < end_; first += piece_values()) {
      for (const uint32_t* const words : operands) {
        lists.push_back(words + words_for(coding_.packing(), first));
      }
    }
    return lists;
  }

  uint64_t piece_values() const {
    return test_.groups_of_piece == 0 ? end_ : test_.groups_of_piece * groups_.group_values;
  }

  /** Where a piece finds its values: those of an allreduce begin at the call's first one. */
  template <typename Byte>
  Byte* values_at(Byte* buffer, const Range& range) const {
    if (!parts_.empty()) return nullptr;
    return buffer + bytes_of(test_.offset + (test_.slice ? range.first_value : 0));
  }

  static RandomSite site(uint32_t rank, uint32_t hop) { return {0x1234567890u, 5, 9, rank, hop}; }

  Case test_;
  Coding coding_;
  Groups groups_;
  std::vector<Part> parts_;
  uint64_t end_ = 0;
  size_t buffer_bytes_ = 0;
};

}  // namespace gq::test

#endif
