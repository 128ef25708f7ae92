// antiphon lattices: what sequence-discriminative training learns from, by the model that it begins with.
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
#include "data/feature_kind.h"
#include "data/frame_store.h"
#include "decode/graph/constrained_graph.h"
#include "decode/search/recognizer_pool.h"
#include "decode/sequence/sequence_criterion.h"
#include "feat/front_end.h"
#include "infer/nnet_scorer.h"
#include "pipeline/acoustic_model.h"
#include "score/wer.h"
#include "train/sequence_data.h"
#include "train/warm_start.h"

namespace antiphon::app {
namespace {

struct LatticesCommandOptions {
  std::string model, graph, store, text, out;
  decode::DecoderOptions search;
  int64_t max_lattice_arcs = 20000;
  double reference_beam = 100.0;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("model", model, "network that sequence training is to begin with");
    v("graph", graph, "search graph for this model; a weak language model (unigram, word loop) teaches more");
    v("store", store, "frame store to train on, whose features the network is to recognise");
    v("text", text, "transcripts of its utterances; copies at other speeds have those of their originals");
    v("out", out, "folder for lattices.ark, ali.ark and their scripts");
    search.Visit(v);
    v("max-lattice-arcs", max_lattice_arcs, Range{1, 1e9}, "narrow a lattice rather than let it grow beyond");
    v("reference-beam", reference_beam, Range{1.0, 1e9}, "beam of the search for the transcript's best path");
    v.Group("nnet", nnet);
  }
};

class LatticeRun {
 public:
  LatticeRun(const LatticesCommandOptions& options, CommandContext& context)
      : options_(options),
        context_(context),
        hmm_(LoadHmm(options.model)),
        model_(std::make_shared<const infer::NnetModel>(nn::Model::Load(options.model), options.nnet)),
        graph_(decode::Graph::Load(options.graph, hmm_)),
        store_(options.store),
        transcripts_(score::ReadTranscripts(options.text)),
        recognizers_(graph_, hmm_, RecognizeOptions(options)) {
    if (store_.feat_dim() != model_->model().feature_dim) {
      Throw<InputError>("the store '{}' has {} features per frame, the model '{}' takes {}", options.store,
                        store_.feat_dim(), options.model, model_->model().feature_dim);
    }
    if (model_->subsampling() > 1) {
      Throw<UsageError>(
          "'{}' gives a search a frame for every {} of the store: sequence training by lattices needs all",
          options.model, model_->subsampling());
    }
    data::RequireKind(store_, train::KindTakenBy(model_->model()), fmt::format("'{}'", options.model));
  }

  void Write() {
    train::SequenceDataWriter writer(options_.out, hmm_);
    const auto utterances = store_.utterances();
    ParallelInOrder<Result>(
        utterances.size(), context_.threads(),
        [&](size_t i) {
          ThrowIfCancelled("making lattices");
          return WithContext([&] { return MakeOne(i); },
                             [&] { return fmt::format("utterance '{}'", utterances[i].utt_id); });
        },
        [&](size_t i, Result&& result) {
          if (!result.entry) return LeaveOut(utterances[i].utt_id, result.why_not);
          writer.Write(utterances[i].utt_id, *result.entry);
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
    const double seconds = FrameSeconds() * static_cast<double>(frames_);
    context_.Print("{} lattices with {:.1f} arcs per second of speech; {:.1f} % held the reference already", written_,
                   static_cast<double>(arcs_) / seconds,
                   100.0 * static_cast<double>(reference_found_) / static_cast<double>(written_));
    if (left_out_ > 0) {
      context_.Print("{} utterances were left out, the first: {}: {}", left_out_, first_left_out_, first_reason_);
    }
    context_.Print(
        "to train by them: antiphon train --initial-model {} --set sequence.criterion=smbr --set "
        "sequence.lattices={} …",
        options_.model, options_.out);
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

  // Distance of the store's frames; a model that does not know its features has Kaldi's.
  double FrameSeconds() const {
    const std::string& front_end = model_->model().feature_config;
    return ReadOptions<feat::FrontEndOptions>(Config::Parse(front_end, "the model's features")).frame_shift_ms / 1000.0;
  }

  Result MakeOne(size_t utterance) {
    const auto& [utt_id, speaker, num_frames, first_frame, weight] = store_.utterances()[utterance];
    const auto words = transcripts_.words.find(std::string(data::OriginalName(utt_id)));
    if (words == transcripts_.words.end()) return {std::nullopt, "it has no transcript"};
    std::vector<int32_t> ids;
    for (const std::string& word : words->second) {
      ids.push_back(graph_.lexicon()->FindWord(word));
      if (ids.back() <= 0) return {std::nullopt, fmt::format("the graph does not know the word '{}'", word)};
    }
    const std::optional<decode::Graph> reference_graph = decode::ConstrainToWords(graph_, ids);
    if (!reference_graph) return {std::nullopt, "the graph has no path for its words"};
    Matrix frames(num_frames, store_.feat_dim());
    store_.ReadFrames(utterance, 0, frames);
    infer::NnetScorer scores(model_, std::move(frames));
    decode::DecoderOptions search = options_.search;
    search.beam = options_.reference_beam;
    search.acoustic_scale = decode::AcousticScale(search, hmm_);
    decode::Decoder decoder(*reference_graph, search);
    decoder.Advance(scores);
    const bool ended = decoder.ReachedFinal();
    decoder.Finish();
    const decode::LatticePath reference = decoder.BestPath();
    if (reference.alignment.empty() || !ended) {
      return {std::nullopt, "its words do not fit its frames within the beam"};
    }
    const decode::LatticeWeights weights{search.acoustic_scale, 0.0};
    decode::Lattice lattice = recognizers_.Borrow()->Recognize(scores, weights).lattice;
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
  std::shared_ptr<const infer::NnetModel> model_;
  decode::Graph graph_;
  data::FrameStore store_;
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
     .description = "Recognises the training speech with the network that sequence training begins with, adds the "
                    "transcript's best path to each lattice, and keeps it as the reference.",
     .example = "antiphon lattices --model exp/network/model.safetensors --graph exp/graph --store exp/store "
                "--text data/train/text exp/lattices\n"
                "antiphon train --initial-model exp/network/model.safetensors --store exp/store --set "
                "sequence.criterion=smbr --set sequence.lattices=exp/lattices --out exp/smbr",
     .positionals = {"out"},
     .required = {"model", "graph", "store", "text", "out"}});

}  // namespace
}  // namespace antiphon::app
