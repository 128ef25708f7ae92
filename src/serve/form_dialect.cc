#include "serve/form_dialect.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/printed_json.h"
#include "base/trim.h"

namespace antiphon::serve {
namespace {

constexpr std::string_view kFormats[] = {"json", "text", "srt", "vtt", "verbose_json"};

HttpReply PlainText(std::string text) { return {.content_type = "text/plain; charset=utf-8", .body = std::move(text)}; }

}  // namespace

const FormDialect* DialectOf(std::string_view path) {
  if (path == "/v1/audio/transcriptions") return &OpenAiDialect();
  return path == "/inference" ? &WhisperCppDialect() : nullptr;
}

ChosenModel ChosenBy(const UploadForm& form, const ModelSet& models) {
  try {
    return models.Choose(form.Field("model"), form.Field("profile"));
  } catch (const UnknownName& e) {
    const bool model = e.field() == "model";
    throw RefusedRequest({.status = model ? 404 : 400,
                          .message = e.message(),
                          .param = e.field(),
                          .code = model ? std::string(kModelNotFound) : ""});
  }
}

void RequireFormat(const std::string& format) {
  if (std::find(std::begin(kFormats), std::end(kFormats), format) != std::end(kFormats)) return;
  throw RefusedRequest(
      {.message = fmt::format("response_format '{}' is none of json, text, srt, vtt, verbose_json", format),
       .param = "response_format"});
}

HttpReply FormattedReply(const TranscriptionRequest& request, const Transcript& transcript) {
  if (request.format == "text") return PlainText(transcript.Text() + "\n");
  if (request.format == "srt") return PlainText(SrtOf(transcript));
  if (request.format == "vtt") {
    HttpReply reply = PlainText(VttOf(transcript));
    reply.content_type = "text/vtt; charset=utf-8";
    return reply;
  }
  if (request.format == "json") return {.body = PrintedJson({{"text", transcript.Text()}})};
  return {.body = PrintedJson(VerboseJsonOf(
              transcript, {.language = request.language, .words = request.words, .segments = request.segments}))};
}

std::vector<Hotword> HotwordsOf(std::string_view prompt) {
  std::vector<Hotword> hotwords;
  while (!prompt.empty()) {
    const size_t end = prompt.find_first_of(",;\n");
    const std::string_view phrase = Trim(prompt.substr(0, end));
    if (!phrase.empty()) hotwords.push_back({.phrase = std::string(phrase)});
    prompt.remove_prefix(end == std::string_view::npos ? prompt.size() : end + 1);
  }
  return hotwords;
}

}  // namespace antiphon::serve
