#include "pipeline/decode_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/rounded_seconds.h"

namespace antiphon::pipeline {

nlohmann::ordered_json ToJson(const DecodeReport& report) {
  nlohmann::ordered_json json = {{"utterances", report.utterances},
                                 {"speech_seconds", RoundedSeconds(report.speech_seconds)},
                                 {"cpu_seconds", RoundedSeconds(report.cpu_seconds)},
                                 {"wall_seconds", RoundedSeconds(report.wall_seconds)},
                                 {"lm_weight", 1.0 / report.weights.acoustic_scale},
                                 {"word_penalty", report.weights.word_penalty},
                                 {"risk_scale", report.weights.risk_scale}};
  if (report.speech_seconds > 0) {
    json["real_time_factor"] = std::round(10000.0 * report.cpu_seconds / report.speech_seconds) / 10000.0;
  }
  if (report.output_share) json["output_share"] = *report.output_share;
  if (report.speaker_transforms > 0) json["speaker_transforms"] = report.speaker_transforms;
  if (report.score) json["score"] = nlohmann::ordered_json::parse(score::FormatJson(*report.score, false));
  if (report.tuned) {
    json["best_lm_weight"] = report.tuned->weights.lm_weight;
    json["best_word_penalty"] = report.tuned->weights.word_penalty;
    json["best_risk_scale"] = report.tuned->weights.risk_scale;
    json["best_error_rate"] = report.tuned->error_rate;
    json["contrast"] = report.tuned->weights.contrast;
  }
  return json;
}

std::vector<std::string> Sentences(const DecodeReport& report) {
  std::vector<std::string> sentences;
  if (const double speech = report.speech_seconds; speech > 0) {
    sentences.push_back(
        fmt::format("{} utterances, {:.1f} min of speech; {:.4f} of real time per core ({:.1f} × real time), {:.1f} s",
                    report.utterances, speech / 60, report.cpu_seconds / speech,
                    speech / std::max(report.cpu_seconds, 1e-9), report.wall_seconds));
  }
  if (report.output_share)
    sentences.push_back(fmt::format("{:.1f} % of the network's outputs were computed", 100 * *report.output_share));
  if (report.score) {
    const std::string summary = score::FormatSummary(*report.score);
    sentences.push_back(summary.substr(0, summary.size() - 1));
  }
  if (const auto& tuned = report.tuned) {
    sentences.push_back(
        fmt::format("best weights: lm-weight {}, word-penalty {}, risk-scale {}: WER {:.2f} % here; in {}",
                    tuned->weights.lm_weight, tuned->weights.word_penalty, tuned->weights.risk_scale,
                    100 * tuned->error_rate, tuned->file.string()));
  }
  return sentences;
}

}  // namespace antiphon::pipeline
