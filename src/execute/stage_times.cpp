// A format stands for each row. A stage is repeated, and the shortest time counts, since whatever
// else a processor does can only lengthen it.
#include "src/execute/stage_times.h"

#include <string.h>

#include <algorithm>
#include <iterator>

#include "kernels/codec/groups.h"
#include "src/execute/split_stages.h"
#include "src/plan/plan.h"

namespace gq {
namespace {

constexpr size_t kValueCount = 16384;  // of all buffers below: fits a second-level cache
constexpr int kRunCount = 4;           // after one that warms up
constexpr size_t kBufferBytes = kValueCount * sizeof(float);
constexpr size_t kBlockBytes = kValueCount / kValueAlignment * sizeof(uint16_t);
constexpr uint32_t kBlock = 128;
constexpr uint32_t kBlockCount = kValueCount / kBlock;
constexpr uint32_t kSpread = 5;       // norms of neighbouring blocks
constexpr uint32_t kHalfOctave = 64;  // of their codes
// Of the longer of two sums: what an operand takes is their difference.
constexpr uint32_t kOperands = StageTimes::kOperands;

// The mean that the bits of row planes lead to, so that they are more than noise.
constexpr uint32_t kMoreBits = 2;

uint32_t mean_bits_of(CostRow row) {
  return row == CostRow::planes ? kCostMeanBits + kMoreBits : kCostMeanBits;
}

/** Of rows of codes in groups. */
Format grouped_format_of(CostRow row) {
  const bool rice = row == CostRow::rice;
  Format format;
  if (rice) format.levels = Levels::rice;
  format.block = rice ? 0 : kBlock;
  format.rounding = Rounding::correlated;
  format.rescale = !rice;
  format.mean_half_bits = static_cast<uint8_t>(2 * mean_bits_of(row));
  return format;
}

Format format_of(CostRow row) {
  Format format;
  switch (row) {
    case CostRow::none:
      format.levels = Levels::none;
      format.bits = format.bits_down = 32;
      break;
    case CostRow::linear4:
      format.bits = format.bits_down = 4;
      break;
    case CostRow::exponential4:
      format.levels = Levels::exponential;
      format.combine = Combine::average;
      format.bits = format.bits_down = 4;
      break;
    case CostRow::mantissa:
      format.mantissa_bits = 2;
      [[fallthrough]];
    case CostRow::exponential8:
      format.levels = Levels::exponential;
      format.combine = Combine::sum;
      break;
    case CostRow::bf16:
    case CostRow::fp16:
      format.levels = row == CostRow::bf16 ? Levels::bf16 : Levels::fp16;
      format.bits = format.bits_down = 16;
      break;
    case CostRow::adaptive:
    case CostRow::planes:
    case CostRow::rice:
      return grouped_format_of(row);
    case CostRow::rescaled:
      format.rescale = true;
      [[fallthrough]];
    case CostRow::blocks:
      format.block = kBlock;
      break;
    case CostRow::correlated:
      format.rounding = Rounding::correlated;
      break;
    case CostRow::rotated:
      format.rotate = Rotate::hadamard;
      break;
    case CostRow::subtractive:
      format.rounding_down = RoundingDown::subtractive;
      break;
    case CostRow::averaged:
      format.combine = Combine::average;
      break;
    case CostRow::linear8:
      break;
  }
  return format;
}

/** The row of the same format without the field that `row` is of; itself for levels. */
CostRow without(CostRow row) {
  if (row < CostRow::planes) return row;
  if (row == CostRow::planes) return CostRow::adaptive;
  return row == CostRow::rescaled ? CostRow::blocks : CostRow::linear8;
}

/** Whether codes of the row's format can be added as they are. */
bool reduces(CostRow row) {
  return row < CostRow::mantissa || row == CostRow::blocks || row == CostRow::averaged;
}

/** The stages of one format on buffers of their own. */
class Timer {
 public:
  Timer(const Endpoint& endpoint, CostRow row, unsigned char* workspace)
      : endpoint_(endpoint),
        row_(row),
        format_(format_of(row)),
        values_(reinterpret_cast<float*>(workspace)),
        results_(workspace + kBufferBytes),
        codes_(reinterpret_cast<uint32_t*>(workspace + 2 * kBufferBytes)),
        sums_(reinterpret_cast<uint32_t*>(workspace + 3 * kBufferBytes)),
        norms_(reinterpret_cast<uint16_t*>(workspace + 4 * kBufferBytes)),
        scales_(reinterpret_cast<uint16_t*>(workspace + 4 * kBufferBytes + kBlockBytes)) {
    std::fill(std::begin(operands_), std::end(operands_), codes_);
  }

  /** Values from -1 to 1 without an order. */
  void fill() const {
    uint32_t state = 1;
    for (size_t i = 0; i < kValueCount; ++i) {
      state = state * 1664525u + 1013904223u;
      values_[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
    }
  }

  /** Nanoseconds for a value, by CostStage. Norms and codes are those that later stages take; codes
   *  that were added no other stage could take. */
  Status time_all(double (&value_ns)[kCostStageCount]) {
    double of_many_ns = 0;
    if (has_norm(format_.levels)) {
      GQ_TRY(least(&Timer::norm, &value_ns[index(CostStage::norm)]));
    }
    if (coding(0).adaptive()) spread_norms();
    const bool rice = format_.levels == Levels::rice;
    const auto sum = rice ? &Timer::sum_rice : &Timer::sum;
    GQ_TRY(least(rice ? &Timer::encode_rice : &Timer::quantize,
                 &value_ns[index(CostStage::quantize)]));
    GQ_TRY(least(sum, &value_ns[index(CostStage::sum)]));
    ranks_ = kOperands;
    GQ_TRY(least(sum, &of_many_ns));
    ranks_ = 2;
    const double more_ns = of_many_ns - value_ns[index(CostStage::sum)];
    value_ns[index(CostStage::add)] = std::max(0.0, more_ns / (kOperands - 2));
    GQ_TRY(least(rice ? &Timer::decode_rice : &Timer::dequantize,
                 &value_ns[index(CostStage::dequantize)]));
    if (!reduces(row_)) return Status();
    memcpy(sums_, codes_, kBufferBytes);
    return least(&Timer::reduce, &value_ns[index(CostStage::reduce)]);
  }

 private:
  static size_t index(CostStage stage) { return static_cast<size_t>(stage); }

  Status least(Status (Timer::*stage)(), double* value_ns) {
    uint64_t least_ns = UINT64_MAX;
    for (int run = 0; run <= kRunCount; ++run) {
      const uint64_t begin_ns = endpoint_.clock.now_ns();
      GQ_TRY((this->*stage)());
      const uint64_t end_ns = endpoint_.clock.now_ns();
      if (run > 0) least_ns = std::min(least_ns, end_ns - begin_ns);
    }
    *value_ns = static_cast<double>(least_ns) / kValueCount;
    return Status();
  }

  /** Widths follow from norms that are unlike, as those of gradients are. */
  void spread_norms() const {
    for (uint32_t block = 0; block < kBlockCount; ++block) {
      norms_[block] = static_cast<uint16_t>(norms_[block] + block % kSpread * kHalfOctave);
    }
  }

  /** All values; where widths are adaptive they are one group. */
  Range all() const {
    const GroupPlace group{kBlockCount, plane_count(), 0, kGranuleValues};
    return {0, kValueCount, coding(0).adaptive() ? group : GroupPlace{}};
  }
  uint32_t plane_count() const {
    return static_cast<uint32_t>(planes_of(format_.mean_half_bits, kBlockCount));
  }
  Coding coding(uint32_t reduction_depth) const {
    Coding coding = coding_of(format_, ranks_, reduction_depth);
    if (!coding.grouped()) return coding;
    coding.group_values = kValueCount;
    coding.group_planes = plane_count();
    return coding;
  }
  NormView norms() const {
    return format_.block == 0 ? NormView{&kOne} : NormView{nullptr, norms_};
  }

  Status norm() {
    NormArgs args{};
    args.q = format_.q;
    args.block = format_.block;
    args.rotated = format_.rotate == Rotate::hadamard;
    args.range = all();
    args.values = values_;
    args.dtype = GQSGD_FLOAT32;
    args.out = norms_;
    return run_stage(endpoint_, args);
  }
  Status quantize() {
    QuantizeArgs args{};
    args.coding = coding(0);
    args.range = all();
    args.values = values_;
    args.dtype = GQSGD_FLOAT32;
    args.norms = norms();
    args.words = codes_;
    return run_stage(endpoint_, args);
  }
  Status sum() {
    ReduceManyArgs args{};
    args.coding = coding(0);
    args.range = all();
    args.words = operands_;
    args.norms = norms();
    args.out_words = sums_;
    if (args.coding.rescale) args.out_scales = scales_;
    return run_stage(endpoint_, args);
  }
  Status dequantize() {
    DequantizeArgs args{};
    args.coding = coding(0);
    args.range = all();
    args.words = sums_;
    args.norms = norms();
    args.scales = norms();
    if (args.coding.rescale) args.scales.blocks = scales_;
    args.dtype = GQSGD_FLOAT32;
    args.op = GQSGD_MEAN;
    args.values = results_;
    return run_stage(endpoint_, args);
  }
  Status reduce() {
    ReduceArgs args{};
    args.coding = coding(1);
    args.range = all();
    args.weight_a = args.weight_b = 1;
    args.a = codes_;
    args.b = sums_;
    return run_stage(endpoint_, args);
  }

  // Rice codes, of all values as one group: what RiceStages does with each.
  EncodeRiceArgs rice_args(bool is_sum, const void* values, uint32_t* words) const {
    EncodeRiceArgs args{};
    args.coding = coding(0);
    args.is_sum = is_sum;
    args.stride_values = kGranuleValues;
    args.value_count = kValueCount;
    args.plane_count = rice_planes(format_.mean_half_bits, kBlockCount, 1, kValueCount, is_sum);
    args.values = static_cast<const float*>(values);
    args.words = words;
    return args;
  }
  StageError decode(bool is_sum, const uint32_t* words, void* values, bool add) const {
    const uint32_t planes = rice_args(is_sum, values, nullptr).plane_count;
    return endpoint_.stages->decode_rice(
        {kValueCount, planes, words, static_cast<float*>(values), add});
  }
  Status encode_rice() {
    QuantizeArgs args{};
    args.coding = float_coding(format_, 1);
    args.range = all();
    args.values = values_;
    args.words = static_cast<uint32_t*>(results_);
    GQ_TRY(run_stage(endpoint_, args));
    return Status(endpoint_.stages->encode_rice(rice_args(false, results_, codes_)));
  }
  Status sum_rice() {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      GQ_TRY(Status(decode(false, codes_, results_, rank > 0)));
    }
    return Status(endpoint_.stages->encode_rice(rice_args(true, results_, sums_)));
  }
  /** The last stage, so that codes are needed no more. */
  Status decode_rice() {
    GQ_TRY(Status(decode(true, sums_, codes_, false)));
    DequantizeArgs args{};
    args.coding = float_coding(format_, 1);
    args.range = all();
    args.words = codes_;
    args.op = GQSGD_MEAN;
    args.values = results_;
    return run_stage(endpoint_, args);
  }

  static constexpr float kOne = 1;

  const Endpoint& endpoint_;
  const CostRow row_;
  const Format format_;
  uint32_t ranks_ = 2;
  float* const values_;
  void* const results_;
  uint32_t* const codes_;
  uint32_t* const sums_;
  uint16_t* const norms_;
  uint16_t* const scales_;
  const uint32_t* operands_[kOperands];
};

}  // namespace

size_t StageTimes::workspace_bytes() { return 4 * kBufferBytes + 2 * kBlockBytes; }

Status StageTimes::time_row(const Endpoint& endpoint, CostRow row, unsigned char* workspace,
                            RoundNumbers* value_ns) {
  const size_t index = static_cast<size_t>(row), base = static_cast<size_t>(without(row));
  Timer timer(endpoint, row, workspace);
  if (index == 0) timer.fill();
  GQ_TRY(timer.time_all(value_ns_[index]));
  for (size_t stage = 0; stage < kCostStageCount; ++stage) {
    const double others_ns = base == index ? 0 : value_ns_[base][stage];
    value_ns->of[stage] = static_cast<float>(std::max(0.0, value_ns_[index][stage] - others_ns));
  }
  return Status();
}

}  // namespace gq
