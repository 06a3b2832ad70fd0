// ControlSocket: a Unix socket that takes one-line commands from the user who runs us (or root) and answers each with one
// line. Mode 0600, and the peer's credentials are checked all the same: the mode of a socket's folder may let others in.
//
// Nothing waits: what can be done without blocking is done in Serve. At most kClientsMax connections and kLineBytesMax bytes
// per line. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace ptarmigan::cli {

class ControlSocket {
 public:
  static constexpr size_t kClientsMax = 8;
  static constexpr size_t kLineBytesMax = 256;

  // Creates the socket at `path`, which must not exist unless it is a socket that nobody listens on any more.
  static Result<std::unique_ptr<ControlSocket>> Listen(const std::string& path);
  // Removes the path.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // Readable when Serve has something to do.
  int wait_fd() const { return epoll_.get(); }
  // Takes connections and answers the commands that have arrived; `answer` gives the line (without its end) for a command.
  void Serve(const std::function<std::string(std::string_view command)>& answer);

 private:
  struct Client {
    Fd fd;
    std::string line;
  };

  ControlSocket(Fd listener, Fd epoll, std::string path)
      : listener_(std::move(listener)), epoll_(std::move(epoll)), path_(std::move(path)) {}
  void Accept();
  // False when the client is done with.
  static bool ServeClient(Client* client,
                          const std::function<std::string(std::string_view command)>& answer);

  Fd listener_;
  Fd epoll_;
  std::string path_;
  std::vector<Client> clients_;
};

}  // namespace ptarmigan::cli
