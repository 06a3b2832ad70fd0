#include "tests/hw/scripted_kernel.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/file.h"
#include "base/str_format.h"

namespace ptarmigan {
namespace {

std::byte* Aligned(std::vector<std::byte>* memory, uint64_t bytes) {
  const uint64_t page = PageSizeBytes();
  memory->assign(bytes + page, std::byte{0});
  const auto address = reinterpret_cast<uintptr_t>(memory->data());
  return memory->data() + (page - address % page) % page;
}

}  // namespace

int ScriptedKernel::Open(const EventAttr& attr, const PerfOpenTarget& target,
                         const PerfOpenExtras&) {
  ++opens_;
  // Descriptors are closed behind our back, as the kernel sees it happen to its files.
  std::erase_if(events_, [](const auto& event) { return !IsOpen(*event.second); });
  if (on_open) {
    if (const int error = on_open(attr, target); error != 0) return -error;
  }
  std::array<int, 2> ends = {};
  CHECK(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  const int fd = ends[0];
  auto event = std::make_unique<Event>();
  event->wake = Fd(ends[1]);
  event->inode = IdentifyFile(fd)->inode;
  event->attr = attr;
  event->target = target;
  event->fd = fd;
  event->id = next_id_++;
  event->enabled = !attr.Flag(0);
  event->tracing = event->enabled;
  events_[fd] = std::move(event);
  return fd;
}

// The number may have become another file's.
bool ScriptedKernel::IsOpen(const Event& event) {
  const auto identity = IdentifyFile(event.fd);
  return identity && identity->inode == event.inode;
}

ScriptedKernel::Event* ScriptedKernel::EventOf(int fd) {
  const auto found = events_.find(fd);
  CHECK(found != events_.end());
  return found->second.get();
}

void* ScriptedKernel::Map(int fd, uint64_t bytes, uint64_t offset, bool writable,
                          int* errno_value) {
  Event* event = EventOf(fd);
  const bool is_aux = offset != 0;
  *errno_value = on_map ? on_map(bytes, is_aux) : 0;
  if (*errno_value != 0) return nullptr;
  ++mapped_;
  if (is_aux) {
    Ring* ring = event->ring;
    CHECK(ring != nullptr && ring->page->aux_offset == offset && ring->page->aux_size == bytes);
    ring->aux_data = Aligned(&ring->aux, bytes);
    ring->aux_bytes = bytes;
    ring->aux_overwrites = !writable;
    return ring->aux_data;
  }
  rings_.push_back(std::make_unique<Ring>());
  Ring* ring = rings_.back().get();
  std::byte* base = Aligned(&ring->memory, bytes);
  ring->page = reinterpret_cast<perf_event_mmap_page*>(base);
  ring->data = base + PageSizeBytes();
  ring->data_bytes = bytes - PageSizeBytes();
  ring->page->time_shift = time_shift;
  ring->page->time_mult = time_mult;
  ring->page->time_zero = time_zero;
  ring->page->cap_user_time_zero = 1;
  event->ring = ring;
  if (after_map) after_map(event);
  return base;
}

void ScriptedKernel::Unmap(void*, uint64_t) { --mapped_; }

int ScriptedKernel::Ioctl(int fd, unsigned long request, unsigned long argument) {
  Event* event = EventOf(fd);
  if (on_ioctl) {
    if (const int error = on_ioctl(*event, request); error != 0) return -error;
  }
  switch (request) {
    case PERF_EVENT_IOC_ENABLE:
      calls_.push_back(StrFormat("enable {}", event->id));
      if (!event->enabled) event->tracing = true;
      event->enabled = true;
      return 0;
    case PERF_EVENT_IOC_DISABLE:
      calls_.push_back(StrFormat("disable {}", event->id));
      event->enabled = false;
      event->tracing = false;
      return 0;
    case PERF_EVENT_IOC_SET_OUTPUT:
      event->ring = EventOf(static_cast<int>(argument))->ring;
      return 0;
    default:
      return -EINVAL;
  }
}

int ScriptedKernel::IoctlPointer(int fd, unsigned long request, void* argument) {
  Event* event = EventOf(fd);
  if (on_ioctl) {
    if (const int error = on_ioctl(*event, request); error != 0) return -error;
  }
  if (request == PERF_EVENT_IOC_SET_FILTER) {
    filters[event->id] = static_cast<const char*>(argument);
    return 0;
  }
  if (request != PERF_EVENT_IOC_ID) return -EINVAL;
  std::memcpy(argument, &event->id, sizeof(event->id));
  return 0;
}

int64_t ScriptedKernel::Read(int fd, std::span<std::byte> into) {
  const Event* event = EventOf(fd);
  const uint64_t values[] = {0, event->id, event->lost};
  const size_t count = std::min(into.size(), sizeof(values));
  std::memcpy(into.data(), values, count);
  return static_cast<int64_t>(count);
}

std::vector<ScriptedKernel::Event*> ScriptedKernel::events() {
  std::vector<Event*> open;
  for (const auto& [fd, event] : events_) {
    if (IsOpen(*event)) open.push_back(event.get());
  }
  std::ranges::sort(open, {}, &Event::id);
  return open;
}

ScriptedKernel::Event* ScriptedKernel::Find(uint32_t type, int32_t cpu) {
  for (Event* event : events()) {
    const bool here = cpu < 0 || event->target.cpu == cpu;
    if (event->attr.type == type && here && event->ring != nullptr) return event;
  }
  return nullptr;
}

bool ScriptedKernel::WriteRecord(Event* event, Bytes record) {
  Ring* ring = event->ring;
  const uint64_t head = ring->page->data_head;
  const uint64_t tail = __atomic_load_n(&ring->page->data_tail, __ATOMIC_ACQUIRE);
  if (head + record.size() - tail > ring->data_bytes) {
    ++event->lost;
    return false;
  }
  for (size_t i = 0; i < record.size(); ++i) ring->data[(head + i) % ring->data_bytes] = record[i];
  __atomic_store_n(&ring->page->data_head, head + record.size(), __ATOMIC_RELEASE);
  // Full: it is readable already.
  CHECK(::write(event->wake.get(), "!", 1) == 1 || errno == EAGAIN);
  return true;
}

void ScriptedKernel::WriteAuxRecord(Event* event, uint64_t offset, uint64_t size, uint64_t flags) {
  std::vector<std::byte> record(sizeof(perf_event_header));
  const auto put = [&record](uint64_t value, size_t bytes) {
    const size_t at = record.size();
    record.resize(at + bytes);
    std::memcpy(record.data() + at, &value, bytes);
  };
  put(offset, 8);
  put(size, 8);
  put(flags, 8);
  // The trailer that attr.sample_type asks for, in the kernel's order.
  if (event->attr.Samples(kSampleTid)) put(0, 8);
  if (event->attr.Samples(kSampleTime)) put(5000 + offset, 8);
  if (event->attr.Samples(kSampleCpu)) put(static_cast<uint32_t>(event->target.cpu), 8);
  if (event->attr.Samples(kSampleIdentifier)) put(event->id, 8);
  perf_event_header header = {};
  header.type = PERF_RECORD_AUX;
  header.size = static_cast<uint16_t>(record.size());
  std::memcpy(record.data(), &header, sizeof(header));
  WriteRecord(event, record);
}

uint64_t ScriptedKernel::Trace(Event* event, Bytes bytes, uint64_t flags) {
  Ring* ring = event->ring;
  if (!event->enabled || !event->tracing) return 0;
  perf_event_mmap_page* page = ring->page;
  if (ring->aux_overwrites) {
    uint64_t place = page->aux_head;
    for (const std::byte byte : bytes) {
      ring->aux_data[place] = byte;
      place = (place + 1) % ring->aux_bytes;
    }
    __atomic_store_n(&page->aux_head, place, __ATOMIC_RELEASE);
    return bytes.size();
  }
  const uint64_t head = page->aux_head;
  const uint64_t tail = __atomic_load_n(&page->aux_tail, __ATOMIC_ACQUIRE);
  // One byte is never used.
  const uint64_t room = ring->aux_bytes - 1 - (head - tail);
  const uint64_t count = std::min<uint64_t>(bytes.size(), room);
  for (uint64_t i = 0; i < count; ++i) ring->aux_data[(head + i) % ring->aux_bytes] = bytes[i];
  __atomic_store_n(&page->aux_head, head + count, __ATOMIC_RELEASE);
  const bool truncated = count < bytes.size();
  if (truncated) {
    flags |= PERF_AUX_FLAG_TRUNCATED;
    event->tracing = false;
    event->enabled = stays_enabled_when_truncated;
  }
  WriteAuxRecord(event, head, count, flags);
  return count;
}

}  // namespace ptarmigan
