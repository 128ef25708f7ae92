#include "hmm/ivector_background.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "hmm/gmm_training.h"

namespace antiphon::hmm {
namespace {

GmmStats Pass(const GmmSet& gmm, const FrameReader& frames, int threads) {
  GmmStats stats(gmm);
  ParallelInOrder<GmmStats>(
      frames.count, threads,
      [&](size_t i) {
        const Matrix x = frames.get(i);
        GmmStats of_utterance(gmm);
        const std::vector<int32_t> one_mixture(static_cast<size_t>(x.rows()), 0);
        of_utterance.Accumulate(gmm, x, FrameBlocks(x), one_mixture);
        return of_utterance;
      },
      [&](size_t, GmmStats&& of_utterance) { stats.Add(of_utterance); });
  return stats;
}

// One Gaussian for all frames.
GmmSet WholeSpeech(const FrameReader& frames, int threads) {
  if (frames.count == 0) throw InputError("there is no speech to train a background on");
  const Matrix first = frames.get(0);
  const std::vector<float> zeros(static_cast<size_t>(first.cols()), 0.0F), ones(zeros.size(), 1.0F);
  const GmmSet start(1, zeros, ones);
  return Reestimate(start, Pass(start, frames, threads), {});
}

}  // namespace

GmmSet TrainBackground(const FrameReader& frames, const BackgroundOptions& options, uint64_t seed, int threads) {
  GmmSet gmm = WholeSpeech(frames, threads);
  Rng rng(seed);
  for (int size = 1;; size = std::min(2 * size, options.gaussians)) {
    GmmStats stats;
    for (int i = 0; i < options.iterations; ++i) {
      stats = Pass(gmm, frames, threads);
      gmm = Reestimate(gmm, stats, {});
    }
    if (size == options.gaussians) return gmm;
    const int before = gmm.num_gaussians();
    const std::vector<double> occupancy = {stats.num_frames()};
    gmm = MixUp(gmm, occupancy, std::min(2 * size, options.gaussians), 1.0, 20, rng);
    if (gmm.num_gaussians() == before) return gmm;  // too little speech for more
  }
}

}  // namespace antiphon::hmm
