#include "cli/control_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/str_format.h"

namespace ptarmigan::cli {
namespace {

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("control:{}: the path of a socket has 1 to {} bytes", path,
                           sizeof(address.sun_path) - 1)};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* Generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Whether a process still listens there.
bool IsServed(const sockaddr_un& address) {
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.valid() &&
         (::connect(probe.get(), Generic(address), sizeof(address)) == 0 || errno == EAGAIN);
}

// A socket that nobody listens on is what a killed program left behind.
Status MakeRoom(const std::string& path, const sockaddr_un& address) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return OkStatus();
  if (!S_ISSOCK(status.st_mode) || IsServed(address)) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("control:{}: it exists and is in use; name another path", path)};
  }
  if (::unlink(path.c_str()) != 0) return ErrnoError(StrFormat("control:{}", path), errno);
  return OkStatus();
}

bool IsAllowed(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

}  // namespace

Result<std::unique_ptr<ControlSocket>> ControlSocket::Listen(const std::string& path) {
  TRY_ASSIGN(const sockaddr_un address, AddressOf(path));
  TRY(MakeRoom(path, address));
  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!listener.valid() || !epoll.valid()) return ErrnoError("control: socket", errno);
  // The socket must never be there with other rights, not even for a moment.
  const mode_t before = ::umask(0177);
  const int bound = ::bind(listener.get(), Generic(address), sizeof(address));
  const int error = errno;
  ::umask(before);
  if (bound != 0) return ErrnoError(StrFormat("control:{}", path), error);
  std::unique_ptr<ControlSocket> socket(
      new ControlSocket(std::move(listener), std::move(epoll), path));
  epoll_event event = {};
  event.events = EPOLLIN;
  if (::listen(socket->listener_.get(), kClientsMax) != 0 ||
      ::epoll_ctl(socket->epoll_.get(), EPOLL_CTL_ADD, socket->listener_.get(), &event) != 0)
    return ErrnoError(StrFormat("control:{}", path), errno);
  return socket;
}

ControlSocket::~ControlSocket() { ::unlink(path_.c_str()); }

void ControlSocket::Accept() {
  for (;;) {
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid()) return;
    if (!IsAllowed(client.get()) || clients_.size() >= kClientsMax) continue;
    epoll_event event = {};
    event.events = EPOLLIN;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.get(), &event) != 0) continue;
    clients_.push_back({std::move(client), {}});
  }
}

bool ControlSocket::ServeClient(
    Client* client, const std::function<std::string(std::string_view command)>& answer) {
  std::array<char, kLineBytesMax> bytes = {};
  for (;;) {
    const ssize_t count = ::recv(client->fd.get(), bytes.data(), bytes.size(), 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    for (const char byte : std::string_view(bytes.data(), static_cast<size_t>(count))) {
      if (byte != '\n') {
        if (client->line.size() >= kLineBytesMax) return false;
        client->line += byte;
        continue;
      }
      const std::string line = answer(client->line) + '\n';
      client->line.clear();
      // A client that does not read its answers is done with.
      const ssize_t sent = ::send(client->fd.get(), line.data(), line.size(), MSG_NOSIGNAL);
      if (sent != static_cast<ssize_t>(line.size())) return false;
    }
  }
}

void ControlSocket::Serve(const std::function<std::string(std::string_view command)>& answer) {
  Accept();
  std::erase_if(clients_, [&answer](Client& client) { return !ServeClient(&client, answer); });
}

}  // namespace ptarmigan::cli
