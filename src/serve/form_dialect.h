// The interfaces to which a recording can be sent as a form: what their fields mean, and how they answer.
//
//   POST /v1/audio/transcriptions    OpenAI's (openai_dialect.cc)
//   POST /inference                  whisper.cpp's server (whisper_cpp_dialect.cc)
//
// Threads: const methods may run together. Errors: RefusedRequest for fields that cannot be.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "antiphon/recognizer.h"
#include "serve/model_set.h"
#include "serve/reply.h"
#include "serve/transcript.h"
#include "serve/upload_form.h"

namespace antiphon::serve {

class RefusedRequest : public std::runtime_error {
 public:
  explicit RefusedRequest(HttpError error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const HttpError& error() const { return error_; }

 private:
  HttpError error_;
};

struct TranscriptionRequest {
  ChosenModel chosen;
  std::string format = "json";
  std::string language;
  std::vector<Hotword> hotwords;
  bool words = false;  // in verbose_json
  bool segments = true;
  bool stream = false;  // events while it is recognised
};

class FormDialect {
 public:
  virtual ~FormDialect() = default;
  virtual std::string_view name() const = 0;
  /// Of a format that FormattedReply knows.
  virtual TranscriptionRequest Read(const UploadForm& form, const ModelSet& models) const = 0;
  virtual HttpReply Error(const HttpError& error) const = 0;
};

const FormDialect& OpenAiDialect();
const FormDialect& WhisperCppDialect();
/// Null: no form is sent there.
const FormDialect* DialectOf(std::string_view path);

/// The model and the profile that a form names.
ChosenModel ChosenBy(const UploadForm& form, const ModelSet& models);
/// The forms of a transcript, which both interfaces name alike.
HttpReply FormattedReply(const TranscriptionRequest& request, const Transcript& transcript);
/// RefusedRequest unless it is one of those of FormattedReply.
void RequireFormat(const std::string& format);
/// "a, b c; d": phrases to prefer.
std::vector<Hotword> HotwordsOf(std::string_view prompt);

}  // namespace antiphon::serve
