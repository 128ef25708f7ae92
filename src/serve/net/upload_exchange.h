// A request that brings a recording: its body in, the form's parts out, the transcript back.
//
// Threads: all in the socket's thread.
#pragma once

#include <memory>
#include <vector>

#include "serve/form_dialect.h"
#include "serve/multipart.h"
#include "serve/net/http_connection.h"
#include "serve/net/transcription.h"

namespace antiphon::serve {

class UploadExchange : public TranscriptionListener, public std::enable_shared_from_this<UploadExchange> {
 public:
  /// `slot`: of the server's uploads, kept until the answer is written.
  UploadExchange(std::shared_ptr<HttpConnection> connection, const FormDialect& dialect, Slot slot);

  void Run();
  /// The client went.
  void Cancel();

  void OnUtterance(const StreamEvent& utterance) override;
  void OnDone(const Transcript& transcript) override;
  void OnFailed(const HttpError& error) override;

 private:
  void ReadSome();
  void OnBytes(ErrorCode error);
  void Recognise();
  void Refuse(const HttpError& error);
  std::shared_ptr<HttpConnection> TakeConnection();

  std::shared_ptr<HttpConnection> connection_;  // null: answered, or the client went
  const FormDialect& dialect_;
  Slot slot_;
  UploadForm form_;
  std::optional<MultipartParser> parts_;
  std::vector<char> piece_;
  double deadline_s_ = 0;
  TranscriptionRequest request_;
  std::shared_ptr<Transcription> transcription_;
  bool told_ = false;  // an utterance, as an event
};

}  // namespace antiphon::serve
