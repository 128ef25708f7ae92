#include "data/live_store_build.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/cancel.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "data/feature_extraction.h"
#include "data/feature_kind.h"
#include "data/live_features.h"

namespace antiphon::data::internal {
namespace {

constexpr size_t kShownProblems = 20;

void RefuseOtherInput(const BuildFrameStoreOptions& options) {
  const FeatureSourceOptions& input = options.input;
  if (!input.features.empty()) throw UsageError("--features and --live exclude each other: leave one of them out");
  if (!input.utt2spk.empty()) throw UsageError("--utt2spk: of a live store, the data directory says who speaks");
  if (!input.speaker_model.empty() || !input.speaker_transforms.empty() || !input.speaker_vectors.empty()) {
    throw UsageError(
        "a live store holds no speaker-adapted features (--speaker-model, --speaker-transforms, --speaker-vectors): "
        "make an ordinary one, of --features");
  }
  if (input.unknown_speakers > 0) {
    throw UsageError(
        "--unknown-speakers: what is known of speakers, and could be left out, a live store does not hold");
  }
  if (!options.live.normalise && (!input.cmvn.empty() || input.norm_vars)) {
    throw UsageError("--no-normalise leaves no use for --cmvn and --norm-vars: leave them out");
  }
  if (options.live.front_end.empty()) {
    throw UsageError(
        "--live needs --front-end, a front_end.toml: that of the folder that 'antiphon features' made for the same "
        "model, or one of your own");
  }
}

void RefuseCommands(const DataDir& dir) {
  for (const Recording& recording : dir.recordings()) {
    const std::string command = ParseAudioReference(recording.reference).command;
    if (command.empty()) continue;
    Throw<InputError>(
        "{}:{}, recording '{}' is made by a command ('{}'), but a live store reads files: write what the command gives "
        "to a file, and name that",
        (dir.folder() / "wav.scp").string(), recording.line, recording.id, command);
  }
}

// Of "sp0.9-UTT" in the alignment: 0.9.
std::set<double> SpeedsIn(const PdfTable& pdfs, const DataDir& dir) {
  std::set<std::string_view> ids;
  for (const Utterance& utterance : dir.utterances()) ids.insert(utterance.utt_id);
  std::set<double> speeds;
  if (!pdfs.alignment) return speeds;
  for (const std::string& key : pdfs.alignment->keys()) {
    const std::optional<double> speed = SpeedOf(key);
    if (speed && !ids.contains(key) && ids.contains(OriginalName(key))) speeds.insert(*speed);
  }
  return speeds;
}

// As many as the front end will give, by the recording's header.
int64_t FramesByHeader(const SpeechItem& item, double speed, const AudioSource& audio, const feat::FrontEnd& front_end,
                       int channel) {
  const AudioSource::Stream stream = audio.Open(*item.utterance, channel);
  const double rate = stream.reader.sample_rate_hz();
  int64_t samples = std::llround(stream.reader.duration_s() * rate);
  samples = std::llround(static_cast<double>(samples) * front_end.options().sample_rate_hz / rate);
  return front_end.NumFrames(std::llround(static_cast<double>(samples) / speed));
}

// The statistics of those that are needed.
std::map<std::string, feat::CmvnStats> ReadStatistics(const std::string& table, const std::vector<SpeechItem>& items) {
  const RandomAccessReader<DoubleMatrix> reader(table);
  std::map<std::string, feat::CmvnStats> statistics;
  for (const SpeechItem& item : items) {
    const std::string& key = reader.Has(item.speaker) ? item.speaker : item.utt_id;
    if (!reader.Has(key)) {
      Throw<InputError>(
          "'{}' has statistics neither for speaker '{}' nor for utterance '{}'; leave --cmvn out, and they are found",
          table, item.speaker, item.utt_id);
    }
    if (!statistics.contains(key)) statistics.emplace(key, feat::CmvnStats::FromMatrix(reader.Get(key)));
  }
  return statistics;
}

class LiveStoreBuilder {
 public:
  LiveStoreBuilder(const BuildFrameStoreOptions& options, int num_threads)
      : options_(options),
        num_threads_(num_threads),
        pdfs_(options),
        // Commands are refused below, and none is run.
        dir_(DataDir::Load(options.live.data, {.audio_root = options.live.audio_root, .allow_commands = true})),
        audio_(dir_) {
    RefuseCommands(dir_);
    speeds_.emplace_back(1.0);
    for (const double speed : SpeedsIn(pdfs_, dir_)) speeds_.push_back(speed);
    for (const double speed : speeds_) copies_.push_back(speed == 1.0 ? SpeechCopy{} : CopyAtSpeed(speed));
    items_ = MakeItems(dir_, copies_);
    RefuseLateSegments();
    const RecordingOptions recording{.channel = options.live.channel};
    front_end_options_ = WithMeanPrior(ReadOptions<feat::FrontEndOptions>(Config::Load(options.live.front_end)), items_,
                                       audio_, recording, num_threads);
    front_end_.emplace(front_end_options_);
  }

  FrameStoreSummary Build(const std::filesystem::path& folder) {
    FindFrames();
    std::set<std::string> known;
    std::set<std::string> needed;
    for (size_t i = 0; i < items_.size(); ++i) {
      known.insert(items_[i].utt_id);
      if (IsWanted(i)) {
        needed.insert(items_[i].utterance->utt_id);
      } else if (items_[i].copy->prefix.empty()) {
        summary_.without_alignment.push_back(items_[i].utt_id);
      }
    }
    if (needed.empty()) {
      Throw<InputError>("no utterance of '{}' has an alignment in '{}'", options_.live.data, options_.pdf_alignment);
    }
    if (pdfs_.alignment) {
      for (const std::string& key : pdfs_.alignment->keys()) {
        if (!known.contains(key)) summary_.without_recording.push_back(key);
      }
    }
    FrameStoreOptions store = options_.store;
    store.labelled = pdfs_.alignment.has_value();
    FrameStoreWriter writer(folder, front_end_->dim(), pdfs_.num_pdfs, store);
    writer.MakeLive([&](const std::filesystem::path& place) {
      return WriteLiveSetup({dir_,
                             {needed.begin(), needed.end()},
                             front_end_options_,
                             statistics_,
                             {options_.live.channel, options_.input.norm_vars}},
                            place);
    });
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!IsWanted(i)) continue;
      const std::vector<int32_t> pdfs = PdfsOf(i);
      writer.AddLive(items_[i].utt_id, items_[i].speaker, pdfs);
      ++summary_.utterances;
      summary_.frames += std::ssize(pdfs);
    }
    FeatureKind kind;
    kind.front_end = OptionsToConfig(front_end_options_).ToToml();
    kind.normalisation = statistics_.empty() ? "none" : options_.input.norm_vars ? "mean-variance" : "mean";
    writer.Finish(kind.ToToml());
    return std::move(summary_);
  }

 private:
  bool IsWanted(size_t item) const { return !pdfs_.alignment || pdfs_.alignment->Has(items_[item].utt_id); }

  std::vector<int32_t> PdfsOf(size_t item) const {
    return WithContext([&] { return pdfs_.Get(items_[item].utt_id, frames_[item], options_.length_tolerance); },
                       [&] { return fmt::format("utterance '{}'", items_[item].utt_id); });
  }

  // Training reads in random order: for nearly each of them a whole file would be unpacked, in every epoch.
  void RefuseLateSegments() const {
    std::map<size_t, const Utterance*> last;  // by recording, the utterance that begins last
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!IsWanted(i)) continue;
      const auto [it, is_new] = last.emplace(items_[i].utterance->recording, items_[i].utterance);
      if (!is_new && it->second->start_s < items_[i].utterance->start_s) it->second = items_[i].utterance;
    }
    for (const auto& [recording, utterance] : last) {
      if (!IsUnpacked(*utterance)) continue;
      Throw<InputError>(
          "'{}', utterance '{}' begins at {} s of recording '{}', which only ffmpeg reads, and from its beginning: a "
          "live store would unpack all of it for nearly every utterance in every epoch; convert such recordings to "
          "FLAC (ffmpeg -i '{}' {}.flac), and name those in wav.scp",
          (dir_.folder() / "segments").string(), utterance->utt_id, utterance->start_s, dir_.recordings()[recording].id,
          dir_.recordings()[recording].reference, dir_.recordings()[recording].id);
    }
  }

  bool IsUnpacked(const Utterance& utterance) const {
    try {
      return audio_.Unpacks(utterance);
    } catch (const Error&) {
      return false;  // what cannot be read is listed with everything else that is wrong
    }
  }

  double SpeedOfItem(size_t item) const { return speeds_[static_cast<size_t>(items_[item].copy - copies_.data())]; }

  // Lengths of all that is wanted, and the statistics of all speakers: by computing the features once, or, where
  // nothing has to be found, from the headers.
  void FindFrames() {
    const bool find = options_.input.cmvn.empty() && options_.live.normalise && front_end_options_.mean_window == 0;
    if (!options_.input.cmvn.empty()) {
      std::vector<SpeechItem> wanted;
      for (size_t i = 0; i < items_.size(); ++i) {
        if (IsWanted(i)) wanted.push_back(items_[i]);
      }
      statistics_ = ReadStatistics(options_.input.cmvn, wanted);
    }
    struct Found {
      int64_t frames = 0;
      Matrix computed;
      std::string error;
    };
    frames_.assign(items_.size(), 0);
    std::vector<std::string> problems;
    ParallelInOrder<Found>(
        items_.size(), num_threads_,
        [&](size_t i) {
          ThrowIfCancelled("looking at recordings");
          Found found;
          if (find) {
            ComputedFrames computed = TryFramesOf(items_[i], audio_, *front_end_, {.channel = options_.live.channel});
            found = {computed.frames.rows(), std::move(computed.frames), std::move(computed.error)};
          } else if (IsWanted(i)) {
            try {
              found.frames = FramesByHeader(items_[i], SpeedOfItem(i), audio_, *front_end_, options_.live.channel);
            } catch (const Cancelled&) {
              throw;
            } catch (const Error& e) {
              found.error = ReasonOf(e);
            }
          }
          return found;
        },
        [&](size_t i, Found&& found) {
          frames_[i] = found.frames;
          if (found.error.empty() && find) AddToStatistics(items_[i].speaker, found.computed);
          if (!IsWanted(i)) return;
          if (found.error.empty()) found.error = MisfitOf(i);
          if (!found.error.empty()) problems.push_back(fmt::format("{}: {}", items_[i].utt_id, found.error));
        });
    if (problems.empty()) return;
    std::string text = fmt::format("{} utterances cannot be part of the store:", problems.size());
    for (size_t i = 0; i < std::min(problems.size(), kShownProblems); ++i) text += "\n  " + problems[i];
    throw InputError(text);
  }

  void AddToStatistics(const std::string& speaker, const Matrix& frames) {
    if (!statistics_.contains(speaker)) statistics_.emplace(speaker, feat::CmvnStats(front_end_->dim()));
    statistics_.at(speaker).Add(frames);
  }

  std::string MisfitOf(size_t item) const {
    try {
      PdfsOf(item);
      return "";
    } catch (const Error& e) {
      return e.message();
    }
  }

  const BuildFrameStoreOptions& options_;
  const int num_threads_;
  const PdfTable pdfs_;
  const DataDir dir_;
  const AudioSource audio_;
  std::vector<double> speeds_;      // by copy
  std::vector<SpeechCopy> copies_;  // at these speeds
  std::vector<SpeechItem> items_;
  feat::FrontEndOptions front_end_options_;
  std::optional<feat::FrontEnd> front_end_;
  std::vector<int64_t> frames_;  // by item
  std::map<std::string, feat::CmvnStats> statistics_;
  FrameStoreSummary summary_;
};

}  // namespace

FrameStoreSummary BuildLiveStore(const BuildFrameStoreOptions& options, const std::filesystem::path& folder,
                                 int num_threads) {
  RefuseOtherInput(options);
  return LiveStoreBuilder(options, num_threads).Build(folder);
}

}  // namespace antiphon::data::internal
