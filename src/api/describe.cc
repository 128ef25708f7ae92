#include "api/describe.h"

#include <span>
#include <string>

#include "pipeline/rounded_seconds.h"

namespace antiphon {
namespace {

std::string TextOf(std::span<const int32_t> words, const decode::Graph& graph) {
  std::string text;
  for (const int32_t word : words) text += (text.empty() ? "" : " ") + graph.words()[static_cast<size_t>(word)];
  return text;
}

Hypothesis Describe(const decode::LatticePath& path, const ResultScale& scale) {
  return {.text = TextOf(path.words, scale.graph),
          .cost = path.cost.Total(scale.weights.acoustic_scale) +
                  scale.weights.word_penalty * static_cast<double>(path.words.size()),
          .graph_cost = path.cost.graph,
          .acoustic_cost = path.cost.acoustic};
}

void AddDetails(const Recognition& recognition, nlohmann::ordered_json& json) {
  auto words = nlohmann::ordered_json::array();
  for (const RecognizedWord& word : recognition.words) {
    words.push_back({{"word", word.word},
                     {"start", pipeline::RoundedSeconds(word.start_s)},
                     {"end", pipeline::RoundedSeconds(word.end_s)}});
    if (word.confidence >= 0) words.back()["confidence"] = word.confidence;
  }
  json["words"] = words;
  if (!recognition.nbest.empty()) {
    auto nbest = nlohmann::ordered_json::array();
    for (const Hypothesis& h : recognition.nbest) {
      nbest.push_back(
          {{"text", h.text}, {"cost", h.cost}, {"graph_cost", h.graph_cost}, {"acoustic_cost", h.acoustic_cost}});
    }
    json["nbest"] = nbest;
  }
  if (!recognition.remark.empty()) json["remark"] = recognition.remark;
}

}  // namespace

Recognition Describe(const decode::Recognition& result, const ResultScale& scale, int begin_frame) {
  Recognition recognition;
  recognition.text = TextOf(result.best.words, scale.graph);
  recognition.remark = result.remark;
  for (size_t i = 0; i < result.times.words.size(); ++i) {
    const decode::TimedWord& timed = result.times.words[i];
    const double start_s = (begin_frame + timed.begin_frame) * scale.frame_shift_s;
    recognition.words.push_back({scale.graph.words()[static_cast<size_t>(timed.word)], start_s,
                                 start_s + timed.num_frames * scale.frame_shift_s,
                                 i < result.confidences.size() ? result.confidences[i] : -1.0});
  }
  for (const decode::LatticePath& path : result.nbest) recognition.nbest.push_back(Describe(path, scale));
  return recognition;
}

StreamEvent Describe(const LiveResult& result, const ResultScale& scale) {
  StreamEvent event;
  if (result.final) {
    static_cast<Recognition&>(event) = Describe(result.recognition, scale, result.begin_frame);
  } else {
    event.text = TextOf(result.partial.words, scale.graph);
  }
  event.final = result.final;
  event.start_s = result.begin_frame * scale.frame_shift_s;
  event.end_s = (result.begin_frame + result.num_frames) * scale.frame_shift_s;
  return event;
}

nlohmann::ordered_json JsonOf(const Recognition& recognition) {
  nlohmann::ordered_json json = {{"text", recognition.text}};
  AddDetails(recognition, json);
  return json;
}

nlohmann::ordered_json JsonOf(const StreamEvent& event) {
  nlohmann::ordered_json json = {{"final", event.final},
                                 {"start", pipeline::RoundedSeconds(event.start_s)},
                                 {"end", pipeline::RoundedSeconds(event.end_s)},
                                 {"text", event.text}};
  if (event.final) AddDetails(event, json);
  return json;
}

std::string ToJson(const Recognition& recognition) { return JsonOf(recognition).dump(); }
std::string ToJson(const StreamEvent& event) { return JsonOf(event).dump(); }

}  // namespace antiphon
