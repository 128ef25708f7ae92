// Notices that a model is not to be used any more.
//
// With one rank a finding is thrown at once. With several, a strategy that can leave a replica out of the next exchange
// does so; otherwise the finding waits until all ranks look (AgreeOnDivergence), who then throw it at the same place.
// Threads: one. Errors: Diverged.
#pragma once

#include <stdexcept>
#include <string>

#include "comm/communicator.h"
#include "parallel/strategy.h"
#include "train/checkpoint.h"
#include "train/train_options.h"

namespace antiphon::train {

/// A guard fired; the model in memory is not to be used any more. With several ranks it is thrown on all of them at the
/// same place.
class Diverged : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class DivergenceGuard {
 public:
  DivergenceGuard(const GuardOptions& options, comm::Communicator& comm) : options_(options), comm_(comm) {}

  /// What a step of a model with so many outputs reports; keeps the running loss in `position`.
  void Look(const parallel::StepOutput& output, int outputs, parallel::Strategy& strategy, Position& position);
  /// At the values of a model that is to be saved.
  void LookAtValues(std::span<const float> values, parallel::Strategy& strategy);
  /// This rank found something that not all know yet.
  bool found() const { return !found_.empty(); }
  /// Throws on all ranks if the guard of one of them fired, with what the first of these found. Collective.
  void AgreeOnDivergence();

 private:
  std::string Find(const parallel::StepOutput& output, int outputs, double& running_loss) const;

  const GuardOptions& options_;
  comm::Communicator& comm_;
  std::string found_;
};

}  // namespace antiphon::train
