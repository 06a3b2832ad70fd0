#include "symbolize/internal/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <vector>

namespace ptarmigan::internal {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // shadow memory takes terabytes of address space
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

#if defined(__x86_64__)
constexpr uint32_t kAuditArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kAuditArch = AUDIT_ARCH_AARCH64;
#elif defined(__riscv) && __riscv_xlen == 64
constexpr uint32_t kAuditArch = AUDIT_ARCH_RISCV64;
#else
constexpr uint32_t kAuditArch = 0;
#endif

// Work on memory and on descriptors that are open already.
constexpr int kAllowed[] = {
    SYS_read,           SYS_write,        SYS_readv,         SYS_writev,          SYS_pread64,
    SYS_pwrite64,       SYS_lseek,        SYS_fstat,         SYS_close,           SYS_ftruncate,
    SYS_fcntl,          SYS_munmap,       SYS_mremap,        SYS_madvise,         SYS_brk,
    SYS_futex,          SYS_sched_yield,  SYS_getpid,        SYS_gettid,          SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,   SYS_restart_syscall, SYS_exit,
    SYS_exit_group,     SYS_getrandom,    SYS_clock_gettime, SYS_clock_getres,    SYS_gettimeofday,
    SYS_newfstatat,     SYS_statx,
};

// Questions that libraries ask in passing: they fail, and the libraries do without.
constexpr int kRefused[] = {
    SYS_openat,     SYS_readlinkat, SYS_faccessat, SYS_getcwd,    SYS_ioctl,
    SYS_prctl,      SYS_uname,      SYS_sysinfo,   SYS_prlimit64, SYS_sched_getaffinity,
    SYS_getuid,     SYS_geteuid,    SYS_getgid,    SYS_getegid,   SYS_getrlimit,
    SYS_membarrier, SYS_rseq,
#if defined(SYS_open)
    SYS_open,
#endif
#if defined(SYS_readlink)
    SYS_readlink,
#endif
#if defined(SYS_access)
    SYS_access,
#endif
#if defined(SYS_stat)
    SYS_stat,
#endif
#if defined(SYS_lstat)
    SYS_lstat,
#endif
};

// What finding a .dwo file needs beyond opening it.
constexpr int kAllowedWithFiles[] = {
    SYS_readlinkat,
#if defined(SYS_readlink)
    SYS_readlink,
#endif
    SYS_getcwd,
};

// UBSan's check of an object's type asks by writing to a pipe whether the memory may be read.
constexpr int kAllowedWhenSanitized[] = {
    SYS_pipe2,
#if defined(SYS_pipe)
    SYS_pipe,
#endif
};

class Filter {
 public:
  void Load(size_t offset) {
    program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  }
  void Return(uint32_t action) { program_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
  // The action if the loaded word equals `value`.
  void ReturnIf(uint32_t value, uint32_t action) {
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    Return(action);
  }
  // The action if the loaded word is not `value`.
  void ReturnUnless(uint32_t value, uint32_t action) {
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    Return(action);
  }
  // For system call `number`: `refused` if the word at `offset` has one of `bits`, else allowed.
  void AllowWithoutBits(int number, size_t offset, uint32_t bits, uint32_t refused) {
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4));
    Load(offset);
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
    Return(refused);
    Return(SECCOMP_RET_ALLOW);
  }
  // For system call `number`: allowed if the word at `offset` equals `value`, else deadly.
  void AllowIfEqual(int number, size_t offset, uint32_t value) {
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4));
    Load(offset);
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    Return(SECCOMP_RET_ALLOW);
    Return(SECCOMP_RET_KILL_PROCESS);
  }
  sock_fprog Attachment() {
    return {.len = static_cast<unsigned short>(program_.size()), .filter = program_.data()};
  }

 private:
  std::vector<sock_filter> program_;
};

// The low half of a system call's argument.
constexpr size_t ArgumentOffset(size_t index) {
  return offsetof(seccomp_data, args) + index * sizeof(uint64_t) +
         (std::endian::native == std::endian::big ? 4 : 0);
}

Filter MakeFilter(bool may_open_files) {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EACCES;
  Filter result;
  // A call by another convention (32-bit) would have other numbers.
  result.Load(offsetof(seccomp_data, arch));
  result.ReturnUnless(kAuditArch, SECCOMP_RET_KILL_PROCESS);
  result.Load(offsetof(seccomp_data, nr));
  for (const int number : kAllowed) {
    result.ReturnIf(static_cast<uint32_t>(number), SECCOMP_RET_ALLOW);
  }
  for (const int number : {SYS_mmap, SYS_mprotect}) {
    result.AllowWithoutBits(static_cast<int>(number), ArgumentOffset(2), PROT_EXEC, kRefuse);
  }
  // abort() and raise() signal this process and no other.
  for (const int number : {SYS_tgkill, SYS_kill}) {
    result.AllowIfEqual(static_cast<int>(number), ArgumentOffset(0),
                        static_cast<uint32_t>(::getpid()));
  }
  if (may_open_files) {
    constexpr uint32_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
    result.AllowWithoutBits(SYS_openat, ArgumentOffset(2), kWrites, kRefuse);
    for (const int number : kAllowedWithFiles) {
      result.ReturnIf(static_cast<uint32_t>(number), SECCOMP_RET_ALLOW);
    }
  }
  if (kSanitized) {
    for (const int number : kAllowedWhenSanitized) {
      result.ReturnIf(static_cast<uint32_t>(number), SECCOMP_RET_ALLOW);
    }
  }
  for (const int number : kRefused) result.ReturnIf(static_cast<uint32_t>(number), kRefuse);
  result.Return(SECCOMP_RET_KILL_PROCESS);
  return result;
}

Status SetLimit(decltype(RLIMIT_AS) resource, uint64_t value) {
  struct rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0) return ErrnoError("getrlimit", errno);
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < value) value = limit.rlim_max;
  limit.rlim_cur = limit.rlim_max = value;
  if (::setrlimit(resource, &limit) != 0) return ErrnoError("setrlimit", errno);
  return OkStatus();
}

}  // namespace

Status LimitProcess(const SandboxLimits& limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_DUMPABLE, 0);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return ErrnoError("no_new_privs", errno);
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capset, &header, none) != 0) return ErrnoError("capset", errno);
  TRY(SetLimit(RLIMIT_CORE, 0));
  TRY(SetLimit(RLIMIT_CPU, limits.cpu_seconds_max));
  TRY(SetLimit(RLIMIT_FSIZE, limits.file_bytes_max));
  TRY(SetLimit(RLIMIT_NOFILE, limits.files_max));
  if (!kSanitized) TRY(SetLimit(RLIMIT_AS, limits.memory_bytes_max));
  return OkStatus();
}

Status FilterSystemCalls(bool may_open_files) {
  if (kAuditArch == 0) {
    return Error{ErrorCode::kUnsupported, "no system call filter for this architecture"};
  }
  Filter filter = MakeFilter(may_open_files);
  const sock_fprog attached = filter.Attachment();
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &attached, 0, 0) != 0) {
    return ErrnoError("seccomp", errno);
  }
  return OkStatus();
}

}  // namespace ptarmigan::internal
