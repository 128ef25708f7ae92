#include "data/feature_source.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/archive.h"
#include "data/script.h"
#include "data/text_table.h"
#include "feat/cmvn.h"
#include "hmm/gmm_model.h"

namespace antiphon::data {

struct FeatureSource::Impl {
  explicit Impl(const FeatureSourceOptions& o) : options(o), features(o.features) {
    if (!options.cmvn.empty()) stats.emplace(options.cmvn);
    if (!options.speaker_model.empty()) transform = hmm::GmmModel::Load(options.speaker_model).transform;
    if (!options.speaker_transforms.empty()) {
      if (!transform) {
        throw UsageError("--speaker-transforms need --speaker-model, the GMM model whose features they change");
      }
      speaker_transforms.emplace(options.speaker_transforms);
    }
    if (!options.speaker_vectors.empty()) speaker_vectors.emplace(options.speaker_vectors);
    if (options.utt2spk.empty()) return;
    std::vector<DataProblem> problems;
    for (TextLine& line : ReadTextTable(options.utt2spk, problems))
      speakers.emplace(std::move(line.key), std::move(line.rest));
    for (const DataProblem& problem : problems) {
      if (problem.fatal) Throw<InputError>("{}: {}", problem.where, problem.what);
    }
  }

  void Normalise(const std::string& utt_id, const std::string& speaker, Matrix& m) const {
    if (!stats) return;
    const std::string& key = stats->Has(speaker) ? speaker : utt_id;
    if (!stats->Has(key)) {
      Throw<InputError>(
          "'{}' has statistics neither for speaker '{}' nor for utterance '{}'; compute them for the same data "
          "directory",
          options.cmvn, speaker, utt_id);
    }
    feat::CmvnStats::FromMatrix(stats->Get(key)).Apply(m, options.norm_vars);
  }

  Matrix Transform(const std::string& speaker, Matrix m) const {
    if (!transform) return m;
    if (!speaker_transforms) return transform->Apply(m);
    if (!speaker_transforms->Has(speaker)) {
      Throw<InputError>("'{}' has no transform of speaker '{}'", options.speaker_transforms, speaker);
    }
    return transform->Then(speaker_transforms->Get(speaker)).Apply(m);
  }

  Matrix WithVector(const std::string& utt_id, const std::string& speaker, Matrix m) const {
    if (!speaker_vectors) return m;
    const std::string& key = speaker_vectors->Has(speaker) ? speaker : utt_id;
    if (!speaker_vectors->Has(key)) {
      Throw<InputError>("'{}' has vectors neither of speaker '{}' nor of utterance '{}'", options.speaker_vectors,
                        speaker, utt_id);
    }
    const std::vector<float> vector = speaker_vectors->Get(key);
    Matrix with(m.rows(), m.cols() + std::ssize(vector));
    for (int64_t r = 0; r < m.rows(); ++r) {
      const auto behind = std::copy_n(m.Row(r).data(), m.cols(), with.Row(r).data());
      std::copy(vector.begin(), vector.end(), behind);
    }
    return with;
  }

  FeatureSourceOptions options;
  RandomAccessReader<Matrix> features;
  std::optional<RandomAccessReader<DoubleMatrix>> stats;
  std::optional<hmm::FeatureTransform> transform;
  std::optional<RandomAccessReader<Matrix>> speaker_transforms;
  std::optional<RandomAccessReader<std::vector<float>>> speaker_vectors;
  std::unordered_map<std::string, std::string> speakers;
};

std::string NormalisationOf(const FeatureSourceOptions& options) {
  if (options.cmvn.empty()) return "none";
  return options.norm_vars ? "mean-variance" : "mean";
}

FeatureSource::FeatureSource(const FeatureSourceOptions& options) : impl_(std::make_unique<Impl>(options)) {}
FeatureSource::~FeatureSource() = default;

const std::vector<std::string>& FeatureSource::keys() const { return impl_->features.keys(); }

bool FeatureSource::Has(std::string_view utt_id) const { return impl_->features.Has(utt_id); }

std::vector<int64_t> FeatureSource::Sizes(const std::vector<std::string>& utterances) const {
  std::vector<int64_t> sizes(utterances.size(), 1);
  const TableName table = ParseTableName(impl_->options.features);
  if (!table.script) return sizes;
  const std::vector<ScriptEntry> entries = ReadScript(table.path);
  const std::vector<int64_t> bytes = StoredBytes(entries);
  std::unordered_map<std::string_view, int64_t> by_key;
  for (size_t i = 0; i < entries.size(); ++i) by_key.emplace(entries[i].key, bytes[i]);
  for (size_t i = 0; i < utterances.size(); ++i) {
    if (const auto it = by_key.find(utterances[i]); it != by_key.end()) sizes[i] = it->second;
  }
  return sizes;
}

Matrix FeatureSource::Get(std::string_view utt_id) const {
  Matrix m = impl_->features.Get(utt_id);
  return WithContext(
      [&] {
        const std::string speaker = Speaker(utt_id);
        impl_->Normalise(std::string(utt_id), speaker, m);
        return impl_->WithVector(std::string(utt_id), speaker, impl_->Transform(speaker, std::move(m)));
      },
      [&] { return fmt::format("'{}', utterance '{}'", impl_->options.features, utt_id); });
}

FeatureKind FeatureSource::kind() const {
  FeatureKind kind;
  kind.front_end = FrontEndBeside(impl_->options.features);
  if (impl_->transform) kind.speaker_space = SpeakerSpace(*impl_->transform);
  kind.normalisation = NormalisationOf(impl_->options);
  if (const auto& vectors = impl_->speaker_vectors) {
    if (vectors->keys().empty()) Throw<InputError>("'{}' has no vectors of speakers", impl_->options.speaker_vectors);
    kind.speaker_vector_dim = static_cast<int>(vectors->Get(vectors->keys().front()).size());
  }
  return kind;
}

std::string FeatureSource::Speaker(std::string_view utt_id) const {
  if (impl_->options.utt2spk.empty()) return std::string(utt_id);
  const auto it = impl_->speakers.find(std::string(utt_id));
  if (it == impl_->speakers.end())
    Throw<InputError>("'{}' does not have utterance '{}'", impl_->options.utt2spk, utt_id);
  return it->second;
}

}  // namespace antiphon::data
