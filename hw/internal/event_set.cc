#include "hw/internal/event_set.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/proc_fs.h"
#include "base/str_format.h"
#include "hw/internal/perf_open.h"

namespace ptarmigan::internal {
namespace {

// A process whose threads come and go all the time shows new ones in every scan. Those of threads that are open have
// inherited already, so the search for the others may end.
constexpr std::chrono::seconds kScanTimeMax{2};
constexpr uint64_t kWakeIndex = UINT64_MAX;
constexpr uint64_t kOtherIndex = UINT64_MAX - 1;  // a descriptor of WakeOn

// Each thread needs a descriptor per CPU and event: use what the hard limit allows.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  // Refused: opening says so when it runs out.
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace

EventSet::EventSet(const PerfSessionOptions& options, const SessionAttrs& plan, uint64_t ring_bytes,
                   uint64_t aux_bytes)
    : options_(options),
      plan_(plan),
      ring_bytes_(ring_bytes),
      aux_bytes_(aux_bytes),
      kernel_(*options.kernel),
      of_tasks_(options.target.kind == PerfTarget::Kind::kPids ||
                options.target.kind == PerfTarget::Kind::kCommand) {}

Status EventSet::Open(const std::vector<int32_t>& cpus) {
  RaiseDescriptorLimit();
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return ErrnoError("epoll_create1", errno);
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return ErrnoError("eventfd", errno);
  epoll_event wake_event = {};
  wake_event.events = EPOLLIN;
  wake_event.data.u64 = kWakeIndex;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &wake_event) != 0)
    return ErrnoError("epoll_ctl", errno);
  return of_tasks_ ? OpenTasks(cpus) : OpenEverywhere(cpus);
}

Status EventSet::OpenTasks(const std::vector<int32_t>& cpus) {
  const ProcFs proc(options_.proc_root);
  for (const int32_t pid : options_.target.pids) {
    bool any = false;
    const auto deadline = std::chrono::steady_clock::now() + kScanTimeMax;
    for (bool first_scan = true; first_scan || std::chrono::steady_clock::now() < deadline;
         first_scan = false) {
      auto tids = proc.Tids(pid);
      if (!tids) break;
      bool found_new = false;
      for (const int32_t tid : *tids) {
        if (!threads_.insert(tid).second) continue;
        bool vanished = false;
        TRY(OpenThread(pid, tid, cpus, &vanished));
        if (vanished) {
          ++counts_.threads_vanished;
          continue;
        }
        found_new = true;
        any = true;
        if (!first_scan) duplicates_.Arm();
      }
      if (!found_new) break;
    }
    if (!any && options_.target.pids.size() == 1) {
      return Error{ErrorCode::kNotFound, StrFormat("there is no process {}", pid)};
    }
  }
  if (opened_.empty()) return Error{ErrorCode::kNotFound, "none of the processes exists any more"};
  return OkStatus();
}

Status EventSet::OpenThread(int32_t pid, int32_t tid, const std::vector<int32_t>& cpus,
                            bool* vanished) {
  // Several given pids may be threads of one process, or the same.
  static_cast<void>(pid);
  for (const int32_t cpu : cpus) {
    std::vector<int> leaders(plan_.events.size(), -1);
    for (uint32_t event = 0; event < plan_.events.size(); ++event) {
      TRY(OpenOne(PerfOpenTarget{tid, cpu, false}, event, &leaders, vanished));
      if (*vanished) return OkStatus();
    }
  }
  return OkStatus();
}

Result<Fd> EventSet::OpenCgroup() const {
  const std::string& path = options_.target.cgroup_path;
  std::vector<std::string> places;
  if (path.starts_with('/')) places.push_back(path);
  for (const std::string_view mount : {"fs/cgroup/perf_event", "fs/cgroup", "fs/cgroup/unified"}) {
    places.push_back(JoinPath(JoinPath(options_.sysfs_root, mount), path));
  }
  for (const std::string& place : places) {
    auto fd = OpenFile(place, O_RDONLY | O_DIRECTORY);
    if (fd) return fd;
    if (fd.error().code == ErrorCode::kPermission) return fd;
  }
  return Error{ErrorCode::kNotFound, StrFormat("there is no control group {} (looked in {})", path,
                                               JoinPath(options_.sysfs_root, "fs/cgroup"))};
}

Status EventSet::OpenEverywhere(const std::vector<int32_t>& cpus) {
  const bool by_cgroup = options_.target.kind == PerfTarget::Kind::kCgroup;
  if (by_cgroup) {
    TRY_ASSIGN(cgroup_, OpenCgroup());
  }
  const uint32_t tracking = static_cast<uint32_t>(plan_.events.size()) - 1;
  for (const int32_t cpu : cpus) {
    bool offline = false;
    std::vector<int> leaders(plan_.events.size(), -1);
    for (uint32_t event = 0; event < plan_.events.size() && !offline; ++event) {
      // Names and mappings are tracked for every process: one may enter the group later.
      const bool in_cgroup = by_cgroup && event != tracking;
      TRY(OpenOne(PerfOpenTarget{in_cgroup ? cgroup_.get() : -1, cpu, in_cgroup}, event, &leaders,
                  &offline));
    }
  }
  if (opened_.empty()) return Error{ErrorCode::kUnavailable, "no CPU could be opened"};
  return OkStatus();
}

Status EventSet::OpenOne(PerfOpenTarget target, uint32_t event, std::vector<int>* leaders,
                         bool* vanished) {
  const std::vector<int32_t>& pmu_cpus = plan_.cpus[event];
  if (!pmu_cpus.empty() &&
      std::find(pmu_cpus.begin(), pmu_cpus.end(), target.cpu) == pmu_cpus.end()) {
    return OkStatus();
  }
  const EventDescription& description = plan_.events[event];
  if (description.group_leader != event) {
    target.group_fd = (*leaders)[description.group_leader];
    if (target.group_fd < 0) return OkStatus();  // this CPU has no such leader
  }
  const uint64_t quarter = std::min<uint64_t>(ring_bytes_ / 4, UINT32_MAX);
  const PerfOpenExtras extras{options_.wakeup_bytes != 0 ? options_.wakeup_bytes
                                                         : static_cast<uint32_t>(quarter)};
  const int result = kernel_.Open(description.attr, target, extras);
  if (result < 0) {
    const bool thread_gone = result == -ESRCH && of_tasks_;
    const bool cpu_gone = result == -ENODEV && !cgroup_.valid() && !opened_.empty();
    if (thread_gone || cpu_gone) {
      *vanished = thread_gone || !of_tasks_;
      return OkStatus();
    }
    return ExplainOpenError(description.name, description.attr, target, -result,
                            options_.proc_root);
  }
  Opened opened;
  opened.fd = Fd(result);
  opened.event = event;
  (*leaders)[event] = result;
  if (const int error = kernel_.IoctlPointer(result, PERF_EVENT_IOC_ID, &opened.id); error != 0)
    return ErrnoError("PERF_EVENT_IOC_ID", -error);
  TRY(AttachRing(result, target.cpu, plan_.fills_aux[event], &opened.ring));
  if (plan_.fills_aux[event] && !options_.aux_filter.empty()) TRY(SetFilter(result));
  fd_of_id_[opened.id] = result;
  duplicates_.AddOpened(opened.id,
                        opened.ring * static_cast<uint32_t>(plan_.events.size()) + event);
  opened_.push_back(std::move(opened));
  ++counts_.events_opened;
  return Watch(opened_.size() - 1);
}

Status EventSet::SetFilter(int fd) const {
  std::string text = options_.aux_filter;  // the kernel reads it, the call takes no const
  const int error = kernel_.IoctlPointer(fd, PERF_EVENT_IOC_SET_FILTER, text.data());
  if (error == 0) return OkStatus();
  const std::string_view why =
      error == -EOPNOTSUPP ? "this PMU has fewer filters, or not of this kind (start and stop "
                             "where it has ranges only)"
      : error == -EINVAL   ? "it is not understood, or names a file for a trace of every process"
                           : std::strerror(-error);
  return Error{ErrorCode::kInvalidInput,
               StrFormat("--filter \"{}\" was refused: {}", options_.aux_filter, why), -error};
}

Status EventSet::AttachRing(int fd, int32_t cpu, bool fills_aux, uint32_t* ring) {
  const auto known = ring_of_cpu_.find(cpu);
  if (known != ring_of_cpu_.end()) {
    *ring = known->second.first;
    const auto owner = static_cast<unsigned long>(known->second.second);
    if (const int error = kernel_.Ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, owner); error != 0) {
      return ErrnoError("PERF_EVENT_IOC_SET_OUTPUT", -error);
    }
    return OkStatus();
  }
  auto mapped = PerfRing::Map(kernel_, fd, ring_bytes_);
  if (!mapped) {
    const int error = mapped.error().errno_value;
    map_refused_ = error == EPERM || error == ENOMEM;
    return ExplainMapError(ring_bytes_, error, options_.proc_root);
  }
  if (fills_aux && aux_bytes_ > 0) {
    const bool overwrites = options_.aux_mode != AuxMode::kFull;
    if (const Status status = mapped->MapAux(fd, aux_bytes_, overwrites); !status) {
      const int error = status.error().errno_value;
      map_refused_ = error == EPERM || error == ENOMEM;
      return ExplainAuxMapError(aux_bytes_, error, options_.proc_root);
    }
  }
  *ring = static_cast<uint32_t>(rings_.size());
  rings_.push_back(*std::move(mapped));
  cpu_of_ring_.push_back(cpu);
  ring_of_cpu_[cpu] = {*ring, fd};
  return OkStatus();
}

Status EventSet::Watch(size_t index) {
  // Every event, not only the ring's owner: whichever is asked first takes the ring's wake-up (rb->poll), and each
  // one tells of the end of its own thread.
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = index;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, opened_[index].fd.get(), &event) != 0) {
    return ErrnoError("epoll_ctl", errno);
  }
  ++live_;
  return OkStatus();
}

Status EventSet::Switch(const Opened& opened, bool on) const {
  const unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
  const int error = kernel_.Ioctl(opened.fd.get(), request, 0);
  if (error == 0) return OkStatus();
  return ErrnoError(on ? "PERF_EVENT_IOC_ENABLE" : "PERF_EVENT_IOC_DISABLE", -error);
}

Status EventSet::Enable() {
  for (const Opened& opened : opened_) {
    if (opened.event + 1 != plan_.events.size()) TRY(Switch(opened, true));
  }
  return OkStatus();
}

Status EventSet::Disable(bool tracking_too) {
  for (const Opened& opened : opened_) {
    if (tracking_too || opened.event + 1 != plan_.events.size()) TRY(Switch(opened, false));
  }
  return OkStatus();
}

Status EventSet::SwitchAux(bool on) {
  for (const Opened& opened : opened_) {
    if (opened.live && plan_.fills_aux[opened.event]) TRY(Switch(opened, on));
  }
  return OkStatus();
}

Status EventSet::RestartAux(uint32_t ring, const std::function<void()>& between) {
  const auto fills = [this, ring](const Opened& opened) {
    return opened.ring == ring && plan_.fills_aux[opened.event];
  };
  for (const Opened& opened : opened_) {
    if (fills(opened)) TRY(Switch(opened, false));
  }
  between();
  for (const Opened& opened : opened_) {
    if (fills(opened)) TRY(Switch(opened, true));
  }
  return OkStatus();
}

void EventSet::Wait(int timeout_ms) {
  std::array<epoll_event, 64> events = {};
  for (;;) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
    if (count <= 0) return;  // time over, or a signal: the caller looks at everything anyway
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 == kWakeIndex) {
        uint64_t ignored = 0;
        static_cast<void>(::read(wake_.get(), &ignored, sizeof(ignored)));
        continue;
      }
      if (event.data.u64 == kOtherIndex) continue;
      if ((event.events & (EPOLLHUP | EPOLLERR)) == 0) continue;
      // The thread and everything that inherited from it has ended; the descriptor would report it for ever.
      Opened& opened = opened_[event.data.u64];
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, opened.fd.get(), nullptr);
      if (opened.live) --live_;
      opened.live = false;
    }
    if (count < static_cast<int>(events.size())) return;
    timeout_ms = 0;
  }
}

Status EventSet::WakeOn(int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kOtherIndex;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return ErrnoError("epoll_ctl", errno);
  return OkStatus();
}

void EventSet::Wake() const {
  const uint64_t one = 1;
  // Full counter: a wake-up is pending already.
  static_cast<void>(!::write(wake_.get(), &one, sizeof(one)));
}

void EventSet::StopDuplicates() {
  for (const uint64_t id : duplicates_.TakeDuplicateIds()) {
    const auto found = fd_of_id_.find(id);
    // If it cannot be stopped, its samples are still left out.
    if (found != fd_of_id_.end())
      static_cast<void>(kernel_.Ioctl(found->second, PERF_EVENT_IOC_DISABLE, 0));
  }
}

std::vector<uint64_t> EventSet::LostPerRing() const {
  std::vector<uint64_t> lost(rings_.size());
  if (!plan_.lost_accepted) return lost;
  for (const Opened& opened : opened_) {
    std::array<uint64_t, 3> values = {};  // value, id, lost
    const int64_t count = kernel_.Read(opened.fd.get(), std::as_writable_bytes(std::span(values)));
    if (count == static_cast<int64_t>(sizeof(values))) lost[opened.ring] += values[2];
  }
  return lost;
}

std::vector<uint64_t> EventSet::IdsOf(uint32_t event) const {
  std::vector<uint64_t> ids;
  for (const Opened& opened : opened_) {
    if (opened.event == event) ids.push_back(opened.id);
  }
  return ids;
}

}  // namespace ptarmigan::internal
