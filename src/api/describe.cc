#include "api/describe.h"

#include <algorithm>
#include <span>
#include <string>

#include "api/shown_words.h"
#include "base/printed_json.h"
#include "base/rounded_seconds.h"
#include "decode/lattice/word_times.h"
#include "pipeline/written_words.h"

namespace antiphon {
namespace {

std::string WordOf(const ShownWord& shown, std::span<const int32_t> words, const ResultScale& scale) {
  return shown.other ? std::string(decode::kOtherWords) : scale.graph.words()[static_cast<size_t>(words[shown.begin])];
}

std::string TextOf(std::span<const int32_t> words, const ResultScale& scale, bool ended) {
  std::string text;
  for (const ShownWord& shown : ShownWords(words, scale.phrases, ended)) {
    text += (text.empty() ? "" : " ") + WordOf(shown, words, scale);
  }
  return text;
}

Hypothesis Describe(const decode::LatticePath& path, const ResultScale& scale) {
  return {.text = TextOf(path.words, scale, /*ended=*/true),
          .cost = path.cost.Total(scale.weights.acoustic_scale) +
                  scale.weights.word_penalty * static_cast<double>(path.words.size()),
          .graph_cost = path.cost.graph,
          .acoustic_cost = path.cost.acoustic};
}

std::vector<int32_t> TimedIds(const std::vector<decode::TimedWord>& timed) {
  std::vector<int32_t> words;
  for (const decode::TimedWord& word : timed) words.push_back(word.word);
  return words;
}

// −1 where there are none.
double LeastConfidence(const std::vector<double>& confidences, const ShownWord& shown) {
  if (shown.end > confidences.size()) return -1.0;
  return *std::min_element(confidences.begin() + static_cast<std::ptrdiff_t>(shown.begin),
                           confidences.begin() + static_cast<std::ptrdiff_t>(shown.end));
}

bool Holds(const std::vector<Hypothesis>& nbest, const std::string& text) {
  return std::any_of(nbest.begin(), nbest.end(), [&](const Hypothesis& other) { return other.text == text; });
}

nlohmann::ordered_json WordsJson(const std::vector<RecognizedWord>& words) {
  auto json = nlohmann::ordered_json::array();
  for (const RecognizedWord& word : words) {
    json.push_back({{"word", word.word}, {"start", RoundedSeconds(word.start_s)}, {"end", RoundedSeconds(word.end_s)}});
    if (word.confidence >= 0) json.back()["confidence"] = word.confidence;
  }
  return json;
}

void AddWritten(const written::WrittenForm& form, bool ended, Recognition& recognition) {
  std::vector<pipeline::TimedToken> words;
  for (const RecognizedWord& word : recognition.words) {
    words.push_back({word.word, word.start_s, word.end_s, word.confidence});
  }
  const auto tokens = pipeline::WrittenWords(form, words, ended);
  recognition.written = pipeline::TextOf(tokens);
  for (const pipeline::TimedToken& token : tokens) {
    recognition.written_words.push_back({token.text, token.start_s, token.end_s, token.confidence});
  }
}

void AddDetails(const Recognition& recognition, nlohmann::ordered_json& json) {
  json["words"] = WordsJson(recognition.words);
  if (!recognition.nbest.empty()) {
    auto nbest = nlohmann::ordered_json::array();
    for (const Hypothesis& h : recognition.nbest) {
      nbest.push_back(
          {{"text", h.text}, {"cost", h.cost}, {"graph_cost", h.graph_cost}, {"acoustic_cost", h.acoustic_cost}});
    }
    json["nbest"] = nbest;
  }
  if (!recognition.remark.empty()) json["remark"] = recognition.remark;
  if (!recognition.written_words.empty()) json["written_words"] = WordsJson(recognition.written_words);
  if (!recognition.audio_remarks.empty()) json["audio_remarks"] = recognition.audio_remarks;
}

// `confidences`: of each timed word; empty: not known.
std::vector<RecognizedWord> WordsOf(const std::vector<decode::TimedWord>& timed, const std::vector<double>& confidences,
                                    const ResultScale& scale, int begin_frame, bool ended) {
  const std::vector<int32_t> ids = TimedIds(timed);
  std::vector<RecognizedWord> words;
  for (const ShownWord& shown : ShownWords(ids, scale.phrases, ended)) {
    const decode::TimedWord& first = timed[shown.begin];
    const decode::TimedWord& last = timed[shown.end - 1];
    words.push_back({WordOf(shown, ids, scale), (begin_frame + first.begin_frame) * scale.frame_shift_s,
                     (begin_frame + last.begin_frame) * scale.frame_shift_s + last.num_frames * scale.frame_shift_s,
                     LeastConfidence(confidences, shown)});
  }
  return words;
}

}  // namespace

Recognition Describe(const decode::Recognition& result, const ResultScale& scale, int begin_frame) {
  Recognition recognition;
  recognition.text = TextOf(result.best.words, scale, /*ended=*/true);
  recognition.remark = result.remark;
  recognition.words = WordsOf(result.times.words, result.confidences, scale, begin_frame, /*ended=*/true);
  for (const decode::LatticePath& path : result.nbest) {
    Hypothesis hypothesis = Describe(path, scale);
    // Those that differ in words which are not shown are one, the best of them.
    if (scale.phrases == nullptr || !Holds(recognition.nbest, hypothesis.text)) {
      recognition.nbest.push_back(std::move(hypothesis));
    }
  }
  if (scale.written != nullptr) AddWritten(*scale.written, /*ended=*/true, recognition);
  return recognition;
}

namespace {

// The times are those of the best hypothesis so far, whose pauses end sentences as those of the last one will.
Recognition DescribeSoFar(const LiveResult& result, const ResultScale& scale) {
  Recognition so_far;
  so_far.text = TextOf(result.partial.words, scale, /*ended=*/false);
  const decode::PathTimes times = decode::FindTimes(scale.model, *scale.graph.lexicon(), result.partial);
  so_far.words = WordsOf(times.words, /*confidences=*/{}, scale, result.begin_frame, /*ended=*/false);
  if (scale.written != nullptr) AddWritten(*scale.written, /*ended=*/false, so_far);
  return so_far;
}

}  // namespace

StreamEvent Describe(const LiveResult& result, const ResultScale& scale) {
  StreamEvent event;
  static_cast<Recognition&>(event) =
      result.final ? Describe(result.recognition, scale, result.begin_frame) : DescribeSoFar(result, scale);
  event.final = result.final;
  event.start_s = result.begin_frame * scale.frame_shift_s;
  event.end_s = (result.begin_frame + result.num_frames) * scale.frame_shift_s;
  return event;
}

nlohmann::ordered_json JsonOf(const Recognition& recognition) {
  nlohmann::ordered_json json = {{"text", recognition.text}};
  if (!recognition.written.empty()) json["written"] = recognition.written;
  AddDetails(recognition, json);
  return json;
}

nlohmann::ordered_json JsonOf(const StreamEvent& event) {
  nlohmann::ordered_json json = {{"final", event.final},
                                 {"start", RoundedSeconds(event.start_s)},
                                 {"end", RoundedSeconds(event.end_s)},
                                 {"text", event.text}};
  if (!event.written.empty()) json["written"] = event.written;
  AddDetails(event, json);
  return json;
}

std::string ToJson(const Recognition& recognition) { return PrintedJson(JsonOf(recognition)); }
std::string ToJson(const StreamEvent& event) { return PrintedJson(JsonOf(event)); }

}  // namespace antiphon
