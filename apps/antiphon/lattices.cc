// antiphon lattices: what discriminative training learns from, by the model that it begins with.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "command.h"
#include "data/feature_extraction.h"
#include "data/feature_source.h"
#include "decode/graph/constrained_graph.h"
#include "decode/search/recognizer_pool.h"
#include "decode/sequence/sequence_criterion.h"
#include "hmm/hmm_file.h"
#include "infer/nnet_scorer.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/bundle.h"
#include "pipeline/lattice_speech.h"
#include "score/wer.h"
#include "train/sequence_data.h"

namespace antiphon::app {
namespace {

struct LatticesCommandOptions {
  std::string model, graph, store, data, text, out;
  decode::DecoderOptions search;
  int64_t max_lattice_arcs = 20000;
  double reference_beam = 100.0;
  data::FeatureSourceOptions features;
  infer::NnetScorerOptions nnet;
  data::ShardCacheOptions cache;

  template <class V>
  void Visit(V& v) {
    v("model", model, "network or Gaussian mixtures that discriminative training is to begin with");
    v("graph", graph, "search graph for this model; a weak language model (unigram, word loop) teaches more");
    v("store", store, "for a network: frame store to train on, whose features it is to recognise");
    v("data", data, "for mixtures: folder with the features to train on (feats.scp, cmvn.scp, utt2spk)");
    v("text", text, "transcripts of its utterances; copies at other speeds have those of their originals");
    v("out", out, "folder for lattices.ark, ali.ark and their scripts");
    search.Visit(v);
    v("max-lattice-arcs", max_lattice_arcs, Range{1, 1e9}, "narrow a lattice rather than let it grow beyond");
    v("reference-beam", reference_beam, Range{1.0, 1e9}, "beam of the search for the transcript's best path");
    features.Visit(v);
    v.Group("nnet", nnet);
    cache.Visit(v);
  }
};

class LatticeRun {
 public:
  LatticeRun(const LatticesCommandOptions& options, CommandContext& context)
      : options_(options),
        context_(context),
        hmm_(hmm::LoadHmm(pipeline::PartsAt(options.model).model)),
        speech_(Speech(options)),
        graph_(decode::Graph::Load(options.graph, hmm_)),
        transcripts_(score::ReadTranscripts(options.text)),
        recognizers_(graph_, hmm_, RecognizeOptions(options)) {}

  void Write() {
    train::SequenceDataWriter writer(options_.out, hmm_);
    ParallelInOrder<Result>(
        speech_->size(), context_.threads(),
        [&](size_t i) {
          ThrowIfCancelled("making lattices");
          return WithContext([&] { return MakeOne(i); },
                             [&] { return fmt::format("utterance '{}'", speech_->UttId(i)); });
        },
        [&](size_t i, Result&& result) {
          if (!result.entry) return LeaveOut(speech_->UttId(i), result.why_not);
          writer.Write(speech_->UttId(i), *result.entry);
          ++written_;
          arcs_ += static_cast<int64_t>(result.entry->lattice.NumArcs());
          frames_ += std::ssize(result.entry->reference);
          reference_found_ += result.had_reference ? 1 : 0;
        });
    if (written_ == 0) {
      Throw<InputError>("no utterance has a lattice; the first, '{}': {}", first_left_out_, first_reason_);
    }
    writer.Close();
  }

  void Report() {
    const double seconds = speech_->frame_seconds() * static_cast<double>(frames_);
    context_.Print("{} lattices with {:.1f} arcs per second of speech; {:.1f} % held the reference already", written_,
                   static_cast<double>(arcs_) / seconds,
                   100.0 * static_cast<double>(reference_found_) / static_cast<double>(written_));
    if (left_out_ > 0) {
      context_.Print("{} utterances were left out, the first: {}: {}", left_out_, first_left_out_, first_reason_);
    }
    if (IsGmm(options_.model)) {
      context_.Print("to train by them: antiphon gmm-bmmi --model {} --data {} --lattices {} …", options_.model,
                     options_.data, options_.out);
    } else {
      context_.Print(
          "to train by them: antiphon train --initial-model {} --set sequence.criterion=smbr --set "
          "sequence.lattices={} …",
          options_.model, options_.out);
    }
    const nlohmann::json json = {
        {"lattices", written_}, {"left_out", left_out_}, {"arcs", arcs_}, {"frames", frames_}, {"seconds", seconds}};
    context_.SetResult(json.dump());
  }

 private:
  struct Result {
    std::optional<train::SequenceEntry> entry;
    std::string why_not;
    bool had_reference = false;
  };

  static decode::RecognizeOptions RecognizeOptions(const LatticesCommandOptions& options) {
    decode::RecognizeOptions recognize;
    recognize.search = options.search;
    recognize.max_lattice_arcs = options.max_lattice_arcs;
    recognize.confidences = false;
    return recognize;
  }

  static std::unique_ptr<const pipeline::LatticeSpeech> Speech(const LatticesCommandOptions& options) {
    const data::FeatureSourceOptions& tables = options.features;
    const bool named = !(tables.features + tables.cmvn + tables.utt2spk + tables.speaker_model +
                         tables.speaker_transforms + tables.speaker_vectors)
                            .empty();
    if (IsGmm(options.model)) {
      if (options.data.empty() || !options.store.empty()) {
        Throw<UsageError>("'{}' is a model of Gaussian mixtures: name the speech by --data, a folder with features",
                          options.model);
      }
      return pipeline::MixtureSpeech(options.model, options.data, tables);
    }
    if (options.store.empty() || !options.data.empty() || named) {
      Throw<UsageError>("'{}' is a network: name the speech by --store, without --data and tables of features",
                        options.model);
    }
    return pipeline::StoredSpeech(options.model, options.store, {.cache = options.cache}, options.nnet);
  }

  Result MakeOne(size_t utterance) {
    const auto words = transcripts_.words.find(std::string(data::OriginalName(speech_->UttId(utterance))));
    if (words == transcripts_.words.end()) return {std::nullopt, "it has no transcript"};
    std::vector<int32_t> ids;
    for (const std::string& word : words->second) {
      ids.push_back(graph_.lexicon()->FindWord(word));
      if (ids.back() <= 0) return {std::nullopt, fmt::format("the graph does not know the word '{}'", word)};
    }
    const std::optional<decode::Graph> reference_graph = decode::ConstrainToWords(graph_, ids);
    if (!reference_graph) return {std::nullopt, "the graph has no path for its words"};
    const std::unique_ptr<ScoreSource> scores = speech_->Scores(utterance);
    decode::DecoderOptions search = options_.search;
    search.beam = options_.reference_beam;
    search.acoustic_scale = decode::AcousticScale(search, hmm_);
    decode::Decoder decoder(*reference_graph, search);
    decoder.Advance(*scores);
    const bool ended = decoder.ReachedFinal();
    decoder.Finish();
    const decode::LatticePath reference = decoder.BestPath();
    if (reference.alignment.empty() || !ended) {
      return {std::nullopt, "its words do not fit its frames within the beam"};
    }
    const decode::LatticeWeights weights{search.acoustic_scale, 0.0};
    decode::Lattice lattice = recognizers_.Borrow()->Recognize(*scores, weights).lattice;
    const size_t arcs = lattice.NumArcs();
    decode::AddReference(reference.alignment, reference.cost, &lattice);
    const bool had_reference = lattice.NumArcs() == arcs;
    return {train::SequenceEntry{std::move(lattice), reference.alignment}, "", had_reference};
  }

  void LeaveOut(const std::string& utt_id, const std::string& reason) {
    if (left_out_++ > 0) return;
    first_left_out_ = utt_id;
    first_reason_ = reason;
  }

  const LatticesCommandOptions& options_;
  CommandContext& context_;
  hmm::HmmModel hmm_;
  std::unique_ptr<const pipeline::LatticeSpeech> speech_;
  decode::Graph graph_;
  score::Transcripts transcripts_;
  decode::RecognizerPool recognizers_;
  int64_t written_ = 0, left_out_ = 0, arcs_ = 0, frames_ = 0, reference_found_ = 0;
  std::string first_left_out_, first_reason_;
};

void MakeLattices(const LatticesCommandOptions& options, CommandContext& context) {
  LatticeRun run(options, context);
  run.Write();
  run.Report();
}

REGISTER_COMMAND(
    "lattices", LatticesCommandOptions, MakeLattices,
    {.summary = "make lattices for sequence-discriminative training",
     .description = "Recognises the training speech with the model that training begins with, a network's in a frame "
                    "store or Gaussian mixtures' in a folder of features, adds the transcript's best path to each "
                    "lattice, and keeps it as the reference.",
     .example = "antiphon lattices --model exp/network/model.safetensors --graph exp/graph --store exp/store "
                "--text data/train/text exp/lattices\n"
                "antiphon train --initial-model exp/network/model.safetensors --store exp/store --set "
                "sequence.criterion=smbr --set sequence.lattices=exp/lattices --out exp/smbr\n"
                "antiphon lattices --model exp/align/model.safetensors --graph exp/graph --data feats/train "
                "--text data/train/text exp/lattices-gmm",
     .positionals = {"out"},
     .required = {"model", "graph", "text", "out"}});

}  // namespace
}  // namespace antiphon::app
