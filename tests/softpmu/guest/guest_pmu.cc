#include "tests/softpmu/guest/guest_pmu.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

namespace ptarmigan {
namespace {

constexpr size_t kPage = 4096;
constexpr const char* kDirectory = "/sys/kernel/debug/softpmu/";

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int Errno(long result) { return result < 0 ? errno : 0; }

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
  return Errno(::close(fd));
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

perf_event_attr UserAttr(uint32_t type) {
  perf_event_attr attr = {};
  attr.type = type;
  attr.size = sizeof(attr);
  attr.disabled = 1;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  attr.sample_id_all = 0;
  return attr;
}

uint64_t KernelRecord::Word(size_t offset) const {
  uint64_t word = 0;
  if (offset + sizeof(word) <= body.size()) std::memcpy(&word, body.data() + offset, sizeof(word));
  return word;
}

std::unique_ptr<KernelEvent> KernelEvent::Open(const perf_event_attr& attr, const EventPlace& place,
                                               int* refusal) {
  perf_event_attr copy = attr;
  const long fd = ::syscall(SYS_perf_event_open, &copy, place.pid, place.cpu, place.group,
                            PERF_FLAG_FD_CLOEXEC);
  *refusal = Errno(fd);
  if (fd < 0) return nullptr;
  return std::unique_ptr<KernelEvent>(new KernelEvent(Fd(static_cast<int>(fd))));
}

std::unique_ptr<KernelEvent> KernelEvent::Open(const perf_event_attr& attr,
                                               const EventPlace& place) {
  int refusal = 0;
  auto event = Open(attr, place, &refusal);
  EXPECT_TRUE(event != nullptr) << "errno " << refusal;
  return event;
}

KernelEvent::~KernelEvent() {
  if (aux_ != nullptr) ::munmap(aux_, aux_bytes_);
  if (page_ != nullptr) ::munmap(page_, kPage + ring_bytes_);
}

int KernelEvent::MapRing(size_t ring_bytes) {
  void* page =
      ::mmap(nullptr, kPage + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (page == MAP_FAILED) return errno;
  page_ = static_cast<perf_event_mmap_page*>(page);
  ring_bytes_ = ring_bytes;
  return 0;
}

int KernelEvent::MapAux(size_t aux_bytes, bool snapshot) {
  page_->aux_offset = kPage + ring_bytes_;
  page_->aux_size = aux_bytes;
  void* aux = ::mmap(nullptr, aux_bytes, snapshot ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED,
                     fd_.get(), static_cast<off_t>(kPage + ring_bytes_));
  if (aux == MAP_FAILED) return errno;
  aux_ = static_cast<char*>(aux);
  aux_bytes_ = aux_bytes;
  return 0;
}

int KernelEvent::Enable() { return Errno(::ioctl(fd_.get(), PERF_EVENT_IOC_ENABLE, 0)); }
int KernelEvent::Disable() { return Errno(::ioctl(fd_.get(), PERF_EVENT_IOC_DISABLE, 0)); }
int KernelEvent::SetPeriod(uint64_t period) {
  return Errno(::ioctl(fd_.get(), PERF_EVENT_IOC_PERIOD, &period));
}
int KernelEvent::SetFilter(const std::string& text) {
  return Errno(::ioctl(fd_.get(), PERF_EVENT_IOC_SET_FILTER, text.c_str()));
}

std::vector<KernelRecord> KernelEvent::Records() {
  std::vector<KernelRecord> records;
  const char* data = reinterpret_cast<const char*>(page_) + kPage;
  const uint64_t head = __atomic_load_n(&page_->data_head, __ATOMIC_ACQUIRE);
  uint64_t tail = page_->data_tail;
  const auto copy = [&](uint64_t from, void* to, size_t size) {
    for (size_t i = 0; i < size; ++i) static_cast<char*>(to)[i] = data[(from + i) % ring_bytes_];
  };
  while (tail + sizeof(perf_event_header) <= head) {
    perf_event_header header;
    copy(tail, &header, sizeof(header));
    KernelRecord record = {header.type, header.misc, {}};
    record.body.resize(std::max<size_t>(header.size, sizeof(header)) - sizeof(header));
    copy(tail + sizeof(header), record.body.data(), record.body.size());
    tail += sizeof(header) + record.body.size();
    records.push_back(std::move(record));
  }
  __atomic_store_n(&page_->data_tail, tail, __ATOMIC_RELEASE);
  return records;
}

std::vector<AuxRecord> KernelEvent::TakeAux(std::string* bytes) {
  std::vector<AuxRecord> taken;
  for (const KernelRecord& record : Records()) {
    if (record.type != PERF_RECORD_AUX) continue;
    const AuxRecord aux = {record.Word(0), record.Word(8), record.Word(16)};
    taken.push_back(aux);
    if (bytes == nullptr) continue;
    const size_t place = aux.offset % aux_bytes_;
    const size_t at_end = std::min<size_t>(aux.bytes, aux_bytes_ - place);
    bytes->append(aux_ + place, at_end).append(aux_, aux.bytes - at_end);
    __atomic_store_n(&page_->aux_tail, aux.offset + aux.bytes, __ATOMIC_RELEASE);
  }
  return taken;
}

uint64_t KernelEvent::aux_head() const {
  return __atomic_load_n(&page_->aux_head, __ATOMIC_ACQUIRE);
}
std::string KernelEvent::aux_content() const { return {aux_, aux_bytes_}; }

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
