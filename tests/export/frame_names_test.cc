#include "export/internal/frame_names.h"

#include <gtest/gtest.h>

#include <string>

#include "export/internal/call_tree.h"
#include "tests/export/profile_samples.h"

namespace ptarmigan::internal {
namespace {

bool IsKernel(std::string_view file, uint64_t address = 0x1000) {
  Profile profile;
  Profile::Mapping mapping;
  mapping.file = profile.strings.Intern(file);
  profile.mappings.push_back(mapping);
  return IsKernelCode(profile, 0, address);
}

TEST(FrameNames, TellKernelCodeByItsMapping) {
  for (const char* file :
       {"[kernel.kallsyms]_text", "[kernel.kallsyms]", "[nf_conntrack]", "[guest.kernel.kallsyms]",
        "/lib/modules/6.1/build/vmlinux", "/lib/modules/6.1/kernel/net/x.ko.xz"}) {
    EXPECT_TRUE(IsKernel(file)) << file;
  }
  for (const char* file : {"/usr/bin/app", "[vdso]", "[vsyscall]", "[heap]", "[stack]",
                           "[anon:jit]", "[jit]", "[unknown]", "vmlinux.txt"}) {
    EXPECT_FALSE(IsKernel(file)) << file;
  }
  // Without a name the half of the address space decides.
  EXPECT_TRUE(IsKernel("", 0xffffffff81000000));
  EXPECT_FALSE(IsKernel("", 0x7fffffffffff));
  EXPECT_TRUE(IsKernelCode(Profile{}, kNoId, 0xffff800000000000));
}

TEST(FrameNames, TakeTheObjectWhereThereIsNoFunction) {
  EXPECT_EQ(BaseName("/usr/lib/libc.so.6 (deleted)"), "libc.so.6");
  EXPECT_EQ(BaseName("app"), "app");
  const Profile profile = RichProfile();
  FrameNames names(profile);
  std::vector<std::string> all;
  for (LocationId id = 0; id < profile.locations.size(); ++id) {
    for (const NamedFrame& frame : names.Frames(id)) {
      all.push_back(std::string(names.Text(frame.name)) + (frame.is_inlined ? " inlined" : "") +
                    (frame.is_kernel ? " kernel" : ""));
    }
  }
  EXPECT_EQ(all,
            (std::vector<std::string>{
                "ns::(anonymous namespace)::Hot() inlined", "ns::Work<int>(std::string const&)",
                "main", "do_syscall_64 kernel", "odd;name", "[app \"quoted\"]", "[unknown]"}));
}

TEST(CallTree, SumsUpFromTheLeaves) {
  const Profile profile = RichProfile();
  const CallTree tree(profile, {});
  const std::vector<int64_t> totals = tree.Totals();
  EXPECT_EQ(totals[0], profile.Totals()[0]);
  EXPECT_EQ(totals[1], profile.Totals()[1]);
  EXPECT_EQ(tree.Self(0)[0], 3);  // the sample without frames
  const auto order =
      tree.Preorder([&](uint32_t a, uint32_t b) { return tree.Name(a) < tree.Name(b); });
  ASSERT_EQ(order.size(), tree.size());
  EXPECT_EQ(order[0], 0U);
  EXPECT_EQ(tree.Name(order[1]), "main");
  for (size_t i = 1; i < order.size(); ++i)
    EXPECT_LE(tree.node(order[i]).level, tree.node(order[i - 1]).level + 1);
}

TEST(CallTree, TellsFramesApartByObjectUnlessAskedNotTo) {
  Profile profile = RichProfile();
  // Every address is in both objects now.
  for (auto& location : profile.locations) location.mapping = location.mapping == 1 ? 0 : 1;
  const CallTree by_object(profile, {});
  const CallTree by_name(profile, {.by_name_only = true});
  EXPECT_GE(by_object.size(), by_name.size());
  EXPECT_EQ(by_object.Totals()[0], by_name.Totals()[0]);
  const CallTree by_comm(profile, {.with_comm = true, .with_pid = true});
  EXPECT_EQ(by_comm.Totals()[0], by_name.Totals()[0]);
}

}  // namespace
}  // namespace ptarmigan::internal
