// Debian's debuginfod on 127.0.0.1, for as long as the object lives.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "base/file.h"
#include "base/str_format.h"
#include "tests/support/test_data.h"

namespace ptarmigan {

inline sockaddr_in LoopbackAddress(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A listening socket on a port that the system chooses; never answers by itself.
class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = LoopbackAddress(0);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    ok_ = ::bind(socket_.get(), generic, size) == 0 && ::listen(socket_.get(), 16) == 0 &&
          ::getsockname(socket_.get(), generic, &size) == 0;
    port_ = ntohs(address.sin_port);
  }
  bool ok() const { return ok_; }
  uint16_t port() const { return port_; }
  std::string url() const { return StrFormat("http://127.0.0.1:{}", port_); }

 private:
  Fd socket_;
  bool ok_ = false;
  uint16_t port_ = 0;
};

class DebuginfodServer {
 public:
  // Serves the objects and debug files below `directory`.
  explicit DebuginfodServer(const std::string& directory) {
    {
      const SilentServer probe;  // finds a free port, and frees it at once
      port_ = probe.port();
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string command = StrFormat(
          "exec debuginfod --disable-source-scan -p {} -d {}/debuginfod.sqlite -t 0 -F {} "
          ">/dev/null 2>&1",
          port_, TestTemporaryDirectory(), directory);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
  }
  DebuginfodServer(const DebuginfodServer&) = delete;
  DebuginfodServer& operator=(const DebuginfodServer&) = delete;
  ~DebuginfodServer() { Stop(); }
  void Stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::string url() const { return StrFormat("http://127.0.0.1:{}", port_); }

  // Waits until the server has found a file: true once "/buildid/<path>" answers 200.
  bool WaitFor(const std::string& path, std::chrono::seconds limit = std::chrono::seconds(90)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < deadline) {
      if (StatusOf("/buildid/" + path) == "200") return true;
      if (pid_ <= 0 || ::waitpid(pid_, nullptr, WNOHANG) != 0) {  // it has ended
        pid_ = -1;
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return false;
  }

 private:
  std::string StatusOf(const std::string& path) const {
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit = {5, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    const sockaddr_in address = LoopbackAddress(port_);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      return {};
    const std::string request = StrFormat("GET {} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", path);
    if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return {};
    char answer[16] = {};
    size_t size = 0;
    while (size < 12) {
      const ssize_t count = ::recv(socket.get(), answer + size, sizeof(answer) - size, 0);
      if (count <= 0) return {};
      size += static_cast<size_t>(count);
    }
    return std::string(answer, size).substr(9, 3);
  }

  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

}  // namespace ptarmigan
