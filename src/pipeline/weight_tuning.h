// Weights chosen on the data that a decoding recognises (`--tune`): it keeps the lattices and weighs them anew.
//
// Threads: Errors may run together; the rest belongs to one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "decode/lattice/lattice.h"
#include "decode/lattice/weight_search.h"
#include "pipeline/chosen_weights.h"
#include "pipeline/decode_references.h"
#include "pipeline/decode_report.h"

namespace antiphon::pipeline {

class WeightTuning {
 public:
  /// `references` must outlive this.
  WeightTuning(const decode::WeightSearchOptions& options, double acoustic_scale, const DecodeReferences& references)
      : search_(options, acoustic_scale), references_(references) {}

  /// Whether the utterance says something about the weights; without a transcript it does not.
  bool Counts(const std::string& utt_id) const { return references_.Has(utt_id); }
  /// What the search needs of a lattice: words and costs.
  static decode::Lattice Needed(const decode::Lattice& lattice);
  /// Word errors of an utterance that counts, with the lattices of its pieces, for each pair of weights.
  std::vector<int64_t> Errors(const std::string& utt_id, std::span<const decode::Lattice> pieces) const;
  /// An utterance that counts, with its errors, and its contrast; NaN: not known.
  void Add(const std::string& utt_id, std::span<const int64_t> errors, std::vector<decode::Lattice>&& pieces,
           double contrast);
  /// Tries further weights while the best of those tried stands at the end of its list, then whether the fewest
  /// expected errors find better words than the likeliest path, and writes the best into OUT/weights.toml.
  TunedWeights Choose(const std::filesystem::path& out, int num_threads);

 private:
  // Word errors of all utterances.
  int64_t ErrorsWith(const ChosenWeights& weights, int num_threads) const;
  // The median; 0 if none is known.
  double UsualContrast() const;

  decode::WeightSearch search_;
  const DecodeReferences& references_;
  std::vector<std::string> utterances_;                 // that were added
  std::vector<std::vector<decode::Lattice>> lattices_;  // by these
  std::vector<double> contrasts_;                       // that are known
};

}  // namespace antiphon::pipeline
