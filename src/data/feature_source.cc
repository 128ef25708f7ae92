#include "data/feature_source.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "data/archive.h"
#include "data/feature_parts.h"
#include "data/file_checksums.h"
#include "data/script.h"
#include "data/speaker_vectors.h"
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
      RequireTableAsWritten(options.speaker_transforms);
      speaker_transforms.emplace(options.speaker_transforms);
    }
    if (!options.speaker_vectors.empty()) speaker_vectors.emplace(options.speaker_vectors);
    if (!options.parts.empty()) {
      parts.emplace(options.parts);
      for (const auto& [utt_id, entry] : parts->entries()) keys.push_back(utt_id);
      if (!keys.empty()) part_dim = parts->Get(keys.front(), 0).cols();
    }
    const auto middle = static_cast<std::ptrdiff_t>(keys.size());
    keys.insert(keys.end(), features.keys().begin(), features.keys().end());
    // Both tables are in the order of their names if they were computed together.
    if (parts) std::inplace_merge(keys.begin(), keys.begin() + middle, keys.end());
    if (!options.zeros.empty()) ReadZeros();
    if (options.utt2spk.empty()) return;
    std::vector<DataProblem> problems;
    for (TextLine& line : ReadTextTable(options.utt2spk, problems))
      speakers.emplace(std::move(line.key), std::move(line.rest));
    for (const DataProblem& problem : problems) {
      if (problem.fatal) Throw<InputError>("{}: {}", problem.where, problem.what);
    }
  }

  void ReadZeros() {
    std::vector<DataProblem> problems;
    for (const TextLine& line : ReadTextTable(options.zeros, problems)) {
      std::istringstream times(line.rest);
      for (double begin = 0, end = 0; times >> begin >> end;) zeros[line.key].emplace_back(begin, end);
      if (!times.eof())
        Throw<InputError>("{}, utterance '{}': expected times in seconds, found '{}'", options.zeros, line.key,
                          line.rest);
    }
    for (const DataProblem& problem : problems) {
      if (problem.fatal) Throw<InputError>("{}: {}", problem.where, problem.what);
    }
  }

  bool InParts(std::string_view utt_id) const { return parts && parts->Find(utt_id) != nullptr; }

  Matrix NormalisedPart(const std::string& utt_id, const std::string& speaker, int64_t part) const {
    Matrix m = parts->Get(utt_id, part);
    Normalise(utt_id, speaker, m);
    return m;
  }

  // The part's rows of the transform of all.
  Matrix TransformedPart(const std::string& utt_id, const std::string& speaker, int64_t part) const {
    const Matrix m = NormalisedPart(utt_id, speaker, part);
    if (!transform) return m;
    const int64_t last = parts->Find(utt_id)->parts - 1;
    std::vector<Matrix> rows;  // of the part before, this one, the one behind
    const auto keep = [&](const Matrix& from, int64_t first, int64_t count) {
      rows.emplace_back(from.view().Rows(first, count));
    };
    int64_t before = 0;
    if (part > 0 && transform->left() > 0) {
      const Matrix left = NormalisedPart(utt_id, speaker, part - 1);
      before = std::min<int64_t>(transform->left(), left.rows());
      keep(left, left.rows() - before, before);
    }
    keep(m, 0, m.rows());
    if (part < last && transform->right() > 0) {
      const Matrix right = NormalisedPart(utt_id, speaker, part + 1);
      keep(right, 0, std::min<int64_t>(transform->right(), right.rows()));
    }
    int64_t count = 0;
    for (const Matrix& some : rows) count += some.rows();
    Matrix joined(count, m.cols());
    float* to = joined.data();
    for (const Matrix& some : rows) to = std::copy_n(some.data(), some.size(), to);
    const Matrix out = Transform(speaker, std::move(joined));
    return Matrix(out.view().Rows(before, m.rows()));
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

  bool IsUnknown(std::string_view utt_id) const {
    constexpr double kLargest = 18446744073709551616.0;  // of a checksum
    return options.unknown_speakers > 0 && static_cast<double>(Checksum(utt_id)) < options.unknown_speakers * kLargest;
  }

  // As if nothing else had been heard of who speaks.
  Matrix OfUnknown(Matrix m) const {
    if (stats && m.rows() > 0) feat::NormalizeUtterance(m, options.norm_vars);
    if (!transform) return m;
    return transform->Apply(m);
  }

  Matrix Transform(const std::string& speaker, Matrix m) const {
    if (!transform) return m;
    if (!speaker_transforms) return transform->Apply(m);
    if (!speaker_transforms->Has(speaker)) {
      Throw<InputError>("'{}' has no transform of speaker '{}'", options.speaker_transforms, speaker);
    }
    return transform->Then(speaker_transforms->Get(speaker)).Apply(m);
  }

  Matrix WithVector(const std::string& utt_id, const std::string& speaker, Matrix m, int64_t first_frame = 0) const {
    if (!speaker_vectors) return m;
    return speaker_vectors->Behind(utt_id, speaker, m, first_frame);
  }

  FeatureSourceOptions options;
  RandomAccessReader<Matrix> features;
  std::optional<RandomAccessReader<DoubleMatrix>> stats;
  std::optional<hmm::FeatureTransform> transform;
  std::optional<RandomAccessReader<Matrix>> speaker_transforms;
  std::optional<SpeakerVectors> speaker_vectors;
  std::unordered_map<std::string, std::string> speakers;
  std::optional<FeatureParts> parts;
  int64_t part_dim = 1;  // values of a frame of these
  std::vector<std::string> keys;
  std::unordered_map<std::string, std::vector<std::pair<double, double>>> zeros;
};

std::string NormalisationOf(const FeatureSourceOptions& options) {
  if (options.cmvn.empty()) return "none";
  return options.norm_vars ? "mean-variance" : "mean";
}

FeatureSource::FeatureSource(const FeatureSourceOptions& options) : impl_(std::make_unique<Impl>(options)) {}
FeatureSource::~FeatureSource() = default;

const std::vector<std::string>& FeatureSource::keys() const { return impl_->keys; }

bool FeatureSource::Has(std::string_view utt_id) const { return impl_->features.Has(utt_id) || impl_->InParts(utt_id); }

int64_t FeatureSource::NumParts(std::string_view utt_id) const {
  return impl_->InParts(utt_id) ? impl_->parts->Find(utt_id)->parts : 1;
}

int64_t FeatureSource::NumFrames(std::string_view utt_id) const {
  return impl_->InParts(utt_id) ? impl_->parts->Find(utt_id)->frames : -1;
}

Matrix FeatureSource::GetPart(std::string_view utt_id, int64_t part) const {
  if (!impl_->InParts(utt_id)) return Get(utt_id);
  return WithContext(
      [&] {
        const std::string name(utt_id), speaker = Speaker(utt_id);
        // All parts but the last have as many frames.
        return impl_->WithVector(name, speaker, impl_->TransformedPart(name, speaker, part), part * kPartFrames);
      },
      [&] { return fmt::format("'{}', utterance '{}'", impl_->options.parts, utt_id); });
}

feat::ZeroSpans FeatureSource::Zeros(std::string_view utt_id) const {
  const auto found = impl_->zeros.find(std::string(utt_id));
  return feat::ZeroSpans(found == impl_->zeros.end() ? std::vector<std::pair<double, double>>() : found->second);
}

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
    // A byte per value, as these tables are coded.
    if (impl_->InParts(utterances[i])) sizes[i] = impl_->parts->Find(utterances[i])->frames * impl_->part_dim;
  }
  return sizes;
}

Matrix FeatureSource::Get(std::string_view utt_id) const {
  if (impl_->InParts(utt_id)) {
    Matrix whole;
    int64_t rows = 0;
    for (int64_t part = 0; part < NumParts(utt_id); ++part) {
      const Matrix some = GetPart(utt_id, part);
      if (part == 0) whole.Resize(NumFrames(utt_id), some.cols());
      std::copy_n(some.data(), some.size(), whole.Row(rows).data());
      rows += some.rows();
    }
    return whole;
  }
  Matrix m = impl_->features.Get(utt_id);
  return WithContext(
      [&] {
        const std::string speaker = Speaker(utt_id);
        if (impl_->IsUnknown(utt_id)) {
          return impl_->WithVector(std::string(utt_id), speaker, impl_->OfUnknown(std::move(m)));
        }
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
    kind.speaker_vector_dim = vectors->dim();
    kind.speaker_vectors = vectors->kind().extractor;
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
