#include "data/data_summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/rounded_seconds.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "data/audio_source.h"
#include "data/text_table.h"

namespace antiphon::data {
namespace {

// What a recording's header says; a rate of 0, and why, where it cannot be read.
struct Probed {
  feat::AudioInfo info;
  std::string error;
};

std::vector<Probed> ProbeAll(const DataDir& dir, int num_threads) {
  std::vector<Probed> probed(dir.recordings().size());
  const AudioSource audio(dir);
  ParallelFor(probed.size(), num_threads, [&](size_t i) {
    try {
      probed[i].info = audio.Probe(dir.recordings()[i]);
      if (probed[i].info.num_samples == 0) probed[i].error = "it holds no samples";
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& e) {
      probed[i].error = e.message();
    }
  });
  return probed;
}

double SpeechDuration(const Utterance& u, const feat::AudioInfo& info) {
  if (info.sample_rate_hz == 0) return -1.0;
  return std::max(0.0, (u.end_s >= 0.0 ? std::min(u.end_s, info.duration_s()) : info.duration_s()) - u.start_s);
}

std::string WhyTooShort(const Utterance& u, const feat::AudioInfo& info) {
  if (u.start_s < info.duration_s()) return fmt::format("lasts less than {} s", kShortestUtteranceS);
  return fmt::format("begins at {:.3f} s, behind the end of its recording ({:.3f} s)", u.start_s, info.duration_s());
}

void AddWords(const DataDir& dir, const std::set<std::string>* lexicon, DataSummary& s) {
  std::map<std::string, int64_t> counts;
  for (const Utterance& u : dir.utterances()) {
    if (!u.has_transcript) ++s.without_transcript;
    for (const std::string& word : u.words) ++counts[word];
  }
  s.vocabulary = std::ssize(counts);
  s.has_lexicon = lexicon != nullptr;
  for (const auto& [word, count] : counts) {
    s.running_words += count;
    if (lexicon == nullptr || lexicon->count(word) > 0) continue;
    s.oov_running_words += count;
    s.oov.emplace_back(word, count);
  }
  std::stable_sort(s.oov.begin(), s.oov.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
}

}  // namespace

DataSummary Summarise(const DataDir& dir, const std::set<std::string>* lexicon, int num_threads) {
  DataSummary s;
  s.utterances = std::ssize(dir.utterances());
  s.recordings = std::ssize(dir.recordings());
  s.speakers = std::ssize(dir.speakers());
  const std::vector<Probed> probed = ProbeAll(dir, num_threads);
  for (const Probed& p : probed) {
    if (p.info.sample_rate_hz == 0) ++s.unreadable_recordings;
    if (p.info.sample_rate_hz > 0) ++s.recordings_by_rate[p.info.sample_rate_hz];
    if (p.info.num_channels > 1) ++s.recordings_by_channels[p.info.num_channels];
  }
  std::vector<double> durations;
  for (const Utterance& u : dir.utterances()) {
    if (u.channel >= 0) ++s.utterances_of_channels;
    const feat::AudioInfo& info = probed[u.recording].info;
    const double d = SpeechDuration(u, info);
    if (d < 0.0) continue;
    durations.push_back(d);
    s.seconds += d;
    s.seconds_by_rate[info.sample_rate_hz] += d;
    s.speaker_seconds[u.speaker] += d;
  }
  std::sort(durations.begin(), durations.end());
  if (!durations.empty()) {
    s.shortest_s = durations.front();
    s.median_s = durations[durations.size() / 2];
    s.longest_s = durations.back();
  }
  AddWords(dir, lexicon, s);
  return s;
}

std::set<std::string> ReadLexiconWords(const std::filesystem::path& path) {
  std::set<std::string> words;
  const std::string bytes = ComposeLines(ReadFile(path), path.string());
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::vector<std::string> fields = SplitWords(std::string_view(bytes).substr(at, end - at));
    if (!fields.empty()) words.insert(fields[0]);
    at = end + 1;
  }
  if (words.empty()) Throw<InputError>("'{}' holds no words; expected WORD PHONE PHONE …", path.string());
  return words;
}

DataDir WithDurations(DataDir dir, std::vector<DataProblem>& problems, int num_threads) {
  const std::vector<Probed> probed = ProbeAll(dir, num_threads);
  std::vector<int64_t> left_out(probed.size(), 0);
  std::vector<size_t> kept;
  const size_t earlier = problems.size();
  for (size_t i = 0; i < dir.utterances().size(); ++i) {
    const Utterance& u = dir.utterances()[i];
    const auto& [info, error] = probed[u.recording];
    if (!error.empty()) {
      ++left_out[u.recording];
      continue;
    }
    if (u.duration_s < 0.0) dir.SetDuration(i, SpeechDuration(u, info));
    if (u.duration_s >= kShortestUtteranceS) {
      kept.push_back(i);
    } else {
      problems.push_back({dir.recordings()[u.recording].reference,
                          fmt::format("utterance '{}' {}; it is left out", u.utt_id, WhyTooShort(u, info)), false});
    }
  }
  for (size_t r = 0; r < probed.size(); ++r) {
    if (left_out[r] == 0) continue;
    problems.push_back(
        {dir.recordings()[r].reference,
         fmt::format("{}; {} is left out", probed[r].error,
                     left_out[r] == 1 ? "its utterance" : fmt::format("each of its {} utterances", left_out[r])),
         false});
  }
  if (kept.empty()) {
    Throw<InputError>("not one of {} utterances can be used{}", dir.utterances().size(),
                      problems.size() == earlier ? "" : "; the first: " + problems[earlier].what);
  }
  return kept.size() == dir.utterances().size() ? std::move(dir) : dir.Subset(kept);
}

std::string FormatSummary(const DataSummary& s, int shown_oov) {
  std::string text = fmt::format("{:.2f} hours in {} utterances and {} recordings by {} speakers\n", s.seconds / 3600.0,
                                 s.utterances, s.recordings, s.speakers);
  text += fmt::format("durations: shortest {:.2f} s, median {:.2f} s, longest {:.2f} s\n", s.shortest_s, s.median_s,
                      s.longest_s);
  for (const auto& [rate, count] : s.recordings_by_rate) text += fmt::format("{} recordings at {} Hz\n", count, rate);
  if (s.unreadable_recordings > 0) text += fmt::format("{} recordings cannot be read\n", s.unreadable_recordings);
  for (const auto& [channels, count] : s.recordings_by_channels) {
    text += fmt::format("{} recordings with {} channels: {}\n", count, channels,
                        s.utterances_of_channels > 0
                            ? fmt::format("{} utterances are one channel each", s.utterances_of_channels)
                            : "their mean is taken (prepare --channels each makes each channel utterances of its own)");
  }
  text += fmt::format("{} running words, vocabulary {}", s.running_words, s.vocabulary);
  if (s.without_transcript > 0) text += fmt::format(", {} utterances without transcript", s.without_transcript);
  text += '\n';
  if (!s.has_lexicon) return text;
  const double share = s.running_words > 0
                           ? 100.0 * static_cast<double>(s.oov_running_words) / static_cast<double>(s.running_words)
                           : 0.0;
  text += fmt::format("out of the lexicon: {} words, {} running words ({:.2f} %)\n", s.oov.size(), s.oov_running_words,
                      share);
  for (size_t i = 0; i < s.oov.size(); ++i) {
    if (i == static_cast<size_t>(std::max(0, shown_oov))) {
      text += fmt::format("  … and {} more\n", s.oov.size() - i);
      break;
    }
    text += fmt::format("  {} {}\n", s.oov[i].first, s.oov[i].second);
  }
  return text;
}

std::string SummaryToJson(const DataSummary& s) {
  std::map<std::string, double> speaker_seconds;
  for (const auto& [speaker, seconds] : s.speaker_seconds) speaker_seconds[speaker] = RoundedSeconds(seconds);
  nlohmann::json json = {{"hours", std::round(10000.0 * s.seconds / 3600.0) / 10000.0},
                         {"utterances", s.utterances},
                         {"recordings", s.recordings},
                         {"unreadable_recordings", s.unreadable_recordings},
                         {"speakers", s.speakers},
                         {"speaker_seconds", speaker_seconds},
                         {"without_transcript", s.without_transcript},
                         {"shortest_s", RoundedSeconds(s.shortest_s)},
                         {"median_s", RoundedSeconds(s.median_s)},
                         {"longest_s", RoundedSeconds(s.longest_s)},
                         {"running_words", s.running_words},
                         {"vocabulary", s.vocabulary}};
  for (const auto& [rate, count] : s.recordings_by_rate) json["recordings_by_rate"][std::to_string(rate)] = count;
  for (const auto& [channels, count] : s.recordings_by_channels) {
    json["recordings_by_channels"][std::to_string(channels)] = count;
  }
  if (!s.recordings_by_channels.empty()) json["utterances_of_channels"] = s.utterances_of_channels;
  if (s.has_lexicon) {
    json["oov_running_words"] = s.oov_running_words;
    json["oov"] = nlohmann::json::array();
    for (const auto& [word, count] : s.oov) json["oov"].push_back({{"word", word}, {"count", count}});
  }
  return json.dump();
}

}  // namespace antiphon::data
