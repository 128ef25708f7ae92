// One client of Vosk's WebSocket protocol, from the handshake to the close.
//
// Any path. An optional config (vosk_message.h) is not answered; each binary message of 16-bit samples (little endian,
// one channel, 8 kHz unless the config says otherwise) is answered by one text; {"eof" : 1} by a last result and the
// close. A config that comes after speech holds from the next {"reset" : 1} on. A client that sends faster than its
// speech is computed, or reads slower than it is answered, is read from no further until that is done; nor is one that
// begins anew, until it has the result. What comes behind eof is read and says nothing, but pings are answered.
//
// Close codes: 1000 after eof; 1012 and 1001 when the server goes; 1013 when it takes no more streams, with the reason;
// 1008 for messages that cannot be; 1009 for too long ones; 1011 for errors of the server.
// Threads: all in the socket's thread, except that replies come from the scheduler's.
#pragma once

#include <boost/beast/websocket/stream.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/hearing.h"
#include "serve/limits.h"
#include "serve/net/beast.h"
#include "serve/server_context.h"
#include "serve/vosk_message.h"

namespace antiphon::serve {

class VoskSession : public LiveSession, public std::enable_shared_from_this<VoskSession> {
 public:
  using Upgrade = http::request<http::buffer_body>;
  using CloseCode = beast::websocket::close_code;

  /// `remote`: for the log; `connection`: kept as long as this lives.
  VoskSession(ServerContext& server, beast::tcp_stream&& stream, std::string remote, Slot connection);
  ~VoskSession() override;

  /// `query`: what stands behind the target's '?'.
  void Run(const Upgrade& request, std::string_view query);
  void FinishNow() override;

 private:
  void OnAccept(ErrorCode error);
  bool Admit();
  void Read();
  void ReadMessage();
  void OnRead(ErrorCode error);
  void OnMessage();
  void OnText(std::string_view text);
  void OnSamples(std::string_view bytes);
  bool MayRead();
  std::shared_ptr<Hearing> NewHearing();
  void EndHearing();
  double spoken_s() const;
  void OnHeard(const Heard& heard, int stream);
  void Answer(const Heard& heard);
  void RestIdleTimer();
  void LimitWriting(double seconds);
  void Send(std::string text);
  void Write();
  void Close(CloseCode code, std::string_view reason, std::string_view outcome);
  void Gone(std::string_view outcome);
  void LogEnd(std::string_view outcome);

  ServerContext& server_;
  beast::websocket::stream<beast::tcp_stream> ws_;
  const std::string remote_;
  const int64_t id_;
  Slot connection_, slot_;
  beast::flat_buffer buffer_;
  asio::steady_timer idle_, pause_, cut_;
  RateLimit rate_;
  VoskConfig config_;      // for the next stream
  VoskConfig heard_with_;  // of the present one
  std::shared_ptr<Hearing> hearing_;
  int stream_ = 0;          // number of the present one
  int unheard_ = 0;         // of its pieces, the end included: those without an answer yet
  bool ending_ = false;     // after eof: the next end is the last
  bool resetting_ = false;  // after a reset: what follows is read when the end is there
  bool reading_ = false, writing_ = false, closing_ = false, gone_ = false;
  CloseCode close_after_ = CloseCode::normal;  // what follows the last result
  std::string close_why_;
  std::string odd_byte_;  // of a message with half a sample
  StreamEvent so_far_;
  std::deque<std::string> out_;
  beast::websocket::close_reason close_;
  int64_t samples_ = 0;  // of the present stream
  double before_s_ = 0;  // of speech in those before it, whose rates may differ
  int64_t words_ = 0;
  std::set<std::string> audio_remarks_;  // of the streams that ended
  double begin_s_ = 0;
};

}  // namespace antiphon::serve
