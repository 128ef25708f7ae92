#include "serve/net/upload_exchange.h"

#include <utility>

#include "base/error.h"
#include "base/printed_json.h"
#include "serve/clock.h"

namespace antiphon::serve {
namespace {

constexpr size_t kBodyPiece = 1 << 16;

}  // namespace

UploadExchange::UploadExchange(std::shared_ptr<HttpConnection> connection, const FormDialect& dialect, Slot slot)
    : connection_(std::move(connection)), dialect_(dialect), slot_(std::move(slot)), piece_(kBodyPiece) {}

void UploadExchange::Run() {
  const LimitOptions& limits = connection_->server_.options.limits;
  deadline_s_ = NowSeconds() + limits.upload_s;
  try {
    parts_.emplace(MultipartParser::BoundaryOf(connection_->head_.content_type), form_);
  } catch (const Error& e) {
    return Refuse({.message = e.message()});
  }
  const auto& message = connection_->parser_->get();
  if (!beast::iequals(message[http::field::expect], "100-continue")) return ReadSome();
  const auto go_on = std::make_shared<std::string>("HTTP/1.1 100 Continue\r\n\r\n");
  asio::async_write(connection_->stream_, asio::buffer(*go_on),
                    [self = shared_from_this(), go_on](ErrorCode error, size_t) {
                      if (error) return self->Cancel();
                      self->ReadSome();
                    });
}

void UploadExchange::ReadSome() {
  auto& parser = *connection_->parser_;
  if (parser.is_done()) return Recognise();
  const double left_s = deadline_s_ - NowSeconds();
  if (left_s <= 0) return Refuse({.status = 408, .message = "the recording came too slowly"});
  const double wait_s = std::min(left_s, connection_->server_.options.limits.idle_s);
  connection_->stream_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(wait_s * 1000)));
  parser.get().body() = {.data = piece_.data(), .size = piece_.size(), .more = true};
  http::async_read_some(connection_->stream_, connection_->buffer_, parser,
                        [self = shared_from_this()](ErrorCode error, size_t) { self->OnBytes(error); });
}

void UploadExchange::OnBytes(ErrorCode error) {
  if (!connection_) return;
  if (error == http::error::body_limit) {
    return Refuse({.status = 413,
                   .message = fmt::format("the recording is longer than {} bytes",
                                          connection_->server_.options.limits.upload_bytes),
                   .param = "file"});
  }
  if (error && error != http::error::need_buffer) return Cancel();
  try {
    parts_->Feed({piece_.data(), piece_.size() - connection_->parser_->get().body().size});
    ReadSome();
  } catch (const Error& e) {
    Refuse({.status = e.kind() == ErrorKind::kInput ? 400 : 500, .message = e.message()});
  }
}

void UploadExchange::Recognise() {
  try {
    parts_->Finish();
    request_ = dialect_.Read(form_, connection_->server_.models);
  } catch (const RefusedRequest& e) {
    return Refuse(e.error());
  } catch (const Error& e) {
    return Refuse({.message = e.message()});
  }
  connection_->stream_.expires_never();
  connection_->WatchForEnd();
  transcription_ = std::make_shared<Transcription>(connection_->server_, connection_->stream_.get_executor(), request_,
                                                   weak_from_this());
  if (request_.stream) connection_->BeginEvents();
  transcription_->Start(form_.TakeFile());
}

void UploadExchange::Cancel() {
  if (transcription_) transcription_->Cancel();
  slot_.reset();
  connection_.reset();
}

void UploadExchange::Refuse(const HttpError& error) { OnFailed(error); }

// For the answer, with the slot: a server that goes down waits until the slots are free.
std::shared_ptr<HttpConnection> UploadExchange::TakeConnection() {
  auto connection = std::exchange(connection_, nullptr);
  const Slot slot = std::exchange(slot_, nullptr);
  if (connection) connection->answering_ = slot;
  return connection;
}

void UploadExchange::OnUtterance(const StreamEvent& utterance) {
  if (!connection_ || !request_.stream) return;
  const std::string delta = (told_ ? " " : "") + utterance.text;
  told_ = true;
  connection_->SendEvent(PrintedJson({{"type", "transcript.text.delta"}, {"delta", delta}}));
}

void UploadExchange::OnDone(const Transcript& transcript) {
  const auto connection = TakeConnection();
  if (!connection) return;
  if (!request_.stream) return connection->Send(FormattedReply(request_, transcript));
  connection->SendEvent(PrintedJson({{"type", "transcript.text.done"}, {"text", transcript.Text()}}));
  connection->EndEvents();
}

void UploadExchange::OnFailed(const HttpError& error) {
  const auto connection = TakeConnection();
  if (!connection) return;
  const HttpReply reply = dialect_.Error(error);
  if (!transcription_ || !request_.stream) return connection->Send(reply);
  connection->SendEvent(reply.body);
  connection->EndEvents();
}

}  // namespace antiphon::serve
