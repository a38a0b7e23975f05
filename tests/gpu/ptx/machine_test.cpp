// The machine that executes PTX: what instructions give, threads that part and meet, and that it
// finds what a kernel must not do.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/gpu/ptx/block.h"
#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

constexpr uint32_t kWords = 64;  // of the memory that kernels are given

/** A kernel of 64 threads in a block with a pointer to 64 words, and what it leaves there. */
class Snippet {
 public:
  explicit Snippet(const std::string& body, const std::string& shared = "") {
    read_text(".visible .entry k(\n\t.param .u64 p\n)\n.maxntid 64, 1, 1\n{\n" + shared +
                  "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
                  "add.s64 %rd3, %rd1, %rd2;\n" +
                  body + "ret;\n}\n",
              "here", &program_);
  }

  std::vector<uint32_t> operator()(uint32_t blocks = 1, uint32_t threads = kWords) {
    alignas(32) uint32_t words[kWords] = {};
    add_area(words, sizeof words, Use::device);
    const uint64_t pointer = reinterpret_cast<uint64_t>(words);
    std::vector<uint8_t> parameters(sizeof pointer);
    memcpy(parameters.data(), &pointer, sizeof pointer);
    try {
      run_kernel(program_.at("k"), blocks, threads, parameters);
    } catch (const Finding&) {
      remove_area(words);
      throw;
    }
    remove_area(words);
    return {words, words + kWords};
  }

  /** What was found, or "". */
  std::string finding(uint32_t blocks = 1, uint32_t threads = kWords) {
    try {
      (void)(*this)(blocks, threads);
    } catch (const Finding& found) {
      return found.what();
    }
    return "";
  }

 private:
  Program program_;
};

/** The low word of what a statement leaves in %r9 or %rd9, with operands in %r2 .. or %f2 .. */
uint32_t result_of(const std::string& setup, const std::string& statement) {
  return Snippet(setup + statement + "st.global.u32 [%rd3], %r9;\n")()[5];
}
uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

TEST(Machine, Instructions_ResultsOfThePtxManual) {
  const std::string ab = "mov.u32 %r2, 0x84332211;\nmov.u32 %r3, 0x88776655;\n";
  EXPECT_EQ(result_of(ab, "prmt.b32 %r9, %r2, %r3, 0x7410;\n"), 0x88552211u);
  EXPECT_EQ(result_of(ab, "prmt.b32 %r9, %r2, %r3, 0x00b3;\n"), 0x1111ff84u);
  EXPECT_EQ(result_of(ab, "shf.l.wrap.b32 %r9, %r2, %r3, 40;\n"), 0x77665584u);
  EXPECT_EQ(result_of(ab, "bfi.b32 %r9, %r2, %r3, 8, 4;\n"), 0x88776155u);
  EXPECT_EQ(result_of(ab, "lop3.b32 %r9, %r2, %r3, 0xffff, 0xca;\n"), 0x8033ffffu);
  EXPECT_EQ(result_of(ab, "bfind.u32 %r9, 0x00800000;\n"), 23u);
  EXPECT_EQ(result_of(ab, "bfind.u32 %r9, 0;\n"), ~0u);
  EXPECT_EQ(result_of(ab, "shl.b32 %r9, %r2, 32;\n"), 0u);
  EXPECT_EQ(result_of(ab, "shr.s32 %r9, %r2, 40;\n"), ~0u);
  EXPECT_EQ(result_of(ab, "shr.u32 %r9, %r2, 28;\n"), 8u);
  EXPECT_EQ(result_of(ab,
                      "mul.wide.u32 %rd9, %r2, %r3;\nshr.u64 %rd8, %rd9, 32;\n"
                      "cvt.u32.u64 %r9, %rd8;\n"),
            static_cast<uint32_t>(uint64_t{0x84332211} * 0x88776655 >> 32));
  EXPECT_EQ(result_of(ab, "mov.b64 %rd9, {%r2, %r3};\nmov.b64 {%r8, %r9}, %rd9;\n"), 0x88776655u);
  EXPECT_EQ(result_of(ab, "{ .reg .b32 t; mov.b64 {t, %r9}, 0x500000003; }\n"), 5u);
  EXPECT_EQ(result_of(ab, "max.u16x2 %r9, %r2, 0x00078000;\n"), 0x84338000u);
  EXPECT_EQ(result_of(ab, "min.u32 %r9, %r2, 7;\n"), 7u);
  EXPECT_EQ(result_of(ab, "min.s32 %r9, %r2, 7;\n"), 0x84332211u);
}

TEST(Machine, Rounding_AsOnADevice) {
  const auto of_float = [](uint32_t operand, const std::string& statement) {
    return result_of("mov.b32 %f2, " + std::to_string(operand) + ";\n",
                     statement + "mov.b32 %r9, %f9;\n");
  };
  const uint32_t nan = 0x7fffffff, smallest = 1, huge = bits(std::numeric_limits<float>::max());
  EXPECT_EQ(of_float(0xffc12345, "add.rn.f32 %f9, %f2, 0f3F800000;\n"), nan);
  EXPECT_EQ(of_float(smallest, "add.rn.f32 %f9, %f2, %f2;\n"), 2u);
  EXPECT_EQ(of_float(huge, "mul.rn.f32 %f9, %f2, 0f40000000;\n"), 0x7f800000u);
  EXPECT_EQ(of_float(0xffc12345, "abs.f32 %f9, %f2;\n"), 0x7fc12345u);
  EXPECT_EQ(of_float(bits(-3), "min.xorsign.abs.f32 %f9, %f2, 0f40000000;\n"), bits(-2));
  EXPECT_EQ(of_float(nan, "min.xorsign.abs.f32 %f9, %f2, 0fC0000000;\n") & 0x7fffffff, bits(2));
  const auto rounded = [&](float value) {
    return static_cast<int32_t>(result_of("mov.b32 %f2, " + std::to_string(bits(value)) + ";\n",
                                          "cvt.rni.s32.f32 %r9, %f2;\n"));
  };
  EXPECT_EQ(rounded(2.5f), 2);
  EXPECT_EQ(rounded(-3.5f), -4);
  EXPECT_EQ(rounded(1e10f), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(rounded(-1e10f), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(rounded(std::nanf("")), 0);
}

TEST(Machine, NanComparisons_AsOnADevice) {
  const auto is_true = [](const char* compare) {
    return result_of("mov.b32 %f2, 0x7fc00000;\n",
                     std::string("setp.") + compare +
                         ".f32 %p1, %f2, 0f3F800000;\nselp.u32 %r9, 1, 0, %p1;\n") == 1;
  };
  for (const char* const ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) {
    EXPECT_FALSE(is_true(ordered)) << ordered;
  }
  for (const char* const unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"}) {
    EXPECT_TRUE(is_true(unordered)) << unordered;
  }
}

/** Each thread goes round as often as its number says. */
TEST(Machine, DivergentThreads_Reconverge) {
  const std::vector<uint32_t> words = Snippet(
      "mov.u32 %r2, 0;\n"
      "mov.u32 %r3, %r1;\n"
      "$again:\n"
      "setp.eq.s32 %p1, %r3, 0;\n"
      "@%p1 bra $done;\n"
      "add.s32 %r2, %r2, %r3;\n"
      "add.s32 %r3, %r3, -1;\n"
      "bra.uni $again;\n"
      "$done:\n"
      "redux.sync.max.u32 %r4, %r2, -1;\n"
      "st.global.u32 [%rd3], %r4;\n")();
  EXPECT_EQ(words[0], 31u * 32 / 2);
  EXPECT_EQ(words[33], 63u * 64 / 2);
}

TEST(Machine, BallotOfWarp_BitOfEachLaneWhosePredicateIsTrue) {
  const std::vector<uint32_t> words = Snippet(
      "and.b32 %r2, %r1, 5;\n"
      "setp.eq.s32 %p1, %r2, 4;\n"
      "vote.sync.ballot.b32 %r4, %p1, -1;\n"
      "st.global.u32 [%rd3], %r4;\n")();
  EXPECT_EQ(words[0], 0x50505050u);
  EXPECT_EQ(words[33], 0x50505050u);
}

/** Of each thread: the word that a shuffle gives, and 100 more where it was its own for want of
 *  another. */
std::vector<uint32_t> shuffled(const std::string& operation) {
  return Snippet(operation +
                 "@%p2 bra $store;\n"
                 "add.s32 %r4, %r4, 100;\n"
                 "$store:\n"
                 "st.global.u32 [%rd3], %r4;\n")();
}

TEST(Machine, Shuffles_WordsOfOtherLanes) {
  const auto up = shuffled("shfl.sync.up.b32 %r4|%p2, %r1, 2, 0, -1;\n");
  EXPECT_EQ(up[1], 101u);
  EXPECT_EQ(up[2], 0u);
  EXPECT_EQ(up[34], 32u);
  const auto down = shuffled("shfl.sync.down.b32 %r4|%p2, %r1, 2, 31, -1;\n");
  EXPECT_EQ(down[29], 31u);
  EXPECT_EQ(down[30], 130u);
  const auto across = shuffled("shfl.sync.bfly.b32 %r4|%p2, %r1, 16, 31, -1;\n");
  EXPECT_EQ(across[3], 19u);
  EXPECT_EQ(across[63], 47u);
  const auto one = shuffled("shfl.sync.idx.b32 %r4|%p2, %r1, 5, 31, -1;\n");
  EXPECT_EQ(one[40], 37u);
  // Segments of 8 lanes.
  const auto segment = shuffled("shfl.sync.down.b32 %r4|%p2, %r1, 1, 6175, -1;\n");
  EXPECT_EQ(segment[6], 7u);
  EXPECT_EQ(segment[7], 107u);
}

TEST(Machine, Guards_Kept) {
  const std::vector<uint32_t> words = Snippet(
      "setp.lt.u32 %p1, %r1, 40;\n"
      "mov.u32 %r2, 1;\n"
      "@%p1 mov.u32 %r2, 2;\n"
      "@!%p1 add.s32 %r2, %r2, 6;\n"
      "st.global.u32 [%rd3], %r2;\n")();
  EXPECT_EQ(words[39], 2u);
  EXPECT_EQ(words[40], 7u);
}

const char kShared[] = ".shared .align 4 .b8 s[256];\n";
const char kPlace[] = "mul.lo.s32 %r2, %r1, 4;\nmov.u32 %r3, s;\nadd.s32 %r4, %r3, %r2;\n";

TEST(Machine, SharedMemory_VisibleAfterABarrier) {
  const std::string turned = std::string(kPlace) +
                             "st.shared.u32 [%r4], %r1;\n"
                             "bar.sync 0;\n"
                             "sub.s32 %r5, 252, %r2;\nadd.s32 %r6, %r3, %r5;\n"
                             "ld.shared.u32 %r7, [%r6];\n"
                             "st.global.u32 [%rd3], %r7;\n";
  EXPECT_EQ(Snippet(turned, kShared)()[3], 60u);
  std::string without = turned;
  without.erase(without.find("bar.sync 0;\n"), 12);
  EXPECT_NE(Snippet(without, kShared).finding().find("was never written"), std::string::npos);
}

TEST(Machine, SharedMemoryOutsideAKernel_SharedByItsBlock) {
  Program program;
  read_text(".shared .align 1 .u8 one;\n.visible .entry k(\n\t.param .u64 p\n)\n{\n" +
                std::string(kShared) + "ret;\n}\n",
            "here", &program);
  EXPECT_EQ(program.at("k").shared_bytes, 4u + 256u);
}

TEST(Machine, KernelOfTwoFiles_OneIfEqual) {
  const std::string head = ".visible .entry k(\n\t.param .u64 p\n)\n{\n";
  Program program;
  read_text(head + "ret;\n}\n", "here", &program);
  read_text(head + "ret;\n}\n", "there", &program);
  EXPECT_THROW(read_text(head + "bar.sync 0;\nret;\n}\n", "elsewhere", &program),
               std::runtime_error);
}

TEST(Machine, GlobalAtomics_ResultsOfThePtxManual) {
  const auto changed = [](const std::string& statement) {
    return Snippet("mov.u32 %r2, 5;\nst.global.u32 [%rd3], 7;\n" + statement +
                   "ld.global.u32 %r8, [%rd3];\nmad.lo.s32 %r7, %r9, 100, %r8;\n"
                   "st.global.u32 [%rd3], %r7;\n")()[3];
  };
  EXPECT_EQ(changed("atom.global.add.u32 %r9, [%rd3], %r2;\n"), 712u);
  EXPECT_EQ(changed("mov.u32 %r9, 3;\nred.global.add.u32 [%rd3], %r2;\n"), 312u);
  EXPECT_EQ(changed("atom.global.exch.b32 %r9, [%rd3], %r2;\n"), 705u);
  EXPECT_EQ(changed("atom.global.cas.b32 %r9, [%rd3], 7, %r2;\n"), 705u);
  EXPECT_EQ(changed("atom.global.cas.b32 %r9, [%rd3], 8, %r2;\n"), 707u);
}

TEST(Machine, AtomicOperations_NoRace) {
  EXPECT_EQ(Snippet("setp.ne.s32 %p1, %r1, 0;\n"
                    "@%p1 bra $all;\n"
                    "st.shared.u32 [s], 0;\n"
                    "$all:\n"
                    "bar.sync 0;\n"
                    "atom.shared.max.u32 %r9, [s], %r1;\n"
                    "bar.sync 0;\n"
                    "ld.shared.u32 %r7, [s];\n"
                    "st.global.u32 [%rd3], %r7;\n",
                    kShared)()[9],
            63u);
}

struct Fault {
  const char* body;
  const char* found;
};

TEST(Machine, SilentFaultsOfADevice_Found) {
  const Fault faults[] = {
      {"st.global.u32 [%rd3+4], %r1;\n", "outside of all memory"},
      {"st.global.u32 [%rd3+2], %r1;\n", "not aligned"},
      {"st.global.v4.u32 [%rd3], {%r1, %r1, %r1, %r1};\n", "not aligned"},
      {"ld.global.u32 %r2, [%rd3];\n", "was never written"},
      {"ld.shared.u32 %r2, [s];\n", "was never written"},
      {"st.shared.u32 [s], %r1;\n", "a race in shared memory"},
      {"st.shared.u32 [s+256], %r1;\n", "there is no such place"},
      {"ld.param.u64 %rd9, [p+8];\n", "beyond the parameters"},
      {"setp.eq.s32 %p1, %r1, 9;\n@%p1 ret;\nbar.sync 0;\n", "threads that do not come"},
      {"setp.eq.s32 %p1, %r1, 9;\n@%p1 bar.sync 0;\nbar.sync 0;\n", "at another barrier"},
      {"setp.eq.s32 %p1, %r1, 9;\n@%p1 ret;\nredux.sync.max.u32 %r2, %r1, -1;\n",
       "threads that do not come"},
      {"setp.eq.s32 %p1, %r1, 9;\n@%p1 ret;\nshfl.sync.idx.b32 %r2|%p2, %r1, 0, 31, -1;\n",
       "threads that do not come"},
      {"shfl.sync.idx.b32 %r2|%p2, %r1, 40, 31, 255;\n", "a lane that is not named"},
      {"bar.sync 0;\nst.shared.u32 [s], %r1;\n", "a race in shared memory"},
  };
  for (const Fault& fault : faults) {
    const std::string found = Snippet(fault.body, kShared).finding();
    EXPECT_NE(found.find(fault.found), std::string::npos) << fault.body << found;
  }
}

TEST(Machine, ReadAndWriteOfOthers_ARace) {
  const std::string found = Snippet(
                                "setp.ne.s32 %p1, %r1, 0;\n"
                                "@%p1 bra $read;\n"
                                "st.shared.u32 [s], 0;\n"
                                "$read:\n"
                                "bar.sync 0;\n"
                                "ld.shared.u32 %r2, [s];\n"
                                "@!%p1 st.shared.u32 [s], %r2;\n",
                                kShared)
                                .finding();
  EXPECT_NE(found.find("several threads read"), std::string::npos) << found;
}

/** What a thread reads that the one with another number has written, behind a barrier of the warp.
 */
std::string exchange_with(uint32_t thread_bits) {
  return "shl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.s32 %r4, %r3, %r2;\n"
         "st.shared.u32 [%r4], %r1;\nbar.warp.sync -1;\nxor.b32 %r5, %r2, " +
         std::to_string(4 * thread_bits) +
         ";\nadd.s32 %r6, %r3, %r5;\nld.shared.u32 %r7, [%r6];\nst.global.u32 [%rd3], %r7;\n";
}

TEST(Machine, BarriersOfAWarp_OrderItsThreadsAlone) {
  EXPECT_EQ(Snippet(exchange_with(1), kShared)()[4], 5u);
  const std::string found = Snippet(exchange_with(32), kShared).finding();
  EXPECT_NE(found.find("a race in shared memory"), std::string::npos) << found;
}

/** Groups of 2^thread_bits threads read a word each; after a barrier of the warp the first of each
 *  group writes it. */
std::string reuse_by_groups_of(uint32_t thread_bits) {
  const std::string bits = std::to_string(thread_bits);
  return "shr.u32 %r2, %r1, " + bits + ";\nshl.b32 %r3, %r2, " + bits +
         ";\nsetp.ne.s32 %p1, %r1, %r3;\nshl.b32 %r2, %r2, 2;\nmov.u32 %r4, s;\n"
         "add.s32 %r4, %r4, %r2;\n@!%p1 st.shared.u32 [%r4], 7;\nbar.sync 0;\n"
         "ld.shared.u32 %r7, [%r4];\nbar.warp.sync -1;\n@!%p1 st.shared.u32 [%r4], 9;\n"
         "st.global.u32 [%rd3], %r7;\n";
}

TEST(Machine, BarriersOfAWarp_OrderWhatSeveralOfItsThreadsRead) {
  EXPECT_EQ(Snippet(reuse_by_groups_of(5), kShared)()[4], 7u);
  EXPECT_EQ(Snippet(reuse_by_groups_of(3), kShared)()[4], 7u);
  const std::string found = Snippet(reuse_by_groups_of(6), kShared).finding();
  EXPECT_NE(found.find("several threads read"), std::string::npos) << found;
}

/** Eight lanes of a warp may be ahead of the others, who are still among themselves. */
TEST(Machine, GroupsOfLanes_JoinOneAfterTheOther) {
  const std::vector<uint32_t> sums = Snippet(
      "and.b32 %r2, %r1, 24;\nmov.u32 %r3, 255;\nshl.b32 %r4, %r3, %r2;\n"
      "redux.sync.max.u32 %r5, %r1, %r4;\nbar.warp.sync -1;\nst.global.u32 [%rd3], %r5;\n")();
  EXPECT_EQ(sums[0], 7u);
  EXPECT_EQ(sums[31], 31u);
  EXPECT_EQ(sums[40], 47u);
}

TEST(Machine, GroupsOfLanes_GoOnTogether) {
  const auto instructions_with = [](const std::string& mask) {
    (void)take_traffic();
    (void)Snippet("and.b32 %r2, %r1, 24;\nmov.u32 %r3, 255;\n" + mask +
                  "redux.sync.max.u32 %r5, %r1, %r4;\nst.global.u32 [%rd3], %r5;\n")();
    return take_traffic()["k"].instructions();
  };
  const uint64_t of_groups = instructions_with("shl.b32 %r4, %r3, %r2;\n");
  EXPECT_EQ(of_groups, instructions_with("mov.u32 %r4, -1;\n"));
}

TEST(Machine, Traffic_Instructions) {
  (void)take_traffic();
  (void)Snippet("mov.u32 %r2, 1;\nsetp.gt.u32 %p1, %r1, 31;\n@%p1 mov.u32 %r2, 2;\n"
                "st.global.u32 [%rd3], %r2;\n")();
  const Traffic traffic = take_traffic()["k"];
  for (const uint64_t times : traffic.made) EXPECT_EQ(times, 2u) << "of two warps, each once";
  const uint64_t four = traffic.instructions();
  (void)Snippet("st.global.u32 [%rd3], %r1;\n")();
  const uint64_t one = take_traffic()["k"].instructions();
  EXPECT_EQ(four - one, 3u * 2) << "of two warps";
}

TEST(Machine, Traffic_SectorsAndBanks) {
  (void)take_traffic();
  (void)Snippet("st.global.u32 [%rd3], %r1;\nld.global.u32 %r2, [%rd3];\n")();
  Traffic words = take_traffic()["k"];
  EXPECT_EQ(words.stores.count, 2u);
  EXPECT_EQ(words.stores.sectors, 8u);
  EXPECT_EQ(words.stores.least_sectors, 8u);
  EXPECT_EQ(words.stores.half_sectors, 0u);
  EXPECT_EQ(words.loads.sectors, 8u);
  (void)Snippet("st.global.u8 [%rd3], %r1;\n")();
  const Requests bytes = take_traffic()["k"].stores;
  EXPECT_EQ(bytes.sectors, 8u);
  EXPECT_EQ(bytes.least_sectors, 2u);
  EXPECT_EQ(bytes.half_sectors, 8u);
  (void)Snippet("shl.b32 %r2, %r1, 3;\nand.b32 %r2, %r2, 252;\nmov.u32 %r3, s;\n"
                "add.s32 %r4, %r3, %r2;\nsetp.gt.u32 %p1, %r1, 31;\n"
                "@!%p1 st.shared.u32 [%r4], %r1;\n",
                kShared)();
  const Traffic shared = take_traffic()["k"];
  EXPECT_EQ(shared.bank_turns, 2u);
  EXPECT_EQ(shared.least_bank_turns, 1u);
}

TEST(Machine, Finding_NamesThePlace) {
  const std::string found = Snippet("st.global.u32 [%rd3+4], %r1;\n").finding();
  for (const char* const part :
       {"k, line ", "st.global.u32 [%rd3+4], %r1", "block 0 of 1", "thread 63", "4 bytes at 0x"}) {
    EXPECT_NE(found.find(part), std::string::npos) << part << " in " << found;
  }
}

TEST(Machine, ImpossibleLaunches_Refused) {
  Snippet fine("st.global.u32 [%rd3], %r1;\n");
  EXPECT_EQ(fine.finding(), "");
  EXPECT_NE(fine.finding(0, kWords).find("0 blocks"), std::string::npos);
  EXPECT_NE(fine.finding(1, kWords + 1).find("65 threads"), std::string::npos);
}

TEST(Machine, UnknownInstructions_Refused) {
  for (const char* const line :
       {"tanh.approx.f32 %f1, %f2;\n", "ld.global.s8 %r2, [%rd3];\n", "bra $nowhere;\n",
        "mov.u32 %r2, symbol;\n", ".local .align 4 .b8 l[4];\n", "mov.u32 %r2, %warpid;x\n"}) {
    EXPECT_THROW(Snippet{line}, std::runtime_error) << line;
  }
}

TEST(Machine, KernelWithoutAnEnd_Refused) {
  Program program;
  EXPECT_THROW(read_text(".entry k()\n{\nmov.u32 %r1, 1;\n}\n", "here", &program),
               std::runtime_error);
}

TEST(Machine, KernelOfATypeWithoutAName_Refused) {
  Program program;
  const std::string name = "_Z6kernelIN35_GLOBAL__N__3cff2bc8_4_a_cu_0b7a45cf4TypeEEvv";
  EXPECT_THROW(read_text(".entry " + name + "()\n{\nret;\n}\n", "here", &program),
               std::runtime_error);
  EXPECT_NO_THROW(read_text(".entry _Z6kernelI4TypeEvv()\n{\nret;\n}\n", "here", &program));
}

/** Blocks that wait for each other: the first one for the word that the last one writes. */
TEST(Machine, Blocks_WaitForEachOther) {
  const std::vector<uint32_t> words = Snippet(
      "mov.u32 %r2, %ctaid.x;\n"
      "setp.eq.s32 %p1, %r2, 1;\n"
      "@%p1 st.global.u64 [%rd1+8], 0;\n"
      "@%p1 bra $wait;\n"
      "st.global.u32 [%rd1+4], 0;\n"
      "st.release.sys.u64 [%rd1+8], 5;\n"
      "bra.uni $end;\n"
      "$wait:\n"
      "st.global.u32 [%rd1+16], 1;\n"
      "nanosleep.u32 %r2;\n"
      "ld.acquire.sys.u64 %rd5, [%rd1+8];\n"
      "setp.ne.s64 %p2, %rd5, 5;\n"
      "@%p2 bra $wait;\n"
      "$end:\n")(2, 1);
  EXPECT_EQ(words[2], 5u);
  EXPECT_EQ(words[4], 1u);
}

}  // namespace
}  // namespace gq::ptx
