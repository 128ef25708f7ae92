// A minibatch that a worker keeps for itself: samples of Hessian-free training, frames that averaged models are
// compared on.
//
// Everything that the minibatch only lends is copied: features, targets, how rows follow one another in time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/kept_sequences.h"
#include "parallel/strategy.h"

namespace antiphon::parallel {

struct KeptMinibatch {
  explicit KeptMinibatch(const StepInput& input);
  KeptMinibatch(const SafetensorsReader& reader, const std::string& prefix);
  KeptMinibatch(KeptMinibatch&&) = default;
  KeptMinibatch& operator=(KeptMinibatch&&) = default;

  /// Keeps what recurrent layers of `workspace` carry into the minibatch, before its forward pass.
  void KeepStates(const nn::Workspace& workspace);

  void Save(SafetensorsWriter& writer, const std::string& prefix) const;
  /// `sequence`: the criterion, if the minibatch is of sequence training; its next Compute is of this minibatch.
  nn::LossTargets targets(nn::SequenceLoss* sequence = nullptr) const;
  /// Null: frames that stand alone.
  const SequenceLayout* sequences() const { return kept_sequences.layout(); }
  /// Outputs that have a target, or a teacher's distribution.
  int64_t num_targets() const;
  /// Σ of the frames' weights.
  double weight() const;

  Matrix features;
  std::vector<int32_t> pdf_ids;
  std::vector<float> weights;  // empty: all 1
  Matrix soft;                 // as nn::LossTargets::soft; no rows: no teacher
  double soft_weight = 1;
  double temperature = 1;
  int heads = 1;
  std::vector<int64_t> sequence_rows;  // as nn::SequenceLoss::Rows; empty: training by frames
  std::vector<std::byte> states;       // as nn::Workspace::States; empty: all streams begin
  KeptSequences kept_sequences;
};

}  // namespace antiphon::parallel
