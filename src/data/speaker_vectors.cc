#include "data/speaker_vectors.h"

#include <algorithm>
#include <vector>

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/options.h"
#include "base/toml_text.h"
#include "data/script.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "ivectors.toml";

struct KindFile {
  int period = 0;
  std::string extractor;
  template <class V>
  void Visit(V& v) {
    v("period", period, Range{1, 1 << 20}, "frames per vector");
    v("extractor", extractor, "checksum of the extractor's file");
  }
};

}  // namespace

SpeakerVectorKind ReadSpeakerVectorKind(const std::string& table) {
  const fs::path file = fs::path(ParseTableName(table).path).parent_path() / kFile;
  if (!fs::exists(file)) return {};
  try {
    const auto kind = ReadOptions<KindFile>(Config::Load(file));
    if (kind.period == 0) Throw<InputError>("'{}' does not say how many frames a vector is for", file.string());
    return {kind.period, kind.extractor};
  } catch (const UsageError& e) {
    throw InputError(e.what());
  }
}

void WriteSpeakerVectorKind(const SpeakerVectorKind& kind, const fs::path& folder) {
  WriteFileAtomically(folder / kFile,
                      fmt::format("period = {}\nextractor = {}\n", kind.period, TomlString(kind.extractor)));
}

SpeakerVectors::SpeakerVectors(const std::string& table) : table_(table), kind_(ReadSpeakerVectorKind(table)) {
  if (kind_.period > 0) {
    matrices_.emplace(table);
  } else {
    vectors_.emplace(table);
  }
}

int SpeakerVectors::dim() const {
  const std::vector<std::string>& keys = vectors_ ? vectors_->keys() : matrices_->keys();
  if (keys.empty()) Throw<InputError>("'{}' has no vectors of speakers", table_);
  return static_cast<int>(vectors_ ? std::ssize(vectors_->Get(keys.front())) : matrices_->Get(keys.front()).cols());
}

Matrix SpeakerVectors::Rows(const std::string& utt_id, const std::string& speaker) const {
  if (matrices_) {
    if (!matrices_->Has(utt_id)) Throw<InputError>("'{}' has no vectors of utterance '{}'", table_, utt_id);
    return matrices_->Get(utt_id);
  }
  const std::string& key = vectors_->Has(speaker) ? speaker : utt_id;
  if (!vectors_->Has(key)) {
    Throw<InputError>("'{}' has vectors neither of speaker '{}' nor of utterance '{}'", table_, speaker, utt_id);
  }
  const std::vector<float> vector = vectors_->Get(key);
  Matrix rows(1, std::ssize(vector));
  std::ranges::copy(vector, rows.data());
  return rows;
}

Matrix SpeakerVectors::Behind(const std::string& utt_id, const std::string& speaker, const Matrix& frames,
                              int64_t first_frame) const {
  const Matrix rows = Rows(utt_id, speaker);
  const int64_t period = kind_.period;
  if (period > 0 && frames.rows() > 0 && (first_frame + frames.rows() - 1) / period >= rows.rows()) {
    Throw<InputError>("'{}' has {} vectors of utterance '{}', each for {} frames, but it has {} frames or more", table_,
                      rows.rows(), utt_id, period, first_frame + frames.rows());
  }
  Matrix with(frames.rows(), frames.cols() + rows.cols());
  for (int64_t r = 0; r < frames.rows(); ++r) {
    const int64_t row = period > 0 ? (first_frame + r) / period : 0;
    float* const behind = std::copy_n(frames.Row(r).data(), frames.cols(), with.Row(r).data());
    std::copy_n(rows.Row(row).data(), rows.cols(), behind);
  }
  return with;
}

}  // namespace antiphon::data
