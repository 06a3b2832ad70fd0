#include "hw/internal/perf_open.h"

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/proc_fs.h"
#include "base/str_format.h"
#include "hw/internal/attr_bits.h"

namespace ptarmigan::internal {
namespace {

std::string ParanoidSentence(const std::string& proc_root) {
  const auto level = ProcFs(proc_root).Integer("sys/kernel/perf_event_paranoid");
  if (!level) return "perf events are restricted here";
  return StrFormat("kernel.perf_event_paranoid is {}", *level);
}

Error PermissionError(std::string_view name, const EventAttr& attr, const PerfOpenTarget& target,
                      int errno_value, const std::string& proc_root) {
  std::string remedy;
  if (target.is_cgroup || target.pid == -1) {
    remedy =
        "sampling every process needs CAP_PERFMON (run as root, or `setcap cap_perfmon+ep` on this "
        "binary) or "
        "`sysctl kernel.perf_event_paranoid=0`";
  } else if (target.pid > 0) {
    remedy = StrFormat(
        "process {} may belong to another user, which needs CAP_PERFMON or CAP_SYS_PTRACE; own "
        "processes need `sysctl kernel.perf_event_paranoid=2` or lower",
        target.pid);
  } else if (!attr.exclude_kernel()) {
    remedy =
        "sampling the kernel needs CAP_PERFMON or `sysctl kernel.perf_event_paranoid=1`; \":u\" "
        "after the event "
        "asks for user code only";
  } else {
    remedy =
        "`sysctl kernel.perf_event_paranoid=2` or lower, or CAP_PERFMON, allows it; in a container "
        "its seccomp "
        "profile must allow perf_event_open";
  }
  return Error{ErrorCode::kPermission,
               StrFormat("event {} was refused ({}, {}): {}", name, std::strerror(errno_value),
                         ParanoidSentence(proc_root), remedy),
               errno_value};
}

bool NeedsHardware(const EventAttr& attr) {
  return attr.type == kPerfTypeHardware || attr.type == kPerfTypeHwCache ||
         attr.type == kPerfTypeRaw;
}

}  // namespace

bool TryOpen(PerfKernel& kernel, const EventAttr& attr, const PerfOpenTarget& target,
             int* errno_value) {
  const Fd fd(kernel.Open(attr, target, {}));
  *errno_value = fd.valid() ? 0 : -fd.get();
  return fd.valid();
}

Error ExplainOpenError(std::string_view name, const EventAttr& attr, const PerfOpenTarget& target,
                       int errno_value, const std::string& proc_root) {
  const auto error = [name, errno_value](ErrorCode code, std::string_view why) {
    return Error{code, StrFormat("event {}: {}", name, why), errno_value};
  };
  switch (errno_value) {
    case EACCES:
    case EPERM:
      return PermissionError(name, attr, target, errno_value, proc_root);
    case ENOENT:
    case ENODEV:
    case ENXIO:
      if (NeedsHardware(attr)) {
        return error(ErrorCode::kUnsupported,
                     "the kernel offers no hardware counter for it here (in a virtual machine the "
                     "host must give the "
                     "guest a PMU); cpu-clock works everywhere");
      }
      return error(ErrorCode::kUnsupported, "this kernel does not have it");
    case EOPNOTSUPP:
      return error(ErrorCode::kUnsupported,
                   attr.precise_ip() > 0
                       ? "this CPU cannot give it with the asked precision; use fewer 'p'"
                       : "this PMU cannot sample it, or not with the asked options");
    case EINVAL:
      return error(ErrorCode::kInvalidInput,
                   "the kernel refuses this configuration (period, precision or a term)");
    case ESRCH:
      return error(ErrorCode::kNotFound, StrFormat("process or thread {} has ended", target.pid));
    case EBUSY:
      return error(ErrorCode::kUnavailable,
                   "another user holds this PMU exclusively; end that one first");
    case EMFILE:
    case ENFILE:
      return error(ErrorCode::kResourceLimit,
                   "too many open files: each thread needs one per CPU and event; raise `ulimit "
                   "-n` (or sysctl "
                   "fs.file-max), or record with -a");
    case ENOSYS:
      return error(ErrorCode::kUnsupported,
                   "perf_event_open is not available (kernel without CONFIG_PERF_EVENTS, or "
                   "a seccomp filter)");
    default:
      return ErrnoError(StrFormat("event {}", name), errno_value);
  }
}

namespace {

Error MapError(std::string_view what, std::string_view option, uint64_t bytes, int errno_value,
               const std::string& proc_root) {
  if (errno_value == EPERM) {
    const auto limit = ProcFs(proc_root).Integer("sys/kernel/perf_event_mlock_kb");
    return Error{
        ErrorCode::kResourceLimit,
        StrFormat("{} of {} KiB per CPU is more than this user may lock "
                  "(kernel.perf_event_mlock_kb is {}, plus `ulimit -l`): use a smaller {}, "
                  "raise the sysctl, or give CAP_IPC_LOCK",
                  what, bytes >> 10, limit ? std::to_string(*limit) : "not readable", option),
        errno_value};
  }
  if (errno_value == ENOMEM) {
    return Error{ErrorCode::kResourceLimit,
                 StrFormat("no memory for {} of {} KiB per CPU: use a smaller {}", what,
                           bytes >> 10, option),
                 errno_value};
  }
  return ErrnoError(StrFormat("mapping {} of {} KiB", what, bytes >> 10), errno_value);
}

}  // namespace

Error ExplainMapError(uint64_t ring_bytes, int errno_value, const std::string& proc_root) {
  return MapError("a ring", "--ring", ring_bytes, errno_value, proc_root);
}

Error ExplainAuxMapError(uint64_t aux_bytes, int errno_value, const std::string& proc_root) {
  return MapError("an AUX area", "--aux", aux_bytes, errno_value, proc_root);
}

}  // namespace ptarmigan::internal
