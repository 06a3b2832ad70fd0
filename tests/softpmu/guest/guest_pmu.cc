#include "tests/softpmu/guest/guest_pmu.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "hw/internal/attr_bits.h"
#include "model/event_source.h"

namespace ptarmigan {
namespace {

constexpr const char* kDirectory = "/sys/kernel/debug/softpmu/";

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct RecordCopies : RawRecordSink {
  void OnRecord(const RawRecord& record) override {
    perf_event_header header = {};
    std::memcpy(&header, record.bytes.data(), sizeof(header));
    records.push_back({header.type, header.misc, Text(record.bytes.subspan(sizeof(header)))});
  }
  void OnRoundEnd() override {}

  std::vector<KernelRecord> records;
};

}  // namespace

uint32_t PmuType(std::string_view pmu) {
  const std::string text =
      ReadSmallFile("/sys/bus/event_source/devices/" + std::string(pmu) + "/type");
  return static_cast<uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
}

int LoadScript(std::string_view file, std::string_view script) {
  const int fd = ::open((std::string(kDirectory) += file).c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  while (!script.empty()) {
    const ssize_t written = ::write(fd, script.data(), script.size());
    if (written < 0) {
      const int refusal = errno;
      ::close(fd);
      return refusal;
    }
    script.remove_prefix(static_cast<size_t>(written));
  }
  return ::close(fd) < 0 ? errno : 0;
}

std::string PmuStatusLine(std::string_view name) {
  std::istringstream lines(ReadSmallFile(std::string(kDirectory) + "status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(std::string(name) + " ")) return line.substr(name.size() + 1);
  }
  return {};
}

uint64_t PmuCount(std::string_view name) {
  const std::string line = PmuStatusLine(name);
  return line.empty() ? UINT64_MAX : std::strtoull(line.c_str(), nullptr, 10);
}

EventAttr UserAttr(uint32_t type) {
  EventAttr attr;
  attr.type = type;
  for (const auto bit :
       {internal::kBitDisabled, internal::kBitExcludeKernel, internal::kBitExcludeHypervisor}) {
    internal::SetBit(&attr, bit);
  }
  return attr;
}

uint64_t KernelRecord::Word(size_t offset) const {
  uint64_t word = 0;
  if (offset + sizeof(word) <= body.size()) std::memcpy(&word, body.data() + offset, sizeof(word));
  return word;
}

std::unique_ptr<GuestEvent> GuestEvent::Open(const EventAttr& attr, const PerfOpenTarget& target,
                                             int* refusal) {
  const int fd = HostKernel().Open(attr, target, {});
  *refusal = fd < 0 ? -fd : 0;
  if (fd < 0) return nullptr;
  return std::unique_ptr<GuestEvent>(new GuestEvent(Fd(fd)));
}

std::unique_ptr<GuestEvent> GuestEvent::Open(const EventAttr& attr, const PerfOpenTarget& target) {
  int refusal = 0;
  auto event = Open(attr, target, &refusal);
  EXPECT_TRUE(event != nullptr) << "errno " << refusal;
  return event;
}

int GuestEvent::MapRing(uint64_t ring_bytes) {
  auto ring = internal::PerfRing::Map(HostKernel(), fd_.get(), ring_bytes);
  if (!ring) return ring.error().errno_value;
  ring_.emplace(*std::move(ring));
  return 0;
}

int GuestEvent::MapAux(uint64_t aux_bytes, bool is_snapshot) {
  const Status mapped = ring_->MapAux(fd_.get(), aux_bytes, is_snapshot);
  return mapped ? 0 : mapped.error().errno_value;
}

int GuestEvent::Enable() { return -HostKernel().Ioctl(fd_.get(), PERF_EVENT_IOC_ENABLE, 0); }
int GuestEvent::Disable() { return -HostKernel().Ioctl(fd_.get(), PERF_EVENT_IOC_DISABLE, 0); }
int GuestEvent::SetPeriod(uint64_t period) {
  return -HostKernel().IoctlPointer(fd_.get(), PERF_EVENT_IOC_PERIOD, &period);
}
int GuestEvent::SetFilter(std::string text) {
  return -HostKernel().IoctlPointer(fd_.get(), PERF_EVENT_IOC_SET_FILTER, text.data());
}

std::vector<KernelRecord> GuestEvent::Records() {
  RecordCopies copies;
  ring_->reader().Read(copies, 0);
  return std::move(copies.records);
}

std::vector<AuxRecord> GuestEvent::TakeAux(std::string* bytes) {
  std::vector<AuxRecord> taken;
  for (const KernelRecord& record : Records()) {
    if (record.type != PERF_RECORD_AUX) continue;
    taken.push_back({record.Word(0), record.Word(8), record.Word(16)});
  }
  if (bytes == nullptr) return taken;
  ring_->aux()->Drain(
      [&](uint64_t, Bytes part, Bytes rest) { *bytes += Text(part) += Text(rest); });
  EXPECT_EQ(ring_->aux()->counts().overruns, 0U);
  return taken;
}

std::string GuestEvent::Snapshot() {
  std::string bytes;
  ring_->aux()->Snapshot(
      [&](uint64_t, Bytes part, Bytes rest) { bytes = Text(part) += Text(rest); });
  return bytes;
}

OnCpu::OnCpu(int cpu) {
  EXPECT_EQ(::sched_getaffinity(0, sizeof(before_), &before_), 0);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<size_t>(cpu), &cpus);
  EXPECT_EQ(::sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}
OnCpu::~OnCpu() { ::sched_setaffinity(0, sizeof(before_), &before_); }

namespace {

// A chain of direct calls with a frame each.
#define FRAME \
  __attribute__((noinline, optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")))
volatile uint64_t g_work = 0;
FRAME void Leaf() {
  for (int i = 0; i < 2000; ++i) g_work = g_work + 1;
}
FRAME void Third() {
  Leaf();
  g_work = g_work + 1;
}
FRAME void Second() {
  Third();
  g_work = g_work + 1;
}
FRAME void First() {
  Second();
  g_work = g_work + 1;
}
#undef FRAME

}  // namespace

bool Work(const std::function<bool()>& done, int seconds_max) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_max);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    for (int i = 0; i < 20; ++i) First();
  }
  return true;
}

uint64_t ThreadTimeNs() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

void WorkFor(uint64_t work_ns) {
  const uint64_t end_ns = ThreadTimeNs() + work_ns;
  while (ThreadTimeNs() < end_ns) First();
}

}  // namespace ptarmigan
