// The public formats of an alignment.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "antiphon/aligner.h"
#include "pipeline/text_grid.h"

namespace antiphon {
namespace {

using Intervals = std::vector<pipeline::LabelledInterval>;

Intervals Words(const AlignedSpeech& speech) {
  Intervals intervals;
  for (const AlignedWord& word : speech.words) intervals.push_back({word.start_s, word.end_s, word.word});
  return intervals;
}

Intervals Phones(const AlignedSpeech& speech) {
  Intervals intervals;
  for (const AlignedPhone& phone : speech.phones) intervals.push_back({phone.start_s, phone.end_s, phone.phone});
  return intervals;
}

double Milliseconds(double seconds) { return std::round(1000.0 * seconds) / 1000.0; }

}  // namespace

std::string ToTextGrid(const AlignedSpeech& speech) {
  return pipeline::TextGrid({{"words", Words(speech)}, {"phones", Phones(speech)}}, speech.duration_s);
}

std::string ToCtm(const AlignedSpeech& speech, const std::string& utterance, CtmLabels labels,
                  const std::string& channel) {
  std::string ctm;
  for (const pipeline::LabelledInterval& i : labels == CtmLabels::kWords ? Words(speech) : Phones(speech)) {
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
