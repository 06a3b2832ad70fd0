#include "cli/control_socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "tests/support/test_data.h"

namespace ptarmigan::cli {
namespace {

class Peer {
 public:
  explicit Peer(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    connected_ =
        ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool connected() const { return connected_; }
  bool Send(const std::string& text) const {
    return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // What has arrived; "<end>" if the other side hung up.
  std::string Receive() const {
    std::array<char, 1024> bytes = {};
    const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0) return "<end>";
    return count < 0 ? "" : std::string(bytes.data(), static_cast<size_t>(count));
  }

 private:
  Fd fd_;
  bool connected_ = false;
};

std::string Echo(std::string_view command) { return "got " + std::string(command); }

class ControlSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    auto socket = ControlSocket::Listen(path_);
    ASSERT_TRUE(socket.has_value()) << socket.error().message;
    socket_ = *std::move(socket);
  }
  bool Readable() const {
    pollfd wait = {socket_->wait_fd(), POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
  }
  std::string path_ = TestTemporaryDirectory() + "/control";
  std::unique_ptr<ControlSocket> socket_;
};

TEST_F(ControlSocketTest, IsOnlyForItsOwner) {
  struct stat status = {};
  ASSERT_EQ(::lstat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(ControlSocketTest, AnswersEachLineHoweverItArrives) {
  EXPECT_FALSE(Readable());
  const Peer peer(path_);
  ASSERT_TRUE(peer.connected());
  EXPECT_TRUE(Readable());
  ASSERT_TRUE(peer.Send("one\ntw"));
  socket_->Serve(Echo);
  EXPECT_EQ(peer.Receive(), "got one\n");
  EXPECT_FALSE(Readable());
  ASSERT_TRUE(peer.Send("o\n"));
  EXPECT_TRUE(Readable());
  socket_->Serve(Echo);
  EXPECT_EQ(peer.Receive(), "got two\n");
}

TEST_F(ControlSocketTest, AnEndlessLineEndsTheConnectionAndNoOther) {
  const Peer endless(path_);
  const Peer other(path_);
  ASSERT_TRUE(endless.Send(std::string(ControlSocket::kLineBytesMax + 1, 'x')));
  socket_->Serve(Echo);
  EXPECT_EQ(endless.Receive(), "<end>");
  ASSERT_TRUE(other.Send(std::string(ControlSocket::kLineBytesMax, 'y') + "\n"));
  socket_->Serve(Echo);
  EXPECT_EQ(other.Receive().size(), ControlSocket::kLineBytesMax + 5);
}

TEST_F(ControlSocketTest, TakesSoManyAtOnceAndMoreWhenTheyAreGone) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (size_t i = 0; i < ControlSocket::kClientsMax; ++i) {
    peers.push_back(std::make_unique<Peer>(path_));
    socket_->Serve(Echo);
  }
  {
    const Peer refused(path_);
    socket_->Serve(Echo);
    EXPECT_EQ(refused.Receive(), "<end>");
  }
  peers.clear();
  socket_->Serve(Echo);
  const Peer next(path_);
  ASSERT_TRUE(next.Send("hello\n"));
  socket_->Serve(Echo);
  EXPECT_EQ(next.Receive(), "got hello\n");
}

TEST_F(ControlSocketTest, APathInUseIsRefusedAndALeftoverReplaced) {
  const auto second = ControlSocket::Listen(path_);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message.find("in use"), std::string::npos);
  socket_.reset();
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
  {
    // As after a kill: the file stays, nobody listens.
    const Fd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(ControlSocket::Listen(path_).has_value());
}

TEST(ControlSocket, APathThatCannotBeSaysWhy) {
  EXPECT_FALSE(ControlSocket::Listen("").has_value());
  EXPECT_FALSE(ControlSocket::Listen(std::string(200, 'x')).has_value());
  EXPECT_FALSE(ControlSocket::Listen("/nonexistent/folder/socket").has_value());
}

}  // namespace
}  // namespace ptarmigan::cli
