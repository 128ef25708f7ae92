#include "pipeline/align_source.h"

#include <atomic>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "score/transcript.h"

namespace antiphon::pipeline {

namespace fs = std::filesystem;

data::FeatureSourceOptions FindTables(const std::string& data, data::FeatureSourceOptions tables) {
  const auto beside = [&](std::string& path, const char* name) {
    if (path.empty() && fs::exists(fs::path(data) / name)) path = (fs::path(data) / name).string();
  };
  if (tables.features.empty()) beside(tables.cmvn, "cmvn.scp");
  beside(tables.features, "feats.scp");
  beside(tables.utt2spk, "utt2spk");
  if (tables.features.empty())
    Throw<UsageError>("there is no feats.scp in '{}': make it with antiphon features, or name one with --features",
                      data);
  tables.zeros = data::ZerosBeside(tables.features);
  return tables;
}

AlignSource::AlignSource(const std::string& data, data::FeatureSourceOptions tables, double memory_mb, int num_threads)
    : features_(tables = FindTables(data, std::move(tables))), feature_table_(tables.features) {
  const score::Transcripts text = score::ReadTranscripts(fs::path(data) / "text");
  for (const auto& [utt_id, words] : text.words) {
    if (!features_.Has(utt_id)) {
      without_features_.push_back(utt_id);
      continue;
    }
    ids_.push_back(utt_id);
    speakers_.push_back(features_.Speaker(utt_id));
    words_.push_back(words);
  }
  if (ids_.empty())
    Throw<InputError>("none of the {} utterances of '{}' has features in '{}'", text.words.size(), data,
                      tables.features);
  front_end_ = data::FrontEndBeside(tables.features);
  frame_shift_s_ = Config::Parse(front_end_, tables.features).Real("frame-shift-ms").value_or(10.0) / 1000;
  kept_.resize(ids_.size());
  std::atomic<int64_t> budget{static_cast<int64_t>(memory_mb * 1e6)};
  ParallelFor(ids_.size(), num_threads, [&](size_t i) {
    if (budget.load() <= 0) return;
    kept_[i] = features_.Get(ids_[i]);
    budget.fetch_sub(kept_[i].size() * static_cast<int64_t>(sizeof(float)));
  });
}

Matrix AlignSource::Features(size_t i) const { return kept_[i].rows() > 0 ? kept_[i] : features_.Get(ids_[i]); }

}  // namespace antiphon::pipeline
