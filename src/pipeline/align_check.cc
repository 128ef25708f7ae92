#include "pipeline/align_check.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cancel.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "base/team.h"
#include "base/thread_pool.h"
#include "data/audio_source.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/bundle.h"
#include "pipeline/new_words.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr float kSilentPeak = 33.0F;          // of 16-bit samples: −60 dB of full scale
constexpr double kMostWordsPerSecond = 8.0;   // above the fastest speech
constexpr double kLongestSilenceOfWord = 30;  // seconds of audio per word above which text must be missing

struct Sound {
  double seconds = 0.0;
  float peak = 0.0F;
};

Sound Listen(const data::AudioSource& audio, const data::Utterance& utterance) {
  data::AudioSource::Stream stream = audio.Open(utterance);
  Sound sound;
  int64_t samples = 0;
  for (std::vector<float> piece; stream.reader.Read(piece);) {
    samples += std::ssize(piece);
    for (const float sample : piece) sound.peak = std::max(sound.peak, std::abs(sample));
  }
  sound.seconds = static_cast<double>(samples) / stream.reader.sample_rate_hz();
  return sound;
}

// "" if audio and words may belong together.
std::string Mismatch(const data::Utterance& utterance, const Sound& sound) {
  const auto words = static_cast<double>(utterance.words.size());
  if (sound.peak < kSilentPeak) return fmt::format("is silent ({:.2f} s below -60 dB)", sound.seconds);
  if (words > std::max(1.0, kMostWordsPerSecond * sound.seconds)) {
    return fmt::format("has {} words in {:.2f} s: more than speech can hold", words, sound.seconds);
  }
  if (words > 0 && sound.seconds > kLongestSilenceOfWord * words) {
    return fmt::format("has {} word(s) for {:.0f} s of audio: text is missing", words, sound.seconds);
  }
  return "";
}

void CheckSound(const data::DataDir& dir, int num_threads, AlignCheck& check) {
  const data::AudioSource audio(dir);
  const auto& utterances = dir.utterances();
  std::vector<Sound> sounds(utterances.size());
  std::vector<std::string> wrong(utterances.size());
  ParallelFor(utterances.size(), num_threads, [&](size_t i) {
    if (!utterances[i].has_transcript || utterances[i].words.empty()) return;
    ThrowIfCancelled("looking at the data");
    try {
      sounds[i] = Listen(audio, utterances[i]);
      wrong[i] = Mismatch(utterances[i], sounds[i]);
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& e) {
      wrong[i] = "cannot be read: " + e.message();
    }
  });
  for (size_t i = 0; i < utterances.size(); ++i) {
    check.seconds += sounds[i].seconds;
    if (!wrong[i].empty()) {
      check.problems.push_back({check.data, fmt::format("'{}' {}", utterances[i].utt_id, wrong[i]), false});
    }
  }
}

std::shared_ptr<const hmm::Lexicon> LexiconFor(const AlignRequest& request, const BundleParts& parts) {
  if (!request.lexicon.empty()) {
    return std::make_shared<const hmm::Lexicon>(hmm::Lexicon::Load(request.lexicon, request.lexicon_options));
  }
  RequireLexicon(parts);
  return LexiconOf(parts, "", request.lexicon_options, AcousticModel::Load(parts.model, request.nnet)->hmm());
}

// `g2p`: pronounces words that the lexicon lacks; "" if nothing does.
void CheckWords(const data::DataDir& dir, const hmm::Lexicon& lexicon, const std::string& g2p, int num_threads,
                AlignCheck& check) {
  std::map<std::string, int64_t> unknown;
  for (const data::Utterance& utterance : dir.utterances()) {
    for (const std::string& word : utterance.words) {
      if (lexicon.FindWord(word) <= 0) ++unknown[word];
    }
  }
  if (!g2p.empty() && !unknown.empty()) {
    std::vector<std::string> words;
    for (const auto& [word, count] : unknown) words.push_back(word);
    const g2p::Model model = g2p::Model::Load(g2p);
    RequirePhones(model, lexicon, g2p);
    for (const std::string& word : PronounceNewWords(lexicon, words, model, {}, num_threads).words) {
      check.pronounced += static_cast<int64_t>(unknown.erase(word));
    }
  }
  check.unknown.assign(unknown.begin(), unknown.end());
  std::ranges::stable_sort(check.unknown, [](const auto& a, const auto& b) { return a.second > b.second; });
}

}  // namespace

AlignCheck CheckAlignment(const AlignRequest& request, int num_threads) {
  const BundleParts parts = request.model.empty() ? BundleParts() : PartsAt(request.model);
  const auto lexicon = LexiconFor(request, parts);
  std::string g2p = request.g2p;
  CompleteBy(g2p, parts.g2p);
  AlignCheck check;
  check.data = request.data;
  const AudioTexts texts = TextsFor(request.audio, request.lexicon.empty() ? parts.lexicon : request.lexicon);
  const ScratchFolder scratch;  // of audio, for its data directory
  std::vector<data::DataProblem> of_audio;
  const std::string folder =
      DataDirectoryOf(request.data, texts, request.audio.channels, scratch.path(), Team::Alone(), &of_audio);
  if (!fs::exists(fs::path(folder) / "wav.scp")) {
    Throw<UsageError>(
        "'{}' has no wav.scp, so there is no audio to look at: give the data directory, or the audio itself",
        check.data);
  }
  check.problems = data::DataDir::Validate(folder, request.audio.data_dir, /*check_audio=*/true);
  const bool is_fatal = !check.problems.empty() && check.problems[0].fatal;
  check.problems.insert(check.problems.end(), of_audio.begin(), of_audio.end());
  if (is_fatal) return check;
  const data::DataDir dir = data::DataDir::Load(folder, request.audio.data_dir);
  check.utterances = std::ssize(dir.utterances());
  CheckSound(dir, num_threads, check);
  CheckWords(dir, *lexicon, g2p, num_threads, check);
  return check;
}

std::string Text(const AlignCheck& check, int shown) {
  const auto more = [&](size_t count, const char* what) {
    return count > static_cast<size_t>(shown) ? fmt::format("… and {} more {}\n", count - shown, what) : "";
  };
  std::string text;
  for (size_t i = 0; i < check.problems.size() && i < static_cast<size_t>(shown); ++i) {
    const data::DataProblem& problem = check.problems[i];
    text += fmt::format("{}: {}{}\n", problem.where, problem.fatal ? "error: " : "", problem.what);
  }
  text += more(check.problems.size(), "problems");
  for (size_t i = 0; i < check.unknown.size() && i < static_cast<size_t>(shown); ++i) {
    text += fmt::format("no pronunciation: {} ({} times)\n", check.unknown[i].first, check.unknown[i].second);
  }
  text += more(check.unknown.size(), "words without pronunciation");
  text += fmt::format("{}: {} utterances, {:.1f} s; {} problem(s), {} word(s) without pronunciation", check.data,
                      check.utterances, check.seconds, check.problems.size(), check.unknown.size());
  if (check.pronounced > 0) text += fmt::format(", {} pronounced by the g2p model", check.pronounced);
  return text + "\n";
}

nlohmann::ordered_json ToJson(const AlignCheck& check) {
  auto problems = nlohmann::ordered_json::array();
  for (const data::DataProblem& p : check.problems) {
    problems.push_back({{"where", p.where}, {"what", p.what}, {"fatal", p.fatal}});
  }
  auto unknown = nlohmann::ordered_json::object();
  for (const auto& [word, count] : check.unknown) unknown[word] = count;
  return {{"data", check.data},
          {"utterances", check.utterances},
          {"seconds", check.seconds},
          {"problems", std::move(problems)},
          {"unknown_words", std::move(unknown)},
          {"pronounced", check.pronounced}};
}

}  // namespace antiphon::pipeline
