#include "hmm/gmm_passes.h"

#include <algorithm>
#include <cmath>

#include "base/cancel.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "hmm/gmm_fmllr.h"
#include "hmm/gmm_kernels.h"
#include "hmm/lda.h"
#include "hmm/mllt.h"

namespace antiphon::hmm {
namespace {

// Fixed, so that the order of sums does not depend on the number of threads.
constexpr size_t kShards = 16;
constexpr size_t kLargeShards = 4;  // of statistics that take much memory

// Of a speaker's new transform.
struct Outcome {
  bool estimated = false;
  Matrix transform;
  double gain = 0;
  double frames = 0;
  template <class V>
  void VisitFields(V& v) {
    v(estimated);
    v(transform);
    v(gain);
    v(frames);
  }
};

}  // namespace

GmmPasses::GmmPasses(const UtteranceSource& source, const Lexicon& lexicon, bool map_unknown_words, int num_threads,
                     Team& team)
    : source_(source), lexicon_(lexicon), num_threads_(num_threads), team_(team), alignments_(source.size()) {
  for (size_t i = 0; i < source.size(); ++i) {
    words_.push_back(LookUpWords(lexicon, source.Words(i), map_unknown_words));
    if (!words_.back().ids.empty() || source.Words(i).empty()) usable_.push_back(i);
  }
  if (usable_.empty()) throw InputError("no utterance can be used: every transcript has words that the lexicon lacks");
}

template <class Body, class State>
void GmmPasses::ForShards(size_t num_shards, const Body& body, const State& state) const {
  const auto members = static_cast<size_t>(team_.size());
  const auto me = static_cast<size_t>(team_.index());
  ParallelFor((num_shards + members - 1 - me) / members, num_threads_, [&](size_t n) {
    const size_t shard = me + n * members;
    // Every n-th utterance: neighbours of one length or speaker spread out.
    for (size_t k = shard; k < usable_.size(); k += num_shards) {
      ThrowIfCancelled("aligning");
      const size_t i = usable_[k];
      WithContext([&] { body(shard, i); }, [&] { return fmt::format("utterance '{}'", source_.Id(i)); });
    }
  });
  if (members == 1) return;
  Packer packer;
  for (size_t shard = me; shard < num_shards; shard += members) state(packer, shard);
  const std::vector<std::string> all = team_.Exchange(packer.Take(), Spread::kToAll);
  for (size_t member = 0; member < members; ++member) {
    if (member == me) continue;
    Unpacker theirs(all[member]);
    for (size_t shard = member; shard < num_shards; shard += members) state(theirs, shard);
  }
}

template <class V>
void GmmPasses::VisitAlignments(V& v, size_t shard, size_t num_shards) {
  for (size_t k = shard; k < usable_.size(); k += num_shards) v(alignments_[usable_[k]]);
}

Matrix GmmPasses::Frames(const FeatureTransform& transform, size_t utterance, bool adapted) const {
  Matrix frames = transform.Apply(source_.Features(utterance));
  const auto speaker = adapted ? fmllr_.find(source_.Speaker(utterance)) : fmllr_.end();
  if (speaker == fmllr_.end() || frames.rows() == 0) return frames;
  Matrix moved;
  moved.Resize(frames.rows(), frames.cols());
  ApplyAffine(speaker->second, frames, moved);
  return moved;
}

void GmmPasses::GlobalMoments(const FeatureTransform& transform, std::vector<float>* mean,
                              std::vector<float>* variance) const {
  const auto dim = static_cast<size_t>(transform.out_dim());
  std::vector<std::vector<double>> sums(kShards, std::vector<double>(2 * dim + 1, 0.0));
  ForShards(
      kShards,
      [&](size_t shard, size_t i) {
        const Matrix frames = Frames(transform, i);
        std::vector<double>& sum = sums[shard];
        for (int64_t t = 0; t < frames.rows(); ++t) {
          for (size_t d = 0; d < dim; ++d) {
            const auto x = static_cast<double>(frames(t, static_cast<int64_t>(d)));
            sum[d] += x;
            sum[dim + d] += x * x;
          }
          sum[2 * dim] += 1;
        }
      },
      [&](auto& v, size_t shard) { v(sums[shard]); });
  for (size_t s = 1; s < kShards; ++s) {
    for (size_t k = 0; k < sums[0].size(); ++k) sums[0][k] += sums[s][k];
  }
  const double count = sums[0][2 * dim];
  if (count < 1) throw InputError("the utterances have no frames");
  mean->clear();
  variance->clear();
  for (size_t d = 0; d < dim; ++d) {
    const double m = sums[0][d] / count;
    mean->push_back(static_cast<float>(m));
    variance->push_back(static_cast<float>(std::max(sums[0][dim + d] / count - m * m, 1e-3)));
  }
}

int GmmPasses::AlignEquallyAll(const HmmModel& hmm, uint64_t seed) {
  std::vector<int> failed(kShards, 0);
  ForShards(
      kShards,
      [&](size_t shard, size_t i) {
        Rng rng(seed, i);
        const auto num_frames = static_cast<int>(source_.Features(i).rows());
        alignments_[i] = AlignEqually(hmm, lexicon_, words_[i].ids, num_frames, rng).transition_ids;
        failed[shard] += alignments_[i].empty() ? 1 : 0;
      },
      [&](auto& v, size_t shard) {
        v(failed[shard]);
        VisitAlignments(v, shard, kShards);
      });
  int total = 0;
  for (const int f : failed) total += f;
  return total;
}

GmmStats GmmPasses::AlignAndAccumulate(const GmmModel& model, const AlignOptions* align,
                                       std::vector<double>* transition_counts, Counts* counts) {
  std::vector<GmmStats> stats(kShards, GmmStats(model.gmm));
  std::vector<std::vector<double>> transitions(
      kShards, std::vector<double>(static_cast<size_t>(model.hmm.transitions().num_transition_ids()) + 1, 0.0));
  std::vector<Counts> shard_counts(kShards);
  ForShards(
      kShards,
      [&](size_t shard, size_t i) {
        if (align == nullptr && alignments_[i].empty()) return;
        const Matrix frames = Frames(model.transform, i);
        if (frames.rows() == 0) return;
        GmmScorer scorer(model.gmm, frames);
        if (align != nullptr) {
          const Alignment alignment = Align(model.hmm, lexicon_, words_[i].ids, scorer, *align);
          shard_counts[shard].retried += alignment.status == AlignStatus::kRetried ? 1 : 0;
          shard_counts[shard].failed += alignment.ok() ? 0 : 1;
          alignments_[i] = alignment.transition_ids;
        }
        if (alignments_[i].empty()) return;
        stats[shard].Accumulate(model.gmm, frames, scorer.blocks(), model.hmm.ToPdfs(alignments_[i]));
        for (const int32_t id : alignments_[i]) transitions[shard][static_cast<size_t>(id)] += 1;
      },
      [&](auto& v, size_t shard) {
        v(stats[shard]);
        v(transitions[shard]);
        v(shard_counts[shard]);
        if (align != nullptr) VisitAlignments(v, shard, kShards);
      });
  for (size_t s = 1; s < kShards; ++s) {
    stats[0].Add(stats[s]);
    for (size_t k = 0; k < transitions[0].size(); ++k) transitions[0][k] += transitions[s][k];
    shard_counts[0].retried += shard_counts[s].retried;
    shard_counts[0].failed += shard_counts[s].failed;
  }
  *transition_counts = std::move(transitions[0]);
  *counts = shard_counts[0];
  if (stats[0].num_frames() == 0) throw InputError("no utterance could be aligned");
  return std::move(stats[0]);
}

std::vector<Alignment> GmmPasses::AlignAll(const GmmModel& model, const AlignOptions& options) {
  std::vector<Alignment> result(source_.size());
  ForShards(
      kShards,
      [&](size_t, size_t i) {
        const Matrix frames = Frames(model.transform, i);
        GmmScorer scorer(model.gmm, frames);
        if (frames.rows() > 0) {
          result[i] = Align(model.hmm, lexicon_, words_[i].ids, scorer, options);
        } else {
          result[i].status = AlignStatus::kTooShort;
        }
        alignments_[i] = result[i].transition_ids;
      },
      [&](auto& v, size_t shard) {
        for (size_t k = shard; k < usable_.size(); k += kShards) v(result[usable_[k]]);
        VisitAlignments(v, shard, kShards);
      });
  return result;
}

GmmStats GmmPasses::AccumulateFirstPass(const GmmModel& model) {
  std::vector<GmmStats> stats(kShards, GmmStats(model.gmm));
  ForShards(
      kShards,
      [&](size_t shard, size_t i) {
        if (alignments_[i].empty()) return;
        const FrameBlocks blocks(Frames(model.transform, i));
        stats[shard].Accumulate(model.gmm, Frames(model.transform, i, false), blocks, model.hmm.ToPdfs(alignments_[i]));
      },
      [&](auto& v, size_t shard) { v(stats[shard]); });
  for (size_t s = 1; s < kShards; ++s) stats[0].Add(stats[s]);
  return std::move(stats[0]);
}

TreeStats GmmPasses::CollectTreeStats(const HmmModel& hmm, const FeatureTransform& transform) const {
  std::vector<TreeStats> stats(kShards);
  ForShards(
      kShards,
      [&](size_t shard, size_t i) {
        if (!alignments_[i].empty()) AccumulateTreeStats(hmm, alignments_[i], Frames(transform, i), stats[shard]);
      },
      [&](auto& v, size_t shard) { v(stats[shard]); });
  for (size_t s = 1; s < kShards; ++s) AddTreeStats(stats[0], stats[s]);
  return std::move(stats[0]);
}

FeatureTransform GmmPasses::EstimateLda(const HmmModel& hmm, int in_dim, int splice, int lda_dim) const {
  const int dim = in_dim * (2 * splice + 1);
  std::vector<LdaEstimator> estimators(kLargeShards, LdaEstimator(dim, hmm.num_pdfs()));
  ForShards(
      kLargeShards,
      [&](size_t shard, size_t i) {
        if (alignments_[i].empty()) return;
        estimators[shard].Accumulate(SpliceFrames(source_.Features(i), splice, splice),
                                     SpeechPdfs(hmm, alignments_[i]));
      },
      [&](auto& v, size_t shard) { v(estimators[shard]); });
  for (size_t s = 1; s < kLargeShards; ++s) estimators[0].Add(estimators[s]);
  return {splice, splice, estimators[0].Estimate(std::min(lda_dim, dim), false).transform};
}

double GmmPasses::UpdateMllt(GmmModel* model) {
  const GmmSet& gmm = model->gmm;
  const auto dim = static_cast<size_t>(gmm.dim());
  std::vector<MlltEstimator> estimators(kLargeShards, MlltEstimator(gmm.dim(), gmm.num_gaussians()));
  ForShards(
      kLargeShards,
      [&](size_t shard, size_t i) {
        if (alignments_[i].empty()) return;
        const Matrix frames = Frames(model->transform, i);
        const FrameBlocks blocks(frames);
        const std::vector<int32_t> pdfs = model->hmm.ToPdfs(alignments_[i]);
        std::vector<float> posteriors(static_cast<size_t>(gmm.MaxGaussiansPerPdf()) * kFrameBlock);
        std::vector<float> deviation(dim);
        for (size_t t = 0; t < pdfs.size(); ++t) {
          const bool computed = t % kFrameBlock != 0 && pdfs[t] == pdfs[t - 1];
          if (!computed) {
            float log_sums[kFrameBlock];
            gmm.GaussianLogLikelihoods(pdfs[t], blocks.Block(static_cast<int>(t / kFrameBlock)), posteriors.data());
            PosteriorBlock(posteriors.data(), gmm.NumGaussians(pdfs[t]), log_sums);
          }
          for (int g = 0; g < gmm.NumGaussians(pdfs[t]); ++g) {
            const float posterior = posteriors[static_cast<size_t>(g) * kFrameBlock + t % kFrameBlock];
            // Small ones cost time and say little.
            if (posterior < 0.1F) continue;
            const int gaussian = gmm.FirstGaussian(pdfs[t]) + g;
            const auto x = frames.Row(static_cast<int64_t>(t));
            const auto mean = gmm.means().Row(gaussian);
            for (size_t d = 0; d < dim; ++d) deviation[d] = x[d] - mean[d];
            estimators[shard].Accumulate(gaussian, deviation, posterior);
          }
        }
      },
      [&](auto& v, size_t shard) { v(estimators[shard]); });
  for (size_t s = 1; s < kLargeShards; ++s) estimators[0].Add(estimators[s]);
  const MlltEstimator::Result result = estimators[0].Estimate(gmm.inverse_variances());
  model->transform = model->transform.Then(result.transform);
  model->gmm.TransformMeans(result.transform);
  return result.improvement;
}

double GmmPasses::UpdateFmllr(const GmmModel& model, double min_frames) {
  std::map<std::string, std::vector<size_t>> speakers;
  for (const size_t i : usable_) {
    if (!alignments_[i].empty()) speakers[source_.Speaker(i)].push_back(i);
  }
  std::vector<std::string> names;
  std::vector<int64_t> frames_of;
  for (const auto& [speaker, list] : speakers) {
    names.push_back(speaker);
    frames_of.push_back(0);
    for (const size_t i : list) frames_of.back() += std::ssize(alignments_[i]);
  }
  const auto estimate = [&](size_t s) {
    Outcome outcome;
    FmllrEstimator estimator(model.gmm.dim());
    for (const size_t i : speakers.at(names[s])) {
      const Matrix frames = Frames(model.transform, i);
      AccumulateFmllr(model.gmm, frames, frames, SpeechPdfs(model.hmm, alignments_[i]), estimator);
    }
    FmllrEstimator::Result result = estimator.Estimate(min_frames);
    if (!result.estimated) return outcome;
    const auto old = fmllr_.find(names[s]);
    outcome.estimated = true;
    outcome.transform =
        old == fmllr_.end() ? std::move(result.transform) : ComposeAffine(result.transform, old->second);
    outcome.frames = estimator.posterior();
    outcome.gain = result.improvement * outcome.frames;
    return outcome;
  };
  std::vector<Outcome> outcomes(names.size());
  SpreadInOrder<Outcome>(team_, frames_of, num_threads_, Spread::kToAll, estimate,
                         [&](size_t s, Outcome&& outcome) { outcomes[s] = std::move(outcome); });
  double gain = 0;
  double frames = 0;
  for (size_t s = 0; s < outcomes.size(); ++s) {
    Outcome& outcome = outcomes[s];
    if (!outcome.estimated) continue;
    fmllr_[names[s]] = std::move(outcome.transform);
    gain += outcome.gain;
    frames += outcome.frames;
  }
  return frames > 0 ? gain / frames : 0;
}

}  // namespace antiphon::hmm
