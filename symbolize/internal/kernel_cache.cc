#include "symbolize/internal/kernel_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/str_format.h"
#include "symbolize/internal/safe_open.h"

namespace ptarmigan::internal {
namespace {

constexpr uint64_t kModulesTextBytesMax = uint64_t{16} << 20;
// So much of kallsyms is read to see where the kernel lies and whether addresses are shown: more than the per-CPU
// symbols that x86 kernels before 6.15 begin with.
constexpr size_t kHeadBytes = size_t{32} << 10;
constexpr uint64_t kSmallFileBytesMax = uint64_t{64} << 10;

std::string_view TakeWord(std::string_view* line) {
  const size_t end = std::min(line->find(' '), line->size());
  const std::string_view word = line->substr(0, end);
  line->remove_prefix(std::min(end + 1, line->size()));
  return word;
}

// The first kHeadBytes of a file of /proc, of which each read gives a page at most.
Result<std::string> ReadHead(const std::string& path) {
  TRY_ASSIGN(const Fd file, OpenFile(path, O_RDONLY));
  std::string head(kHeadBytes, '\0');
  size_t size = 0;
  while (size < kHeadBytes) {
    const ssize_t got = ::read(file.get(), head.data() + size, kHeadBytes - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  head.resize(size);
  return head;
}

bool ShowsAddresses(std::string_view kallsyms) {
  while (!kallsyms.empty()) {
    uint64_t address = 0;
    std::from_chars(kallsyms.data(), kallsyms.data() + kallsyms.size(), address, 16);
    if (address != 0) return true;
    kallsyms.remove_prefix(std::min(kallsyms.find('\n'), kallsyms.size() - 1) + 1);
  }
  return false;
}

// "nf_tables 303104 5 nft_chain_nat,nft_compat, Live 0xffffffffc0a00000 (O)": how often and by whom it is used does not
// matter. False if the address is hidden or the line is not understood.
bool DescribeModule(std::string_view line, const std::string& sys_root, RunningKernelState* state,
                    std::string* description) {
  const std::string name(TakeWord(&line));
  const std::string_view size = TakeWord(&line);
  TakeWord(&line);  // users
  TakeWord(&line);  // their names
  const std::string_view live = TakeWord(&line);
  const std::string_view address = TakeWord(&line);
  if (name.empty() || !address.starts_with("0x") ||
      address.find_first_not_of('0', 2) == std::string_view::npos) {
    return false;
  }
  // Another build of a module may get the place of the one before.
  const auto build_id =
      ReadFile(JoinPath(sys_root, StrFormat("module/{}/notes/.note.gnu.build-id", name)),
               kSmallFileBytesMax);
  *description += StrFormat("{} {} {} {} {}\n", name, size, live, address,
                            build_id ? ToHex(HashBytes128(AsBytes(*build_id))) : "-");
  state->modules.push_back(name);
  return true;
}

Status Keep(const std::string& path, std::string_view table) {
  TRY(MakeDirectories(path.substr(0, path.rfind('/'))));
  TRY_ASSIGN(OutputFile file, OutputFile::Create(path, 0600));
  TRY(file.Write(table));
  return file.Commit();
}

Result<KernelSymbols> Kept(const std::string& path, std::string_view identity) {
  TRY_ASSIGN(const Fd fd, OpenRegularFile(path));
  TRY(CheckOwner(fd, path, ::geteuid()));
  TRY_ASSIGN(MappedFile mapped, MappedFile::FromFd(fd.get(), path));
  return KernelSymbols::FromTable(std::move(mapped), identity);
}

}  // namespace

std::optional<RunningKernelState> DescribeRunningKernel(const BuildId& build_id,
                                                        const std::string& proc_root,
                                                        const std::string& sys_root) {
  if (build_id.empty()) return std::nullopt;
  const auto boot = ReadFile(JoinPath(proc_root, "sys/kernel/random/boot_id"), kSmallFileBytesMax);
  const auto head = ReadHead(JoinPath(proc_root, "kallsyms"));
  if (!boot || !head || !ShowsAddresses(*head)) return std::nullopt;
  RunningKernelState state;
  std::string modules;
  const auto list = ReadFile(JoinPath(proc_root, "modules"), kModulesTextBytesMax);
  if (list) {
    for (std::string_view text = *list; !text.empty();) {
      const size_t end = std::min(text.find('\n'), text.size());
      if (!DescribeModule(text.substr(0, end), sys_root, &state, &modules)) return std::nullopt;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  } else if (list.error().code != ErrorCode::kNotFound) {  // not found: a kernel without modules
    return std::nullopt;
  }
  state.identity =
      StrFormat("running\nbuild {}\nboot {}\nhead {}\nmodules {}\n", build_id.ToHex(),
                ToHex(HashBytes128(AsBytes(*boot))), ToHex(HashBytes128(AsBytes(*head))),
                ToHex(HashBytes128(AsBytes(modules))));
  return state;
}

std::string KernelCache::PathOf(const BuildId& build_id, std::string_view suffix) const {
  if (directory_.empty() || build_id.empty()) return {};
  return StrFormat("{}/kernel/{}{}.ksym", directory_, build_id.ToHex(), suffix);
}

Result<KernelSymbols> KernelCache::OfRunningKernel(const BuildId& build_id,
                                                   const std::string& proc_root,
                                                   const std::string& sys_root) const {
  const std::string path = PathOf(build_id, "");
  const auto state =
      path.empty() ? std::nullopt : DescribeRunningKernel(build_id, proc_root, sys_root);
  if (!state) return KernelSymbols::OfRunningKernel(proc_root);
  if (auto kept = Kept(path, state->identity)) return kept;
  TRY_ASSIGN(KernelSymbols symbols, KernelSymbols::OfRunningKernel(proc_root));
  // Not if a module came or went meanwhile. That it cannot be kept only costs time, the next time too.
  if (DescribeRunningKernel(build_id, proc_root, sys_root) == state) {
    (void)Keep(path, symbols.ToTable({.identity = state->identity, .modules = &state->modules}));
  }
  return symbols;
}

Result<KernelSymbols> KernelCache::OfCopy(const BuildId& build_id, const std::string& path) const {
  TRY_ASSIGN(const Fd fd, OpenRegularFile(path));
  TRY_ASSIGN(const FileIdentity file, IdentifyFile(fd.get()));
  const std::string table_path = PathOf(build_id, "-copy");
  const std::string identity =
      StrFormat("copy\npath {}\nfile {} {} {} {}\n", ToHex(HashBytes128(AsBytes(path))),
                file.device, file.inode, file.size_bytes, file.modified_ns);
  if (!table_path.empty()) {
    if (auto kept = Kept(table_path, identity)) return kept;
  }
  TRY_ASSIGN(const std::string text, ReadFd(fd.get(), path, KernelSymbols::kTextBytesMax));
  TRY_ASSIGN(KernelSymbols symbols, KernelSymbols::Parse(text));
  if (!table_path.empty()) (void)Keep(table_path, symbols.ToTable({.identity = identity}));
  return symbols;
}

}  // namespace ptarmigan::internal
