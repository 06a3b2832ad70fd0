// Symbol tables: how fast they are built, how large they are, how fast they answer.
//
//   symbols_bench [--object=FILE] [Google Benchmark's options]
//
// Without --object a program of inlined templates (tests/programs/symbols/templates.cc) is compiled first, which takes
// a minute. Counters: debug_info_bytes per second of building, table_percent of the object's size, addresses per
// second and frames per address of look-ups.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/str_format.h"
#include "elf/elf_file.h"
#include "symbolize/symbol_table.h"
#include "symbolize/symbol_worker.h"

namespace ptarmigan {
namespace {

constexpr size_t kAddresses = 200000;

struct Subject {
  std::string path;
  Fd fd;
  uint64_t object_bytes = 0;
  uint64_t debug_info_bytes = 0;  // inflated
  std::string table_path;
  uint64_t table_bytes = 0;
  std::vector<FileVaddr> addresses;  // anywhere in .text
  SymbolWorkerJob job;
};

Subject& TheSubject() {
  static Subject subject;
  return subject;
}

// A folder for the subject and its table, removed at the end.
class WorkFolder {
 public:
  WorkFolder() { CHECK(::mkdtemp(path_.data()) != nullptr); }
  ~WorkFolder() {
    const std::string command = StrFormat("rm -r '{}'", path_);
    (void)!std::system(command.c_str());  // NOLINT(cert-env33-c, concurrency-mt-unsafe)
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/ptarmigan-symbols-bench-XXXXXX";
};

std::string CompileSubject(const std::string& folder) {
  const std::string object = JoinPath(folder, "templates");
  const std::string command =
      StrFormat("c++ -std=c++20 -O2 -g -DWIDTH=30 '{}/tests/programs/symbols/templates.cc' -o '{}'",
                PTARMIGAN_SOURCE_DIR, object);
  std::fprintf(stderr, "compiling a subject: %s\n", command.c_str());
  CHECK(std::system(command.c_str()) == 0);  // NOLINT(cert-env33-c, concurrency-mt-unsafe)
  return object;
}

void Prepare(const std::string& object, const std::string& folder) {
  Subject& subject = TheSubject();
  subject.path = object.empty() ? CompileSubject(folder) : object;
  auto fd = OpenFile(subject.path, O_RDONLY);
  CHECK(fd.has_value());
  subject.fd = std::move(fd).value();
  const auto file = ElfFile::FromFd(subject.fd.get(), subject.path);
  CHECK(file.has_value());
  subject.object_bytes = (*file)->bytes().size();
  for (const char* name : {".debug_info", ".zdebug_info"}) {
    const ElfSection* info = (*file)->FindSection(name);
    std::string storage;
    if (info != nullptr)
      subject.debug_info_bytes = (*file)->Content(*info, &storage).value().size();
  }
  const ElfSection* text = (*file)->FindSection(".text");
  CHECK(text != nullptr && text->size_bytes > 0);
  std::mt19937_64 random(1);
  for (size_t i = 0; i < kAddresses; ++i) {
    subject.addresses.push_back(text->vaddr + random() % text->size_bytes);
  }
  subject.job.object_fd = subject.fd.get();
  subject.job.object_name = subject.path;
  subject.table_path = JoinPath(folder, "subject.sym");
  auto table = OutputFile::Create(subject.table_path);
  CHECK(table.has_value());
  CHECK(BuildSymbolTable(subject.job, table->fd()).has_value());
  subject.table_bytes = IdentifyFile(table->fd()).value().size_bytes;
  CHECK(table->Commit().has_value());
}

void CountBuild(benchmark::State& state) {
  const Subject& subject = TheSubject();
  state.counters["debug_info_bytes"] = benchmark::Counter(
      static_cast<double>(subject.debug_info_bytes), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["table_percent"] =
      100.0 * static_cast<double>(subject.table_bytes) / static_cast<double>(subject.object_bytes);
}

void BuildInThisProcess(benchmark::State& state) {
  for (auto _ : state) {
    auto table = BuildSymbolTableHere(TheSubject().job);
    CHECK(table.has_value());
    benchmark::DoNotOptimize(table->data());
  }
  CountBuild(state);
}
BENCHMARK(BuildInThisProcess)->Unit(benchmark::kMillisecond)->UseRealTime();

// As users have it: start of the confined child included.
void BuildInWorker(benchmark::State& state) {
  for (auto _ : state) {
    const Fd output(::memfd_create("table", MFD_CLOEXEC));
    CHECK(BuildSymbolTable(TheSubject().job, output.get()).has_value());
  }
  CountBuild(state);
}
BENCHMARK(BuildInWorker)->Unit(benchmark::kMillisecond)->UseRealTime();

// What a worker costs before it has read anything: it is given a file that is no object.
void StartWorker(benchmark::State& state) {
  const Fd text(::memfd_create("text", MFD_CLOEXEC));
  CHECK(WriteAll(text.get(), AsBytes("no object"), "text").has_value());
  SymbolWorkerJob job;
  job.object_fd = text.get();
  for (auto _ : state) {
    const Fd output(::memfd_create("table", MFD_CLOEXEC));
    SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;
    CHECK(!BuildSymbolTable(job, output.get(), &failure).has_value());
    CHECK(failure == SymbolWorkerFailure::kRefused);
  }
}
BENCHMARK(StartWorker)->Unit(benchmark::kMillisecond)->UseRealTime();

size_t LookUpAll(const SymbolTable& table, size_t count) {
  FrameRef frames[SymbolTable::kFramesMax];
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    found += table.FindFrames(TheSubject().addresses[i], frames);
    benchmark::DoNotOptimize(frames[0].function.data());
  }
  return found;
}

void CountLookUps(benchmark::State& state, size_t count, size_t frames) {
  state.counters["addresses"] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["frames_per_address"] = static_cast<double>(frames) / static_cast<double>(count);
}

// From a table that was just opened: mapping and unpacking count.
void LookUpCold(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  size_t frames = 0;
  for (auto _ : state) {
    const auto table = SymbolTable::Open(TheSubject().table_path);
    CHECK(table.has_value());
    frames = LookUpAll(**table, count);
  }
  CountLookUps(state, count, frames);
}
BENCHMARK(LookUpCold)->Unit(benchmark::kMillisecond)->Arg(20000)->Arg(kAddresses);

void LookUpWarm(benchmark::State& state) {
  const auto table = SymbolTable::Open(TheSubject().table_path);
  CHECK(table.has_value());
  size_t frames = LookUpAll(**table, kAddresses);
  for (auto _ : state) frames = LookUpAll(**table, kAddresses);
  CountLookUps(state, kAddresses, frames);
}
BENCHMARK(LookUpWarm)->Unit(benchmark::kMillisecond);

void OpenTable(benchmark::State& state) {
  for (auto _ : state) {
    auto table = SymbolTable::Open(TheSubject().table_path);
    benchmark::DoNotOptimize(table);
  }
}
BENCHMARK(OpenTable)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ptarmigan

int main(int argc, char** argv) {
  int exit_code = 0;
  if (ptarmigan::RunSymbolWorkerIfAsked(argc, argv, &exit_code)) return exit_code;
  std::string object;
  std::vector<char*> rest;
  constexpr std::string_view kObject = "--object=";
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kObject)) {
      object = argument.substr(kObject.size());
    } else {
      rest.push_back(argv[i]);
    }
  }
  int rest_count = static_cast<int>(rest.size());
  rest.push_back(nullptr);
  benchmark::Initialize(&rest_count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(rest_count, rest.data())) return 2;
  const ptarmigan::WorkFolder folder;
  ptarmigan::Prepare(object, folder.path());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
