// POST /inference as clients of whisper.cpp's server send it.
#include "base/printed_json.h"
#include "serve/form_dialect.h"

namespace antiphon::serve {
namespace {

class WhisperCpp : public FormDialect {
 public:
  std::string_view name() const override { return "whisper.cpp"; }

  // Fields that steer whisper's own decoding (temperature_inc, beam_size …) say nothing to this one.
  TranscriptionRequest Read(const UploadForm& form, const ModelSet& models) const override {
    if (!form.has_file()) throw RefusedRequest({.message = "no 'file' field in the request"});
    TranscriptionRequest request;
    request.chosen = ChosenBy(form, models);
    request.format = form.Field("response_format", "json");
    RequireFormat(request.format);
    request.language = form.Field("language", "unknown");
    request.hotwords = HotwordsOf(form.Field("prompt"));
    request.words = true;
    return request;
  }

  HttpReply Error(const HttpError& error) const override {
    return {.status = error.status, .body = PrintedJson({{"error", error.message}})};
  }
};

}  // namespace

const FormDialect& WhisperCppDialect() {
  static const WhisperCpp dialect;
  return dialect;
}

}  // namespace antiphon::serve
