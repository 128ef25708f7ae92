// What sequence training says of one utterance: its loss, and the derivative by the network's outputs.
//
// Threads: const methods may run together.
// Errors: InputError for an utterance whose lattice, or whose alignment, does not fit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decode/sequence/sequence_criterion.h"
#include "hmm/hmm_model.h"
#include "math/matrix.h"
#include "train/sequence_data.h"

namespace antiphon::train {

/// By lattices (decode/sequence_criterion.h): scores are logits less log-priors, as in decoding; classes without data
/// do not take part.
class LatticeCriterion {
 public:
  LatticeCriterion(std::shared_ptr<const SequenceData> data, const hmm::HmmModel& hmm,
                   std::span<const float> log_priors, const decode::SequenceCriterionOptions& options);
  bool Has(const std::string& utt_id) const { return data_->Has(utt_id); }
  /// logits [T, pdf-ids] are overwritten; so is gradient of the same shape, unless it is empty.
  double Loss(const std::string& utt_id, MatrixView logits, MatrixView gradient) const;

 private:
  std::shared_ptr<const SequenceData> data_;
  decode::SequenceCriterion criterion_;
  std::vector<float> offsets_;  // from logits to scores
};

}  // namespace antiphon::train
