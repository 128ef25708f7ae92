// What a pipeline stage keeps of the minibatches under way, what stages send each other, and how both are saved.
//
// A minibatch is numbered from 0 since the pipeline was last empty. A stage remembers it from its arrival to its
// backward pass there; from its forward pass on it has a workspace. Both live in rings, so that nothing is allocated
// once the pipeline is full. What recurrent layers carry goes on from the workspace of one forward pass to that of the
// next.
// Threads: one. Errors: InputError for a state or a message that does not fit.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "parallel/kept_sequences.h"
#include "parallel/strategy.h"

namespace antiphon::parallel {

struct InFlight {
  nn::ExecContext context;  // its sequences are those below
  KeptSequences sequences;
  double learning_rate = 0;
  std::optional<double> total_weight;
  Matrix features;               // at the lowest stage
  std::vector<int32_t> pdf_ids;  // at the top stage, as are
  std::vector<float> weights;
  nn::LossResult loss;
  double staleness = 0;        // updates that the forward pass missed
  ConstMatrixView derivative;  // of this stage's output

  nn::LossTargets targets() const;
};

class FlightDeck {
 public:
  /// Rings for minibatches that have arrived, and for those that have gone forward.
  void SetSizes(size_t arrived, size_t forwarded);
  void Accept(const StepInput& input, int64_t minibatch, bool keep_features, bool keep_targets);

  InFlight& at(int64_t minibatch) { return arrived_[static_cast<size_t>(minibatch) % arrived_.size()]; }
  const InFlight& at(int64_t minibatch) const { return arrived_[static_cast<size_t>(minibatch) % arrived_.size()]; }
  /// Input from the stage below.
  Matrix& input(int64_t minibatch) { return inputs_[SlotOf(minibatch)]; }
  nn::Workspace& workspace(int64_t minibatch) { return workspaces_[SlotOf(minibatch)]; }
  /// The same for its forward pass: with the states that the last forward pass here left.
  nn::Workspace& BeginForward(int64_t minibatch);

  /// Minibatches [next − ring, next), of which those below `forward_done` have gone forward, and carried states.
  void Save(SafetensorsWriter& writer, const std::string& prefix, int64_t forward_done, int64_t next) const;
  /// `forward(minibatch)` runs a forward pass, whose values are then replaced by the stored ones.
  void Load(const SafetensorsReader& reader, const std::string& prefix, const std::function<void(int64_t)>& forward);

 private:
  size_t SlotOf(int64_t minibatch) const { return static_cast<size_t>(minibatch) % inputs_.size(); }

  std::vector<InFlight> arrived_;
  std::vector<Matrix> inputs_;
  std::vector<nn::Workspace> workspaces_;
  size_t newest_ = 0;  // of the workspaces: it has the states
};

/// Stands before the values of a message between stages.
struct PassageHeader {
  int64_t minibatch = 0;
  nn::LossResult loss;      // downwards
  double change_scale = 1;  // smallest StepReport::max_change_scale of the stages above, downwards
};

std::vector<std::byte> PackPassage(const PassageHeader& header, ConstMatrixView values);
PassageHeader UnpackPassage(const std::vector<std::byte>& bytes, Matrix& values);

/// The rest of a stage's state.
struct PipelineState {
  int64_t next = 0;
  int64_t updates = 0;
  std::vector<std::vector<std::byte>> activations;  // received, but not yet used
  std::vector<std::vector<std::byte>> derivatives;

  void Save(SafetensorsWriter& writer, const std::string& prefix) const;
  static PipelineState Load(const SafetensorsReader& reader, const std::string& prefix);
};

}  // namespace antiphon::parallel
