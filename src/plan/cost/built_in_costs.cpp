// The built-in constants, in the format that gqsgd-calibrate writes.
#include "src/plan/cost/cost_constants.h"

namespace gq {
namespace {

// latency and link: 10 Gbit/s Ethernet with kernel TCP. Inside a node words are read in place, so
// that the wait for a thread that sleeps is nearly all. The rest was measured with
// gqsgd-calibrate; costs of fields that are within its noise are left out. Rows bf16 and fp16 were
// measured on another machine and are scaled by what linear8 takes on both.
constexpr CostConstants kCosts = {
    .latency_ns = 20000,
    .byte_ns = 0.8,
    .burst_bytes = 0,
    .node_latency_ns = 5000,
    .node_byte_ns = 0.02,
    .message_ns = 2000,
    .move_ns = 50,
    .call_ns = 20000,
    .header_ns = 200,
    .direct_step_ns = 0,
    .tree_step_ns = 0,
    .butterfly_step_ns = 0,
    .ring_step_ns = 0,
    .cpus = 0,
    .cache_bytes = 16e6,
    .native_step_ns = 0,
    .native_byte_ns = 0,
    .traffic_factor = 1.25,
    .stages = {
        //  norm, quantize, reduce, sum, add, dequantize: cached, streamed, range
        {{0, 0, 0},
         {0.13, 0.42, 66},
         {0.18, 0.5, 64},
         {0.3, 0.74, 110},
         {1.7, 1.5, 5.3},
         {0.16, 0.39, 190}},
        {{0.13, 0.28, 210},
         {0.32, 0.5, 490},
         {0.048, 0.089, 89},
         {0.34, 0.35, 270},
         {0.013, 0.024, 52},
         {0.21, 0.28, 470}},
        {{0.11, 0.18, 140},
         {0.49, 0.49, 530},
         {0.023, 0.038, 83},
         {0.71, 0.71, 470},
         {0, 0, 78},
         {0.18, 0.28, 270}},
        {{0.13, 0.27, 200},
         {0.84, 0.84, 540},
         {0.34, 0.4, 270},
         {0.79, 0.94, 330},
         {0.33, 0.32, 200},
         {0.27, 0.47, 390}},
        {{0.11, 0.14, 180},
         {0.56, 0.62, 380},
         {1.2, 1.6, 2600},
         {1.1, 1.2, 490},
         {0.27, 0.22, 64},
         {0.39, 0.39, 410}},
        {{0.092, 0.17, 93},
         {0.62, 0.69, 510},
         {0, 0, 0},
         {1.3, 1.3, 630},
         {0, 0.25, 0},
         {0.3, 0.37, 490}},
        {{0, 0, 0},
         {0.55, 0.62, 200},
         {0, 0, 0},
         {0.75, 0.8, 250},
         {0.09, 0.15, 20},
         {0.2, 0.5, 160}},
        {{0, 0, 0},
         {1.1, 1.1, 260},
         {0, 0, 0},
         {1.8, 1.9, 360},
         {0.3, 0.35, 50},
         {0.38, 0.55, 190}},
        {{0, 0, 0}, {0.081, 0.13, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
        {{0, 0, 0}, {0.35, 0.34, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
        {{0.53, 0.4, 1800},
         {0.59, 0.69, 1800},
         {0, 0, 0},
         {0, 0, 0},
         {0, 0, 0},
         {0.63, 0.72, 1100}},
        {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0.76, 0.74, 660}, {0, 0, 0}, {0, 0, 0}},
        {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0.42, 0.47, 260}},
        {{0, 0, 0}, {0, 0, 0}, {0.23, 0.2, 71}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    }};
}  // namespace

const CostConstants& built_in_costs() { return kCosts; }

}  // namespace gq
