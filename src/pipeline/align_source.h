// The utterances of a data directory with their features, as alignment and GMM training read them.
//
// Features are kept in memory up to a budget, and read from their table again and again beyond it.
// Threads: const methods may run together. Errors: InputError naming files and utterances.
#pragma once

#include <string>
#include <vector>

#include "data/feature_source.h"
#include "hmm/utterance_source.h"

namespace antiphon::pipeline {

/// Names the tables that are in `data`, where none are named, and the zeros beside the features. UsageError if there
/// are no features at all.
data::FeatureSourceOptions FindTables(const std::string& data, data::FeatureSourceOptions tables);

class AlignSource : public hmm::UtteranceSource {
 public:
  /// `data` holds text and utt2spk; tables that it holds too (feats.scp, cmvn.scp) need not be named.
  AlignSource(const std::string& data, data::FeatureSourceOptions tables, double memory_mb, int num_threads);

  size_t size() const override { return ids_.size(); }
  const std::string& Id(size_t i) const override { return ids_[i]; }
  const std::string& Speaker(size_t i) const override { return speakers_[i]; }
  const std::vector<std::string>& Words(size_t i) const override { return words_[i]; }
  Matrix Features(size_t i) const override;
  /// Where the audio is nothing but zeros, as far as that is known.
  feat::ZeroSpans Zeros(size_t i) const { return features_.Zeros(ids_[i]); }
  /// Measures of the utterances' lengths.
  std::vector<int64_t> Sizes() const { return features_.Sizes(ids_); }

  /// Utterances with a transcript but without features.
  const std::vector<std::string>& without_features() const { return without_features_; }
  const std::string& feature_table() const { return feature_table_; }
  /// The front end's description beside the feature table, "" if there is none.
  const std::string& front_end() const { return front_end_; }
  double frame_shift_s() const { return frame_shift_s_; }

 private:
  data::FeatureSource features_;
  std::vector<std::string> ids_;
  std::vector<std::string> speakers_;
  std::vector<std::vector<std::string>> words_;
  std::vector<std::string> without_features_;
  std::vector<Matrix> kept_;
  std::string feature_table_;
  std::string front_end_;
  double frame_shift_s_ = 0.01;
};

}  // namespace antiphon::pipeline
