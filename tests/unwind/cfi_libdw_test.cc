// Our CFI rows against libdw's, on the objects of this machine.
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "base/str_format.h"
#include "tests/support/test_data.h"
#include "unwind/cfi.h"

namespace ptarmigan {
namespace {

std::string Hex(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += StrFormat("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

// An expression in a form of our own: libdw gives parsed operations, we have bytes.
std::string OpsText(const Dwarf_Op* ops, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += StrFormat("{:x}:{:x}:{:x} ", ops[i].atom, ops[i].number, ops[i].number2);
  }
  return text;
}

// The operations that occur in the CFI of real objects; a test object with others fails.
std::string ExpressionText(Bytes expression) {
  ByteCursor cursor(expression, std::endian::little);
  std::string text;
  while (!cursor.AtEnd() && cursor.ok()) {
    const uint8_t atom = cursor.U8();
    uint64_t number = 0;
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) {
      number = static_cast<uint64_t>(cursor.Sleb128());
    } else if (atom == DW_OP_plus_uconst || atom == DW_OP_constu) {
      number = cursor.Uleb128();
    } else if (atom == DW_OP_const1u || atom == DW_OP_deref_size) {
      number = cursor.U8();
    } else if (atom == DW_OP_const1s) {
      number = static_cast<uint64_t>(int64_t{cursor.Read<int8_t>()});
    } else if (atom == DW_OP_consts) {
      number = static_cast<uint64_t>(cursor.Sleb128());
    }
    text += StrFormat("{:x}:{:x}:0 ", atom, number);
  }
  return cursor.ok() ? text : "damaged " + Hex(expression);
}

std::string OurRule(const UnwindRow& row, unsigned number) {
  for (const RegisterRule& rule : row.rules) {
    if (rule.register_number != number) continue;
    switch (rule.kind) {
      case RuleKind::kUndefined:
        return "undefined";
      case RuleKind::kOffset:
        return StrFormat("[cfa{:+}]", rule.offset);
      case RuleKind::kValOffset:
        return StrFormat("cfa{:+}", rule.offset);
      case RuleKind::kRegister:
        return StrFormat("r{}", rule.source);
      case RuleKind::kExpression:
        return "[" + ExpressionText(row.Expression(rule)) + "]";
      case RuleKind::kValExpression:
        return ExpressionText(row.Expression(rule));
      case RuleKind::kSameValue:
        break;
    }
  }
  return "same";
}

std::string TheirRule(Dwarf_Frame* frame, unsigned number) {
  Dwarf_Op memory[3];
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (dwarf_frame_register(frame, static_cast<int>(number), memory, &ops, &count) != 0)
    return "error";
  if (count == 0) return ops == nullptr ? "same" : "undefined";
  const bool from_cfa = ops[0].atom == DW_OP_call_frame_cfa;
  const bool is_value = ops[count - 1].atom == DW_OP_stack_value;
  const size_t inner = is_value ? count - 1 : count;
  if (count == 1 && ops[0].atom == DW_OP_regx) return StrFormat("r{}", ops[0].number);
  if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31) {
    return StrFormat("r{}", ops[0].atom - DW_OP_reg0);
  }
  if (from_cfa && (inner == 1 || (inner == 2 && ops[1].atom == DW_OP_plus_uconst))) {
    const int64_t offset = inner == 2 ? static_cast<int64_t>(ops[1].number) : 0;
    return is_value ? StrFormat("cfa{:+}", offset) : StrFormat("[cfa{:+}]", offset);
  }
  // A register's expression begins with the CFA on the stack.
  const std::string text = from_cfa ? OpsText(ops + 1, inner - 1) : OpsText(ops, inner);
  return is_value ? text : "[" + text + "]";
}

std::string OurCfa(const UnwindRow& row) {
  if (row.cfa.kind == RuleKind::kRegister)
    return StrFormat("r{}{:+}", row.cfa.source, row.cfa.offset);
  if (row.cfa.kind == RuleKind::kExpression) return ExpressionText(row.Expression(row.cfa));
  return "none";
}

std::string TheirCfa(Dwarf_Frame* frame) {
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (dwarf_frame_cfa(frame, &ops, &count) != 0) return "error";
  if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
    return StrFormat("r{}{:+}", ops[0].atom - DW_OP_breg0, static_cast<int64_t>(ops[0].number));
  }
  if (count == 1 && ops[0].atom == DW_OP_bregx) {
    return StrFormat("r{}{:+}", ops[0].number, static_cast<int64_t>(ops[0].number2));
  }
  return OpsText(ops, count);
}

// Registers whose rules libdw fills in from the ABI where the CFI says nothing are compared only where we have a rule.
std::vector<std::string> Differences(const UnwindRow& ours, Dwarf_Frame* theirs) {
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& what, const std::string& one,
                           const std::string& other) {
    if (one != other) differences.push_back(StrFormat("{}: ours {} theirs {}", what, one, other));
  };
  compare("cfa", OurCfa(ours), TheirCfa(theirs));
  for (unsigned number = 0; number < 34; ++number) {
    const std::string our_rule = OurRule(ours, number);
    const std::string their_rule = TheirRule(theirs, number);
    if (our_rule == "same" && (their_rule == "undefined" || their_rule == "cfa+0")) continue;
    compare(StrFormat("r{}", number), our_rule, their_rule);
  }
  return differences;
}

struct LibdwObject {
  explicit LibdwObject(const std::string& path) {
    elf_version(EV_CURRENT);
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
    dwarf = dwarf_begin_elf(elf, DWARF_C_READ, nullptr);
    eh_cfi = dwarf_getcfi_elf(elf);
  }
  LibdwObject(const LibdwObject&) = delete;
  LibdwObject& operator=(const LibdwObject&) = delete;
  ~LibdwObject() {
    if (eh_cfi != nullptr) dwarf_cfi_end(eh_cfi);
    if (dwarf != nullptr) dwarf_end(dwarf);
    if (elf != nullptr) elf_end(elf);
    close(fd);
  }
  int fd = -1;
  Elf* elf = nullptr;
  Dwarf* dwarf = nullptr;
  Dwarf_CFI* eh_cfi = nullptr;  // owned; that of .debug_frame belongs to `dwarf`
};

struct Comparison {
  size_t rows = 0;
  size_t differing = 0;
  std::string first;
};

// Compares at the start of every row of every `stride`th function.
Comparison CompareRows(const std::string& path, Dwarf_CFI* theirs, CfiTable* ours, size_t stride) {
  Comparison result;
  std::vector<CfiRange> functions;
  ours->ForEachRange([&](const CfiRange& range) { functions.push_back(range); });
  for (size_t i = 0; i < functions.size(); i += stride) {
    FileVaddr pc = functions[i].start;
    while (pc < functions[i].end) {
      UnwindRow row;
      CfiRange range;
      const bool found = ours->FindRow(pc, &row, &range);
      Dwarf_Frame* frame = nullptr;
      const bool their_found = dwarf_cfi_addrframe(theirs, pc.value, &frame) == 0;
      const std::unique_ptr<Dwarf_Frame, void (*)(void*)> owned(frame, std::free);
      ++result.rows;
      std::vector<std::string> differences;
      if (found != their_found) {
        differences.push_back(StrFormat("found {} {}", found, their_found));
      } else if (found) {
        differences = Differences(row, frame);
        Dwarf_Addr start = 0;
        Dwarf_Addr end = 0;
        bool signal = false;
        const int return_register = dwarf_frame_info(frame, &start, &end, &signal);
        // After DW_CFA_restore_state libdw reports the start of the state that was remembered, so that only the end
        // is compared; we ask at the start of each row.
        if (range.start != pc || end != range.end.value || signal != row.signal_frame ||
            return_register != row.return_register) {
          differences.push_back(
              StrFormat("range {:x}-{:x} theirs {:x}-{:x}, signal {} {}, return {} {}",
                        range.start.value, range.end.value, start, end, row.signal_frame, signal,
                        row.return_register, return_register));
        }
      }
      if (!differences.empty()) {
        ++result.differing;
        if (result.first.empty()) {
          result.first = StrFormat("{} at {:x}: {}", path, pc.value, differences.front());
        }
      }
      if (!found || range.end <= pc) break;
      pc = range.end;
    }
  }
  return result;
}

class CfiAgainstLibdw : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Installed, CfiAgainstLibdw,
                         testing::Values("/lib/x86_64-linux-gnu/libc.so.6",
                                         "/lib64/ld-linux-x86-64.so.2", "/usr/bin/python3.11",
                                         "/lib/x86_64-linux-gnu/libstdc++.so.6", "/proc/self/exe",
                                         "/usr/aarch64-linux-gnu/lib/libc.so.6",
                                         "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",
                                         "/lib/aarch64-linux-gnu/libc.so.6"));

TEST_P(CfiAgainstLibdw, EhFrameRowsAreEqual) {
  const std::string path = GetParam();
  if (!PathExists(path)) GTEST_SKIP() << path << " is not installed";
  const auto file = ElfFile::Open(path);
  ASSERT_TRUE(file.has_value());
  CfiTable ours(**file);
  EXPECT_TRUE(ours.uses_header());
  const LibdwObject object(path);
  Dwarf_CFI* theirs = object.eh_cfi;
  ASSERT_NE(theirs, nullptr);
  const Comparison comparison = CompareRows(path, theirs, &ours, 1);
  EXPECT_TRUE(ours.uses_header()) << "the table was found damaged on the way";
  EXPECT_GT(comparison.rows, 100U);
  EXPECT_EQ(comparison.differing, 0U) << "of " << comparison.rows << ": " << comparison.first;
  RecordProperty("rows", static_cast<int>(comparison.rows));
}

// Functions with frames of several kinds, compiled so that their CFI is in .debug_frame.
constexpr char kSource[] = R"(
int leaf(int a) { return a * 3; }
int calls(int a) { volatile int v[9]; v[a & 7] = leaf(a); return v[a & 3] + leaf(a + 1); }
int grows(int n) { volatile char* p = __builtin_alloca(n); p[0] = 1; return calls(p[0]) + calls(n); }
int saves(int a, int b, int c, int d, int e, int f, int g, int h) {
  int x = calls(a), y = calls(b), z = calls(c), w = calls(d);
  for (int i = 0; i < e; ++i) x += calls(y) * z + w * f + g * h;
  return x + y + z + w;
}
int many(int n) { switch (n) { case 1: return calls(1); case 2: return grows(2); default: if (n > 9) return -1; }
  return saves(n, n, n, n, n, n, n, n); }
int main(void) { return many(3); }
)";

class CompiledObjects : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Options, CompiledObjects,
                         testing::Values("-O2", "-O0", "-O2 -gdwarf64", "-O2 -gz=zlib",
                                         "-O2 -gdwarf-2", "-O2 -m32"));

TEST_P(CompiledObjects, DebugFrameRowsAreEqual) {
  if (!HaveProgram("gcc")) GTEST_SKIP() << "gcc is not installed";
  const std::string directory = TestTemporaryDirectory();
  const std::string path = directory + "/program";
  auto source = OutputFile::Create(path + ".c");
  ASSERT_TRUE(source.has_value());
  ASSERT_TRUE(source->Write(kSource).has_value());
  ASSERT_TRUE(source->Commit().has_value());
  const CommandResult made =
      RunCommand(StrFormat("gcc -g {} -fno-asynchronous-unwind-tables -fno-exceptions -nostdlib "
                           "-nostartfiles -Wl,-e,main "
                           "-no-pie -o {} {}.c",
                           GetParam(), path, path));
  if (made.exit_code != 0) GTEST_SKIP() << "gcc cannot do that here: " << made.err;
  const auto file = ElfFile::Open(path);
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ((*file)->FindSection(".eh_frame"), nullptr);
  CfiTable ours(**file);
  const LibdwObject object(path);
  Dwarf_CFI* theirs = dwarf_getcfi(object.dwarf);
  ASSERT_NE(theirs, nullptr);
  const Comparison comparison = CompareRows(path, theirs, &ours, 1);
  EXPECT_GT(comparison.rows, 15U);
  EXPECT_EQ(comparison.differing, 0U) << "of " << comparison.rows << ": " << comparison.first;
}

}  // namespace
}  // namespace ptarmigan
