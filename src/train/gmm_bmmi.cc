#include "train/gmm_bmmi.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "decode/sequence/sequence_criterion.h"
#include "hmm/gmm.h"
#include "hmm/gmm_training.h"

namespace antiphon::train {
namespace {

// Fixed, so that the order of sums does not depend on the number of threads.
constexpr size_t kBmmiShards = 8;
// What the criterion's sums of floats leave where the reference and all paths agree.
constexpr double kLeastShare = 1e-6;

decode::SequenceCriterion CriterionFor(const hmm::HmmModel& model, const BmmiOptions& options) {
  decode::SequenceCriterionOptions criterion;
  criterion.criterion = "mpfe";  // by phones
  decode::TransitionClasses classes = decode::ClassesOf(model, criterion);
  criterion.criterion = "mmi";
  criterion.acoustic_scale = options.acoustic_scale;
  criterion.boost = options.boost;
  return {std::move(classes), criterion};
}

// What one pass over some of the utterances leaves.
struct BmmiStats {
  explicit BmmiStats(const hmm::GmmSet& gmm) : numerator(gmm), denominator(gmm) {}
  void Add(const BmmiStats& other) {
    numerator.Add(other.numerator);
    denominator.Add(other.denominator);
    loss += other.loss;
    frames += other.frames;
    utterances += other.utterances;
  }

  hmm::GmmStats numerator, denominator;
  double loss = 0;
  double frames = 0;
  int utterances = 0;
};

class BmmiPass {
 public:
  BmmiPass(const hmm::GmmModel& model, const BmmiSpeech& speech, const BmmiOptions& options)
      : gmm_(model.gmm),
        speech_(speech),
        scale_(options.acoustic_scale),
        criterion_(CriterionFor(model.hmm, options)) {}

  BmmiStats Run(int num_threads, std::vector<std::string>* without_reference) const {
    std::vector<BmmiStats> stats(kBmmiShards, BmmiStats(gmm_));
    std::vector<char> lacks(speech_.count, 0);
    ParallelFor(kBmmiShards, num_threads, [&](size_t shard) {
      for (size_t i = shard; i < speech_.count; i += kBmmiShards) {
        ThrowIfCancelled("training mixtures");
        WithContext([&] { lacks[i] = AddUtterance(i, &stats[shard]) ? 0 : 1; },
                    [&] { return fmt::format("utterance '{}'", speech_.utt_id(i)); });
      }
    });
    for (size_t shard = 1; shard < kBmmiShards; ++shard) stats[0].Add(stats[shard]);
    without_reference->clear();
    for (size_t i = 0; i < speech_.count; ++i) {
      if (lacks[i] != 0) without_reference->push_back(speech_.utt_id(i));
    }
    return std::move(stats[0]);
  }

 private:
  // False, and nothing added, if the lattice lacks the reference.
  bool AddUtterance(size_t i, BmmiStats* stats) const {
    const SequenceEntry entry = speech_.entry(i);
    if (!decode::HasReference(entry.lattice, entry.reference)) return false;
    const Matrix frames = speech_.frames(i);
    hmm::GmmScorer scorer(gmm_, frames);
    const Matrix scores = criterion_.ScoresFor(entry.lattice, entry.reference, scorer);
    Matrix gradient(scores.rows(), scores.cols());
    stats->loss += criterion_.Loss(entry.lattice, entry.reference, scores, gradient);
    stats->frames += static_cast<double>(frames.rows());
    stats->utterances += 1;
    // The derivative by a score is the scale times the posterior of its pdf-id among the paths less the reference's.
    std::map<int32_t, std::vector<hmm::FrameWeight>> numerator, denominator;
    for (int64_t t = 0; t < gradient.rows(); ++t) {
      for (int64_t pdf = 0; pdf < gradient.cols(); ++pdf) {
        const double share = static_cast<double>(gradient(t, pdf)) / scale_;
        if (std::abs(share) < kLeastShare) continue;
        const hmm::FrameWeight weight{static_cast<int>(t), std::abs(share)};
        (share < 0 ? numerator : denominator)[static_cast<int32_t>(pdf)].push_back(weight);
      }
    }
    for (const auto& [pdf, weights] : numerator)
      stats->numerator.AccumulateWeighted(gmm_, frames, scorer.blocks(), pdf, weights);
    for (const auto& [pdf, weights] : denominator)
      stats->denominator.AccumulateWeighted(gmm_, frames, scorer.blocks(), pdf, weights);
    return true;
  }

  const hmm::GmmSet& gmm_;
  const BmmiSpeech& speech_;
  double scale_;
  decode::SequenceCriterion criterion_;
};

}  // namespace

hmm::GmmModel TrainBmmi(const hmm::GmmModel& initial, const BmmiSpeech& speech, const BmmiOptions& options,
                        int num_threads, const std::function<void(const std::string&)>& progress, BmmiReport* report) {
  hmm::GmmModel model = initial;
  for (int i = 1; i <= options.iterations; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const BmmiStats stats = BmmiPass(model, speech, options).Run(num_threads, &report->without_reference);
    if (stats.utterances == 0) {
      Throw<InputError>("none of {} utterances has a lattice with its reference{}", speech.count,
                        speech.count > 0 ? fmt::format("; the first is '{}'", speech.utt_id(0)) : "");
    }
    report->utterances = stats.utterances;
    report->frames = stats.frames;
    BmmiIteration iteration;
    iteration.criterion = -stats.loss / stats.frames;
    iteration.numerator = stats.numerator.num_frames() / stats.frames;
    iteration.denominator = stats.denominator.num_frames() / stats.frames;
    model.gmm = hmm::ExtendedBaumWelch(model.gmm, stats.numerator, stats.denominator, options.ebw, &iteration.update);
    iteration.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    report->iterations.push_back(iteration);
    progress(
        fmt::format("bmmi {}/{}: criterion {:.4f} nats per frame, {:.1f} % of the frames count, {} Gaussians "
                    "updated, {} slowed, {:.1f} s",
                    i, options.iterations, iteration.criterion, 100 * iteration.numerator, iteration.update.updated,
                    iteration.update.slowed, iteration.seconds));
  }
  return model;
}

}  // namespace antiphon::train
