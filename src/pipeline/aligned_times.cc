#include "pipeline/aligned_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/text_grid.h"

namespace antiphon::pipeline {
namespace {

std::vector<data::LabelledInterval> WordIntervals(const AlignedTimes& times) {
  std::vector<data::LabelledInterval> intervals;
  for (const TimedWord& word : times.words) intervals.push_back({word.start_s, word.end_s, word.word});
  return intervals;
}

std::vector<data::LabelledInterval> PhoneIntervals(const AlignedTimes& times) {
  std::vector<data::LabelledInterval> intervals;
  for (const TimedPhone& phone : times.phones) intervals.push_back({phone.start_s, phone.end_s, phone.phone});
  return intervals;
}

double ToMilliseconds(double seconds) { return std::round(1000.0 * seconds) / 1000.0; }

// Words of the text from position `begin` on that nothing was aligned with before `end`.
void AddUnsaid(const hmm::Lexicon& lexicon, const hmm::WordIds& words, int begin, int end, double at_s,
               AlignedTimes& times) {
  if (begin >= end) return;
  UnalignedPart& part = times.unaligned.emplace_back(UnalignedPart{at_s, at_s});
  for (int w = begin; w < end; ++w) part.words.push_back(lexicon.Word(words.ids[static_cast<size_t>(w)]));
}

nlohmann::ordered_json UnalignedJson(const AlignedTimes& times) {
  auto unaligned = nlohmann::ordered_json::array();
  for (const UnalignedPart& part : times.unaligned) {
    unaligned.push_back({{"start", ToMilliseconds(part.start_s)},
                         {"end", ToMilliseconds(part.end_s)},
                         {"text", fmt::format("{}", fmt::join(part.words, " "))}});
  }
  return unaligned;
}

}  // namespace

AlignedTimes TimesOf(const hmm::Alignment& alignment, const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
                     const hmm::WordIds& words, double frame_shift_s, const FinePhones& fine) {
  AlignedTimes times;
  times.unknown_words = words.unknown;
  const auto frames = static_cast<double>(alignment.transition_ids.size());
  times.duration_s = frames * frame_shift_s;
  times.log_likelihood = frames > 0 ? alignment.log_likelihood / frames : 0.0;
  times.retried = alignment.status == hmm::AlignStatus::kRetried;
  int last = -1;  // position of the word before
  int next = 0;   // that was not said so far
  const std::span<const hmm::AlignedPhone> phones = fine.phones.empty() ? alignment.phones : fine.phones;
  if (!fine.phones.empty()) {
    frame_shift_s = fine.frame_shift_s;
    times.duration_s = (phones.back().begin_frame + phones.back().num_frames) * frame_shift_s;
  }
  for (const hmm::AlignedPhone& phone : phones) {
    const double start_s = phone.begin_frame * frame_shift_s;
    const double end_s = (phone.begin_frame + phone.num_frames) * frame_shift_s;
    if (phone.word_position >= 0) {
      if (phone.word_position != last) {
        AddUnsaid(lexicon, words, next, phone.word_position, start_s, times);
        next = phone.word_position + 1;
        const int32_t id = words.ids[static_cast<size_t>(phone.word_position)];
        times.words.push_back({lexicon.Word(id), start_s, end_s, static_cast<int>(times.phones.size()), 0});
      }
      times.words.back().end_s = end_s;
      ++times.words.back().num_phones;
    }
    last = phone.word_position;
    const bool foreign = phone.word_position == hmm::kForeignSpeech;
    if (foreign) times.unaligned.push_back({start_s, end_s});
    times.phones.push_back({foreign ? kUnalignedLabel : model.phones().Name(phone.phone), start_s, end_s});
  }
  AddUnsaid(lexicon, words, next, static_cast<int>(words.ids.size()), times.duration_s, times);
  return times;
}

std::string ToTextGrid(const AlignedTimes& times) {
  return data::TextGrid({{"words", WordIntervals(times)}, {"phones", PhoneIntervals(times)}}, times.duration_s);
}

std::string ToCtm(const AlignedTimes& times, std::string_view utterance, CtmLevel level, std::string_view channel) {
  std::string ctm;
  for (const data::LabelledInterval& i : level == CtmLevel::kWords ? WordIntervals(times) : PhoneIntervals(times)) {
    ctm += fmt::format("{} {} {:.3f} {:.3f} {}\n", utterance, channel, i.start_s, i.end_s - i.start_s, i.label);
  }
  return ctm;
}

std::string ToJson(const AlignedTimes& times) {
  auto words = nlohmann::ordered_json::array();
  for (const TimedWord& word : times.words) {
    auto phones = nlohmann::ordered_json::array();
    for (int p = word.first_phone; p < word.first_phone + word.num_phones; ++p) {
      const TimedPhone& phone = times.phones[static_cast<size_t>(p)];
      phones.push_back(
          {{"phone", phone.phone}, {"start", ToMilliseconds(phone.start_s)}, {"end", ToMilliseconds(phone.end_s)}});
    }
    words.push_back({{"word", word.word},
                     {"start", ToMilliseconds(word.start_s)},
                     {"end", ToMilliseconds(word.end_s)},
                     {"phones", std::move(phones)}});
  }
  const nlohmann::ordered_json json = {{"words", std::move(words)},
                                       {"duration", ToMilliseconds(times.duration_s)},
                                       {"log_likelihood", times.log_likelihood},
                                       {"retried", times.retried},
                                       {"unknown_words", times.unknown_words},
                                       {"unaligned", UnalignedJson(times)}};
  return json.dump();
}

}  // namespace antiphon::pipeline
