// The public formats of an alignment.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "antiphon/aligner.h"

namespace antiphon {
namespace {

struct Interval {
  double start_s;
  double end_s;
  std::string label;
};

// Praat's tiers have no gaps.
std::vector<Interval> WithoutGaps(const std::vector<Interval>& intervals, double duration_s) {
  std::vector<Interval> all;
  double at = 0;
  const auto fill = [&](double end_s) {
    if (end_s - at > 1e-6) all.push_back({at, end_s, ""});
  };
  for (const Interval& interval : intervals) {
    fill(interval.start_s);
    all.push_back(interval);
    at = interval.end_s;
  }
  fill(duration_s);
  return all;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string Tier(int number, const std::string& name, const std::vector<Interval>& intervals, double duration_s) {
  std::string text = fmt::format(
      "    item [{}]:\n        class = \"IntervalTier\"\n        name = {}\n        xmin = 0\n        xmax = {:.6f}\n"
      "        intervals: size = {}\n",
      number, Quoted(name), duration_s, intervals.size());
  for (size_t i = 0; i < intervals.size(); ++i) {
    text += fmt::format(
        "        intervals [{}]:\n            xmin = {:.6f}\n            xmax = {:.6f}\n            text = {}\n", i + 1,
        intervals[i].start_s, intervals[i].end_s, Quoted(intervals[i].label));
  }
  return text;
}

std::vector<Interval> Words(const AlignedSpeech& speech) {
  std::vector<Interval> intervals;
  for (const AlignedWord& word : speech.words) intervals.push_back({word.start_s, word.end_s, word.word});
  return intervals;
}

std::vector<Interval> Phones(const AlignedSpeech& speech) {
  std::vector<Interval> intervals;
  for (const AlignedPhone& phone : speech.phones) intervals.push_back({phone.start_s, phone.end_s, phone.phone});
  return intervals;
}

double Milliseconds(double seconds) { return std::round(1000.0 * seconds) / 1000.0; }

}  // namespace

std::string ToTextGrid(const AlignedSpeech& speech) {
  const double end_s = speech.duration_s;
  return fmt::format(
             "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = {:.6f}\ntiers? <exists>\n"
             "size = 2\nitem []:\n",
             end_s) +
         Tier(1, "words", WithoutGaps(Words(speech), end_s), end_s) +
         Tier(2, "phones", WithoutGaps(Phones(speech), end_s), end_s);
}

std::string ToCtm(const AlignedSpeech& speech, const std::string& utterance, CtmLabels labels,
                  const std::string& channel) {
  std::string ctm;
  for (const Interval& i : labels == CtmLabels::kWords ? Words(speech) : Phones(speech)) {
    ctm += fmt::format("{} {} {:.3f} {:.3f} {}\n", utterance, channel, i.start_s, i.end_s - i.start_s, i.label);
  }
  return ctm;
}

std::string ToJson(const AlignedSpeech& speech) {
  auto words = nlohmann::ordered_json::array();
  for (const AlignedWord& word : speech.words) {
    auto phones = nlohmann::ordered_json::array();
    for (int p = word.first_phone; p < word.first_phone + word.num_phones; ++p) {
      const AlignedPhone& phone = speech.phones[static_cast<size_t>(p)];
      phones.push_back(
          {{"phone", phone.phone}, {"start", Milliseconds(phone.start_s)}, {"end", Milliseconds(phone.end_s)}});
    }
    words.push_back({{"word", word.word},
                     {"start", Milliseconds(word.start_s)},
                     {"end", Milliseconds(word.end_s)},
                     {"phones", std::move(phones)}});
  }
  const nlohmann::ordered_json json = {{"words", std::move(words)},
                                       {"duration", Milliseconds(speech.duration_s)},
                                       {"log_likelihood", speech.log_likelihood},
                                       {"retried", speech.retried},
                                       {"unknown_words", speech.unknown_words}};
  return json.dump();
}

}  // namespace antiphon
