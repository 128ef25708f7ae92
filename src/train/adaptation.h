// A model adapted to other speech: prepared by a method (adapt/method.h), trained, measured on that speech and on the
// speech that it knew, and kept only if something was gained and not too much forgotten.
//
//   AdaptationRun run(options, model, {.new_store = store, .old_store = old}, seed);
//   const AdaptationResult result = run.Adapt("kld", Config::Parse("rho = [0.25]", "kld"), "exp/adapted", optimizer);
//
// Folder: rho-0.25/ … or train/ (run folders of train/trainer.h), adapted.safetensors (what was learned, good or not),
// model.safetensors (the result: that, or the model as it was), profile.safetensors (of methods for one speaker),
// adaptation.json, report.html. What the folder held before stays whole until the result is known.
// Old speech is measured on what the model's training held out, as the model tells; none of it is trained on. So is new
// speech that the model was trained on or adapted to before.
// Units: loss in nats per frame; accuracies as shares of frames. Threads: one caller; arithmetic in its compute
// threads. Errors: InputError for speech that does not fit the model or is too little; UsageError for options; those of
// training.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapt/method.h"
#include "hmm/hmm_model.h"
#include "train/evaluate.h"
#include "train/probe.h"
#include "train/trainer.h"

namespace antiphon::train {

struct AdaptationOptions {
  double min_gain = 0.001;
  double max_forgetting = 0.05;
  double max_word_loss = 0.01;
  double prior_frames = 20000;
  int64_t old_frames = 50000;
  bool own_held_out = false;  // for callers: train.held-out was chosen by a person, and holds against the model's
  TrainOptions train = AdaptationDefaults();
  template <class V>
  void Visit(V& v) {
    v("min-gain", min_gain, Range{0, 1},
      "share of the held-out loss on the new speech that must be gained; otherwise the model stays as it was");
    v("max-forgetting", max_forgetting, Range{0, 1},
      "frame accuracy that may be lost on old speech (0.05: five in a hundred); otherwise the model stays as it was. A "
      "speaker's profile may lose any, since it is nobody else's");
    v("max-word-loss", max_word_loss, Range{0, 1},
      "where words of old speech are counted (old-decode), instead: share of them that more may be wrong (0.01: one "
      "in a hundred)");
    v("prior-frames", prior_frames, Range{0, 1e12},
      "frames that the old priors of the states count as beside those of the new speech; of mixed speech all frames "
      "are counted");
    v("old-frames", old_frames, Range{1, 1e12}, "frames of old speech to measure on");
    v.Group("train", train);
  }
  /// A few epochs at a low rate on few frames; utterances of all speakers are held out.
  static TrainOptions AdaptationDefaults();
};

struct AdaptationSpeech {
  std::shared_ptr<const data::FrameStore> new_store;
  std::shared_ptr<const data::FrameStore> held_out_store = nullptr;  // of new speech; null: part of new_store
  std::shared_ptr<const data::FrameStore> old_store = nullptr;  // that the model was trained on; null: there is none
  std::string hmm_json = {};                                    // whose pdf-ids the new speech has; empty: the model's
  bool words_known = true;                                      // false: pdf-ids of the new speech mean nothing
  std::string speaker = {};                                     // whose profile it gives
  // Share of wrong words on old speech, of a model and its file; empty: frames are counted instead.
  std::function<double(const nn::Model&, const std::filesystem::path&)> old_word_errors = {};
  std::filesystem::path model_file = {};  // of the model as it was, for old_word_errors
  // Of the old speech, what antiphon chain made for the model's training; empty: old speech is not measured.
  std::string old_chain_data = {};
};

/// Share of wrong words on old speech.
struct WordLoss {
  double before = 0;
  double after = 0;
};

struct DomainMeasures {
  double loss = 0;
  double frame_accuracy = 0;
  double frames = 0;  // measured on; 0: there was nothing to measure, or no way to
};

/// One value of ρ.
struct AdaptationTrial {
  double original_share = 0;
  DomainMeasures new_speech;
  DomainMeasures old_speech;
};

struct AdaptationResult {
  std::vector<adapt::Change> changes;
  DomainMeasures new_before, new_after;  // on held-out new speech
  DomainMeasures old_before, old_after;
  std::optional<WordLoss> old_words;
  std::vector<AdaptationTrial> trials;
  double original_share = 0;
  // How well a fresh classifier tells new from old speech by a hidden layer; "" without adversarial training.
  std::string probe_layer;
  ProbeResult probe_before, probe_after;
  std::vector<std::pair<double, double>> schedule;  // of mixed speech: epoch, share of new frames there
  bool accepted = false;
  std::string verdict;  // a sentence for the person
  std::filesystem::path model;
  std::filesystem::path profile;  // what a speaker needs beside the model as it was; empty: none
};

class AdaptationRun {
 public:
  AdaptationRun(AdaptationOptions options, std::shared_ptr<const nn::Model> model, AdaptationSpeech speech,
                uint64_t seed);

  /// `keys` are the method's, `optimizer` a table as `antiphon train` takes it.
  AdaptationResult Adapt(const std::string& method, const Config& keys, const std::filesystem::path& folder,
                         const Config& optimizer) const;

  DomainMeasures MeasureNew(const nn::Model& model) const;
  DomainMeasures MeasureOld(const nn::Model& model) const;

 private:
  struct Candidate;
  void CheckSpeech() const;
  void TakeHeldOut();
  void TakeOldHeldOut();
  void TakeCriterion();
  bool in_chunks() const { return options_.train.sequence.in_chunks(); }
  bool HasOtherSenones(int num_pdfs) const;
  Candidate Train(const nn::Model& prepared, const adapt::Preparation& preparation, double share, bool keeps_priors,
                  const std::filesystem::path& folder, const Config& optimizer) const;
  TrainingTask MakeTask(const nn::Model& prepared, const adapt::Preparation& preparation,
                        const std::filesystem::path& folder, TrainOptions& options) const;
  std::vector<std::pair<double, double>> DrawSchedule(const TrainingTask& task, const TrainOptions& options) const;
  bool Better(const AdaptationTrial& a, const AdaptationTrial& b, const DomainMeasures& before) const;
  ProbeResult Probe(const nn::Model& model, const std::string& layer) const;
  DomainMeasures Measure(const nn::Model& model, const EvaluationData& speech) const;
  std::vector<float> Priors(const adapt::Preparation& preparation, int num_pdfs) const;
  void Judge(bool profile, AdaptationResult& result) const;

  AdaptationOptions options_;
  std::shared_ptr<const nn::Model> model_;
  AdaptationSpeech speech_;
  uint64_t seed_;
  uint64_t held_out_seed_;  // of training, which decides what of the new speech is held out, too
  EvaluationData new_held_out_;
  EvaluationData old_held_out_;
  std::vector<size_t> new_training_;  // utterances; empty: all
  std::vector<size_t> old_training_;  // those that are not held out
};

/// "87.3 %", or that there was too little speech to tell.
std::string ProbeText(const ProbeResult& probe);

/// As JSON: what adaptation.json holds.
std::string ToJson(const AdaptationResult& result);

}  // namespace antiphon::train
