// What sequence training says of one utterance: its loss, and the derivative by the network's outputs.
//
// Threads: const methods may run together.
// Errors: InputError for an utterance whose lattice, or whose alignment, does not fit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/denominator.h"
#include "decode/lattice_free.h"
#include "decode/sequence_criterion.h"
#include "hmm/hmm_model.h"
#include "math/matrix.h"
#include "train/sequence_data.h"

namespace antiphon::train {

class UtteranceCriterion {
 public:
  virtual ~UtteranceCriterion() = default;
  /// Whether there is all that the utterance needs.
  virtual bool Has(const std::string& utt_id) const = 0;
  /// logits [T, pdf-ids] (may be overwritten); gradient of the same shape is overwritten, unless it is empty; pdf_ids
  /// is the store's alignment. Nothing, and a gradient of 0, for an utterance that cannot be learned from: it is left
  /// out.
  virtual std::optional<double> Loss(const std::string& utt_id, std::span<const int32_t> pdf_ids, MatrixView logits,
                                     MatrixView gradient) const = 0;
};

/// By lattices (decode/sequence_criterion.h): scores are logits less log-priors, as in decoding; classes without data
/// do not take part.
class LatticeCriterion : public UtteranceCriterion {
 public:
  LatticeCriterion(std::shared_ptr<const SequenceData> data, const hmm::HmmModel& hmm,
                   std::span<const float> log_priors, const decode::SequenceCriterionOptions& options);
  bool Has(const std::string& utt_id) const override { return data_->Has(utt_id); }
  std::optional<double> Loss(const std::string& utt_id, std::span<const int32_t> pdf_ids, MatrixView logits,
                             MatrixView gradient) const override;

 private:
  std::shared_ptr<const SequenceData> data_;
  decode::SequenceCriterion criterion_;
  std::vector<float> offsets_;  // from logits to scores
};

/// Without lattices (decode/lattice_free.h): scores are the logits, the reference is the store's alignment. One that
/// the graph does not have is left out, which the log says.
class LatticeFreeCriterion : public UtteranceCriterion {
 public:
  LatticeFreeCriterion(decode::DenominatorGraph graph, const decode::LatticeFreeOptions& options)
      : graph_(std::move(graph)), options_(options) {}
  bool Has(const std::string&) const override { return true; }
  std::optional<double> Loss(const std::string& utt_id, std::span<const int32_t> pdf_ids, MatrixView logits,
                             MatrixView gradient) const override;
  /// Utterances that were left out so far.
  size_t num_left_out() const;

 private:
  void NoteLeftOut(const std::string& utt_id) const;

  decode::DenominatorGraph graph_;
  decode::LatticeFreeOptions options_;
  mutable std::mutex mutex_;                // of left_out_
  mutable std::set<std::string> left_out_;  // each counts once, in whatever epoch
};

}  // namespace antiphon::train
