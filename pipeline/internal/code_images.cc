#include "pipeline/internal/code_images.h"

#include <elf.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

#include "pipeline/internal/stack_table.h"
#include "symbolize/kernel_symbols.h"

namespace ptarmigan::internal {

// --- functions ---

FunctionTable::FunctionTable(const ElfFile* object, const ElfFile* debug) {
  for (const ElfFile* file : {object, debug}) {
    if (file == nullptr) continue;
    AddSymbols(*file, ".symtab");
    AddSymbols(*file, ".dynsym");
  }
  if (object != nullptr) AddPltEntries(*object);
  std::ranges::stable_sort(functions_, [](const Function& a, const Function& b) {
    return std::pair(a.start, b.end) < std::pair(b.start, a.end);  // the longest first
  });
  const auto same_start = [](const Function& a, const Function& b) { return a.start == b.start; };
  functions_.erase(std::unique(functions_.begin(), functions_.end(), same_start), functions_.end());
  // A symbol that runs into the next one ends there.
  for (size_t i = 0; i + 1 < functions_.size(); ++i) {
    functions_[i].end = std::min(functions_[i].end, functions_[i + 1].start);
  }
}

void FunctionTable::AddSymbols(const ElfFile& file, std::string_view table) {
  constexpr std::string_view kColdSuffix = ".cold";
  std::vector<std::pair<size_t, std::string>> cold;  // and what they are parts of
  // Of a file's own functions several can have one name: the one before a cold part is meant.
  std::unordered_map<std::string_view, std::vector<size_t>> by_name;
  file.ForEachSymbol(table, [&](const ElfSymbol& symbol) {
    const bool is_code = symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC;
    if (!is_code || symbol.section == SHN_UNDEF || symbol.size_bytes == 0) return;
    if (symbol.size_bytes > UINT64_MAX - symbol.value.value) return;
    const size_t suffix = symbol.name.rfind(kColdSuffix);
    if (suffix != std::string_view::npos) {
      cold.emplace_back(functions_.size(), symbol.name.substr(0, suffix));
    } else {
      by_name[symbol.name].push_back(functions_.size());
    }
    functions_.push_back({.start = symbol.value,
                          .end = symbol.value + symbol.size_bytes,
                          .whole = symbol.value,
                          .resumes_unwinding = symbol.name == "_Unwind_Resume"});
  });
  for (const auto& entry : cold) {
    // (Not a structured binding: the lambda below captures it.)
    const size_t part = entry.first;
    const auto& name = entry.second;
    const auto wholes = by_name.find(name);
    if (wholes == by_name.end()) continue;
    size_t nearest = wholes->second.front();
    for (const size_t whole : wholes->second) {
      const auto distance = [&](size_t at) { return at < part ? part - at : at - part; };
      if (distance(whole) < distance(nearest)) nearest = whole;
    }
    functions_[part].whole = functions_[nearest].start;
  }
}

// Every entry is a function of its own: a call of it is one, and it leaves by a jump.
void FunctionTable::AddPltEntries(const ElfFile& file) {
  constexpr uint64_t kEntryBytes = 16;
  constexpr uint64_t kEntriesMax = uint64_t{1} << 20;
  for (const std::string_view name : {".plt", ".plt.sec", ".plt.got"}) {
    const ElfSection* section = file.FindSection(name);
    if (section == nullptr || section->size_bytes > UINT64_MAX - section->vaddr.value) continue;
    const uint64_t entry = section->entry_bytes >= 4 ? section->entry_bytes : kEntryBytes;
    const uint64_t entries = std::min(section->size_bytes / entry, kEntriesMax);
    for (uint64_t i = 0; i < entries; ++i) {
      const FileVaddr start = section->vaddr + i * entry;
      functions_.push_back({.start = start, .end = start + entry, .whole = start});
    }
  }
}

FunctionTable::FunctionTable(std::vector<Function> functions) : functions_(std::move(functions)) {}

const FunctionTable::Function* FunctionTable::Find(FileVaddr address) const {
  const auto after = std::ranges::upper_bound(functions_, address, {}, &Function::start);
  if (after == functions_.begin()) return nullptr;
  const Function& function = *std::prev(after);
  return address < function.end ? &function : nullptr;
}

// --- images ---

class CodeImages::Image : public CodeImage {
 public:
  // What is mapped at an address: an object's code, JIT code, or the name of what is missing.
  struct Piece {
    VirtAddr start;
    VirtAddr end;
    const CodeObject* object = nullptr;
    FileOffset file_offset;  // of `start`, where the object has a file
    bool is_jit = false;
    CodeRegion region;                               // no bytes: missing
    std::shared_ptr<const FunctionTable> functions;  // null: not known
    uint64_t to_file_vaddr = 0;                      // added to a run-time address (wraps)
    std::shared_ptr<const ElfFile> file;             // keeps the bytes
  };

  size_t Epochs() const override { return epochs_.size(); }
  uint64_t EpochStartNs(size_t epoch) const override { return epochs_[epoch].start_ns; }
  std::span<const CodeRegion> Regions(size_t epoch) const override {
    return epochs_[epoch].regions;
  }
  CodeFunction FunctionContaining(VirtAddr address, size_t epoch) const override {
    const Piece* piece = Find(address, epoch);
    if (piece == nullptr || piece->functions == nullptr) return {};
    const FileVaddr vaddr{address.value + piece->to_file_vaddr};
    const FunctionTable::Function* function = piece->functions->Find(vaddr);
    if (function == nullptr) return {};
    return {VirtAddr{function->start.value - piece->to_file_vaddr},
            VirtAddr{function->end.value - piece->to_file_vaddr}};
  }
  std::string_view ObjectAt(VirtAddr address, size_t epoch) const override {
    const Piece* piece = Find(address, epoch);
    return piece == nullptr ? std::string_view() : piece->object->path;
  }
  FunctionTraits TraitsOf(const CodeBlock& block) const {
    const Piece* piece = Find(block.start, block.epoch);
    const FunctionTable::Function* function =
        piece == nullptr || piece->functions == nullptr
            ? nullptr
            : piece->functions->Find({block.start.value + piece->to_file_vaddr});
    if (function == nullptr) return {.whole = block.function};
    return {.whole = {function->whole.value - piece->to_file_vaddr},
            .resumes_unwinding = function->resumes_unwinding};
  }
  std::optional<FoundPlace> PlaceOf(VirtAddr address, size_t epoch) const {
    const Piece* piece = Find(address, epoch);
    if (piece == nullptr) return std::nullopt;
    const uint64_t position = HasFilePositions(*piece->object)
                                  ? piece->file_offset.value + (address - piece->start)
                                  : address.value;
    return FoundPlace{piece->object, position};
  }

  void Add(const Piece& piece, uint64_t time_ns) {
    if (piece.start >= piece.end) return;
    const bool replaces = std::ranges::any_of(epochs_.back().pieces, [&](const Piece& old) {
      return old.start < piece.end && piece.start < old.end && !IsSame(old, piece) &&
             !(old.region.bytes.empty() || piece.region.bytes.empty());
    });
    if (replaces && time_ns > epochs_.back().start_ns && epochs_.size() < kEpochsMax) {
      epochs_.push_back({time_ns, epochs_.back().pieces, {}});
    }
    std::vector<Piece>& pieces = epochs_.back().pieces;
    // A mapping of memory for JIT code may be told after the code that was written into it: clocks differ.
    std::vector<Piece> written;
    if (piece.region.bytes.empty()) {
      std::ranges::copy_if(pieces, std::back_inserter(written), [&](const Piece& old) {
        return old.is_jit && old.start < piece.end && piece.start < old.end;
      });
    }
    Replace(piece, &pieces);
    for (const Piece& code : written) Replace(code, &pieces);
  }
  // Nothing is added any more.
  void Finish() {
    for (Epoch& epoch : epochs_) {
      for (const Piece& piece : epoch.pieces) {
        if (!piece.region.bytes.empty()) epoch.regions.push_back(piece.region);
      }
    }
  }
  std::vector<std::vector<std::byte>>& own_bytes() { return own_bytes_; }

 private:
  struct Epoch {
    uint64_t start_ns = 0;
    std::vector<Piece> pieces;  // sorted, not overlapping
    std::vector<CodeRegion> regions;
  };

  static bool IsSame(const Piece& a, const Piece& b) {
    return a.region.content != 0 && a.region.content == b.region.content &&
           a.region.file_offset - a.start.value == b.region.file_offset - b.start.value;
  }

  // The part of a piece that lies in [start, end).
  static Piece Part(const Piece& piece, VirtAddr start, VirtAddr end) {
    Piece part = piece;
    part.start = std::max(start, piece.start);
    part.end = std::min(end, piece.end);
    const uint64_t skipped = part.start - piece.start;
    part.file_offset = piece.file_offset + skipped;
    if (skipped >= part.region.bytes.size()) {
      part.region.bytes = {};
      return part;
    }
    const uint64_t left =
        std::min<uint64_t>(part.region.bytes.size() - skipped, part.end - part.start);
    part.region.start = part.start;
    part.region.bytes =
        part.region.bytes.subspan(static_cast<size_t>(skipped), static_cast<size_t>(left));
    part.region.file_offset += skipped;
    return part;
  }

  static void Replace(const Piece& piece, std::vector<Piece>* pieces) {
    std::vector<Piece> kept;
    kept.reserve(pieces->size() + 2);
    for (const Piece& old : *pieces) {
      if (old.end <= piece.start || old.start >= piece.end) {
        kept.push_back(old);
        continue;
      }
      if (old.start < piece.start) kept.push_back(Part(old, old.start, piece.start));
      if (old.end > piece.end) kept.push_back(Part(old, piece.end, old.end));
    }
    kept.push_back(piece);
    std::ranges::sort(kept, {}, &Piece::start);
    *pieces = std::move(kept);
  }

  const Piece* Find(VirtAddr address, size_t epoch) const {
    const std::vector<Piece>& pieces = epochs_[epoch].pieces;
    const auto after = std::ranges::upper_bound(pieces, address, {}, &Piece::start);
    if (after == pieces.begin()) return nullptr;
    const Piece& piece = *std::prev(after);
    return address < piece.end ? &piece : nullptr;
  }

  std::vector<Epoch> epochs_{1};
  std::vector<std::vector<std::byte>> own_bytes_;  // of JIT code
};

CodeImages::CodeImages(Symbolizer& symbolizer, const ObjectHints& hints)
    : symbolizer_(symbolizer), hints_(hints) {}
CodeImages::~CodeImages() = default;

CodeImages::History& CodeImages::HistoryOf(const Process& process) {
  std::vector<History>& histories = histories_[process.pid];
  if (histories.empty() || histories.back().life != process.life) {
    histories.push_back({.life = process.life, .since_ns = process.since_ns, .mappings = {}});
  }
  return histories.back();
}

void CodeImages::OnMmap(const Process& process, const CodeMapping& mapping, uint64_t time_ns) {
  HistoryOf(process).mappings.push_back({mapping, time_ns});
}

void CodeImages::OnFork(const Process& parent, const Process& child) {
  if (parent.life == child.life) return;
  const std::vector<TimedMapping> inherited = HistoryOf(parent).mappings;
  HistoryOf(child).mappings = inherited;
}

void CodeImages::AddJitCode(int32_t pid, const JitDump& dump) {
  std::vector<JitCode>& code = jit_code_[pid];
  dump.ForEachPiece([&code](const JitDump::PieceOfCode& piece) {
    if (piece.code.empty()) return;
    code.push_back({piece.start, piece.from_ns, {piece.code.begin(), piece.code.end()}});
  });
  std::ranges::stable_sort(code, {}, &JitCode::from_ns);
}

const CodeImages::LoadedObject& CodeImages::Load(const CodeObject& object) {
  if (object.index >= objects_.size()) objects_.resize(object.index + 1);
  LoadedObject& loaded = objects_[object.index];
  if (std::exchange(loaded.tried, true)) return loaded;
  const LoadHints hints = object.index < hints_.size() ? hints_[object.index] : LoadHints();
  loaded.file = symbolizer_.OpenObject(object, hints);
  if (loaded.file == nullptr) return loaded;
  const std::shared_ptr<const ElfFile> debug = symbolizer_.OpenDebugFile(object, hints);
  loaded.functions = std::make_shared<FunctionTable>(loaded.file.get(),
                                                     debug != loaded.file ? debug.get() : nullptr);
  return loaded;
}

// The functions of [begin, end), by kallsyms.
std::shared_ptr<const FunctionTable> CodeImages::KernelFunctions(VirtAddr begin, VirtAddr end) {
  std::vector<FunctionTable::Function> functions;
  for (VirtAddr at = begin; at < end;) {
    const std::optional<CodeFunction> function = symbolizer_.FindKernelFunction(at);
    if (!function || function->end <= at) break;
    const FileVaddr start{function->start.value};
    functions.push_back({.start = start, .end = {function->end.value}, .whole = start});
    at = function->end;
  }
  return std::make_shared<FunctionTable>(std::move(functions));
}

// How far the kernel was moved when it was booted (KASLR): the record says where one of its symbols was.
uint64_t CodeImages::KernelMovedBy(const CodeMapping& mapping, const ElfFile& vmlinux) {
  const std::string_view reference = KernelReferenceSymbol(mapping.object->path);
  uint64_t moved = 0;
  vmlinux.ForEachSymbol(".symtab", [&](const ElfSymbol& symbol) {
    if (symbol.name == reference) moved = mapping.file_offset.value - symbol.value.value;
  });
  return moved;
}

void CodeImages::AddKernel(Image* image) {
  for (const CodeMapping& mapping : kernel_) {
    Image::Piece piece;
    piece.start = mapping.start;
    piece.end = mapping.end;
    piece.object = mapping.object;
    image->Add(piece, 0);
    const LoadedObject& object = Load(*mapping.object);
    if (object.file == nullptr) continue;
    // A copy of the kernel's memory, modules included, or the file it was booted from.
    const bool is_copy = object.file->type() == ET_CORE;
    if (!is_copy && mapping.object->kind != CodeObject::Kind::kKernel) continue;
    const uint64_t moved = is_copy ? 0 : KernelMovedBy(mapping, *object.file);
    const Bytes bytes = object.file->bytes();
    for (const ElfSegment& segment : object.file->segments()) {
      if (segment.type != PT_LOAD || (!is_copy && (segment.flags & PF_X) == 0)) continue;
      uint64_t offset = std::min<uint64_t>(segment.offset.value, bytes.size());
      uint64_t size = std::min<uint64_t>(segment.file_bytes, bytes.size() - offset);
      VirtAddr start{segment.vaddr.value + moved};
      if (size > UINT64_MAX - start.value) continue;
      if (is_copy) {
        const VirtAddr begin = std::max(start, mapping.start);
        const VirtAddr end = std::min(start + size, mapping.end);
        if (begin >= end) continue;
        offset += begin - start;
        size = end - begin;
        start = begin;
      }
      piece.start = start;
      piece.end = start + size;
      piece.region = {
          .start = start,
          .bytes = bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size)),
          .file_offset = offset,
          .content = uint64_t{mapping.object->index} + 1};
      piece.functions = is_copy ? KernelFunctions(piece.start, piece.end) : object.functions;
      piece.to_file_vaddr = 0 - moved;
      piece.file = object.file;
      image->Add(piece, 0);
    }
  }
}

std::unique_ptr<CodeImages::Image> CodeImages::MakeImage(int32_t pid, const History& history) {
  auto image = std::make_unique<Image>();
  AddKernel(image.get());
  std::vector<std::pair<uint64_t, Image::Piece>> timed;
  for (const TimedMapping& entry : history.mappings) {
    const CodeMapping& mapping = entry.mapping;
    Image::Piece piece;
    piece.start = mapping.start;
    piece.end = mapping.end;
    piece.object = mapping.object;
    piece.file_offset = mapping.file_offset;
    if (HasFilePositions(*mapping.object)) {
      const LoadedObject& object = Load(*mapping.object);
      if (object.file != nullptr) {
        const Bytes bytes = object.file->bytes();
        const uint64_t offset = std::min<uint64_t>(mapping.file_offset.value, bytes.size());
        const uint64_t size =
            std::min<uint64_t>(bytes.size() - offset, mapping.end - mapping.start);
        piece.region = {
            .start = mapping.start,
            .bytes = bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size)),
            .file_offset = offset,
            .content = uint64_t{mapping.object->index} + 1};
        piece.file = object.file;
        const auto vaddr = object.file->ToVaddr(mapping.file_offset);
        if (vaddr) {
          piece.functions = object.functions;
          piece.to_file_vaddr = vaddr->value - mapping.start.value;
        }
      }
    }
    timed.emplace_back(entry.time_ns, std::move(piece));
  }
  if (const auto jit = jit_code_.find(pid); jit != jit_code_.end()) {
    for (const JitCode& code : jit->second) {
      image->own_bytes().push_back(code.bytes);
      Image::Piece piece;
      piece.start = code.start;
      piece.end = code.start + code.bytes.size();
      piece.is_jit = true;
      piece.region = {.start = code.start, .bytes = image->own_bytes().back()};
      // It belongs to the memory that it was written into.
      for (const TimedMapping& entry : history.mappings) {
        if (entry.mapping.Contains(code.start)) piece.object = entry.mapping.object;
      }
      if (piece.object == nullptr) continue;
      timed.emplace_back(code.from_ns, std::move(piece));
    }
  }
  std::ranges::stable_sort(timed, {}, [](const auto& entry) { return entry.first; });
  for (const auto& [time_ns, piece] : timed) image->Add(piece, time_ns);
  image->Finish();
  return image;
}

std::optional<FoundPlace> CodeImages::PlaceOf(const CodeImage& image, VirtAddr address,
                                              size_t epoch) {
  return static_cast<const Image&>(image).PlaceOf(address, epoch);
}

FunctionTraits CodeImages::TraitsOf(const CodeImage& image, const CodeBlock& block) {
  return static_cast<const Image&>(image).TraitsOf(block);
}

const CodeImages::Life* CodeImages::LifeAt(int32_t pid, uint64_t time_ns) {
  const Life* at = nullptr;
  for (const Life& life : LivesOf(pid)) {
    if (at == nullptr || life.since_ns <= time_ns) at = &life;
  }
  return at;
}

std::span<const CodeImages::Life> CodeImages::LivesOf(int32_t pid) {
  const auto [found, is_new] = lives_.try_emplace(pid);
  if (!is_new) return found->second;
  const auto histories = histories_.find(pid);
  if (histories == histories_.end()) {
    // A thread of the kernel, perhaps.
    if (kernel_.empty()) return {};
    images_.push_back(MakeImage(pid, {}));
    found->second.push_back({.image = images_.back().get()});
    return found->second;
  }
  for (const History& history : histories->second) {
    images_.push_back(MakeImage(pid, history));
    found->second.push_back(
        {.id = history.life, .since_ns = history.since_ns, .image = images_.back().get()});
  }
  return found->second;
}

}  // namespace ptarmigan::internal
