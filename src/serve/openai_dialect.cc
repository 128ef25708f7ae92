// POST /v1/audio/transcriptions as OpenAI's clients send it.
#include <algorithm>

#include "base/error.h"
#include "serve/form_dialect.h"
#include "serve/pages.h"

namespace antiphon::serve {
namespace {

class OpenAi : public FormDialect {
 public:
  std::string_view name() const override { return "openai"; }

  // `temperature` says nothing to a search without chance; what else is not known here is refused, not dropped.
  TranscriptionRequest Read(const UploadForm& form, const ModelSet& models) const override {
    if (!form.has_file()) throw RefusedRequest({.message = "the form has no part 'file'", .param = "file"});
    TranscriptionRequest request;
    if (form.Field("model").empty())
      throw RefusedRequest({.message = "the form has no field 'model'", .param = "model"});
    request.chosen = ChosenBy(form, models);
    request.format = form.Field("response_format", "json");
    RequireFormat(request.format);
    request.language = form.Field("language", "unknown");
    request.hotwords = HotwordsOf(form.Field("prompt"));
    const std::string stream = form.Field("stream");
    request.stream = stream == "true" || stream == "True" || stream == "1";
    if (request.stream && request.format != "json" && request.format != "text") {
      throw RefusedRequest({.message = "a stream of events is for response_format json or text", .param = "stream"});
    }
    ReadGranularities(form.Fields("timestamp_granularities"), request);
    for (const char* unknown : {"include", "known_speaker_names", "known_speaker_references"}) {
      if (!form.Fields(unknown).empty()) {
        throw RefusedRequest({.message = fmt::format("'{}' is not served here", unknown), .param = unknown});
      }
    }
    return request;
  }

  HttpReply Error(const HttpError& error) const override { return OpenAiError(error); }

 private:
  static void ReadGranularities(const std::vector<std::string>& names, TranscriptionRequest& request) {
    if (names.empty()) return;
    request.segments = false;
    for (const std::string& name : names) {
      if (name == "word") {
        request.words = true;
      } else if (name == "segment") {
        request.segments = true;
      } else {
        throw RefusedRequest({.message = fmt::format("timestamp_granularities '{}' is neither word nor segment", name),
                              .param = "timestamp_granularities"});
      }
    }
  }
};

}  // namespace

const FormDialect& OpenAiDialect() {
  static const OpenAi dialect;
  return dialect;
}

}  // namespace antiphon::serve
