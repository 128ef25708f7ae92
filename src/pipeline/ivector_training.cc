#include "pipeline/ivector_training.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "data/archive.h"
#include "data/file_checksums.h"
#include "hmm/lda.h"

namespace antiphon::pipeline {
namespace {

// LDA's sums are large: a fixed number of them, so that their order does not depend on the number of threads.
constexpr size_t kShards = 8;

using Alignment = data::RandomAccessReader<std::vector<int32_t>>;

int NumClasses(const Alignment& alignment, const std::vector<std::string>& keys) {
  int32_t most = -1;
  for (const std::string& key : keys) {
    for (const int32_t pdf_id : alignment.Get(key)) most = std::max(most, pdf_id);
  }
  return most + 1;
}

// Features of the utterances, which need as many values per frame as one another. Those without frames tell nothing.
class EqualFeatures {
 public:
  EqualFeatures(const data::FeatureSource& features, const std::string& table) : features_(features), table_(table) {
    for (const std::string& key : features.keys()) {
      const Matrix x = features.Get(key);
      if (x.rows() == 0) continue;
      first_ = key;
      dim_ = x.cols();
      return;
    }
    Throw<InputError>("none of the {} utterances of '{}' has a frame: there is no speech to train an extractor on",
                      features.keys().size(), table);
  }

  const std::vector<std::string>& keys() const { return features_.keys(); }
  int64_t dim() const { return dim_; }

  /// [frames, dim()]
  Matrix Get(const std::string& utt_id) const {
    Matrix x = features_.Get(utt_id);
    if (x.rows() == 0) return Matrix(0, dim_);
    if (x.cols() != dim_) {
      Throw<InputError>("'{}', utterance '{}': {} features per frame, but utterance '{}' has {}", table_, utt_id,
                        x.cols(), first_, dim_);
    }
    return x;
  }

 private:
  const data::FeatureSource& features_;
  const std::string& table_;
  std::string first_;  // utterance with frames
  int64_t dim_ = 0;
};

hmm::FeatureTransform LdaTransform(const IvectorTrainingOptions& options, const EqualFeatures& features, int threads) {
  data::RequireTableAsWritten(options.alignment);
  const Alignment alignment(options.alignment);
  std::vector<std::string> keys;
  for (const std::string& key : features.keys()) {
    if (alignment.Has(key)) keys.push_back(key);
  }
  if (keys.empty()) Throw<InputError>("'{}' has none of the utterances", options.alignment);
  const int classes = NumClasses(alignment, keys);
  const int64_t spliced = features.dim() * (2 * options.lda_context + 1);
  if (options.lda_dim > spliced) {
    Throw<UsageError>("--lda-dim {} of features that have {} dimensions with their context", options.lda_dim, spliced);
  }
  std::vector<hmm::LdaEstimator> shards(kShards, hmm::LdaEstimator(spliced, classes));
  ParallelFor(kShards, threads, [&](size_t shard) {
    for (size_t i = shard; i < keys.size(); i += kShards) {
      const Matrix frames = features.Get(keys[i]);
      const std::vector<int32_t> pdf_ids = alignment.Get(keys[i]);
      if (std::ssize(pdf_ids) != frames.rows()) {
        Throw<InputError>("'{}', utterance '{}': {} pdf-ids for {} frames", options.alignment, keys[i], pdf_ids.size(),
                          frames.rows());
      }
      shards[shard].Accumulate(hmm::SpliceFrames(frames, options.lda_context, options.lda_context), pdf_ids);
    }
  });
  for (size_t shard = 1; shard < kShards; ++shard) shards[0].Add(shards[shard]);
  return {options.lda_context, options.lda_context, shards[0].Estimate(options.lda_dim, /*center=*/true).transform};
}

}  // namespace

hmm::IvectorStats Collect(const hmm::IvectorExtractor& extractor, const data::FeatureSource& features,
                          const IvectorSpeaker& speaker) {
  hmm::IvectorStats stats = extractor.NoSpeech();
  for (const std::string& utt_id : speaker.utterances) {
    stats.Add(WithContext([&] { return extractor.Collect(features.Get(utt_id)); },
                          [&] { return fmt::format("utterance '{}'", utt_id); }));
  }
  return stats;
}

TrainedExtractor TrainExtractor(const IvectorTrainingOptions& options, const data::FeatureSource& features,
                                const std::string& table, const std::vector<IvectorSpeaker>& speakers, uint64_t seed,
                                int threads) {
  const EqualFeatures equal(features, table);
  hmm::FeatureTransform transform;
  if (!options.alignment.empty()) transform = LdaTransform(options, equal, threads);
  const std::vector<std::string>& keys = features.keys();
  const hmm::FrameReader frames{keys.size(), [&](size_t i) {
                                  Matrix x = equal.Get(keys[i]);
                                  return transform.out_dim() > 0 ? transform.Apply(x) : x;
                                }};
  TrainedExtractor trained{{hmm::TrainBackground(frames, options.background, seed, threads), options.dim, seed,
                            options.use, transform, options.prior_offset}};
  const hmm::SpeakerReader reader{speakers.size(),
                                  [&](size_t i) { return Collect(trained.extractor, features, speakers[i]); }};
  for (int i = 0; i < options.iterations; ++i) {
    trained.gain =
        trained.extractor.Improve(reader, options.use.posterior_scale, threads) / static_cast<double>(speakers.size());
    log::Info("iteration {}: {:.3f} nats per vector over none", i + 1, trained.gain);
  }
  return trained;
}

}  // namespace antiphon::pipeline
