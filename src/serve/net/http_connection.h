// One connection, from its first byte: requests one after the other, each answered whole or by a stream of events; or,
// if the client asks for it, a WebSocket that goes on by itself (vosk_session.h).
//
// A request's head is read first and judged alone: host, origin, token, path, whether there is room. Only then its body
// is read, in pieces, and never more of it than the limits allow. Nothing is allocated because a header says so.
//
// Threads: all in the socket's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "serve/net/beast.h"
#include "serve/net/http_response.h"
#include "serve/reply.h"
#include "serve/server_context.h"

namespace antiphon::serve {

class UploadExchange;

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(ServerContext& server, Tcp::socket socket, Slot slot);

  void Run() { ReadHead(); }

  /// Answers the request and goes on with the next one; what is left of the request's body is not read.
  void Send(const HttpReply& reply);
  /// Answers by events (text/event-stream): one after the other, then the end.
  void BeginEvents();
  void SendEvent(const std::string& json);
  void EndEvents();

 private:
  friend class UploadExchange;
  using Parser = http::request_parser<http::buffer_body>;

  void ReadHead();
  void OnHead(ErrorCode error);
  void Dispatch();
  bool Refuse();
  void Preflight();
  void Upgrade();
  void BeginUpload();
  HttpResponse ResponseTo(const HttpReply& reply) const;
  void Write(const std::string& bytes, bool last);
  void WriteNext();
  void AfterReply(bool keep_alive);
  void Drain(int tries);
  void WatchForEnd();
  void AskWhoSaysNoMore();
  void ClientWent();

  ServerContext& server_;
  beast::tcp_stream stream_;
  Slot slot_;
  std::string remote_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  RequestHead head_;
  std::string authorization_;
  std::shared_ptr<UploadExchange> upload_;
  Slot answering_;             // of the upload whose answer is being written
  std::vector<char> dropped_;  // of what is read only to be left out
  std::string events_;         // that wait to be written
  bool writing_ = false, gone_ = false, tells_events_ = false;
  bool answered_ = false;  // all of the answer is in events_
  bool last_ = false;      // no request follows
};

}  // namespace antiphon::serve
