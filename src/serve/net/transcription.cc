#include "serve/net/transcription.h"

#include <utility>

#include "base/error.h"
#include "serve/clock.h"
#include "serve/shown_event.h"

namespace antiphon::serve {
namespace {

constexpr int kPiecesAhead = 3;
constexpr double kSlackSeconds = 1.0;  // by which live speech goes before recordings

}  // namespace

Transcription::Transcription(ServerContext& server, asio::any_io_executor executor, TranscriptionRequest request,
                             std::weak_ptr<TranscriptionListener> listener)
    : server_(server),
      executor_(std::move(executor)),
      request_(std::move(request)),
      listener_(std::move(listener)),
      id_(server.next_id++),
      begin_s_(NowSeconds()) {}

Transcription::~Transcription() { Cancel(); }

void Transcription::Start(FileDescriptor recording) {
  server_.log.Write("info", "upload-begin", {{"stream", id_}, {"model", request_.chosen.model->name}});
  server_.sessions.push_back(weak_from_this());
  try {
    child_ = std::make_shared<AudioChild>(executor_, server_.program, std::move(recording), server_.options.limits);
  } catch (const Error& e) {
    return Fail({.status = 500, .message = e.what()});
  }
  NextPiece();
}

void Transcription::NextPiece() {
  waits_ = false;
  child_->Read([weak = weak_from_this()](AudioPiece piece) {
    if (const auto self = weak.lock()) self->OnPiece(std::move(piece));
  });
}

void Transcription::OnPiece(AudioPiece piece) {
  if (over_) return;
  if (!piece.error.empty()) {
    return Fail({.message = "the recording cannot be read: " + piece.error, .param = "file", .code = "invalid_audio"});
  }
  if (!hearing_) BeginHearing(piece.sample_rate_hz);
  samples_ += std::ssize(piece.samples);
  transcript_.duration_s = static_cast<double>(samples_) / piece.sample_rate_hz;
  if (transcript_.duration_s > server_.options.limits.stream_s) {
    return Fail({.status = 413,
                 .message = fmt::format("the recording is longer than {} s", server_.options.limits.stream_s),
                 .param = "file"});
  }
  if (piece.samples.empty()) return hearing_->End();
  hearing_->Hear(std::move(piece.samples));
  waits_ = hearing_->queued_pieces() >= kPiecesAhead;
  if (!waits_) NextPiece();
}

void Transcription::BeginHearing(int sample_rate_hz) {
  StreamSettings settings = server_.stream;
  settings.partial = false;
  settings.profile = request_.chosen.profile;
  settings.hotwords = request_.hotwords;
  const auto reply = [weak = weak_from_this(), executor = executor_](Heard heard) {
    asio::post(executor, [weak, heard = std::move(heard)] {
      if (const auto self = weak.lock()) self->OnHeard(heard);
    });
  };
  hearing_ = std::make_shared<Hearing>(server_.scheduler, server_.metrics,
                                       HearingSettings{.sample_rate_hz = sample_rate_hz, .slack_s = kSlackSeconds},
                                       StreamsOf(request_.chosen.model, sample_rate_hz, std::move(settings)), reply);
}

void Transcription::OnHeard(const Heard& heard) {
  if (over_) return;
  if (heard.error) {
    const bool theirs = *heard.error == ErrorKind::kUsage || *heard.error == ErrorKind::kInput;
    return Fail({.status = theirs ? 400 : 500, .message = heard.message});
  }
  const auto listener = listener_.lock();
  for (const StreamEvent& event : heard.events) {
    if (!event.final || event.text.empty()) continue;
    if (server_.log.with_words()) server_.log.Write("info", "words", {{"stream", id_}, {"text", event.text}});
    transcript_.utterances.push_back(ShownEvent(event));
    if (listener) listener->OnUtterance(transcript_.utterances.back());
  }
  if (heard.end) {
    transcript_.audio_remarks = heard.audio_remarks;
    Over("done");
    if (listener) listener->OnDone(transcript_);
  } else if (waits_) {
    NextPiece();
  }
}

void Transcription::FinishNow() {
  if (!over_) Fail({.status = 503, .message = "the server is going down: send the recording again soon"});
}

void Transcription::Cancel() {
  if (!over_) Over("cancelled");
}

void Transcription::Fail(const HttpError& error) {
  if (over_) return;
  server_.metrics.Add("antiphon_errors_total", error.status < 500 ? R"(kind="recording")" : R"(kind="internal")");
  server_.log.Write("warning", "upload-error", {{"stream", id_}, {"message", error.message}});
  Over("failed");
  if (const auto listener = listener_.lock()) listener->OnFailed(error);
}

void Transcription::Over(const char* outcome) {
  over_ = true;
  if (hearing_) hearing_->Cancel();
  if (child_) child_->Kill();
  server_.metrics.Add("antiphon_finished_total", fmt::format(R"(interface="upload",outcome="{}")", outcome));
  server_.log.Write("info", "upload-end",
                    {{"stream", id_},
                     {"outcome", outcome},
                     {"audio_s", transcript_.duration_s},
                     {"open_s", NowSeconds() - begin_s_},
                     {"utterances", transcript_.utterances.size()},
                     {"audio_remarks", transcript_.audio_remarks}});
}

}  // namespace antiphon::serve
