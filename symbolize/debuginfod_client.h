// DebuginfodClient: asks debuginfod servers for files by build id, when and only when the user named servers.
//
// Every query runs libdebuginfod in a child process (an exec of this program: RunDebuginfodChildIfAsked), for three
// reasons: the library takes its settings from environment variables only, which must not leak into this process and
// the commands that it starts; a query can be ended at its time-out whatever the network does; and TLS and HTTP parse
// foreign bytes away from our memory.
//
// What was not found, and servers that fail, are remembered for a while, so that a profile with hundreds of unknown
// objects waits once and not hundreds of times. Any thread; queries run one at a time. Never call it while sampling.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/build_id.h"

namespace ptarmigan {

struct DebuginfodOptions {
  std::vector<std::string> urls;  // at least one
  // Where downloads are kept (by libdebuginfod's own rules); empty: its default.
  std::string cache_directory;
  std::chrono::milliseconds timeout =
      std::chrono::seconds(20);  // of one query, all servers together
  uint64_t file_bytes_max = uint64_t{2} << 30;
  std::chrono::seconds negative_ttl = std::chrono::minutes(10);
  // Take DEBUGINFOD_CACHE_PATH, DEBUGINFOD_MAXSIZE, DEBUGINFOD_TIMEOUT and DEBUGINFOD_HEADERS_FILE from this process's
  // environment where they are set.
  bool use_environment = false;
};

// The servers in DEBUGINFOD_URLS, for callers that were told to use the environment.
std::vector<std::string> DebuginfodUrlsFromEnvironment();

// Call in main of every program that uses a DebuginfodClient, before anything else. True: this process was a query;
// return *exit_code from main. In a program that did not call it, queries fail with kInternal.
bool RunDebuginfodChildIfAsked(int argc, char** argv, int* exit_code);

class DebuginfodClient {
 public:
  enum class Kind : uint8_t { kDebugInfo, kExecutable };
  // After so many servers' failures in a row (not "not found") nobody is asked until the negative TTL is over.
  static constexpr int kFailuresMax = 2;

  explicit DebuginfodClient(DebuginfodOptions options);
  DebuginfodClient(const DebuginfodClient&) = delete;
  DebuginfodClient& operator=(const DebuginfodClient&) = delete;

  // Path of the downloaded file. kNotFound: no server has it. kUnavailable: no answer in time, or no connection.
  // kResourceLimit: larger than the cap.
  Result<std::string> Find(const BuildId& build_id, Kind kind);

  uint64_t queries() const;  // that reached a child process

 private:
  using Clock = std::chrono::steady_clock;
  struct Miss {
    Error error;
    Clock::time_point until;
  };
  Result<std::string> Query(const std::string& hex, Kind kind) const;

  const DebuginfodOptions options_;
  mutable std::mutex mutex_;
  std::map<std::pair<BuildId, Kind>, Miss> misses_;
  int failures_ = 0;
  Clock::time_point silent_until_;
  uint64_t queries_ = 0;
};

}  // namespace ptarmigan
