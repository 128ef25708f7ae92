#include "pipeline/align_scores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "base/median.h"

namespace antiphon::pipeline {
namespace {

constexpr double kUnlikely = -3.0;       // robust deviations of the log-likelihood
constexpr double kOddLength = 4.5;       // deviations of a phone's length
constexpr double kLeastDeviation = 0.3;  // of a logarithm of lengths: frames are coarse

struct Typical {
  double middle = 0.0;
  double spread = 0.0;  // 0: nothing to compare with

  double Deviation(double value) const { return spread > 0.0 ? (value - middle) / spread : 0.0; }
};

Typical TypicalLikelihood(const std::vector<AlignedUtterance>& utterances) {
  std::vector<double> values;
  for (const AlignedUtterance& u : utterances) {
    if (u.skipped.empty()) values.push_back(u.times.log_likelihood);
  }
  if (values.size() < kFewestToCompare) return {};
  const double middle = Median(values);
  for (double& value : values) value = std::abs(value - middle);
  return {middle, 1.4826 * Median(values)};
}

double LogLength(const TimedPhone& phone) { return std::log(std::max(phone.end_s - phone.start_s, 1e-3)); }

// Calls visit(word, phone) for the phones of words; pauses may last as they like.
template <class Visit>
void EachSpokenPhone(const AlignedTimes& times, const Visit& visit) {
  for (const TimedWord& word : times.words) {
    for (int p = word.first_phone; p < word.first_phone + word.num_phones; ++p) {
      visit(word, times.phones[static_cast<size_t>(p)]);
    }
  }
}

std::map<std::string, Typical> TypicalLengths(const std::vector<AlignedUtterance>& utterances) {
  struct Sums {
    int count = 0;
    double sum = 0.0, squares = 0.0;
  };
  std::map<std::string, Sums> sums;
  for (const AlignedUtterance& u : utterances) {
    EachSpokenPhone(u.times, [&](const TimedWord&, const TimedPhone& phone) {
      Sums& s = sums[phone.phone];
      const double length = LogLength(phone);
      ++s.count;
      s.sum += length;
      s.squares += length * length;
    });
  }
  std::map<std::string, Typical> typical;
  for (const auto& [phone, s] : sums) {
    if (s.count < kFewestToCompare) continue;
    const double mean = s.sum / s.count;
    const double variance = std::max(s.squares / s.count - mean * mean, 0.0);
    typical[phone] = {mean, std::max(std::sqrt(variance), kLeastDeviation)};
  }
  return typical;
}

void FindWorstPhone(const AlignedTimes& times, const std::map<std::string, Typical>& lengths, AlignScore& score) {
  EachSpokenPhone(times, [&](const TimedWord& word, const TimedPhone& phone) {
    const auto typical = lengths.find(phone.phone);
    if (typical == lengths.end()) return;
    const double deviation = typical->second.Deviation(LogLength(phone));
    if (std::abs(deviation) <= std::abs(score.phone_deviation)) return;
    score.phone_deviation = deviation;
    score.place_s = phone.start_s;
    score.place_word = word.word;
  });
}

// "3 words of the text are not said, the first at 1.20 s: a b c; 4.1 s of speech are not in the text, the first at 0.00
// s".
std::vector<std::string> RemarksOnGaps(const AlignedTimes& times) {
  constexpr size_t kShown = 5;
  size_t words = 0;
  double speech_s = 0.0;
  const UnalignedPart *first_text = nullptr, *first_speech = nullptr;
  for (const UnalignedPart& part : times.unaligned) {
    words += part.words.size();
    if (part.words.empty()) speech_s += part.end_s - part.start_s;
    const UnalignedPart*& first = part.words.empty() ? first_speech : first_text;
    if (first == nullptr) first = &part;
  }
  std::vector<std::string> remarks;
  if (first_text != nullptr) {
    const std::span shown = std::span(first_text->words).first(std::min(kShown, first_text->words.size()));
    remarks.push_back(fmt::format("{} word(s) of the text are not said, the first at {:.2f} s: {}{}", words,
                                  first_text->start_s, fmt::join(shown, " "),
                                  shown.size() < first_text->words.size() ? " …" : ""));
  }
  if (first_speech != nullptr) {
    remarks.push_back(
        fmt::format("{:.1f} s of speech are not in the text, the first at {:.2f} s", speech_s, first_speech->start_s));
  }
  return remarks;
}

// An alignment places every word somewhere, even where there is no sound.
std::string RemarkOnZeros(const AlignedUtterance& utterance) {
  constexpr double kSlackSeconds = 0.01;  // a frame
  int64_t words = 0;
  double first_s = 0.0;
  for (const TimedWord& word : utterance.times.words) {
    if (!utterance.zeros.Cover(word.start_s, word.end_s, kSlackSeconds)) continue;
    if (words++ == 0) first_s = word.start_s;
  }
  if (words == 0) return "";
  return fmt::format("{} word(s) stand where the audio is silent, all samples being the same, the first at {:.2f} s",
                     words, first_s);
}

std::string RemarkOn(const AlignedUtterance& utterance, const AlignScore& score) {
  if (!utterance.skipped.empty()) return "skipped: " + utterance.skipped;
  std::string remark;
  const auto add = [&](const std::string& text) { remark += (remark.empty() ? "" : "; ") + text; };
  if (!utterance.times.unknown_words.empty()) add("no pronunciation of " + utterance.times.unknown_words.front());
  for (const std::string& gap : RemarksOnGaps(utterance.times)) add(gap);
  if (const std::string silent = RemarkOnZeros(utterance); !silent.empty()) add(silent);
  if (utterance.times.retried) add("found with the wide beam only");
  if (score.deviation < kUnlikely) add("unlike its text");
  if (std::abs(score.phone_deviation) > kOddLength) {
    add(fmt::format("'{}' at {:.2f} s is very {}", score.place_word, score.place_s,
                    score.phone_deviation > 0.0 ? "long" : "short"));
  }
  return remark;
}

}  // namespace

// An excerpt of its text says few of its words, and a long talk with little text has much else in it: only both
// together are a text of something else.
std::string WhyTextIsWrong(const AlignedTimes& times) {
  constexpr double kNearlyNothing = 0.2;
  double spoken_s = 0.0, foreign_s = 0.0;
  size_t unsaid = 0;
  for (const TimedWord& word : times.words) spoken_s += word.end_s - word.start_s;
  for (const UnalignedPart& part : times.unaligned) {
    unsaid += part.words.size();
    if (part.words.empty()) foreign_s += part.end_s - part.start_s;
  }
  const size_t said = times.words.size(), all = said + unsaid;
  const bool few_words = static_cast<double>(said) < kNearlyNothing * static_cast<double>(all);
  const bool little_speech = said == 0 || spoken_s < kNearlyNothing * (spoken_s + foreign_s);
  if (!few_words || !little_speech) return "";
  return fmt::format("{} of the {} words of its text were found: is it another recording's?", said, all);
}

std::vector<AlignScore> ScoreAlignments(const std::vector<AlignedUtterance>& utterances) {
  const Typical likelihood = TypicalLikelihood(utterances);
  const auto lengths = TypicalLengths(utterances);
  std::vector<AlignScore> scores;
  for (const AlignedUtterance& u : utterances) {
    AlignScore score;
    score.utt_id = u.utt_id;
    score.seconds = u.times.duration_s;
    if (u.skipped.empty()) {
      score.log_likelihood = u.times.log_likelihood;
      score.deviation = likelihood.Deviation(score.log_likelihood);
      FindWorstPhone(u.times, lengths, score);
    }
    score.remark = RemarkOn(u, score);
    scores.push_back(std::move(score));
  }
  return scores;
}

std::string ToTable(const std::vector<AlignScore>& scores) {
  std::string table = "utterance\tseconds\tlog_likelihood\tdeviation\tphone_deviation\tplace_s\tword\tremark\n";
  for (const AlignScore& s : scores) {
    table += fmt::format("{}\t{:.3f}\t{:.4f}\t{:.2f}\t{:.2f}\t{:.3f}\t{}\t{}\n", s.utt_id, s.seconds, s.log_likelihood,
                         s.deviation, s.phone_deviation, s.place_s, s.place_word, s.remark);
  }
  return table;
}

std::string UnalignedTable(const std::vector<AlignedUtterance>& utterances) {
  std::string table = "utterance\twhat\tstart_s\tend_s\twords\n";
  for (const AlignedUtterance& u : utterances) {
    for (const UnalignedPart& part : u.times.unaligned) {
      table += fmt::format("{}\t{}\t{:.3f}\t{:.3f}\t{}\n", u.utt_id, part.words.empty() ? "speech" : "text",
                           part.start_s, part.end_s, fmt::join(part.words, " "));
    }
  }
  return table;
}

}  // namespace antiphon::pipeline
