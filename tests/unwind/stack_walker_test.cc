#include "unwind/stack_walker.h"

#include <gtest/gtest.h>

#include "tests/support/walk_scene.h"

namespace ptarmigan {
namespace {

using namespace std::
    string_view_literals;  // NOLINT(google-build-using-namespace): only for literals
using W = ByteWriter;

// x86_64 rules: CFA = rsp + n, return address below it.
std::string SpFrame(uint64_t cfa_offset) {
  return W().U8(0x0c).Uleb(7).Uleb(cfa_offset).U8(0x80 | 16).Uleb(1).bytes();
}
// After push %rbp; mov %rsp, %rbp.
std::string FpFrame() {
  return W().U8(0x0c).Uleb(6).Uleb(16).U8(0x80 | 6).Uleb(2).U8(0x80 | 16).Uleb(1).bytes();
}
std::string Outermost() { return W().U8(0x0c).Uleb(7).Uleb(8).U8(0x07).Uleb(16).bytes(); }

uint64_t At(uint64_t offset) { return WalkScene::At(offset); }
constexpr uint64_t kStack = WalkScene::kStack;
constexpr uint64_t kJit = WalkScene::kJit;

std::string_view End(const WalkResult& result) { return StackEndName(result.end); }
std::string_view Origin(const WalkResult& result) { return StackOriginName(result.origin); }

TEST(StackWalker, WalksByCfiToTheOutermostFrame) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(24));
  scene.Function(0x100, SpFrame(16));
  scene.Function(0x200, Outermost());
  scene.SetPc(At(0x10));
  scene.Word(16, At(0x110));
  scene.Word(32, At(0x210));
  const WalkResult result = scene.Walk();
  EXPECT_EQ(scene.FramesText(), "0x10 0x110! 0x210!");
  EXPECT_EQ(End(result), "complete");
  EXPECT_EQ(Origin(result), "cfi");
  EXPECT_EQ(result.cfi_steps, 2U);
  EXPECT_EQ(scene.frames()[0].lookup().value, At(0x10));
  EXPECT_EQ(scene.frames()[1].lookup().value, At(0x10f));
}

TEST(StackWalker, AsksForACallAtTheVeryEndOfAFunction) {
  // A call of a function that does not return is the last instruction: the return address is the next function.
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(8));
  scene.Function(0x100, SpFrame(32));
  scene.Function(0x200, SpFrame(8));
  scene.Function(0x300, Outermost());
  scene.SetPc(At(0));
  scene.Word(0, At(0x200));
  scene.Word(8 + 24, At(0x310));
  scene.Walk();
  EXPECT_EQ(scene.FramesText(), "0x0 0x200! 0x310!");
}

TEST(StackWalker, RestoresRegistersOfCallers) {
  // The middle frame counts from rbx, which the leaf has saved; the leaf's own rbx is something else.
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(24) + W().U8(0x80 | 3).Uleb(2).bytes());
  scene.Function(0x100, W().U8(0x0c).Uleb(3).Uleb(16).U8(0x80 | 16).Uleb(1).bytes());
  scene.Function(0x200, Outermost());
  scene.SetPc(At(0x10));
  scene.SetRegister(1, 0x1234);  // rbx
  scene.Word(8, kStack + 64);
  scene.Word(16, At(0x110));
  scene.Word(64 + 8, At(0x210));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x10 0x110! 0x210!");
}

TEST(StackWalker, FollowsRegisterAndValueRules) {
  WalkScene scene(Arch::kX86_64);
  // Return address in r12; rbp is the CFA's value minus 8.
  scene.Function(
      0, W().U8(0x0c).Uleb(7).Uleb(8).U8(0x09).Uleb(16).Uleb(12).U8(0x14).Uleb(6).Uleb(1).bytes());
  scene.Function(0x100, FpFrame());
  scene.Function(0x200, Outermost());
  scene.SetPc(At(0x10));
  scene.SetRegister(20, At(0x110));  // r12
  scene.SetFp(1);
  scene.Word(0, 0);
  scene.Word(8, At(0x210));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x10 0x110! 0x210!");
}

TEST(StackWalker, ReadsConstantsFromTheFile) {
  // CFA = rsp + *(program's read-only data): rip-independent, but not on the stack.
  WalkScene scene(Arch::kX86_64);
  scene.Rodata(W().U64(40).bytes());
  const std::string expression = W().U8(0x77)
                                     .Sleb(0)
                                     .U8(0x03)
                                     .U64(WalkScene::kBias + WalkScene::kRodata)
                                     .U8(0x06)
                                     .U8(0x22)
                                     .bytes();
  scene.Function(
      0, W().U8(0x0f).Uleb(expression.size()).Text(expression).U8(0x80 | 16).Uleb(1).bytes());
  scene.Function(0x100, Outermost());
  scene.SetPc(At(0x10));
  scene.Word(32, At(0x110));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x10 0x110!");
}

TEST(StackWalker, ReportsAStackThatWasCut) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(64));
  scene.SetPc(At(0x10));
  scene.StackBytes(56);
  EXPECT_EQ(End(scene.Walk()), "user_stack_cut");
  EXPECT_EQ(scene.FramesText(), "0x10");
  scene.StackIsWhole();
  EXPECT_EQ(End(scene.Walk()), "bad_memory");
  scene.StackBytes(0);
  EXPECT_EQ(End(scene.Walk()), "bad_memory");
}

TEST(StackWalker, EndsAtAZeroReturnAddress) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(8));
  scene.SetPc(At(0x10));
  scene.Word(0, 0);
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x10");
}

TEST(StackWalker, ReportsAnAddressOutsideEveryMapping) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(8));
  scene.SetPc(At(0x10));
  scene.Word(0, 0x1234);
  EXPECT_EQ(End(scene.Walk()), "no_mapping");
  EXPECT_EQ(scene.FramesText(), "0x10");
}

TEST(StackWalker, RefusesFramesThatGoDown) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, FpFrame());
  scene.Function(0x100, FpFrame());
  scene.SetPc(At(0x10));
  scene.SetFp(kStack + 32);
  scene.Word(32, kStack + 16);  // a saved frame pointer below this frame
  scene.Word(40, At(0x110));
  EXPECT_EQ(End(scene.Walk()), "bad_frame");
  EXPECT_EQ(scene.FramesText(), "0x10 0x110!");
}

TEST(StackWalker, RefusesFramesThatStandStill) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(0));
  scene.SetPc(At(0x10));
  scene.Word(0, At(0x10));
  EXPECT_EQ(End(scene.Walk()), "bad_memory") << "the return address lies below the stack pointer";
  // r12 is the return address, for ever.
  WalkScene still(Arch::kX86_64);
  still.Function(0, W().U8(0x0c).Uleb(7).Uleb(0).U8(0x09).Uleb(16).Uleb(12).bytes());
  still.SetPc(At(0x10));
  still.SetRegister(20, At(0x10));
  still.Word(0, 0);
  EXPECT_EQ(End(still.Walk()), "bad_frame");
  EXPECT_EQ(still.FramesText(), "0x10 0x10!");
}

TEST(StackWalker, StopsAtTheFrameLimit) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(16));
  scene.SetPc(At(0x10));
  for (uint64_t i = 0; i < StackWalker::kFramesMax + 10; ++i) scene.Word(16 * i + 8, At(0x20));
  EXPECT_EQ(End(scene.Walk()), "frame_limit");
  EXPECT_EQ(scene.frames().size(), StackWalker::kFramesMax);
  EXPECT_EQ(End(scene.Walk({.frames_max = 5})), "frame_limit");
  EXPECT_EQ(scene.frames().size(), 5U);
  EXPECT_EQ(End(scene.Walk({.frames_max = 100'000})), "frame_limit");
  EXPECT_EQ(scene.frames().size(), StackWalker::kFramesMax);
}

TEST(StackWalker, PassesCodeWithoutTablesByFramePointers) {
  // CFI, two frames of JIT code, CFI again.
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(16));
  scene.Function(0x100, SpFrame(32));
  scene.Function(0x200, Outermost());
  scene.SetPc(At(0x10));
  scene.SetFp(kStack + 48);
  scene.Word(8, kJit + 0x10);
  scene.Word(48, kStack + 64);
  scene.Word(56, kJit + 0x20);
  scene.Word(64, 0x1234);
  scene.Word(72, At(0x110));
  scene.Word(80 + 24, At(0x210));
  const WalkResult result = scene.Walk();
  EXPECT_EQ(scene.FramesText(), "0x10 jit+0x10! jit+0x20! 0x110! 0x210!");
  EXPECT_EQ(End(result), "complete");
  EXPECT_EQ(Origin(result), "fp+cfi");
  EXPECT_EQ(result.cfi_steps, 2U);
  EXPECT_EQ(result.frame_pointer_steps, 2U);
}

TEST(StackWalker, DistrustsImplausibleFramePointers) {
  for (const uint64_t frame_pointer :
       {uint64_t{0}, kStack + 3, kStack - 16, uint64_t{0x1000}, UINT64_MAX - 7}) {
    WalkScene scene(Arch::kX86_64);
    scene.SetPc(kJit);
    scene.SetFp(frame_pointer);
    scene.StackBytes(64);
    const WalkResult result = scene.Walk();
    EXPECT_EQ(End(result), "no_unwind_table") << frame_pointer;
    EXPECT_EQ(Origin(result), "none");
    EXPECT_EQ(scene.FramesText(), "jit+0x0");
  }
  WalkScene nowhere(Arch::kX86_64);
  nowhere.SetPc(kJit);
  nowhere.SetFp(kStack);
  nowhere.Word(8, 0x1234);  // a return address that is no code
  EXPECT_EQ(End(nowhere.Walk()), "no_unwind_table");
  WalkScene cut(Arch::kX86_64);
  cut.SetPc(kJit);
  cut.SetFp(kStack + 64);
  cut.StackBytes(64);
  EXPECT_EQ(End(cut.Walk()), "user_stack_cut");
  cut.StackIsWhole();
  EXPECT_EQ(End(cut.Walk()), "no_unwind_table");
}

TEST(StackWalker, WalksByFramePointersAlone) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(800));  // not looked at
  scene.SetPc(At(0x10));
  scene.SetFp(kStack + 16);
  scene.Word(16, kStack + 32);
  scene.Word(24, At(0x110));
  scene.Word(32, 0);
  scene.Word(40, At(0x210));
  const WalkOptions options = {.method = WalkOptions::Method::kFramePointer};
  const WalkResult result = scene.Walk(options);
  EXPECT_EQ(scene.FramesText(), "0x10 0x110! 0x210!");
  EXPECT_EQ(End(result), "complete");
  EXPECT_EQ(Origin(result), "fp");
  scene.Word(32, kStack + 4096);
  EXPECT_EQ(End(scene.Walk(options)), "user_stack_cut");
  scene.Word(32, kStack + 8);
  EXPECT_EQ(End(scene.Walk(options)), "bad_frame");
  scene.Word(32, 0);
  scene.Word(40, 0x1234);
  EXPECT_EQ(End(scene.Walk(options)), "no_mapping");
}

TEST(StackWalker, EndsInEntryCodeWithoutTables) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(8));
  scene.EntryPoint(0x1000);
  scene.SetPc(At(0x10));
  scene.Word(0, At(0x1025));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x10 0x1025!");
}

TEST(StackWalker, EndsAtAThreadStartWithoutTables) {
  // Assembly that zeroed the frame pointer and called; the leaf restores it.
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, FpFrame());
  scene.SetPc(At(0x10));
  scene.SetFp(kStack);
  scene.Word(0, 0);
  scene.Word(8, At(0x810));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x10 0x810!");
}

TEST(StackWalker, UsesFramePointersWhereARowHasNoCfa) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, "");
  scene.Function(0x100, Outermost());
  scene.SetPc(At(0x10));
  scene.SetFp(kStack);
  scene.Word(0, 0x1234);
  scene.Word(8, At(0x110));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x10 0x110!");
}

// ---- signals ----

// The rules of a trampoline whose context lies at the stack pointer: sp, pc and rbp from there.
std::string SignalRules() {
  const auto at = [](uint8_t number, uint64_t offset) {
    const W expression = W().U8(0x77).Sleb(static_cast<int64_t>(offset));
    return W().U8(0x10).Uleb(number).Uleb(expression.size()).Text(expression.bytes()).bytes();
  };
  // DW_CFA_def_cfa_expression: breg7 160, deref.
  const W cfa = W().U8(0x77).Sleb(160).U8(0x06);
  return W().U8(0x0f).Uleb(cfa.size()).Text(cfa.bytes()).bytes() + at(6, 120) + at(7, 160) +
         at(16, 168);
}

TEST(StackWalker, DoesNotAdjustTheInterruptedAddress) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(8));                // the handler
  scene.Function(0x100, SignalRules(), "zRS");  // the trampoline
  scene.Function(0x200, SpFrame(8));            // interrupted at its first instruction
  scene.Function(0x300, Outermost());
  scene.SetPc(At(0x10));
  scene.Word(0, At(0x110));
  scene.Word(8 + 160, kStack + 256);
  scene.Word(8 + 168, At(0x200));
  scene.Word(256, At(0x310));
  const WalkResult result = scene.Walk();
  EXPECT_EQ(scene.FramesText(), "0x10 0x110! 0x200 0x310!");
  EXPECT_EQ(End(result), "complete");
  EXPECT_EQ(result.signal_frames, 1U);
}

TEST(StackWalker, ReturnsFromAnAlternateStackBelow) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(8));
  scene.Function(0x100, SignalRules(), "zRS");
  scene.Function(0x200, SpFrame(8));
  scene.SetPc(At(0x10));
  scene.Word(0, At(0x110));
  scene.Word(8 + 160, kStack - 0x100000);  // not copied
  scene.Word(8 + 168, At(0x210));
  const WalkResult result = scene.Walk();
  EXPECT_EQ(scene.FramesText(), "0x10 0x110! 0x210");
  EXPECT_EQ(End(result), "bad_memory");
}

TEST(StackWalker, BoundsSignalFrames) {
  // A trampoline that interrupted itself, without end.
  WalkScene scene(Arch::kX86_64);
  scene.Function(0x100, SignalRules(), "zRS");
  scene.SetPc(At(0x110));
  scene.Word(160, kStack);
  scene.Word(168, At(0x110));
  const WalkResult result = scene.Walk();
  EXPECT_EQ(End(result), "bad_frame");
  EXPECT_EQ(scene.frames().size(), 1 + StackWalker::kSignalFramesMax);
}

TEST(StackWalker, KnowsTheTrampolineOfX86_64ByItsCode) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0, SpFrame(8));
  scene.Function(0x300, SpFrame(8));
  scene.Function(0x400, Outermost());
  scene.Code(0x200, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"sv);
  scene.SetPc(At(0x10));
  scene.Word(0, At(0x200));
  const uint64_t context = 8 + 40;
  for (uint64_t i = 0; i < 15; ++i) scene.Word(context + 8 * i, i);
  scene.Word(context + 8 * 15, kStack + 512);
  scene.Word(context + 8 * 16, At(0x300));
  scene.Word(512, At(0x410));
  const WalkResult result = scene.Walk();
  EXPECT_EQ(scene.FramesText(), "0x10 0x200! 0x300 0x410!");
  EXPECT_EQ(End(result), "complete");
  EXPECT_EQ(result.signal_frames, 1U);
  EXPECT_EQ(result.other_steps, 1U);
}

// ---- x86_64 without tables ----

TEST(StackWalker, KnowsPltStubs) {
  struct Case {
    std::string_view stub;
    uint64_t pc;        // offset in the section
    uint64_t on_stack;  // words pushed
    std::string section;
  };
  const std::string lazy = "\xff\x25" + std::string(4, '\1') + "\x68" + std::string(4, '\1') +
                           "\xe9" + std::string(4, '\1');
  const std::string ibt =
      "\xf3\x0f\x1e\xfa\x68" + std::string(4, '\1') + "\xf2\xe9" + std::string(5, '\1');
  const std::string first = "\xff\x35" + std::string(4, '\1') + "\xff\x25" + std::string(8, '\1');
  for (const Case& one :
       {Case{lazy, 16, 0, ".plt"}, Case{lazy, 22, 0, ".plt"}, Case{lazy, 27, 1, ".plt"},
        Case{ibt, 16, 0, ".plt"}, Case{ibt, 20, 0, ".plt"}, Case{ibt, 25, 1, ".plt"},
        Case{first, 0, 1, ".plt"}, Case{first, 6, 2, ".plt"}, Case{lazy, 16, 0, ".plt.sec"},
        Case{ibt, 4, 0, ".plt.sec"}, Case{lazy, 0, 0, ".iplt"}}) {
    WalkScene scene(Arch::kX86_64);
    scene.Function(0x100, Outermost());
    scene.PltSection(one.section, 0x400, 64);
    for (uint64_t i = 0; i < 4; ++i) {
      const bool is_first = one.section == ".plt" && i == 0;
      scene.Code(0x400 + 16 * i, is_first ? std::string_view(first) : one.stub);
    }
    scene.SetPc(At(0x400 + one.pc));
    scene.Word(8 * one.on_stack, At(0x110));
    const WalkResult result = scene.Walk();
    EXPECT_EQ(End(result), "complete") << one.section << "+" << one.pc;
    EXPECT_EQ(scene.frames().size(), 2U);
    EXPECT_EQ(result.other_steps, 1U);
  }
}

TEST(StackWalker, KnowsTheEdgesOfFunctions) {
  struct Case {
    std::string_view code;
    uint64_t return_address;  // offset on the stack
  };
  for (const Case& one :
       {Case{"\x55\x48\x89\xe5"sv, 0}, Case{"\xf3\x0f\x1e\xfa\x55\x48\x89\xe5"sv, 0},
        Case{"\xf3\x0f\x1e\xfa\x90"sv, 0}, Case{"\x48\x89\xe5"sv, 8}, Case{"\xc3"sv, 0},
        Case{"\xf3\xc3"sv, 0}}) {
    for (const auto method : {WalkOptions::Method::kCfi, WalkOptions::Method::kFramePointer}) {
      WalkScene scene(Arch::kX86_64);
      scene.EntryPoint(0x1000);
      scene.Code(0x800, one.code);
      scene.SetPc(At(0x800));
      scene.SetFp(kStack + 64);  // of the caller: its own frame pointer would skip it
      scene.Word(one.return_address, At(0x910));
      scene.Word(64, 0);
      scene.Word(72, At(0x1010));
      EXPECT_EQ(End(scene.Walk({.method = method})), "complete");
      EXPECT_EQ(scene.FramesText(), "0x800 0x910! 0x1010!");
    }
  }
}

TEST(StackWalker, ReturnsFromACallThroughABadPointer) {
  WalkScene scene(Arch::kX86_64);
  scene.Function(0x100, Outermost());
  scene.SetPc(0);
  scene.Word(0, At(0x110));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "?0x0 0x110!");
  scene.Word(0, 0x1234);
  EXPECT_EQ(End(scene.Walk()), "no_mapping");
  EXPECT_EQ(scene.FramesText(), "?0x0");
}

// ---- registers and architectures ----

TEST(StackWalker, SaysWhatIsMissing) {
  WalkScene scene(Arch::kX86_64);
  EXPECT_EQ(End(scene.Walk()), "no_user_registers") << "no pc";
  EXPECT_EQ(scene.FramesText(), "");
  scene.SetPc(At(0x10));
  scene.registers().abi = RegisterSet::Abi::kNone;
  EXPECT_EQ(End(scene.Walk()), "no_user_registers");
  WalkScene no_sp(Arch::kX86_64);
  no_sp.SetPc(At(0x10));
  no_sp.registers().mask &= ~(uint64_t{1} << 7);
  EXPECT_EQ(End(no_sp.Walk()), "no_user_registers");
  EXPECT_EQ(no_sp.FramesText(), "0x10");
}

TEST(StackWalker, SaysWhichArchitecturesItKnows) {
  EXPECT_TRUE(StackWalker::Supports(Arch::kX86_64));
  EXPECT_TRUE(StackWalker::Supports(Arch::kArm64));
  EXPECT_TRUE(StackWalker::Supports(Arch::kX86));
  EXPECT_FALSE(StackWalker::Supports(Arch::kArm));
  WalkScene scene(Arch::kRiscv64);
  scene.SetPc(At(0x10));
  EXPECT_EQ(End(scene.Walk()), "unsupported_arch");
  EXPECT_EQ(scene.FramesText(), "");
  WalkScene arm32(Arch::kArm64);
  arm32.registers().abi = RegisterSet::Abi::k32;
  EXPECT_EQ(End(arm32.Walk()), "unsupported_arch");
}

TEST(StackWalker, WalksI386ProcessesOfX86_64Kernels) {
  // Words of four bytes, perf's x86_64 numbering.
  CfiBytes frame({.is_64_bit = false, .vaddr = 0x9000});
  const size_t cie =
      frame.AddCie({.data_alignment = -4,
                    .return_register = 8,
                    .instructions = W().U8(0x0c).Uleb(4).Uleb(12).U8(0x80 | 8).Uleb(1).bytes()});
  frame.AddFde({.cie = cie, .start = 0x1000, .size_bytes = 0x100});
  frame.AddFde({.cie = cie,
                .start = 0x1100,
                .size_bytes = 0x100,
                .instructions = W().U8(0x07).Uleb(8).bytes()});
  ElfBytes elf({.is_64_bit = false, .machine = EM_386});
  const uint32_t text =
      elf.Add({.name = ".text", .vaddr = 0x1000, .content = std::string(0x200, '\x90')});
  elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, text});
  elf.Add({.name = ".eh_frame", .vaddr = 0x9000, .content = frame.bytes()});
  FakeProcess process;
  process.MapSegments(process.AddObject("i386", elf.Build()), 0x08000000);
  RegisterSet registers;
  registers.abi = RegisterSet::Abi::k32;
  registers.mask = 1 << 7 | 1 << 8;
  registers.values[7] = 0xffff0000;
  registers.values[8] = 0x08001010;
  const std::string stack = W().U32(1).U32(2).U32(0x08001110).bytes();
  std::vector<WalkedFrame> frames;
  StackWalker walker(Arch::kX86_64);
  const WalkResult result =
      walker.Walk({.registers = registers, .stack = AsBytes(stack)}, process, &frames);
  EXPECT_EQ(End(result), "complete");
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[1], (WalkedFrame{.pc = {0x08001110}, .is_return_address = true}));
}

}  // namespace
}  // namespace ptarmigan
