#include "serve/net/vosk_session.h"

#include <algorithm>
#include <boost/beast/websocket/rfc6455.hpp>
#include <chrono>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "serve/clock.h"
#include "serve/shown_event.h"
#include "serve/vosk_reply.h"

namespace antiphon::serve {
namespace {

namespace websocket = beast::websocket;

constexpr int kMostPieces = 64;          // of one stream that wait
constexpr size_t kMostAnswers = 64;      // that a client has not read
constexpr double kGreetingSeconds = 10;  // for the handshake, and for the close

std::chrono::steady_clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

// As much of UTF-8 as a close frame holds, without half a character at its end.
beast::string_view Shortened(std::string_view reason) {
  constexpr size_t kMaxReasonBytes = 120;
  size_t length = std::min(reason.size(), kMaxReasonBytes);
  while (length > 0 && length < reason.size() && (static_cast<unsigned char>(reason[length]) & 0xC0U) == 0x80U)
    --length;
  return {reason.data(), length};
}

// The line of `antiphon listen`.
std::string ListenLine(const StreamEvent& event, bool with_nbest) {
  StreamEvent shown = event;
  if (!with_nbest) shown.nbest.clear();
  return ToJson(shown);
}

}  // namespace

VoskSession::VoskSession(ServerContext& server, beast::tcp_stream&& stream, std::string remote, Slot connection)
    : server_(server),
      ws_(std::move(stream)),
      remote_(std::move(remote)),
      id_(server.next_id++),
      connection_(std::move(connection)),
      idle_(ws_.get_executor()),
      pause_(ws_.get_executor()),
      cut_(ws_.get_executor()),
      rate_(server.options.limits.messages_per_s),
      begin_s_(NowSeconds()) {}

VoskSession::~VoskSession() {
  if (hearing_) hearing_->Cancel();
}

void VoskSession::Run(const Upgrade& request, std::string_view query) {
  const LimitOptions& limits = server_.options.limits;
  config_.model = QueryValue(query, "model");
  config_.profile = QueryValue(query, "profile");
  // Beast would count while nothing is read because speech waits: idle_ and cut_ know better.
  ws_.set_option(
      websocket::stream_base::timeout{Seconds(kGreetingSeconds), websocket::stream_base::none(), /*pings=*/false});
  ws_.read_message_max(static_cast<size_t>(limits.frame_bytes));
  ws_.async_accept(request, [self = shared_from_this()](ErrorCode error) { self->OnAccept(error); });
}

void VoskSession::OnAccept(ErrorCode error) {
  if (error) return Gone("handshake failed");
  if (!Admit()) return;
  server_.metrics.Add("antiphon_streams_total", R"(interface="vosk")");
  server_.log.Write("info", "stream-begin", {{"stream", id_}, {"remote", remote_}});
  server_.sessions.push_back(weak_from_this());
  RestIdleTimer();
  Read();
}

bool VoskSession::Admit() {
  const auto [slot, refusal] = server_.Admit(server_.streams, remote_);
  slot_ = slot;
  if (slot_) return true;
  Close(refusal.reason == "draining" ? CloseCode::service_restart : CloseCode::try_again_later, refusal.message,
        "refused");
  return false;
}

bool VoskSession::MayRead() {
  if (ending_) return true;
  if (resetting_) return false;
  if (!hearing_) return out_.size() < kMostAnswers;
  return hearing_->queued_s() < server_.options.limits.queue_s && hearing_->queued_pieces() < kMostPieces &&
         out_.size() < kMostAnswers;
}

void VoskSession::Read() {
  if (reading_ || closing_ || gone_ || !MayRead()) return;
  reading_ = true;
  const double wait_s = rate_.Take(NowSeconds());
  if (wait_s <= 0) return ReadMessage();
  pause_.expires_after(Seconds(wait_s));
  pause_.async_wait([self = shared_from_this()](ErrorCode) {
    if (self->closing_ || self->gone_) return;
    self->ReadMessage();
  });
}

void VoskSession::ReadMessage() {
  ws_.async_read(buffer_, [self = shared_from_this()](ErrorCode error, size_t) { self->OnRead(error); });
}

void VoskSession::OnRead(ErrorCode error) {
  reading_ = false;
  if (error) {
    if (error == websocket::error::message_too_big) server_.metrics.Add("antiphon_errors_total", R"(kind="too big")");
    return Gone(error == websocket::error::closed ? "closed by the client" : error.message());
  }
  RestIdleTimer();
  // What comes behind the end says nothing any more.
  if (!ending_ && !closing_) OnMessage();
  buffer_.consume(buffer_.size());
  Read();
}

void VoskSession::OnMessage() {
  const auto data = buffer_.cdata();
  const std::string_view bytes(static_cast<const char*>(data.data()), data.size());
  try {
    ws_.got_text() ? OnText(bytes) : OnSamples(bytes);
  } catch (const UsageError& e) {
    server_.metrics.Add("antiphon_errors_total", R"(kind="usage")");
    Close(CloseCode::policy_error, e.message(), "refused message");
  }
}

void VoskSession::OnText(std::string_view text) {
  constexpr size_t kMaxTextBytes = 1 << 16;
  if (text.size() > kMaxTextBytes) Throw<UsageError>("a text message is longer than {} bytes", kMaxTextBytes);
  switch (ReadVoskMessage(text, config_)) {
    case VoskSays::kConfig:
      return;
    case VoskSays::kEnd:
      ending_ = true;
      break;
    case VoskSays::kReset:
      resetting_ = true;
      break;
  }
  if (!hearing_) hearing_ = NewHearing();
  EndHearing();
}

void VoskSession::OnSamples(std::string_view bytes) {
  if (!hearing_) hearing_ = NewHearing();
  std::string whole = odd_byte_ + std::string(bytes);
  odd_byte_ = whole.size() % sizeof(int16_t) == 0 ? "" : whole.substr(whole.size() - 1);
  std::vector<int16_t> samples(whole.size() / sizeof(int16_t));
  std::memcpy(samples.data(), whole.data(), samples.size() * sizeof(int16_t));
  samples_ += std::ssize(samples);
  ++unheard_;
  hearing_->Hear(std::move(samples));
  if (spoken_s() > server_.options.limits.stream_s) {
    ending_ = true;
    close_after_ = CloseCode::policy_error;
    close_why_ = "this is as long as a stream may be";
    EndHearing();
  }
}

void VoskSession::EndHearing() {
  ++unheard_;
  hearing_->End();
}

double VoskSession::spoken_s() const { return before_s_ + static_cast<double>(samples_) / heard_with_.sample_rate_hz; }

std::shared_ptr<Hearing> VoskSession::NewHearing() {
  const ChosenModel chosen = server_.models.Choose(config_.model, config_.profile);
  StreamSettings settings = server_.stream;
  settings.profile = chosen.profile;
  settings.partial = config_.partial;
  settings.nbest = config_.max_alternatives > 0 ? config_.max_alternatives : -1;
  settings.hotwords = config_.hotwords;
  settings.word_list = config_.phrase_list;
  before_s_ = spoken_s();
  samples_ = 0;
  unheard_ = 0;
  heard_with_ = config_;
  so_far_ = {};
  odd_byte_.clear();
  const auto reply = [weak = weak_from_this(), executor = ws_.get_executor(), number = ++stream_](Heard heard) {
    asio::post(executor, [weak, number, heard = std::move(heard)] {
      if (const auto self = weak.lock()) self->OnHeard(heard, number);
    });
  };
  return std::make_shared<Hearing>(server_.scheduler, server_.metrics,
                                   HearingSettings{.sample_rate_hz = config_.sample_rate_hz},
                                   StreamsOf(chosen.model, config_.sample_rate_hz, std::move(settings)), reply);
}

void VoskSession::OnHeard(const Heard& heard, int stream) {
  if (gone_ || closing_ || stream != stream_) return;
  --unheard_;
  if (heard.error) {
    const bool theirs = *heard.error == ErrorKind::kUsage || *heard.error == ErrorKind::kInput;
    server_.metrics.Add("antiphon_errors_total", fmt::format("kind=\"{}\"", NameOf(*heard.error)));
    server_.log.Write("error", "stream-error", {{"stream", id_}, {"message", heard.message}});
    return Close(theirs ? CloseCode::policy_error : CloseCode::internal_error, heard.message, "error");
  }
  for (const StreamEvent& event : heard.events) {
    if (event.final) words_ += std::ssize(event.words);
    if (event.final && server_.log.with_words()) {
      server_.log.Write("info", "words", {{"stream", id_}, {"text", event.text}});
    }
  }
  Answer(heard);
  // The client could not know before that it is its turn.
  if (unheard_ == 0) RestIdleTimer();
  if (heard.end) {
    audio_remarks_.insert(heard.audio_remarks.begin(), heard.audio_remarks.end());
    hearing_.reset();
    resetting_ = false;
  }
  if (heard.end && ending_) {
    return Close(close_after_, close_why_, close_after_ == CloseCode::normal ? "done" : close_why_);
  }
  Read();
}

void VoskSession::Answer(const Heard& heard) {
  if (heard_with_.as_listen) {
    for (const StreamEvent& event : heard.events) Send(ListenLine(event, heard_with_.max_alternatives > 0));
    return;
  }
  std::vector<StreamEvent> shown;
  std::transform(heard.events.begin(), heard.events.end(), std::back_inserter(shown), ShownEvent);
  Send(VoskReply(shown, heard.end, heard_with_, so_far_));
}

void VoskSession::FinishNow() {
  if (gone_ || closing_ || ending_) return;
  ending_ = true;
  close_after_ = CloseCode::service_restart;
  close_why_ = "the server is going down";
  if (!hearing_) return Close(close_after_, close_why_, close_why_);
  EndHearing();
}

void VoskSession::RestIdleTimer() {
  idle_.expires_after(Seconds(server_.options.limits.idle_s));
  // Holds the session while nothing is read from it.
  idle_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (error || self->gone_ || self->closing_) return;
    // It may have been set anew when this was on its way already.
    if (self->idle_.expiry() > std::chrono::steady_clock::now()) return;
    // Not what the hearing has queued: an answer may be on its way.
    if (self->unheard_ > 0) return self->RestIdleTimer();
    self->Close(CloseCode::policy_error, "no speech came for too long", "idle");
  });
}

// A client that takes neither what it is told nor the close is not waited for.
void VoskSession::LimitWriting(double seconds) {
  writing_ = true;
  cut_.expires_after(Seconds(seconds));
  cut_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (!error && self && self->writing_) beast::get_lowest_layer(self->ws_).close();
  });
}

void VoskSession::Send(std::string text) {
  out_.push_back(std::move(text));
  if (!writing_) Write();
}

void VoskSession::Write() {
  if (gone_) return;
  if (out_.empty()) {
    if (!closing_) return Read();
    LimitWriting(kGreetingSeconds);
    return ws_.async_close(close_, [self = shared_from_this()](ErrorCode) { self->Gone(""); });
  }
  LimitWriting(server_.options.limits.idle_s);
  ws_.text(true);
  ws_.async_write(asio::buffer(out_.front()), [self = shared_from_this()](ErrorCode error, size_t) {
    self->writing_ = false;
    self->cut_.cancel();
    if (error) return self->Gone("the client does not read: " + error.message());
    self->out_.pop_front();
    self->Write();
  });
}

void VoskSession::Close(CloseCode code, std::string_view reason, std::string_view outcome) {
  if (closing_ || gone_) return;
  close_ = websocket::close_reason(code, Shortened(ShowBadUtf8(reason)));
  closing_ = true;
  LogEnd(outcome);
  if (!writing_) Write();
}

void VoskSession::LogEnd(std::string_view outcome) {
  if (hearing_) hearing_->Cancel();
  idle_.cancel();
  pause_.cancel();
  if (!slot_) return;
  slot_.reset();
  server_.metrics.Add("antiphon_finished_total",
                      fmt::format(R"(interface="vosk",outcome="{}")", outcome == "done" ? "done" : "other"));
  server_.log.Write("info", "stream-end",
                    {{"stream", id_},
                     {"remote", remote_},
                     {"outcome", outcome},
                     {"audio_s", spoken_s()},
                     {"open_s", NowSeconds() - begin_s_},
                     {"words", words_},
                     {"audio_remarks", audio_remarks_}});
}

void VoskSession::Gone(std::string_view outcome) {
  if (gone_) return;
  gone_ = true;
  cut_.cancel();
  if (!closing_) LogEnd(outcome);
}

}  // namespace antiphon::serve
