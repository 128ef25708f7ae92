// Flat start to speaker-adapted triphones: the stages of GMM training, each beginning with the alignments of the one
// before.
//
//   mono      one model per phone state from equally cut utterances, Δ features
//   tri       states tied by decision trees in triphone context, Δ features
//   lda-mllt  the same on spliced frames, projected by LDA and turned by MLLT
//   sat       the same with an fMLLR transform per speaker
//
// Threads: passes over the data run on num_threads; utterances belong to fixed shards, whose sums are added in a fixed
// order, so that the number of threads changes no bit. Units: log-likelihoods in nats per frame. Errors: InputError if
// no utterance can be used; utterances that cannot are listed in the report, with the reason.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/team.h"
#include "hmm/aligner.h"
#include "hmm/gmm_model.h"
#include "hmm/gmm_training.h"
#include "hmm/lexicon.h"
#include "hmm/tree_builder.h"
#include "hmm/utterance_source.h"

namespace antiphon::hmm {

/// The EM iterations of a stage.
struct EmOptions {
  int iterations = 35;
  int gaussians = 0;
  double power = 0.25;
  std::vector<int> realign = {10, 20, 30};
  template <class V>
  void Visit(V& v) {
    v("iterations", iterations, Range{1, 1000}, "EM iterations; Gaussians are added in all but the last quarter");
    v("gaussians", gaussians, Range{0, 1 << 24}, "Gaussians in the end; 0: from the amount of data");
    v("power", power, Range{0, 1}, "Gaussians of a state grow with its frames to this power");
    v("realign", realign, "iterations that align anew");
  }
};

struct GmmTrainingOptions {
  std::string last_stage = "sat";
  bool map_unknown_words = true;
  double min_fmllr_frames = 500;
  int lda_dim = 40;
  int splice = 3;
  std::vector<int> mllt_iterations = {2, 4, 6, 12};
  std::vector<int> fmllr_iterations = {2, 4, 6, 12};
  TopologyOptions topology;
  AlignOptions align;
  GmmUpdateOptions update;
  TransitionUpdateOptions transitions;
  TreeOptions tree;
  EmOptions mono{40, 0, 0.25, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 23, 26, 29, 32, 35, 38}};
  EmOptions tri{35, 0, 0.25, {10, 20, 30}};
  EmOptions lda_mllt{35, 0, 0.25, {10, 20, 30}};
  EmOptions sat{35, 0, 0.2, {10, 20, 30}};

  GmmTrainingOptions() {
    align.silence_boost = 1.25;
    tree.num_leaves = 0;
  }

  template <class V>
  void Visit(V& v) {
    v("last-stage", last_stage, OneOf{{"mono", "tri", "lda-mllt", "sat"}}, "stage to stop after");
    v("map-unknown-words", map_unknown_words,
      "train on utterances with words that the lexicon lacks, as <UNK>, if it has that");
    v("min-fmllr-frames", min_fmllr_frames, Range{1, 1e9}, "frames of speech that a speaker's transform needs");
    v("lda-dim", lda_dim, Range{1, 4096}, "dimensions after LDA");
    v("splice", splice, Range{0, 50}, "frames to either side that LDA sees");
    v("mllt-iterations", mllt_iterations, "iterations that estimate MLLT");
    v("fmllr-iterations", fmllr_iterations, "iterations that estimate the speakers' transforms");
    v.Group("topology", topology);
    v.Group("align", align);
    v.Group("update", update);
    v.Group("transitions", transitions);
    v.Group("tree", tree);
    v.Group("mono", mono);
    v.Group("tri", tri);
    v.Group("lda-mllt", lda_mllt);
    v.Group("sat", sat);
  }
};

struct IterationReport {
  int iteration = 0;
  double log_likelihood = 0;  // per frame, before the update
  int gaussians = 0;          // after it
  int retried = 0;            // of a realignment
  int failed = 0;
  bool realigned = false;
  double transform_gain = 0;  // of MLLT or fMLLR, per frame
};

struct StageReport {
  std::string stage;
  std::vector<IterationReport> iterations;
  TreeReport tree;
  int pdfs = 0;
  int gaussians = 0;
  double seconds = 0;
};

/// An utterance that gave no alignment, or not at once.
struct UtteranceRemark {
  std::string utt_id;
  std::string reason;
};

struct GmmTrainingReport {
  std::vector<StageReport> stages;
  std::vector<UtteranceRemark> skipped;
  std::vector<UtteranceRemark> retried;      // in the final alignment
  std::map<std::string, int> unknown_words;  // with counts
  int utterances = 0;
  double frames = 0;
  double final_log_likelihood = 0;  // per frame of the final alignment
};

struct GmmTrainingResult {
  GmmModel model;
  std::vector<Alignment> alignments;  // per utterance of the source; not ok() for the skipped
  std::vector<WordIds> words;         // per utterance, as used
  // Of every speaker, after stage sat; the identity where there were fewer than min_fmllr_frames of speech.
  std::map<std::string, Matrix> fmllr;
  GmmTrainingReport report;
};

/// Runs all stages up to options.last_stage. `progress` hears one line now and then. The members of a team call it
/// together, divide the passes over the data, and get the same result.
GmmTrainingResult TrainGmm(const UtteranceSource& source, const Lexicon& lexicon, const GmmTrainingOptions& options,
                           int num_threads, uint64_t seed, const std::function<void(const std::string&)>& progress = {},
                           Team& team = Team::Alone());

}  // namespace antiphon::hmm
