#include "serve/net/server.h"

#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "serve/net/beast.h"
#include "serve/net/http_connection.h"
#include "serve/net/http_response.h"
#include "serve/pages.h"

namespace antiphon::serve {
namespace {

asio::ip::address AddressOf(const ServeOptions& options) {
  ErrorCode error;
  const auto address = asio::ip::make_address(options.address == "localhost" ? "127.0.0.1" : options.address, error);
  if (error) Throw<UsageError>("--address: '{}' is no IP address; 0.0.0.0 and :: stand for all", options.address);
  if (!address.is_loopback() && options.access.token_file.empty()) {
    Throw<UsageError>(
        "others can reach the address {}: give --token-file with tokens that clients have to know, or listen at "
        "127.0.0.1",
        options.address);
  }
  return address;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServeOptions& options, const StreamSettings& stream, ModelSet& models, std::FILE* log_file, int threads);
  ~Impl();
  Impl(const Impl&) = delete;

  void HandleSignals();
  void Run();
  void Stop();
  void Reload();
  int port() const { return port_; }
  ServerContext& context() { return context_; }

 private:
  void Listen();
  void Accept();
  void OnAccept(ErrorCode error, Tcp::socket socket);
  void RefuseConnection(Tcp::socket& socket);
  void AwaitSignal();
  void LogRemarks();
  void BeginReload();
  void EndReload(const std::string& failure);
  void BeginDrain();
  void FinishAll();
  void AwaitEmpty();
  size_t LiveSessions();

  ServerContext context_;
  asio::io_context io_;
  Tcp::acceptor acceptor_;
  std::optional<asio::signal_set> signals_;
  asio::steady_timer grace_, poll_, sweep_;
  std::thread reloading_;
  bool reload_runs_ = false;
  bool finishing_ = false;
  int port_ = 0;
};

Server::Impl::Impl(const ServeOptions& options, const StreamSettings& stream, ModelSet& models, std::FILE* log_file,
                   int threads)
    : context_(options, stream, models, log_file, threads),
      io_(1),
      acceptor_(io_),
      grace_(io_),
      poll_(io_),
      sweep_(io_) {
  Listen();
}

Server::Impl::~Impl() {
  // Replies of the threads go to the sockets' thread, which does not run any more: first the threads, then the rest.
  context_.scheduler.Stop();
  if (reloading_.joinable()) reloading_.join();
}

void Server::Impl::Listen() {
  const Tcp::endpoint endpoint(AddressOf(context_.options), static_cast<uint16_t>(context_.options.port));
  try {
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen(asio::socket_base::max_listen_connections);
  } catch (const boost::system::system_error& e) {
    Throw<IoError>("cannot listen at {} port {}: {}", context_.options.address, context_.options.port,
                   e.code().message());
  }
  port_ = acceptor_.local_endpoint().port();
}

void Server::Impl::Run() {
  context_.log.Write("info", "listening",
                     {{"address", context_.options.address}, {"port", port_}, {"models", context_.models.Names()}});
  LogRemarks();
  Accept();
  io_.run();
  context_.log.Write("info", "stopped");
}

void Server::Impl::Accept() {
  acceptor_.async_accept([this](ErrorCode error, Tcp::socket socket) { OnAccept(error, std::move(socket)); });
}

void Server::Impl::OnAccept(ErrorCode error, Tcp::socket socket) {
  if (error == asio::error::operation_aborted || context_.draining) return;
  if (error) {
    // Out of file descriptors, usually: others close some.
    context_.metrics.Add("antiphon_errors_total", R"(kind="accept")");
    poll_.expires_after(std::chrono::milliseconds(50));
    return poll_.async_wait([this](ErrorCode) { Accept(); });
  }
  Slot slot = context_.connections.Take();
  if (slot) {
    ErrorCode ignored;
    socket.set_option(Tcp::no_delay(true), ignored);
    std::make_shared<HttpConnection>(context_, std::move(socket), std::move(slot))->Run();
  } else {
    RefuseConnection(socket);
  }
  std::erase_if(context_.sessions, [](const auto& session) { return session.expired(); });
  Accept();
}

// Without reading anything, waiting for anybody or writing into the log, which whoever floods would fill.
void Server::Impl::RefuseConnection(Tcp::socket& socket) {
  const Refusal refusal = context_.connections.AllTaken();
  context_.Count(refusal.reason);
  const std::string answer = LastAnswer(OpenAiError({.status = 503, .message = refusal.message}));
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(answer), ignored);
}

void Server::Impl::HandleSignals() {
  signals_.emplace(io_, SIGTERM, SIGINT, SIGHUP);
  signals_->add(SIGUSR1);
  AwaitSignal();
}

void Server::Impl::AwaitSignal() {
  signals_->async_wait([this](ErrorCode error, int number) {
    if (error) return;
    number == SIGHUP ? BeginReload() : BeginDrain();
    AwaitSignal();
  });
}

void Server::Impl::Stop() {
  asio::post(io_, [this] { BeginDrain(); });
}

void Server::Impl::Reload() {
  asio::post(io_, [this] { BeginReload(); });
}
// Of profiles that fit no model, and the like.
void Server::Impl::LogRemarks() {
  for (const std::string& remark : context_.models.remarks()) {
    context_.log.Write("warning", "model", {{"message", remark}});
  }
}

void Server::Impl::BeginReload() {
  if (reload_runs_ || context_.draining) return;
  reload_runs_ = true;
  if (reloading_.joinable()) reloading_.join();
  try {
    reloading_ = std::thread([this] {
      std::string failure;
      try {
        context_.models.Reload();
      } catch (const std::exception& e) {
        failure = e.what();
      }
      asio::post(io_, [this, failure] { EndReload(failure); });
    });
  } catch (const std::system_error&) {
    EndReload("the system gives no thread for it: raise the limit (ulimit -u, ulimit -v, the container's pids)");
  }
}

void Server::Impl::EndReload(const std::string& failure) {
  reload_runs_ = false;
  context_.metrics.Add("antiphon_reloads_total", failure.empty() ? R"(outcome="done")" : R"(outcome="failed")");
  if (failure.empty()) {
    context_.log.Write("info", "reloaded", {{"models", context_.models.Names()}});
    return LogRemarks();
  }
  context_.log.Write("error", "reload-failed", {{"message", failure}, {"models", "the old ones are still served"}});
}

size_t Server::Impl::LiveSessions() {
  std::erase_if(context_.sessions, [](const auto& session) { return session.expired(); });
  return static_cast<size_t>(context_.streams.taken()) + static_cast<size_t>(context_.uploads.taken());
}

void Server::Impl::BeginDrain() {
  if (context_.draining) {
    // Asked twice: whoever asks is in a hurry.
    return finishing_ ? io_.stop() : FinishAll();
  }
  context_.draining = true;
  ErrorCode ignored;
  acceptor_.close(ignored);
  context_.log.Write("info", "draining", {{"sessions", LiveSessions()}, {"grace_s", context_.options.limits.grace_s}});
  grace_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(context_.options.limits.grace_s * 1000)));
  grace_.async_wait([this](ErrorCode error) {
    if (!error) FinishAll();
  });
  AwaitEmpty();
}

void Server::Impl::FinishAll() {
  if (std::exchange(finishing_, true)) return;
  for (const auto& weak : context_.sessions) {
    if (const auto session = weak.lock()) session->FinishNow();
  }
  // Clients that do not take their answer are not waited for.
  grace_.expires_after(std::chrono::seconds(10));
  grace_.async_wait([this](ErrorCode error) {
    if (!error) io_.stop();
  });
}

void Server::Impl::AwaitEmpty() {
  if (LiveSessions() == 0 && context_.sessions.empty()) return io_.stop();
  sweep_.expires_after(std::chrono::milliseconds(20));
  sweep_.async_wait([this](ErrorCode) { AwaitEmpty(); });
}

Server::Server(const ServeOptions& options, const StreamSettings& stream, ModelSet& models, std::FILE* log_file,
               int threads)
    : impl_(std::make_unique<Impl>(options, stream, models, log_file, threads)) {}
Server::~Server() = default;
void Server::HandleSignals() { impl_->HandleSignals(); }
void Server::Run() { impl_->Run(); }
void Server::Stop() { impl_->Stop(); }
void Server::Reload() { impl_->Reload(); }
int Server::port() const { return impl_->port(); }
ServerContext& Server::context() { return impl_->context(); }

}  // namespace antiphon::serve
