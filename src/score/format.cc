#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "score/wer.h"

namespace antiphon::score {
namespace {

std::string RateName(const Report& report) { return report.unit == "word" ? "WER" : "CER"; }

std::string CountsLine(const std::string& name, const SpeakerScore& s) {
  const ErrorCounts& c = s.counts;
  return fmt::format(
      "{:<20} {:>7} {:>8} {:>7.2f} {:>7} {:>6} {:>6} {:>6} {:>8.2f}\n", name, s.utterances, c.reference_length(),
      100 * c.Rate(), c.errors(), c.substitutions, c.deletions, c.insertions,
      s.utterances > 0 ? 100.0 * static_cast<double>(s.wrong_utterances) / static_cast<double>(s.utterances) : 0.0);
}

std::string Padded(const std::string& text, size_t width, size_t to) { return text + std::string(to - width, ' '); }

std::string AlignmentBlock(const UtteranceScore& u) {
  std::string reference = "REF: ", hypothesis = "HYP: ", marks = "     ";
  size_t r = 0, h = 0;
  for (const Edit edit : u.alignment.edits) {
    const std::string ref = edit == Edit::kInsertion ? "" : u.reference[r++];
    const std::string hyp = edit == Edit::kDeletion ? "" : u.hypothesis[h++];
    const size_t ref_width = DisplayColumns(ref), hyp_width = DisplayColumns(hyp);
    const size_t width = std::max(ref_width, hyp_width);
    const auto cell = [&](const std::string& text, size_t text_width) {
      return " " + (text_width == 0 ? std::string(width, '*') : Padded(text, text_width, width));
    };
    reference += cell(ref, ref_width);
    hypothesis += cell(hyp, hyp_width);
    constexpr const char* kMarks[] = {"", "S", "D", "I"};
    const std::string mark = kMarks[static_cast<int>(edit)];
    marks += " " + Padded(mark, mark.size(), width);
  }
  for (std::string* line : {&reference, &hypothesis, &marks}) line->erase(line->find_last_not_of(' ') + 1);
  const ErrorCounts& c = u.alignment.counts;
  return fmt::format("{}{}  correct {}, substituted {}, deleted {}, inserted {}\n{}\n{}\n{}\n", u.utt_id,
                     u.speaker.empty() ? "" : " (" + u.speaker + ")", c.correct, c.substitutions, c.deletions,
                     c.insertions, reference, hypothesis, marks);
}

nlohmann::ordered_json CountsJson(const ErrorCounts& c) {
  nlohmann::ordered_json json;
  // JSON has no infinity; errors against an empty reference have no rate.
  if (std::isfinite(c.Rate())) json["error_rate"] = c.Rate();
  json["errors"] = c.errors();
  json["reference_length"] = c.reference_length();
  json["correct"] = c.correct;
  json["substitutions"] = c.substitutions;
  json["deletions"] = c.deletions;
  json["insertions"] = c.insertions;
  return json;
}

nlohmann::ordered_json SpeakerJson(const SpeakerScore& s) {
  nlohmann::ordered_json json = CountsJson(s.counts);
  if (s.utterances == 0) json.erase("error_rate");  // of nothing there is no rate
  json["utterances"] = s.utterances;
  json["wrong_utterances"] = s.wrong_utterances;
  return json;
}

}  // namespace

std::string FormatSummary(const Report& report, bool with_speakers) {
  const ErrorCounts& c = report.total.counts;
  std::string text;
  if (report.total.utterances == 0) return "no utterances to score\n";
  text += fmt::format("{} {:.2f} % [{:.2f}, {:.2f}] ({} of {} {}s wrong: {} substituted, {} deleted, {} inserted)\n",
                      RateName(report), 100 * c.Rate(), 100 * report.interval_low, 100 * report.interval_high,
                      c.errors(), c.reference_length(), report.unit, c.substitutions, c.deletions, c.insertions);
  if (!report.missing.empty()) text += fmt::format("{} utterances had no hypothesis\n", report.missing.size());
  if (!report.silent.empty()) {
    text += fmt::format("{} utterances are not in the reference's CTM and count as silent\n", report.silent.size());
  }
  if (report.speakers.size() <= 1 || !with_speakers) return text;
  text += fmt::format("{:<20} {:>7} {:>8} {:>7} {:>7} {:>6} {:>6} {:>6} {:>8}\n", "speaker", "utts", report.unit + "s",
                      RateName(report) + " %", "errors", "sub", "del", "ins", "utt err%");
  for (const auto& [speaker, score] : report.speakers) text += CountsLine(speaker, score);
  return text + CountsLine("all", report.total);
}

std::string FormatAlignments(const Report& report) {
  std::string text;
  for (const UtteranceScore& u : report.utterances) text += AlignmentBlock(u) + "\n";
  return text;
}

std::string FormatJson(const Report& report, bool with_utterances) {
  nlohmann::ordered_json json;
  json["unit"] = report.unit;
  json.update(SpeakerJson(report.total));
  if (json.contains("error_rate")) {
    json["interval"] = {
        {"confidence", report.confidence}, {"low", report.interval_low}, {"high", report.interval_high}};
  }
  if (!report.missing.empty()) json["missing"] = report.missing;
  if (!report.silent.empty()) json["silent"] = report.silent;
  for (const auto& [speaker, score] : report.speakers) {
    if (!speaker.empty()) json["speakers"][speaker] = SpeakerJson(score);
  }
  for (const UtteranceScore& u : report.utterances) {
    if (!with_utterances) break;
    nlohmann::ordered_json entry = CountsJson(u.alignment.counts);
    entry["utt_id"] = u.utt_id;
    json["by_utterance"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

}  // namespace antiphon::score
