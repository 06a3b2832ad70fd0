#include "symbolize/debuginfod_client.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/file.h"
#include "base/str_format.h"
#include "symbolize/internal/sandbox.h"

namespace ptarmigan {
namespace {

constexpr std::string_view kChildMark = "--ptarmigan-debuginfod-query";
constexpr std::string_view kDebugInfoWord = "debuginfo";
constexpr std::string_view kExecutableWord = "executable";

// Whether this program's main lends itself to queries.
std::atomic<bool> g_main_is_prepared = false;

using Clock = std::chrono::steady_clock;

// A child process whose standard output we read; killed if it outlives its deadline.
class QueryProcess {
 public:
  static Result<QueryProcess> Start(const std::vector<std::string>& arguments,
                                    const std::vector<std::string>& environment);
  // Everything that it wrote, once it has ended well; kUnavailable after the deadline.
  Result<std::string> Finish(Clock::time_point deadline);

 private:
  QueryProcess(pid_t pid, Fd out) : pid_(pid), out_(std::move(out)) {}
  pid_t pid_;
  Fd out_;
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Result<QueryProcess> QueryProcess::Start(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("debuginfod: pipe", errno);
  Fd read_end(ends[0]);
  const Fd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);  // the terminal's Ctrl-C is for the parent
  posix_spawnattr_setflags(&attributes,
                           static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP));
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes,
                                  Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoError("debuginfod: starting the query process", error);
  return QueryProcess(pid, std::move(read_end));
}

Result<std::string> QueryProcess::Finish(Clock::time_point deadline) {
  constexpr size_t kOutputBytesMax = size_t{64} << 10;
  std::string output;
  bool timed_out = false;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      timed_out = true;
      break;
    }
    pollfd waiting = {out_.get(), POLLIN, 0};
    const int ready =
        ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left.count(), 3'600'000)));
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    char buffer[4096];
    const ssize_t count = ::read(out_.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || output.size() > kOutputBytesMax) break;
    output.append(buffer, static_cast<size_t>(count));
  }
  // It has closed its output and is about to end, or has to.
  if (timed_out) ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  if (timed_out) return Error{ErrorCode::kUnavailable, "debuginfod: no answer in time", ETIME};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Error{ErrorCode::kInternal, "debuginfod: the query process failed"};
  }
  return output;
}

// "0 /path" or "<errno> ".
Result<std::string> ParseAnswer(std::string_view answer) {
  int code = 0;
  const auto parsed = std::from_chars(answer.data(), answer.data() + answer.size(), code);
  if (parsed.ec != std::errc() || parsed.ptr == answer.data() + answer.size()) {
    return Error{ErrorCode::kInternal, "debuginfod: the query process said nothing"};
  }
  answer.remove_prefix(static_cast<size_t>(parsed.ptr - answer.data()) + 1);
  switch (code) {
    case 0:
      return std::string(answer);
    case ENOENT:
      return Error{ErrorCode::kNotFound, "debuginfod: no server has it", code};
    case ELIBACC:
      return Error{
          ErrorCode::kUnavailable,
          "debuginfod: libdebuginfod.so.1 is not here; install it (Debian: libdebuginfod1)", code};
    case EFBIG:
      return Error{ErrorCode::kResourceLimit, "debuginfod: the file is above the size limit", code};
    case ETIME:
    case ETIMEDOUT:
      return Error{ErrorCode::kUnavailable, "debuginfod: no answer in time", code};
    default:
      return Error{ErrorCode::kUnavailable, StrFormat("debuginfod: {}", std::strerror(code)), code};
  }
}

const char* FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::vector<std::string> QueryEnvironment(const DebuginfodOptions& options) {
  std::string urls;
  for (const std::string& url : options.urls) {
    if (!urls.empty()) urls += ' ';
    urls += url;
  }
  const int64_t seconds =
      std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options.timeout).count());
  const auto setting = [&](const char* name, std::string value) {
    const char* given = options.use_environment ? FromEnvironment(name) : nullptr;
    return StrFormat("{}={}", name, given != nullptr ? given : value.c_str());
  };
  std::vector<std::string> environment = {
      StrFormat("DEBUGINFOD_URLS={}", urls),
      setting("DEBUGINFOD_TIMEOUT", StrFormat("{}", seconds)),
      setting("DEBUGINFOD_MAXSIZE", StrFormat("{}", options.file_bytes_max)),
      StrFormat("DEBUGINFOD_MAXTIME={}", seconds),
      "DEBUGINFOD_RETRY_LIMIT=1",
  };
  const bool given_path =
      options.use_environment && FromEnvironment("DEBUGINFOD_CACHE_PATH") != nullptr;
  if (!options.cache_directory.empty() || given_path) {
    environment.push_back(setting("DEBUGINFOD_CACHE_PATH", options.cache_directory));
  }
  if (const char* headers = FromEnvironment("DEBUGINFOD_HEADERS_FILE");
      options.use_environment && headers != nullptr) {
    environment.push_back(StrFormat("DEBUGINFOD_HEADERS_FILE={}", headers));
  }
  for (const char* name :
       {"HOME", "XDG_CACHE_HOME", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY",
        "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}) {
    if (const char* value = FromEnvironment(name))
      environment.push_back(StrFormat("{}={}", name, value));
  }
  return environment;
}

// --- the child ---

// No capabilities, no new privileges, bounded files; false if that cannot be had.
bool ConfineQuery() {
  uint64_t file_bytes_max = 0;
  const char* limit = std::getenv("DEBUGINFOD_MAXSIZE");
  const std::string_view text = limit != nullptr ? limit : "";
  std::from_chars(text.data(), text.data() + text.size(), file_bytes_max);
  if (file_bytes_max == 0) return false;
  // Servers need not tell a size beforehand: write() fails with EFBIG at the limit.
  ::signal(SIGXFSZ, SIG_IGN);
  return internal::LimitProcess({.memory_bytes_max = uint64_t{4} << 30,
                                 .cpu_seconds_max = 600,
                                 .file_bytes_max = file_bytes_max,
                                 .files_max = 256})
      .has_value();
}

// Of libdebuginfod, loaded where it is used: it brings some thirty libraries (curl, TLS, Kerberos, LDAP), which every
// other run of the program would have to load, relocate and trust.
struct Library {
  decltype(&debuginfod_begin) begin = nullptr;
  decltype(&debuginfod_end) end = nullptr;
  decltype(&debuginfod_find_debuginfo) find_debuginfo = nullptr;
  decltype(&debuginfod_find_executable) find_executable = nullptr;
};

std::optional<Library> LoadLibrary() {
  void* handle = ::dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return std::nullopt;
  Library library;
  bool complete = true;
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(::dlsym(handle, name));
    complete = complete && *function != nullptr;
  };
  find(&library.begin, "debuginfod_begin");
  find(&library.end, "debuginfod_end");
  find(&library.find_debuginfo, "debuginfod_find_debuginfo");
  find(&library.find_executable, "debuginfod_find_executable");
  return complete ? std::optional(library) : std::nullopt;
}

std::string RunQuery(std::string_view kind, const char* hex) {
  const std::optional<Library> library = LoadLibrary();
  if (!library) return StrFormat("{} ", ELIBACC);
  debuginfod_client* client = library->begin();
  if (client == nullptr) return StrFormat("{} ", ENOMEM);
  char* path = nullptr;
  const auto* const id = reinterpret_cast<const unsigned char*>(hex);
  const auto find = kind == kExecutableWord ? library->find_executable : library->find_debuginfo;
  const int fd = find(client, id, 0, &path);
  std::string answer =
      fd >= 0 && path != nullptr ? StrFormat("0 {}", path) : StrFormat("{} ", fd < 0 ? -fd : EIO);
  if (fd >= 0) ::close(fd);
  std::free(path);
  library->end(client);
  return answer;
}

}  // namespace

std::vector<std::string> DebuginfodUrlsFromEnvironment() {
  std::vector<std::string> urls;
  const char* value = FromEnvironment("DEBUGINFOD_URLS");
  std::string_view rest = value != nullptr ? value : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) urls.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return urls;
}

bool RunDebuginfodChildIfAsked(int argc, char** argv, int* exit_code) {
  g_main_is_prepared = true;
  if (argc != 4 || argv[1] != kChildMark) return false;
  if (!ConfineQuery()) {
    *exit_code = 1;
    return true;
  }
  const std::string answer = RunQuery(argv[2], argv[3]);
  const bool written = WriteAll(STDOUT_FILENO, AsBytes(answer), "standard output").has_value();
  // At once: libdebuginfod (0.188) forgets to close a stream, which leak checkers report at a normal end.
  ::_exit(written ? 0 : 1);
}

DebuginfodClient::DebuginfodClient(DebuginfodOptions options) : options_(std::move(options)) {
  if (options_.cache_directory.empty()) return;
  // libdebuginfod keeps its own list of misses there, for as long as this file says.
  const std::string ttl_path = JoinPath(options_.cache_directory, "cache_miss_s");
  if (!MakeDirectories(options_.cache_directory)) return;
  auto file = OutputFile::Create(ttl_path, 0600);
  if (!file || !file->Write(StrFormat("{}\n", options_.negative_ttl.count())) || !file->Commit())
    return;
}

uint64_t DebuginfodClient::queries() const {
  const std::lock_guard lock(mutex_);
  return queries_;
}

Result<std::string> DebuginfodClient::Query(const std::string& hex, Kind kind) const {
  const std::vector<std::string> arguments = {
      "ptarmigan", std::string(kChildMark),
      std::string(kind == Kind::kExecutable ? kExecutableWord : kDebugInfoWord), hex};
  // One second more than the library takes, which gives better reasons than being killed.
  const auto deadline = Clock::now() + options_.timeout + std::chrono::seconds(1);
  TRY_ASSIGN(QueryProcess process, QueryProcess::Start(arguments, QueryEnvironment(options_)));
  TRY_ASSIGN(const std::string answer, process.Finish(deadline));
  return ParseAnswer(answer);
}

Result<std::string> DebuginfodClient::Find(const BuildId& build_id, Kind kind) {
  if (build_id.empty())
    return Error{ErrorCode::kNotFound, "debuginfod: the object has no build id"};
  if (options_.urls.empty())
    return Error{ErrorCode::kUnavailable, "debuginfod: no server was named"};
  if (!g_main_is_prepared) {
    return Error{ErrorCode::kInternal, "debuginfod: this program does not run queries"};
  }
  const std::lock_guard lock(mutex_);
  const std::pair key(build_id, kind);
  const auto now = Clock::now();
  const auto known = misses_.find(key);
  if (known != misses_.end() && now < known->second.until) return known->second.error;
  if (now < silent_until_) {
    return Error{ErrorCode::kUnavailable,
                 "debuginfod: not asked again, the servers did not answer before"};
  }
  ++queries_;
  auto found = Query(build_id.ToHex(), kind);
  if (found) {
    failures_ = 0;
    misses_.erase(key);
    return found;
  }
  misses_[key] = {found.error(), now + options_.negative_ttl};
  if (found.error().code == ErrorCode::kUnavailable) {
    if (++failures_ >= kFailuresMax) {
      failures_ = 0;
      silent_until_ = Clock::now() + options_.negative_ttl;
    }
  } else {
    failures_ = 0;
  }
  return found;
}

}  // namespace ptarmigan
