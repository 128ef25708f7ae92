#include "score/wer.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/random.h"
#include "base/utf8.h"

namespace antiphon::score {
namespace {

std::vector<std::string> Tokens(const std::vector<std::string>& words, const ScoreOptions& options) {
  std::vector<std::string> tokens;
  for (std::string word : words) {
    if (options.ignore_case) word = FoldCase(word);
    if (options.unit == "word") {
      tokens.push_back(std::move(word));
    } else {
      for (std::string& character : Utf8Characters(word)) tokens.push_back(std::move(character));
    }
  }
  return tokens;
}

EditAlignment AlignStrings(const std::vector<std::string>& reference, const std::vector<std::string>& hypothesis) {
  std::unordered_map<std::string, int32_t> ids;
  const auto to_ids = [&](const std::vector<std::string>& tokens) {
    std::vector<int32_t> result;
    result.reserve(tokens.size());
    for (const std::string& token : tokens) {
      result.push_back(ids.emplace(token, static_cast<int32_t>(ids.size())).first->second);
    }
    return result;
  };
  const auto reference_ids = to_ids(reference);
  return AlignTokens(reference_ids, to_ids(hypothesis));
}

// "a, b, c and 4 more"
std::string SomeOf(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 3); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > 3) text += fmt::format(" and {} more", names.size() - 3);
  return text;
}

// Hypotheses that the reference lacks. A CTM has no line of an utterance without words; one that lacks all of them is
// of something else.
std::vector<std::string> SilentInReference(const Transcripts& reference, const Transcripts& hypothesis) {
  std::vector<std::string> extra;
  for (const auto& [utt_id, words] : hypothesis.words) {
    if (!reference.words.contains(utt_id)) extra.push_back(utt_id);
  }
  if (extra.empty()) return extra;
  if (reference.format == TranscriptFormat::kCtm && extra.size() < hypothesis.words.size()) return extra;
  Throw<InputError>("{}: {} of {} utterances have no reference in {}: {}; are these the two files of one test set?",
                    hypothesis.source, extra.size(), hypothesis.words.size(), reference.source, SomeOf(extra));
}

void Bootstrap(const ScoreOptions& options, Report& report) {
  const double rate = report.total.counts.Rate();
  report.confidence = options.confidence;
  report.interval_low = report.interval_high = rate;
  const size_t count = report.utterances.size();
  if (options.bootstrap_samples == 0 || count == 0 || !std::isfinite(rate)) return;
  Rng rng(static_cast<uint64_t>(options.seed));
  std::vector<double> rates;
  for (int b = 0; b < options.bootstrap_samples; ++b) {
    int64_t errors = 0, length = 0;
    for (size_t i = 0; i < count; ++i) {
      const ErrorCounts& counts = report.utterances[rng.Below(count)].alignment.counts;
      errors += counts.errors();
      length += counts.reference_length();
    }
    if (length > 0) rates.push_back(static_cast<double>(errors) / static_cast<double>(length));
  }
  if (rates.empty()) return;
  std::sort(rates.begin(), rates.end());
  const auto quantile = [&](double q) {
    return rates[static_cast<size_t>(std::lround(q * static_cast<double>(rates.size() - 1)))];
  };
  report.interval_low = quantile((1.0 - options.confidence) / 2);
  report.interval_high = quantile((1.0 + options.confidence) / 2);
}

}  // namespace

Report Score(const Transcripts& reference, const Transcripts& hypothesis,
             const std::map<std::string, std::string>& speakers, const ScoreOptions& options) {
  Report report;
  report.unit = options.unit;
  report.silent = SilentInReference(reference, hypothesis);
  auto references = reference.words;
  for (const std::string& utt_id : report.silent) references[utt_id] = {};
  for (const auto& [utt_id, words] : references) {
    const auto found = hypothesis.words.find(utt_id);
    if (found == hypothesis.words.end() && hypothesis.format == TranscriptFormat::kText) {
      report.missing.push_back(utt_id);
      if (options.missing == "skip") continue;
    }
    UtteranceScore utterance;
    utterance.utt_id = utt_id;
    if (!speakers.empty()) {
      const auto speaker = speakers.find(utt_id);
      if (speaker == speakers.end()) Throw<InputError>("utterance '{}' has no speaker in the given map", utt_id);
      utterance.speaker = speaker->second;
    }
    utterance.reference = Tokens(words, options);
    if (found != hypothesis.words.end()) utterance.hypothesis = Tokens(found->second, options);
    utterance.alignment = AlignStrings(utterance.reference, utterance.hypothesis);
    for (SpeakerScore* score : {&report.total, &report.speakers[utterance.speaker]}) {
      ++score->utterances;
      score->wrong_utterances += utterance.alignment.counts.errors() > 0 ? 1 : 0;
      score->counts += utterance.alignment.counts;
    }
    report.utterances.push_back(std::move(utterance));
  }
  if (!report.missing.empty() && options.missing == "error") {
    Throw<InputError>("{}: {} of {} utterances of {} are missing: {}; set missing = 'empty' to count them as deleted",
                      hypothesis.source, report.missing.size(), references.size(), reference.source,
                      SomeOf(report.missing));
  }
  Bootstrap(options, report);
  return report;
}

}  // namespace antiphon::score
