// Boosted MMI training of Gaussian mixtures: the reference's posterior among the paths of lattices rises.
//
// Each iteration scores the lattices anew, weighs their paths exp(κ · acoustic − graph cost − boost · right phone
// frames), and gives a frame's pdf-ids what the reference has of them less the paths' posterior: more than 0 counts for
// the mixture, less against it, so that what both share cancels. hmm::ExtendedBaumWelch makes the new mixtures of it.
// Transition probabilities, the feature transform and the first pass's mixtures of a speaker-adaptive model stay.
//
// Units: the criterion is that of decode::SequenceCriterion, its sign turned, in nats per frame: 0 is the best.
// Threads: utterances belong to fixed shards, whose sums are added in a fixed order, so that the number of threads
// changes no bit. Errors: InputError naming the utterance. Source: as in decode/sequence/sequence_criterion.h.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/options.h"
#include "hmm/extended_baum_welch.h"
#include "hmm/gmm_model.h"
#include "math/matrix.h"
#include "train/sequence_data.h"

namespace antiphon::train {

struct BmmiOptions {
  int iterations = 4;
  double acoustic_scale = 0.1;
  double boost = 0.1;
  hmm::EbwOptions ebw;
  template <class V>
  void Visit(V& v) {
    v("iterations", iterations, Range{1, 1000}, "passes over the speech, each with an update");
    v("acoustic-scale", acoustic_scale, Range{1e-6, 100.0}, "weight of the mixtures' scores against the graph's");
    v("boost", boost, Range{0.0, 10.0}, "how much more a path weighs for each frame of a wrong phone; 0: plain MMI");
    ebw.Visit(v);
  }
};

/// Utterances 0 … count − 1: name, frames [T, dim] as the Gaussians see them, lattice and reference. The functions are
/// called from several threads at once.
struct BmmiSpeech {
  size_t count = 0;
  std::function<std::string(size_t)> utt_id;
  std::function<Matrix(size_t)> frames;
  std::function<SequenceEntry(size_t)> entry;
};

struct BmmiIteration {
  double criterion = 0;    // before the update
  double numerator = 0;    // frames that count, and that count against, after what they share is cancelled; as
  double denominator = 0;  // shares of all
  hmm::EbwReport update;
  double seconds = 0;
};

struct BmmiReport {
  std::vector<BmmiIteration> iterations;
  int utterances = 0;  // that were learnt from
  double frames = 0;
  std::vector<std::string> without_reference;  // utterances whose lattice lacks it: left out
};

/// `progress` hears a line after each iteration. InputError if no utterance is left.
hmm::GmmModel TrainBmmi(const hmm::GmmModel& initial, const BmmiSpeech& speech, const BmmiOptions& options,
                        int num_threads, const std::function<void(const std::string&)>& progress, BmmiReport* report);

}  // namespace antiphon::train
