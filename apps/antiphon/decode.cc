// antiphon decode: from features and a search graph to words, lattices, times and confidences.
#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/acoustic_model.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "chosen_weights.h"
#include "command.h"
#include "data/feature_source.h"
#include "decode/recognizer_pool.h"
#include "decode/weight_search.h"
#include "decode_output.h"
#include "decode_references.h"
#include "feature_tables.h"
#include "processes.h"
#include "same_place.h"
#include "score/wer.h"
#include "speaker_profiles.h"
#include "speaker_transforms.h"
#include "train/further.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct DecodeCommandOptions {
  std::string model, graph, data, out, weights, graph_arpa, rescore_arpa;
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  bool tune = false;
  bool lattices = true;
  int adapt_passes = 2;
  double adapt_beam = 11.0;
  double min_fmllr_frames = 500;
  ProfileOptions profiles;
  data::DataDirOptions data_dir;
  data::FeatureSourceOptions features;
  decode::RecognizeOptions recognize;
  decode::WeightSearchOptions search;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file: GMM or network");
    v("graph", graph, "folder that antiphon graph made for this model");
    v("data", data, "data directory: which utterances; its text, if there, is the reference");
    v("out", out, "folder for text, words.ctm, phones.ctm, results.jsonl, lattices.gz and summary.json");
    v("weights", weights, "weights.toml of a run with --tune on a development set");
    v("lm-weight", lm_weight, Range{0.0, 1000.0},
      "weight of the language model (1 / acoustic scale) in choosing the result; 0: the search's");
    v("word-penalty", word_penalty, Range{-100.0, 100.0}, "cost per word in choosing the result");
    v("tune", tune, "choose lm-weight and word-penalty on these data (a development set) and write weights.toml");
    v("rescore-arpa", rescore_arpa, "larger language model that replaces the graph's in each lattice");
    v("graph-arpa", graph_arpa, "the language model that the graph was built with, for --rescore-arpa");
    v("lattices", lattices, "write lattices.gz");
    v("adapt-passes", adapt_passes, Range{0, 10},
      "passes by Gaussians that give and improve speakers' transforms (fMLLR), if the model is trained for them");
    v("adapt-beam", adapt_beam, Range{1.0, 1000.0}, "beam of these passes");
    v("min-fmllr-frames", min_fmllr_frames, Range{1, 1e9}, "frames of speech that a speaker's transform needs");
    profiles.Visit(v);
    data_dir.Visit(v);
    features.Visit(v);
    recognize.Visit(v);
    search.Visit(v);
    v.Group("nnet", nnet);
  }
};

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string NormalisationIn(const AcousticModel& model) {
  const auto network = model.network();
  return network ? train::KindTakenBy(network->model()).normalisation : "";
}

// Transforms without a speaker model belong to the one that the network brings along.
bool UsesGivenTransforms(const DecodeCommandOptions& options, const AcousticModel& model) {
  return model.adaptive() != nullptr && options.features.speaker_model.empty() &&
         !options.features.speaker_transforms.empty();
}

data::FeatureSourceOptions TablesAsNamed(const DecodeCommandOptions& options, const AcousticModel& model) {
  data::FeatureSourceOptions tables = options.features;
  if (UsesGivenTransforms(options, model)) tables.speaker_transforms.clear();
  return tables;
}

decode::LatticeWeights Weights(const DecodeCommandOptions& options) {
  if (!options.weights.empty()) {
    if (options.lm_weight != 0.0 || options.word_penalty != 0.0)
      throw UsageError("give either --weights or --lm-weight and --word-penalty");
    return ReadChosenWeights(options.weights).weights();
  }
  return {options.lm_weight > 0 ? 1.0 / options.lm_weight : options.recognize.search.acoustic_scale,
          options.word_penalty};
}

infer::NnetScorerOptions NetworkOptions(const DecodeCommandOptions& options) {
  infer::NnetScorerOptions network = options.nnet;
  network.adaptable = network.adaptable || options.profiles.any();
  return network;
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
                               options.data_dir, options.out, /*silent_recordings=*/true, NormalisationIn(*model_)},
                              threads, team)),
        weights_(Weights(options)),
        search_(options.search) {
    if (options.rescore_arpa.empty() != options.graph_arpa.empty()) {
      throw UsageError("--rescore-arpa and --graph-arpa belong together");
    }
    if (!options.rescore_arpa.empty()) {
      rescorer_.emplace(decode::NgramModel::ReadArpa(options.graph_arpa),
                        decode::NgramModel::ReadArpa(options.rescore_arpa), graph_.words());
    }
    const Config front_end = Config::Parse(model_->features(), options.model);
    frame_shift_s_ = front_end.Real("frame-shift-ms").value_or(10.0) / 1000.0;
    bias_ = decode::MakeBias(graph_, options.recognize.bias);
    ChooseUtterances();
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
    SpreadInOrder<Result>(
        team_, features_.Sizes(utterances_), threads_, Spread::kToFirst,
        [&](size_t i) {
          ThrowIfCancelled("decoding");
          return WithContext([&] { return DecodeOne(utterances_[i], recognizers, format); },
                             [&] { return fmt::format("utterance '{}'", utterances_[i]); });
        },
        [&](size_t i, Result&& result) {
          if (!result.remark.empty()) log::Warn("{}: {}", utterances_[i], result.remark);
          output->Write(result.entry);
          if (options_.tune) {
            search_.Add(result.grid_errors);
            lattices_.push_back(std::move(result.lattice));
          }
          frames_ += result.frames;
          seconds_ += result.seconds;
        });
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
    decode::Lattice lattice;
    std::string remark;
    int frames = 0;
    double seconds = 0.0;
    template <class V>
    void VisitFields(V& v) {
      v(entry);
      v(grid_errors);
      v(lattice);
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

  Result DecodeOne(const std::string& utt_id, decode::RecognizerPool& recognizers, const DecodeFormat& format) const {
    const double began = ThreadSeconds();
    Result result;
    const decode::Recognition r = recognizers.Borrow()->Recognize(*Scores(utt_id), weights_);
    result.entry = format.Format(utt_id, r);
    if (options_.tune) {
      result.grid_errors = search_.Errors(r.lattice, references_.Ids(utt_id));
      result.lattice = r.lattice;
      result.lattice.alignments = {};
    }
    result.remark = r.remark;
    result.frames = r.num_frames;
    result.seconds = ThreadSeconds() - began;
    return result;
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

  std::unique_ptr<ScoreSource> Scores(const std::string& utt_id) const {
    Matrix frames = features_.Get(utt_id);
    const std::string speaker = profiles_.size() > 0 || !transforms_.empty() ? features_.Speaker(utt_id) : "";
    if (transforms_.empty()) return model_->Score(std::move(frames), profiles_.Of(speaker));
    const auto transform = transforms_.find(speaker);
    if (transform == transforms_.end()) {
      Throw<InputError>("'{}' has no transform of speaker '{}'", options_.features.speaker_transforms, speaker);
    }
    return model_->ScoreAdapted(frames, transform->second, profiles_.Of(speaker));
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
    std::vector<std::vector<int32_t>> alignments(utterances_.size());
    const hmm::GmmModel& gmm = *model_->adaptive();
    decode::RecognizerPool recognizers(graph_, gmm.hmm, options);
    SpreadInOrder<Aligned>(
        team_, features_.Sizes(utterances_), threads_, Spread::kToAll,
        [&](size_t i) {
          ThrowIfCancelled("decoding");
          const double began = ThreadSeconds();
          const Matrix frames = features_.Get(utterances_[i]);
          auto scores = transforms_.empty()
                            ? gmm.FirstPassScores(frames)
                            : gmm.AdaptedScores(frames, transforms_.at(features_.Speaker(utterances_[i])));
          Aligned result{recognizers.Borrow()->BestPathOnly(scores).alignment, 0.0};
          result.seconds = ThreadSeconds() - began;
          return result;
        },
        [&](size_t i, Aligned&& result) {
          alignments[i] = std::move(result.alignment);
          seconds_ += result.seconds;
        });
    return alignments;
  }

  // Tries further weights while the best of those tried stands at the end of its list.
  void ExtendSearch() {
    while (search_.Extend()) {
      ParallelInOrder<std::vector<int64_t>>(
          utterances_.size(), threads_,
          [&](size_t i) {
            ThrowIfCancelled("choosing weights");
            return search_.Errors(lattices_[i], references_.Ids(utterances_[i]));
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
  std::vector<decode::Lattice> lattices_;  // of all utterances, words and costs alone, to weigh them anew
  std::optional<decode::LmRescorer> rescorer_;
  std::unique_ptr<const decode::WordBias> bias_;
  double frame_shift_s_ = 0.01;
  std::vector<std::string> utterances_;
  SpeakerTransforms transforms_;
  int64_t frames_ = 0;
  double seconds_ = 0.0;
  double wall_seconds_ = 0.0;
};

void DecodeUtterances(const DecodeCommandOptions& options, CommandContext& context) {
  RequireOtherPlace(options.data, options.out, "its text");
  InTeam(context, [&](Team& team, int threads) {
    Run run(options, context, team, threads);
    run.Decode();
    if (team.is_first()) run.Report();
  });
}

REGISTER_COMMAND(
    "decode", DecodeCommandOptions, DecodeUtterances,
    {.summary = "recognise the utterances of a data directory",
     .description = "Beam search over the graph; writes text, times, confidences, n-best and lattices, and prints "
                    "the word error rate if the data have transcripts.",
     .example = "antiphon decode --model exp/net.safetensors --graph exp/graph --tune data/dev exp/decode-dev\n"
                "antiphon decode --model exp/net.safetensors --graph exp/graph --weights "
                "exp/decode-dev/weights.toml data/test exp/decode-test",
     .positionals = {"data", "out"},
     .required = {"model", "graph", "data", "out"}});

}  // namespace
}  // namespace antiphon::app
