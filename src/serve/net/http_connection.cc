#include "serve/net/http_connection.h"

#include <sys/socket.h>

#include <boost/asio/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "serve/net/upload_exchange.h"
#include "serve/net/vosk_session.h"
#include "serve/pages.h"

namespace antiphon::serve {
namespace {

constexpr size_t kMaxHeadBytes = 16384;
constexpr int kDrainTries = 1000;

std::string TextOfField(const http::request<http::buffer_body>& request, http::field field) {
  const auto value = request[field];
  return {value.data(), value.size()};
}

std::string Chunk(const std::string& bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

}  // namespace

HttpConnection::HttpConnection(ServerContext& server, Tcp::socket socket, Slot slot)
    : server_(server), stream_(std::move(socket)), slot_(std::move(slot)) {
  ErrorCode error;
  const auto remote = stream_.socket().remote_endpoint(error);
  if (!error) remote_ = remote.address().to_string() + ":" + std::to_string(remote.port());
}

void HttpConnection::ReadHead() {
  head_ = {};
  parser_.emplace();
  parser_->header_limit(kMaxHeadBytes);
  parser_->body_limit(static_cast<uint64_t>(server_.options.limits.upload_bytes));
  stream_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(server_.options.limits.idle_s * 1000)));
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, size_t) { self->OnHead(error); });
}

void HttpConnection::OnHead(ErrorCode error) {
  if (error == http::error::end_of_stream || error == beast::error::timeout) return AfterReply(false);
  if (error && error.category() == make_error_code(http::error::bad_value).category()) {
    const bool too_long = error == http::error::header_limit || error == http::error::buffer_overflow;
    const bool body = error == http::error::body_limit;
    const int status = too_long ? 431 : (body ? 413 : 400);
    return Send(OpenAiError({.status = status, .message = "the request cannot be read: " + error.message()}));
  }
  if (error) return;
  const auto& request = parser_->get();
  const std::string target(request.target().data(), request.target().size());
  const size_t mark = target.find('?');
  const auto method = request.method_string();
  head_ = {.method = {method.data(), method.size()},
           .path = target.substr(0, mark),
           .query = mark == std::string::npos ? "" : target.substr(mark + 1),
           .host = TextOfField(request, http::field::host),
           .origin = TextOfField(request, http::field::origin),
           .content_type = TextOfField(request, http::field::content_type)};
  authorization_ = TextOfField(request, http::field::authorization);
  if (!Refuse()) Dispatch();
}

bool HttpConnection::Refuse() {
  HttpError error;
  std::string reason;
  if (!server_.access.HostAllowed(head_.host)) {
    reason = "host";
    error = {.status = 403, .message = "this server is for this machine alone; a proxy's name is told by --hosts"};
  } else if (!server_.access.OriginAllowed(head_.origin, head_.host)) {
    reason = "origin";
    error = {.status = 403, .message = "pages of other servers may not use this one; --origins names those that may"};
  } else if (head_.method != "OPTIONS" && !(IsPublic(head_.path) && !beast::websocket::is_upgrade(parser_->get())) &&
             !server_.access.TokenRight(authorization_, head_.query)) {
    reason = "token";
    error = {.status = 401,
             .message = "no right token: give it as Authorization: Bearer TOKEN or as ?token=TOKEN",
             .code = "invalid_api_key"};
  }
  if (reason.empty()) return false;
  server_.Refused(reason, remote_, {{"path", head_.path}});
  HttpReply reply = OpenAiError(error);
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  Send(reply);
  return true;
}

void HttpConnection::Dispatch() {
  if (beast::websocket::is_upgrade(parser_->get())) return Upgrade();
  if (head_.method == "OPTIONS") return Preflight();
  if (DialectOf(head_.path) != nullptr) return BeginUpload();
  if (const auto reply = AnswerPage(head_, server_)) return Send(*reply);
  Send(OpenAiError({.status = 404, .message = "there is nothing at " + head_.path, .code = "not_found"}));
}

void HttpConnection::Upgrade() {
  stream_.expires_never();
  std::make_shared<VoskSession>(server_, std::move(stream_), remote_, std::move(slot_))
      ->Run(parser_->get(), head_.query);
}

void HttpConnection::Preflight() {
  if (!server_.access.IsNamedOrigin(head_.origin)) {
    return Send(OpenAiError({.status = 405, .message = "OPTIONS is for pages that --origins names"}));
  }
  Send({.status = 204,
        .content_type = "",
        .body = "",
        .headers = {{"Access-Control-Allow-Methods", "GET, POST"},
                    {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
                    {"Access-Control-Max-Age", "600"}}});
}

void HttpConnection::BeginUpload() {
  const FormDialect& dialect = *DialectOf(head_.path);
  if (head_.method != "POST") {
    HttpReply reply = dialect.Error({.status = 405, .message = "a recording is sent by POST"});
    reply.headers.emplace_back("Allow", "POST");
    return Send(reply);
  }
  Admission admission = server_.Admit(server_.uploads, remote_);
  if (!admission.slot) return Send(dialect.Error({.status = 503, .message = admission.refusal.message}));
  server_.metrics.Add("antiphon_streams_total", fmt::format("interface=\"{}\"", dialect.name()));
  upload_ = std::make_shared<UploadExchange>(shared_from_this(), dialect, std::move(admission.slot));
  upload_->Run();
}

HttpResponse HttpConnection::ResponseTo(const HttpReply& reply) const {
  HttpResponse response = ResponseOf(reply);
  if (server_.access.IsNamedOrigin(head_.origin)) {
    response.set(http::field::access_control_allow_origin, head_.origin);
    response.set(http::field::vary, "Origin");
  }
  return response;
}

void HttpConnection::Send(const HttpReply& reply) {
  upload_.reset();
  HttpResponse response = ResponseTo(reply);
  const bool keep = parser_->is_header_done() && parser_->is_done() && parser_->get().keep_alive();
  response.keep_alive(keep);
  response.content_length(reply.body.size());
  std::string bytes;
  if (head_.method == "HEAD") {
    bytes = HeadBytes(response);
  } else {
    response.body() = reply.body;
    if (reply.status == 204) response.erase(http::field::content_length);
    bytes = Bytes(response);
  }
  server_.metrics.Add("antiphon_requests_total", fmt::format("status=\"{}\"", reply.status));
  last_ = !keep;
  Write(bytes, true);
}

void HttpConnection::BeginEvents() {
  HttpResponse response = ResponseTo({.content_type = "text/event-stream"});
  response.chunked(true);
  response.keep_alive(false);
  server_.metrics.Add("antiphon_requests_total", R"(status="200")");
  tells_events_ = true;
  Write(HeadBytes(response), false);
}

void HttpConnection::SendEvent(const std::string& json) { Write(Chunk("data: " + json + "\n\n"), false); }

void HttpConnection::EndEvents() {
  upload_.reset();
  last_ = true;
  Write("0\r\n\r\n", true);
}

// What comes while another write is under way goes with the next one.
void HttpConnection::Write(const std::string& bytes, bool last) {
  events_ += bytes;
  answered_ = last;
  if (!writing_) WriteNext();
}

void HttpConnection::WriteNext() {
  if (gone_) return;
  if (events_.empty()) {
    if (answered_) AfterReply(!last_);
    return;
  }
  writing_ = true;
  const auto bytes = std::make_shared<std::string>(std::exchange(events_, ""));
  stream_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(server_.options.limits.idle_s * 1000)));
  asio::async_write(stream_, asio::buffer(*bytes), [self = shared_from_this(), bytes](ErrorCode error, size_t) {
    self->writing_ = false;
    if (error) {
      self->gone_ = true;
      if (self->upload_) self->upload_->Cancel();
      return;
    }
    self->WriteNext();
  });
}

void HttpConnection::AfterReply(bool keep_alive) {
  answered_ = false;
  answering_.reset();
  if (keep_alive && !server_.draining) return ReadHead();
  ErrorCode ignored;
  stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  dropped_.resize(kMaxHeadBytes);
  stream_.expires_after(std::chrono::seconds(2));
  Drain(kDrainTries);
}

// A client that still sends would lose the answer if the connection were closed on it.
void HttpConnection::Drain(int tries) {
  stream_.async_read_some(asio::buffer(dropped_), [self = shared_from_this(), tries](ErrorCode error, size_t) {
    if (!error && tries > 0) self->Drain(tries - 1);
  });
}

// While nothing is read from it.
void HttpConnection::WatchForEnd() {
  stream_.socket().async_wait(Tcp::socket::wait_read, [weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (error || !self || !self->upload_) return;
    char next = 0;
    const ssize_t count = ::recv(self->stream_.socket().native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count > 0) return;  // of the next request
    if (count == 0) return self->AskWhoSaysNoMore();
    if (errno == EAGAIN || errno == EINTR) return self->WatchForEnd();
    self->ClientWent();
  });
}

// Who closed the sending side alone waits for the answer; who is gone looks the same, until something is written to
// it: its side then hangs up. What is written says nothing in HTTP/1.1, and nothing among events.
void HttpConnection::AskWhoSaysNoMore() {
  stream_.socket().async_wait(Tcp::socket::wait_error, [weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (!error && self && self->upload_) self->ClientWent();
  });
  if (tells_events_) return Write(Chunk(":\n\n"), false);
  if (parser_->get().version() >= 11) Write("HTTP/1.1 100 Continue\r\n\r\n", false);
}

void HttpConnection::ClientWent() {
  gone_ = true;
  std::exchange(upload_, nullptr)->Cancel();
}

}  // namespace antiphon::serve
