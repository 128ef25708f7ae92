// The public formats of an alignment: those of the stage.
#include "antiphon/aligner.h"
#include "pipeline/aligned_times.h"

namespace antiphon {
namespace {

pipeline::AlignedTimes TimesOf(const AlignedSpeech& speech) {
  pipeline::AlignedTimes times;
  times.duration_s = speech.duration_s;
  times.log_likelihood = speech.log_likelihood;
  times.retried = speech.retried;
  times.unknown_words = speech.unknown_words;
  for (const UnalignedPart& part : speech.unaligned) times.unaligned.push_back({part.start_s, part.end_s, part.words});
  for (const AlignedWord& word : speech.words) {
    times.words.push_back({word.word, word.start_s, word.end_s, word.first_phone, word.num_phones});
  }
  for (const AlignedPhone& phone : speech.phones) times.phones.push_back({phone.phone, phone.start_s, phone.end_s});
  return times;
}

}  // namespace

std::string ToTextGrid(const AlignedSpeech& speech) { return pipeline::ToTextGrid(TimesOf(speech)); }

std::string ToCtm(const AlignedSpeech& speech, const std::string& utterance, CtmLabels labels,
                  const std::string& channel) {
  const auto level = labels == CtmLabels::kWords ? pipeline::CtmLevel::kWords : pipeline::CtmLevel::kPhones;
  return pipeline::ToCtm(TimesOf(speech), utterance, level, channel);
}

std::string ToJson(const AlignedSpeech& speech) { return pipeline::ToJson(TimesOf(speech)); }

}  // namespace antiphon
