// One recording on its way: decoded by a child, recognised as a stream among the others, told as it goes.
//
// The words are those of `antiphon listen FILE`. Live speech goes first: a recording's pieces are due a little later.
// Threads: all in the socket's thread. Errors: by the listener.
#pragma once

#include <memory>
#include <optional>

#include "serve/form_dialect.h"
#include "serve/hearing.h"
#include "serve/net/audio_child.h"
#include "serve/server_context.h"

namespace antiphon::serve {

class TranscriptionListener {
 public:
  virtual ~TranscriptionListener() = default;
  virtual void OnUtterance(const StreamEvent& utterance) = 0;
  // One of them, at the end.
  virtual void OnDone(const Transcript& transcript) = 0;
  virtual void OnFailed(const HttpError& error) = 0;
};

class Transcription : public LiveSession, public std::enable_shared_from_this<Transcription> {
 public:
  Transcription(ServerContext& server, asio::any_io_executor executor, TranscriptionRequest request,
                std::weak_ptr<TranscriptionListener> listener);
  ~Transcription() override;

  void Start(FileDescriptor recording);
  /// Nobody waits for it any more.
  void Cancel();
  void FinishNow() override;

 private:
  void NextPiece();
  void OnPiece(AudioPiece piece);
  void BeginHearing(int sample_rate_hz);
  void OnHeard(const Heard& heard);
  void Fail(const HttpError& error);
  void Over(const char* outcome);

  ServerContext& server_;
  const asio::any_io_executor executor_;
  const TranscriptionRequest request_;
  const std::weak_ptr<TranscriptionListener> listener_;
  const int64_t id_;
  std::shared_ptr<AudioChild> child_;
  std::shared_ptr<Hearing> hearing_;
  Transcript transcript_;
  double begin_s_ = 0;
  int64_t samples_ = 0;
  bool waits_ = false;  // for the recogniser, before more is decoded
  bool over_ = false;
};

}  // namespace antiphon::serve
