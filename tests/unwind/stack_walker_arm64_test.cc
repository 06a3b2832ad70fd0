// StackWalker on arm64: the link register, signed return addresses, frame records.
#include <gtest/gtest.h>

#include "tests/support/walk_scene.h"
#include "unwind/stack_walker.h"

namespace ptarmigan {
namespace {

using namespace std::
    string_view_literals;  // NOLINT(google-build-using-namespace): only for literals
using W = ByteWriter;

uint64_t At(uint64_t offset) { return WalkScene::At(offset); }
constexpr uint64_t kStack = WalkScene::kStack;
constexpr uint64_t kJit = WalkScene::kJit;

std::string_view End(const WalkResult& result) { return StackEndName(result.end); }

// CFA = sp + n, fp and lr at its bottom.
std::string ArmFrame(uint64_t size_bytes) {
  return W()
      .U8(0x0c)
      .Uleb(31)
      .Uleb(size_bytes)
      .U8(0x80 | 29)
      .Uleb(size_bytes / 8)
      .U8(0x80 | 30)
      .Uleb(size_bytes / 8 - 1)
      .bytes();
}
std::string ArmLeaf() { return W().U8(0x0c).Uleb(31).Uleb(0).bytes(); }
std::string ArmOutermost() { return ArmLeaf() + W().U8(0x07).Uleb(30).bytes(); }
constexpr uint64_t kSignature = uint64_t{0x2a} << 48;  // a pointer authentication code

TEST(StackWalker, WalksArm64FromALeafWithoutAFrame) {
  WalkScene scene(Arch::kArm64);
  scene.Function(0, ArmLeaf());
  scene.Function(0x100, ArmFrame(32));
  scene.Function(0x200, ArmOutermost());
  scene.SetPc(At(0x10));
  scene.SetLr(At(0x110));
  scene.SetFp(kStack);
  scene.Word(0, 0);
  scene.Word(8, At(0x210));
  const WalkResult result = scene.Walk();
  EXPECT_EQ(scene.FramesText(), "0x10 0x110! 0x210!");
  EXPECT_EQ(End(result), "complete");
}

TEST(StackWalker, StripsSignedReturnAddresses) {
  WalkScene scene(Arch::kArm64);
  scene.Function(0, W().U8(0x2d).bytes() + ArmLeaf());
  scene.Function(0x100, W().U8(0x2d).bytes() + ArmFrame(32));
  scene.Function(0x200, ArmOutermost());
  scene.SetPc(At(0x10));
  scene.SetLr(At(0x110) | kSignature);
  scene.Word(0, 0);
  scene.Word(8, At(0x210) | kSignature);
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x10 0x110! 0x210!");
  // With wider addresses the bits belong to the address.
  EXPECT_EQ(End(scene.Walk({.arm64_address_bits = 54})), "no_mapping");
}

TEST(StackWalker, RefusesArm64CallersThatSavedNothing) {
  WalkScene scene(Arch::kArm64);
  scene.Function(0, ArmLeaf());
  scene.Function(0x100, W().U8(0x0c).Uleb(31).Uleb(16).bytes());
  scene.SetPc(At(0x10));
  scene.SetLr(At(0x110));
  scene.StackBytes(256);
  EXPECT_EQ(End(scene.Walk()), "bad_frame");
  EXPECT_EQ(scene.FramesText(), "0x10 0x110!");
}

TEST(StackWalker, DoesNotTrustTheStackPointerBehindArm64FramePointers) {
  // JIT code above a function whose rules count from sp, which frame records do not give: its frame record helps.
  WalkScene scene(Arch::kArm64);
  scene.Function(0x100, ArmFrame(32));
  scene.Function(0x200, ArmOutermost());
  scene.SetPc(kJit + 8);
  scene.SetFp(kStack + 16);
  scene.Word(16, kStack + 64);
  scene.Word(24, At(0x110));
  scene.Word(64, 0);
  scene.Word(72, At(0x210));
  const WalkResult result = scene.Walk();
  EXPECT_EQ(scene.FramesText(), "jit+0x8 0x110! 0x210!");
  EXPECT_EQ(End(result), "complete");
  EXPECT_EQ(result.frame_pointer_steps, 2U);
}

TEST(StackWalker, KnowsTheTrampolineOfArm64) {
  for (const bool in_vdso : {false, true}) {
    WalkScene scene(Arch::kArm64);
    scene.Function(0, ArmFrame(32));
    scene.Function(0x300, ArmLeaf());
    scene.Function(0x400, ArmOutermost());
    scene.Code(0x200, "\x68\x11\x80\xd2\x01\x00\x00\xd4"sv);
    scene.SetPc(At(0x10));
    scene.Word(0, kStack + 32);
    scene.Word(8, in_vdso ? WalkScene::kVdso + 0x500 : At(0x200));
    const uint64_t context = 32 + 312;
    for (uint64_t i = 0; i < 31; ++i) scene.Word(context + 8 * i, i);
    scene.Word(context + 8 * 30, At(0x410));
    scene.Word(context + 8 * 31, kStack + 1024);
    scene.Word(context + 8 * 32, At(0x300));
    const WalkResult result = scene.Walk();
    EXPECT_EQ(scene.FramesText(),
              in_vdso ? "0x10 vdso+0x500! 0x300 0x410!" : "0x10 0x200! 0x300 0x410!");
    EXPECT_EQ(End(result), "complete");
    EXPECT_EQ(result.signal_frames, 1U);
  }
}

TEST(StackWalker, KnowsPltStubsOfArm64) {
  WalkScene scene(Arch::kArm64);
  scene.Function(0x100, ArmOutermost());
  scene.PltSection(".plt", 0x400, 64);
  scene.SetPc(At(0x410));
  scene.SetLr(At(0x110));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "0x410 0x110!");
}

TEST(StackWalker, ReturnsFromABadCallOnArm64) {
  WalkScene scene(Arch::kArm64);
  scene.Function(0x100, ArmOutermost());
  scene.SetPc(0);
  scene.SetLr(At(0x110));
  EXPECT_EQ(End(scene.Walk()), "complete");
  EXPECT_EQ(scene.FramesText(), "?0x0 0x110!");
}

TEST(StackWalker, FindsTheCallerOfAnArm64LeafFromTheLinkRegisterAlone) {
  WalkScene scene(Arch::kArm64);
  scene.Function(0, ArmLeaf());
  scene.Function(0x100, ArmFrame(32));
  FakeProcess process;
  scene.BuildProcess(&process);
  const StackWalker walker(Arch::kArm64);
  EXPECT_EQ(walker.LeafCaller(VirtAddr{At(0x10)}, At(0x110) | kSignature, process),
            VirtAddr{At(0x110)});
  EXPECT_EQ(walker.LeafCaller(VirtAddr{At(0x110)}, At(0x10), process), std::nullopt)
      << "lr was saved";
  EXPECT_EQ(walker.LeafCaller(VirtAddr{At(0x10)}, 0x1234, process), std::nullopt) << "not code";
  EXPECT_EQ(walker.LeafCaller(VirtAddr{At(0x10)}, 0, process), std::nullopt);
  EXPECT_EQ(walker.LeafCaller(VirtAddr{kJit}, At(0x10), process), std::nullopt) << "no tables";
}

}  // namespace
}  // namespace ptarmigan
