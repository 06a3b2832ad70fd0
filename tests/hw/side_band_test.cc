#include "hw/internal/side_band.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include "base/str_format.h"
#include "model/event_attr.h"
#include "tests/hw/fake_root.h"

namespace ptarmigan::internal {
namespace {

constexpr uint64_t kSampleType = kSampleIdentifier | kSampleTid | kSampleTime | kSampleCpu;

// Records as text lines, so that tests read as what was written.
class TextSink : public RawRecordSink {
 public:
  void OnRecord(const RawRecord& record) override {
    ByteCursor cursor(record.bytes);
    const uint32_t type = cursor.U32();
    const uint16_t misc = cursor.U16();
    EXPECT_EQ(cursor.U16(), record.bytes.size());
    EXPECT_EQ(record.bytes.size() % 8, 0U);
    switch (type) {
      case PERF_RECORD_COMM: {
        const int32_t pid = cursor.S32();
        const int32_t tid = cursor.S32();
        lines.push_back(StrFormat("comm {}/{} {}", pid, tid, cursor.CString()));
        break;
      }
      case PERF_RECORD_FORK: {
        const int32_t pid = cursor.S32();
        const int32_t parent = cursor.S32();
        const int32_t tid = cursor.S32();
        const int32_t parent_tid = cursor.S32();
        lines.push_back(
            StrFormat("fork {}/{} from {}/{} at {}", pid, tid, parent, parent_tid, cursor.U64()));
        break;
      }
      case PERF_RECORD_CGROUP: {
        const uint64_t id = cursor.U64();
        lines.push_back(StrFormat("cgroup {} {}", id, cursor.CString()));
        break;
      }
      case PERF_RECORD_MMAP:
      case PERF_RECORD_MMAP2:
        OnMmap(cursor, type, misc);
        break;
      default:
        lines.push_back(StrFormat("type {}", type));
    }
    CheckTrailer(record.bytes);
  }
  void OnRoundEnd() override {}
  std::vector<std::string> lines;

 private:
  void OnMmap(ByteCursor& cursor, uint32_t type, uint16_t misc) {
    const int32_t pid = cursor.S32();
    const int32_t tid = cursor.S32();
    const uint64_t start = cursor.U64();
    const uint64_t length = cursor.U64();
    const uint64_t offset = cursor.U64();
    std::string identity;
    if (type == PERF_RECORD_MMAP2) {
      if ((misc & PERF_RECORD_MISC_MMAP_BUILD_ID) != 0) {
        const uint8_t size = cursor.U8();
        cursor.Skip(3);
        identity = " id " + BuildId(cursor.Take(20).first(size)).ToHex();
      } else {
        const uint32_t major = cursor.U32();
        const uint32_t minor = cursor.U32();
        const uint64_t inode = cursor.U64();
        cursor.U64();
        identity = StrFormat(" file {}:{}:{}", major, minor, inode);
      }
      const uint32_t protection = cursor.U32();
      identity += StrFormat(" prot {}", protection);
      cursor.U32();
    }
    lines.push_back(StrFormat(
        "{} {}/{} {:x}+{:x}@{:x}{} {}{}", type == PERF_RECORD_MMAP ? "mmap" : "mmap2", pid, tid,
        start, length, offset, identity, cursor.CString(),
        (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL ? " kernel" : ""));
  }
  void CheckTrailer(Bytes record) {
    ByteCursor cursor(record.last(32));
    cursor.Skip(8);  // pid, tid
    EXPECT_EQ(cursor.U64(), 0U);
    cursor.Skip(8);
    EXPECT_EQ(cursor.U64(), 42U);
  }
};

SideBandOptions OptionsFor(const FakeRoot& proc, const FakeRoot& sys) {
  SideBandOptions options;
  options.proc_root = proc.path();
  options.sysfs_root = sys.path();
  options.modules_root = sys.path() + "/lib";
  options.os_release = "6.1.0";
  options.trailer.sample_type = kSampleType;
  options.trailer.id = 42;
  return options;
}

TEST(SideBand, WritesNamesThreadsAndExecutableMappings) {
  FakeRoot proc;
  FakeRoot sys;
  proc.File("12/maps",
            "400000-401000 r--p 00000000 08:01 77 /bin/prog\n"
            "401000-402000 r-xp 00001000 08:01 77 /bin/prog\n"
            "500000-501000 r-xp 00000000 08:01 78 /lib/gone.so (deleted)\n"
            "600000-601000 rwxp 00000000 00:00 0 \n"
            "700000-701000 rw-p 00000000 00:00 0 [heap]\n"
            "7ff000-800000 r-xp 00000000 00:00 0 [vdso]\n"
            "garbage\n")
      .File("12/task/12/comm", "prog\n")
      .File("12/task/13/comm", "worker 1\n");
  TextSink sink;
  SideBand side_band(OptionsFor(proc, sys));
  side_band.WriteProcess(12, sink);
  EXPECT_EQ(sink.lines, (std::vector<std::string>{
                            "comm 12/12 prog",
                            "mmap2 12/12 401000+1000@1000 file 8:1:77 prot 5 /bin/prog",
                            "mmap2 12/12 500000+1000@0 file 8:1:78 prot 5 /lib/gone.so (deleted)",
                            "mmap2 12/12 600000+1000@0 file 0:0:0 prot 7 //anon",
                            "mmap2 12/12 7ff000+1000@0 file 0:0:0 prot 5 [vdso]",
                            "fork 12/13 from 12/12 at 0",
                            "comm 12/13 worker 1",
                        }));
  EXPECT_EQ(side_band.counts().records, 7U);
  EXPECT_EQ(side_band.counts().processes, 1U);
}

TEST(SideBand, AsksForBuildIdsByTheNameThatReachesTheFile) {
  FakeRoot proc;
  FakeRoot sys;
  for (const std::string_view pid : {"12", "14"}) {
    proc.File(StrFormat("{}/maps", pid),
              "401000-402000 r-xp 00001000 08:01 77 /bin/prog\n"
              "500000-501000 r-xp 00000000 08:01 78 /lib/gone.so (deleted)\n"
              "600000-601000 r-xp 00000000 00:01 9 /memfd:jit (deleted)\n"
              "7ff000-800000 r-xp 00000000 00:00 0 [vdso]\n")
        .File(StrFormat("{}/task/{}/comm", pid, pid), "prog\n");
  }
  std::vector<std::string> asked;
  SideBandOptions options = OptionsFor(proc, sys);
  options.build_id_of = [&asked](const std::string& path) {
    asked.push_back(path);
    constexpr std::byte kId[] = {std::byte{0xab}, std::byte{0xcd}};
    return path == "/bin/prog" ? BuildId(kId) : BuildId();
  };
  TextSink sink;
  SideBand side_band(std::move(options));
  side_band.WriteAllProcesses(sink);
  EXPECT_EQ(sink.lines[1], "mmap2 12/12 401000+1000@1000 id abcd prot 5 /bin/prog");
  EXPECT_EQ(sink.lines[2], "mmap2 12/12 500000+1000@0 file 8:1:78 prot 5 /lib/gone.so (deleted)");
  // The second process maps the same files: nobody is asked again.
  EXPECT_EQ(sink.lines[6], "mmap2 14/14 401000+1000@1000 id abcd prot 5 /bin/prog");
  EXPECT_EQ(asked, (std::vector<std::string>{
                       "/bin/prog", proc.path() + "/12/map_files/500000-501000", "[vdso]"}));
}

TEST(SideBand, LeavesOutAndCountsProcessesThatVanish) {
  FakeRoot proc;
  FakeRoot sys;
  proc.File("12/maps", "");  // no task folder any more
  TextSink sink;
  SideBand side_band(OptionsFor(proc, sys));
  side_band.WriteProcess(12, sink);
  side_band.WriteProcess(13, sink);
  EXPECT_TRUE(sink.lines.empty());
  EXPECT_EQ(side_band.counts().processes_vanished, 2U);
}

TEST(SideBand, WritesTheKernelAndItsModules) {
  FakeRoot proc;
  FakeRoot sys;
  proc.File("kallsyms",
            "0000000000000000 A fixed_percpu_data\n"
            "ffffffff81000000 T _stext\n"
            "ffffffff81000000 T _text\n"
            "ffffffff81000040 t not_etext\n"
            "ffffffff82000000 T _etext\n"
            "ffffffffc0000000 t f\t[veth]\n")
      .File("modules",
            "veth 40960 0 - Live 0xffffffffc0000000\n"
            "snd_pcm 163840 2 snd_hda,snd, Live 0xffffffffc0100000 (OE)\n"
            "hidden 1 0 - Live 0x0000000000000000\n");
  const char note[] = "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0\xde\xad\xbe\xef";
  sys.File("kernel/notes", std::string_view(note, sizeof(note) - 1))
      .File("module/veth/notes/.note.gnu.build-id", std::string_view(note, sizeof(note) - 1))
      .File("lib/6.1.0/modules.dep",
            "kernel/drivers/net/veth.ko.xz:\nkernel/sound/snd-pcm.ko: kernel/x.ko\n");
  TextSink sink;
  SideBand side_band(OptionsFor(proc, sys));
  side_band.WriteKernel(sink);
  EXPECT_EQ(sink.lines, (std::vector<std::string>{
                            "mmap2 -1/0 ffffffff81000000+1000000@ffffffff81000000 id deadbeef prot "
                            "4 [kernel.kallsyms]_text kernel",
                            "mmap2 -1/0 ffffffffc0000000+a000@0 id deadbeef prot 4 " + sys.path() +
                                "/lib/6.1.0/kernel/drivers/net/veth.ko.xz kernel",
                            "mmap -1/0 ffffffffc0100000+28000@0 " + sys.path() +
                                "/lib/6.1.0/kernel/sound/snd-pcm.ko kernel",
                        }));
  EXPECT_FALSE(side_band.kernel_addresses_hidden());
}

TEST(SideBand, KnowsHiddenKernelAddresses) {
  FakeRoot proc;
  FakeRoot sys;
  proc.File("kallsyms",
            "0000000000000000 T _stext\n"
            "0000000000000000 T _text\n"
            "0000000000000000 T _etext\n");
  TextSink sink;
  SideBand side_band(OptionsFor(proc, sys));
  side_band.WriteKernel(sink);
  EXPECT_TRUE(sink.lines.empty());
  EXPECT_TRUE(side_band.kernel_addresses_hidden());
}

TEST(SideBand, FindsTheKernelInAListLongerThanOneRead) {
  FakeRoot proc;
  FakeRoot sys;
  std::string list = "ffffffff81000000 T _text\n";
  for (int i = 0; i < 20000; ++i)
    list += StrFormat("ffffffff81{:06x} t function_number_{}\n", i, i);
  list += "ffffffff81ffff00 T _etext";  // no newline at the end
  proc.File("kallsyms", list);
  TextSink sink;
  SideBand side_band(OptionsFor(proc, sys));
  side_band.WriteKernel(sink);
  EXPECT_EQ(
      sink.lines,
      (std::vector<std::string>{
          "mmap -1/0 ffffffff81000000+ffff00@ffffffff81000000 [kernel.kallsyms]_text kernel"}));
}

TEST(SideBand, WritesTheControlGroupsByTheirInodes) {
  for (const std::string_view mount : {"fs/cgroup", "fs/cgroup/unified"}) {
    FakeRoot proc;
    FakeRoot sys;
    const std::string root(mount);
    sys.File(root + "/cgroup.controllers", "")
        .File(root + "/cgroup.procs", "")
        .File(root + "/a.slice/cgroup.procs", "")
        .File(root + "/a.slice/b.scope/cgroup.procs", "");
    TextSink sink;
    SideBand side_band(OptionsFor(proc, sys));
    side_band.WriteCgroups(sink);
    const auto line = [&](std::string_view group) {
      auto fd = OpenFile(sys.path() + "/" + root + std::string(group), O_RDONLY);
      return StrFormat("cgroup {} {}", IdentifyFile(fd->get())->inode, group);
    };
    EXPECT_EQ(sink.lines,
              (std::vector<std::string>{line("/"), line("/a.slice"), line("/a.slice/b.scope")}));
  }
}

TEST(BuildIdFromNotes, SkipsOtherNotesAndSurvivesLies) {
  const char notes[] =
      "\4\0\0\0\2\0\0\0\1\0\0\0XEN\0ab\0\0"
      "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0\1\2\3\4";
  const std::string_view text(notes, sizeof(notes) - 1);
  EXPECT_EQ(BuildIdFromNotes(text).ToHex(), "01020304");
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_TRUE(BuildIdFromNotes(text.substr(0, size)).empty()) << size;
  EXPECT_TRUE(
      BuildIdFromNotes(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\3\0\0\0GNU\0", 16))
          .empty());
}

}  // namespace
}  // namespace ptarmigan::internal
