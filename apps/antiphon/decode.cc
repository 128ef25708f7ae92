// antiphon decode: from features and a search graph to words, lattices, times and confidences.
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/acoustic_model.h"
#include "audio_places.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/log.h"
#include "base/same_place.h"
#include "base/thread_pool.h"
#include "chosen_weights.h"
#include "command.h"
#include "data/feature_source.h"
#include "decode/lattice_text.h"
#include "decode/recognize_in_pieces.h"
#include "decode/recognizer_pool.h"
#include "decode/weight_search.h"
#include "decode_options.h"
#include "decode_output.h"
#include "decode_progress.h"
#include "decode_references.h"
#include "feat/zero_spans.h"
#include "feature_tables.h"
#include "processes.h"
#include "score/wer.h"
#include "speaker_profiles.h"
#include "speaker_transforms.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Run {
 public:
  Run(const DecodeCommandOptions& options, CommandContext& context, Team& team, int threads)
      : options_(options),
        context_(context),
        team_(team),
        threads_(threads),
        model_(AcousticModel::Load(options.model, NetworkOptions(options))),
        profiles_(options.profiles, *model_),
        graph_(decode::Graph::Load(options.graph, model_->hmm())),
        references_(options.data, graph_),
        features_(
            FindFeatureTables({options.data, options.model, model_->features(), TablesAsNamed(options, *model_),
                               options.data_dir, options.out, /*silent_recordings=*/true, NormalisationIn(*model_),
                               /*long_in_parts=*/true},
                              threads, team)),
        weights_(Weights(options, model_->hmm())),
        search_(options.search, decode::AcousticScale(options.recognize.search, model_->hmm())) {
    if (options.rescore_arpa.empty() != options.graph_arpa.empty()) {
      throw UsageError("--rescore-arpa and --graph-arpa belong together");
    }
    if (!options.rescore_arpa.empty()) {
      rescorer_.emplace(decode::NgramModel::ReadArpa(options.graph_arpa),
                        decode::NgramModel::ReadArpa(options.rescore_arpa), graph_.words());
    }
    const Config front_end = Config::Parse(model_->features(), options.model);
    feature_shift_s_ = front_end.Real("frame-shift-ms").value_or(10.0) / 1000.0;
    frame_shift_s_ = feature_shift_s_ * model_->subsampling();
    bias_ = decode::MakeBias(graph_, options.recognize.bias);
    ChooseUtterances();
    sizes_ = features_.Sizes(utterances_);
    if (profiles_.size() > 0) RequireKnownSpeaker();
  }

  // On every member of the team; the first one writes.
  void Decode() {
    if (UsesGivenTransforms(options_, *model_)) {
      transforms_ = ReadSpeakerTransforms(options_.features.speaker_transforms);
    } else if (model_->adaptive() != nullptr) {
      AdaptToSpeakers();
    }
    const DecodeFormat format(graph_, model_->hmm(),
                              {frame_shift_s_, options_.lattices, options_.recognize.nbest > 0, weights_});
    std::optional<DecodeOutput> output;
    if (team_.is_first()) output.emplace(format.options(), options_.out);
    const auto start = std::chrono::steady_clock::now();
    decode::RecognizerPool recognizers(graph_, model_->hmm(), options_.recognize, rescorer_ ? &*rescorer_ : nullptr,
                                       bias_.get());
    DecodeProgress progress = Progress("decoding");
    SpreadInOrder<Result>(
        team_, sizes_, threads_, Spread::kToFirst,
        [&](size_t i) {
          ThrowIfCancelled("decoding");
          return WithContext([&] { return DecodeOne(i, recognizers, format, progress); },
                             [&] { return fmt::format("utterance '{}'", utterances_[i]); });
        },
        [&](size_t i, Result&& result) {
          if (!result.remark.empty()) log::Warn("{}: {}", utterances_[i], result.remark);
          output->Write(result.entry);
          if (options_.tune) {
            search_.Add(result.grid_errors);
            lattices_.push_back(std::move(result.lattices));
          }
          frames_ += result.frames;
          seconds_ += result.seconds;
        });
    progress.Finish();
    wall_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (output) output->Close();
    if (options_.tune && team_.is_first()) ExtendSearch();
  }

  void Report() {
    const double speech = static_cast<double>(frames_) * frame_shift_s_;
    nlohmann::ordered_json json = {{"utterances", utterances_.size()},
                                   {"speech_seconds", speech},
                                   {"cpu_seconds", seconds_},
                                   {"wall_seconds", wall_seconds_},
                                   {"lm_weight", 1.0 / weights_.acoustic_scale},
                                   {"word_penalty", weights_.word_penalty}};
    if (speech > 0) {
      context_.Print("{} utterances, {:.1f} min of speech; {:.4f} of real time per core ({:.1f} × real time), {:.1f} s",
                     utterances_.size(), speech / 60, seconds_ / speech, speech / std::max(seconds_, 1e-9),
                     wall_seconds_);
      json["real_time_factor"] = seconds_ / speech;
    }
    if (options_.nnet.lazy) {
      json["output_share"] = model_->computed_share();
      context_.Print("{:.1f} % of the network's outputs were computed", 100 * model_->computed_share());
    }
    if (!transforms_.empty()) json["speaker_transforms"] = transforms_.size();
    if (references_.known()) {
      references_.ReportErrors(
          options_.out, [&](const std::string& utt_id) { return features_.Has(utt_id); }, context_, json);
    }
    if (options_.tune) references_.ReportWeights(search_, utterances_, options_.out, context_, json);
    WriteFileAtomically(fs::path(options_.out) / "summary.json", json.dump(2) + "\n");
    context_.SetResult(json.dump(2));
  }

 private:
  // Of one utterance.
  struct Result {
    DecodeEntry entry;
    std::vector<int64_t> grid_errors;
    std::vector<decode::Lattice> lattices;  // of the utterance or its pieces
    std::string remark;
    int frames = 0;
    double seconds = 0.0;
    template <class V>
    void VisitFields(V& v) {
      v(entry);
      v(grid_errors);
      v(lattices);
      v(remark);
      v(frames);
      v(seconds);
    }
  };

  struct Aligned {
    std::vector<int32_t> alignment;
    double seconds = 0.0;
    template <class V>
    void VisitFields(V& v) {
      v(alignment);
      v(seconds);
    }
  };

  DecodeProgress Progress(const std::string& title) const {
    // Of this process's share; all have about as much.
    const int64_t total = std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0}) / team_.size();
    return {title, total, team_.is_first()};
  }

  Result DecodeOne(size_t i, decode::RecognizerPool& recognizers, const DecodeFormat& format,
                   DecodeProgress& progress) const {
    const double began = ThreadSeconds();
    const std::string& utt_id = utterances_[i];
    Result result;
    const bool in_parts = features_.NumParts(utt_id) > 1;
    Matrix frames;  // of one that is recognised in pieces and stored in parts: none, they are read as they are needed
    if (!in_parts || !options_.pieces.Cuts(features_.NumFrames(utt_id), feature_shift_s_))
      frames = features_.Get(utt_id);
    const int64_t num_frames = frames.empty() ? std::max<int64_t>(features_.NumFrames(utt_id), 0) : frames.rows();
    if (options_.pieces.Cuts(num_frames, feature_shift_s_)) {
      DecodeInPieces(i, std::move(frames), num_frames, recognizers, format, progress, result);
    } else {
      decode::Recognition r;
      if (features_.Zeros(utt_id).Cover(0, static_cast<double>(num_frames) * feature_shift_s_, feature_shift_s_)) {
        r.num_frames = static_cast<int>(num_frames / model_->subsampling());
        r.remark = feat::kAllZeroRemark;
      } else {
        r = recognizers.Borrow()->Recognize(*Scores(utt_id, std::move(frames)), weights_);
      }
      Keep(r.lattice, result);
      Describe(utt_id, r, format.Format(utt_id, r), result);
      progress.Add(r.num_frames * frame_shift_s_, r.num_frames * frame_shift_s_, sizes_[i]);
    }
    result.seconds = ThreadSeconds() - began;
    return result;
  }

  void DecodeInPieces(size_t i, Matrix whole, int64_t num_frames, decode::RecognizerPool& recognizers,
                      const DecodeFormat& format, DecodeProgress& progress, Result& result) const {
    const std::string& utt_id = utterances_[i];
    const feat::ZeroSpans zeros = features_.Zeros(utt_id);
    decode::JoinPieces joined(options_.recognize.nbest);
    decode::LatticeTextInPieces text(utt_id);
    std::string lattices;
    const auto take = [&](decode::Piece&& piece) {
      const double begin_s = static_cast<double>(piece.begin_frame) * frame_shift_s_;
      if (zeros.Cover(begin_s, begin_s + piece.num_frames * frame_shift_s_, frame_shift_s_)) {
        piece.recognition = {};
        piece.recognition.remark = feat::kAllZeroRemark;
      }
      joined.Add(piece, weights_);
      Keep(piece.recognition.lattice, result);
      if (!options_.lattices) return;
      if (const std::string more = text.Add(std::move(piece.recognition.lattice)); !more.empty())
        lattices += Gzip(more, GzipEffort::kQuick);
    };
    SearchInPieces(utt_id, std::move(whole), *recognizers.Borrow(), *Stream(utt_id), take, [&](int64_t frames) {
      progress.Add(static_cast<double>(frames) * frame_shift_s_, static_cast<double>(num_frames) * feature_shift_s_,
                   sizes_[i]);
    });
    if (options_.lattices) lattices += Gzip(text.Finish(), GzipEffort::kQuick);
    const decode::Recognition r = joined.Take(frame_shift_s_);
    Describe(utt_id, r, format.Format(utt_id, r, std::move(lattices)), result);
  }

  // `whole`: the frames if they are not in parts.
  void SearchInPieces(const std::string& utt_id, Matrix whole, decode::Recognizer& recognizer, ScoreStream& scores,
                      const decode::RecognizeInPieces::Callback& take,
                      const std::function<void(int64_t frames)>& searched) const {
    constexpr int64_t kChunkFrames = 1024;
    decode::RecognizeInPieces pieces(recognizer, options_.pieces, weights_, frame_shift_s_, take);
    const int64_t parts = features_.NumParts(utt_id);
    for (int64_t p = 0; p < parts; ++p) {
      const Matrix part = whole.empty() ? features_.GetPart(utt_id, p) : std::move(whole);
      for (int64_t begin = 0; begin < part.rows(); begin += kChunkFrames) {
        ThrowIfCancelled("decoding");
        const int64_t count = std::min(kChunkFrames, part.rows() - begin);
        scores.Accept(part.view().Rows(begin, count), p + 1 == parts && begin + count == part.rows());
        pieces.Advance(scores);
        searched(count);
      }
    }
    pieces.Finish(scores);
  }

  // What --tune needs of a lattice.
  void Keep(const decode::Lattice& lattice, Result& result) const {
    if (!options_.tune) return;
    result.lattices.push_back(lattice);
    result.lattices.back().alignments = {};
  }

  void Describe(const std::string& utt_id, const decode::Recognition& r, DecodeEntry&& entry, Result& result) const {
    result.entry = std::move(entry);
    if (options_.tune) result.grid_errors = search_.ErrorsOfPieces(result.lattices, references_.Ids(utt_id));
    result.remark = r.remark;
    result.frames = r.num_frames;
  }

  // Utterances of the data directory that have features; all of the table without a data directory.
  void ChooseUtterances() {
    if (options_.tune && !references_.known()) throw UsageError("--tune needs a data directory with text");
    const fs::path utt2spk = fs::path(options_.data) / "utt2spk";
    if (!fs::exists(utt2spk)) {
      utterances_ = features_.keys();
      return;
    }
    std::vector<std::string> missing;
    for (const auto& [utt_id, speaker] : score::ReadUtteranceMap(utt2spk)) {
      (features_.Has(utt_id) ? utterances_ : missing).push_back(utt_id);
    }
    if (utterances_.empty()) {
      Throw<InputError>("none of the {} utterances of '{}' has features", missing.size(), options_.data);
    }
    if (!missing.empty()) {
      log::Warn("{} utterances have no features and give no words, the first: {}", missing.size(), missing[0]);
    }
  }

  void RequireKnownSpeaker() const {
    std::set<std::string> speakers;
    for (const std::string& utt_id : utterances_) speakers.insert(features_.Speaker(utt_id));
    profiles_.RequireOne(speakers);
  }

  std::unique_ptr<ScoreSource> Scores(const std::string& utt_id, Matrix frames) const {
    const auto profile = profiles_.Of(SpeakerIfAsked(utt_id));
    const Matrix* const transform = TransformOf(utt_id);
    if (transform == nullptr) return model_->Score(std::move(frames), profile);
    return model_->ScoreAdapted(frames, *transform, profile);
  }

  std::unique_ptr<ScoreStream> Stream(const std::string& utt_id) const {
    return model_->Stream(profiles_.Of(SpeakerIfAsked(utt_id)), TransformOf(utt_id));
  }

  std::string SpeakerIfAsked(const std::string& utt_id) const {
    return profiles_.size() > 0 || !transforms_.empty() ? features_.Speaker(utt_id) : "";
  }

  // Null: speakers have none.
  const Matrix* TransformOf(const std::string& utt_id) const {
    if (transforms_.empty()) return nullptr;
    const std::string speaker = features_.Speaker(utt_id);
    const auto transform = transforms_.find(speaker);
    if (transform == transforms_.end()) {
      Throw<InputError>("'{}' has no transform of speaker '{}'", options_.features.speaker_transforms, speaker);
    }
    return &transform->second;
  }

  // Each pass recognises with the Gaussians under the transforms so far, and estimates the transforms anew.
  void AdaptToSpeakers() {
    for (int pass = 1; pass <= options_.adapt_passes; ++pass) {
      const std::vector<std::vector<int32_t>> alignments = AdaptationAlignments();
      const SpokenUtterances speech{.count = utterances_.size(),
                                    .speaker = [&](size_t i) { return features_.Speaker(utterances_[i]); },
                                    .features = [&](size_t i) { return features_.Get(utterances_[i]); },
                                    .alignment = [&](size_t i) { return std::span<const int32_t>(alignments[i]); }};
      transforms_ = EstimateSpeakerTransforms(*model_->adaptive(), speech, options_.min_fmllr_frames, threads_, team_);
      log::Info("adaptation pass {} of {} done, {} speaker transforms", pass, options_.adapt_passes,
                transforms_.size());
    }
    if (!transforms_.empty() && team_.is_first()) WriteSpeakerTransforms(transforms_, options_.out);
  }

  std::vector<std::vector<int32_t>> AdaptationAlignments() {
    decode::RecognizeOptions options = options_.recognize;
    options.search.beam = std::min(options.search.beam, options_.adapt_beam);
    options.confidences = false;
    options.nbest = 0;
    std::vector<std::vector<int32_t>> alignments(utterances_.size());
    const hmm::GmmModel& gmm = *model_->adaptive();
    decode::RecognizerPool recognizers(graph_, gmm.hmm, options);
    DecodeProgress progress = Progress("adapting to speakers");
    SpreadInOrder<Aligned>(
        team_, sizes_, threads_, Spread::kToAll,
        [&](size_t i) {
          ThrowIfCancelled("decoding");
          const double began = ThreadSeconds();
          Matrix frames = features_.Get(utterances_[i]);
          const double utterance_s = static_cast<double>(frames.rows()) * feature_shift_s_;
          const Matrix* const transform = TransformOf(utterances_[i]);
          Aligned result;
          if (options_.pieces.Cuts(frames.rows(), feature_shift_s_)) {
            bool lost = false;
            const auto take = [&](decode::Piece&& piece) {
              const auto& ids = piece.recognition.best.alignment;
              lost = lost || piece.lost;
              result.alignment.insert(result.alignment.end(), ids.begin(), ids.end());
            };
            SearchInPieces(utterances_[i], std::move(frames), *recognizers.Borrow(), *StreamOf(gmm, transform), take,
                           [](int64_t) {});
            if (lost) result.alignment.clear();
          } else {
            auto scores = transform == nullptr ? gmm.FirstPassScores(frames) : gmm.AdaptedScores(frames, *transform);
            result.alignment = recognizers.Borrow()->BestPathOnly(scores).alignment;
          }
          progress.Add(utterance_s, utterance_s, sizes_[i]);
          result.seconds = ThreadSeconds() - began;
          return result;
        },
        [&](size_t i, Aligned&& result) {
          alignments[i] = std::move(result.alignment);
          seconds_ += result.seconds;
        });
    progress.Finish();
    return alignments;
  }

  // Tries further weights while the best of those tried stands at the end of its list.
  void ExtendSearch() {
    while (search_.Extend()) {
      ParallelInOrder<std::vector<int64_t>>(
          utterances_.size(), threads_,
          [&](size_t i) {
            ThrowIfCancelled("choosing weights");
            return search_.ErrorsOfPieces(lattices_[i], references_.Ids(utterances_[i]));
          },
          [&](size_t, std::vector<int64_t>&& errors) { search_.Add(errors); });
    }
    lattices_.clear();
  }

  const DecodeCommandOptions& options_;
  CommandContext& context_;
  Team& team_;
  int threads_;
  std::unique_ptr<AcousticModel> model_;
  SpeakerProfiles profiles_;
  decode::Graph graph_;
  DecodeReferences references_;
  data::FeatureSource features_;
  decode::LatticeWeights weights_;
  decode::WeightSearch search_;
  // Of all utterances and their pieces, words and costs alone, to weigh them anew.
  std::vector<std::vector<decode::Lattice>> lattices_;
  std::optional<decode::LmRescorer> rescorer_;
  std::unique_ptr<const decode::WordBias> bias_;
  double feature_shift_s_ = 0.01;
  double frame_shift_s_ = 0.01;  // of the search's frames
  std::vector<std::string> utterances_;
  std::vector<int64_t> sizes_;  // of these, as FeatureSource::Sizes
  SpeakerTransforms transforms_;
  int64_t frames_ = 0;
  double seconds_ = 0.0;
  double wall_seconds_ = 0.0;
};

void DecodeUtterances(const DecodeCommandOptions& options, CommandContext& context) {
  RequireOtherPlace(options.data, options.out, "its text");
  InTeam(context, [&](Team& team, int threads) {
    DecodeCommandOptions of_directory = options;
    if (options.features.features.empty())
      of_directory.data = DataDirectoryOf(options.data, "", options.audio, options.out, team);
    Run run(of_directory, context, team, threads);
    run.Decode();
    if (team.is_first()) run.Report();
  });
}

REGISTER_COMMAND(
    "decode", DecodeCommandOptions, DecodeUtterances,
    {.summary = "recognise recordings: a data directory, or audio files",
     .description = "Beam search over the graph; writes text, times, confidences, n-best and lattices, and prints "
                    "the word error rate if the data have transcripts.",
     .example = "antiphon decode --model exp/net.safetensors --graph exp/graph --tune data/dev exp/decode-dev\n"
                "antiphon decode --model exp/net.safetensors --graph exp/graph --weights "
                "exp/decode-dev/weights.toml data/test exp/decode-test\n"
                "antiphon decode --model exp/net.safetensors --graph exp/graph calls/ exp/calls --channels each",
     .positionals = {"data", "out"},
     .required = {"model", "graph", "data", "out"},
     .common = {"weights", "tune", "lm-weight", "word-penalty", "beam", "nbest", "lattices", "hotwords", "word-list",
                "rescore-arpa", "graph-arpa", "profile", "cut-above", "channels", "audio-root", "features",
                "nnet.precision", "nnet.lazy"}});

}  // namespace
}  // namespace antiphon::app
