// Passes over the training data: aligning, accumulating, estimating transforms. The parallel part of GMM training.
//
// State: for every utterance its words, its alignment in the ids of the current model; for every speaker the current
// transform. Threads: one pass at a time, each on num_threads; results do not depend on that number.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/team.h"
#include "hmm/aligner.h"
#include "hmm/gmm_model.h"
#include "hmm/gmm_training.h"
#include "hmm/tree_stats.h"
#include "hmm/utterance_source.h"

namespace antiphon::hmm {

class GmmPasses {
 public:
  /// The members of a team make each pass together and have the same results.
  GmmPasses(const UtteranceSource& source, const Lexicon& lexicon, bool map_unknown_words, int num_threads,
            Team& team = Team::Alone());

  /// Words of each utterance; empty ids if it cannot be used.
  const std::vector<WordIds>& words() const { return words_; }
  std::vector<std::vector<int32_t>>& alignments() { return alignments_; }
  std::map<std::string, Matrix>& fmllr() { return fmllr_; }

  /// Mean and variance of the features over all frames.
  void GlobalMoments(const FeatureTransform& transform, std::vector<float>* mean, std::vector<float>* variance) const;
  /// Equal alignments by seed; returns how many utterances were too short.
  int AlignEquallyAll(const HmmModel& hmm, uint64_t seed);

  struct Counts {
    int retried = 0;
    int failed = 0;
  };
  /// One iteration's pass: aligns anew if `align` is given, then adds up Gaussian statistics and transition counts.
  GmmStats AlignAndAccumulate(const GmmModel& model, const AlignOptions* align, std::vector<double>* transition_counts,
                              Counts* counts);
  /// Alignments in full, for the end of training; alignments() are set too.
  std::vector<Alignment> AlignAll(const GmmModel& model, const AlignOptions& options);
  /// Statistics of the features without speakers' transforms, with the posteriors of the features with them.
  GmmStats AccumulateFirstPass(const GmmModel& model);

  TreeStats CollectTreeStats(const HmmModel& hmm, const FeatureTransform& transform) const;
  /// [dim, in] without offset; classes are the pdf-ids of the alignments, silence left out.
  FeatureTransform EstimateLda(const HmmModel& hmm, int in_dim, int splice, int lda_dim) const;
  /// Turns the model's features and means. Returns the gain in nats per frame.
  double UpdateMllt(GmmModel* model);
  /// New transforms for all speakers with enough speech. Returns the mean gain in nats per frame.
  double UpdateFmllr(const GmmModel& model, double min_frames);

  /// Features of an utterance as the Gaussians see them.
  Matrix Frames(const FeatureTransform& transform, size_t utterance, bool adapted = true) const;

 private:
  /// Calls body(shard, utterance) for the usable utterances of each shard, shards in parallel, utterances in order.
  /// `state(visitor, shard)` visits what the shard leaves, for members of the team that did not compute it.
  template <class Body, class State>
  void ForShards(size_t num_shards, const Body& body, const State& state) const;
  /// Visits the alignments of a shard's utterances.
  template <class V>
  void VisitAlignments(V& v, size_t shard, size_t num_shards);

  const UtteranceSource& source_;
  const Lexicon& lexicon_;
  int num_threads_;
  Team& team_;
  std::vector<WordIds> words_;
  std::vector<size_t> usable_;
  std::vector<std::vector<int32_t>> alignments_;
  std::map<std::string, Matrix> fmllr_;
};

}  // namespace antiphon::hmm
