// What the ranks measure of their common model together: the held-out loss, log-priors, statistics of batch
// normalisation, and how well an auxiliary task's classes can still be told apart.
//
// Threads: one. Errors: those of the communicator and of the stores.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "nn/workspace.h"
#include "train/evaluate.h"
#include "train/model_replica.h"
#include "train/run_data.h"

namespace antiphon::train {

class ReplicaEvaluation {
 public:
  ReplicaEvaluation(const TrainingTask& task, const TrainOptions& options, comm::Communicator& comm,
                    const RunData& data, ModelReplica& replica)
      : task_(task), options_(options), comm_(comm), data_(data), replica_(replica) {}

  /// Loss on the held-out set, the same on all ranks. The final one takes all frames and counts confusions.
  EvaluationResult HeldOut(bool final);
  /// Collective; rank 0 gets them.
  std::vector<float> LogPriors();
  /// Gathers batch-normalisation statistics anew from about so many training frames of all, in the order of `epoch`.
  void RefreshStatistics(int64_t epoch, int64_t frames_of_all);
  /// How well the auxiliary task's classes can still be told apart; nothing without one. On one rank.
  void ProbeSideTask(TrainingSummary& summary) const;

 private:
  EvaluationData ToEvaluate(std::shared_ptr<const data::FrameStore> store, std::vector<size_t> utterances) const;
  EvaluationResult EvaluateTogether(EvaluationData data, const EvaluationRequest& request);
  EvaluationResult EvaluateShare(const EvaluationData& data, const EvaluationRequest& request);
  std::vector<float> MeanPosteriors();
  void RefreshStatisticsTogether(int64_t epoch, int64_t frames_of_all);

  const TrainingTask& task_;
  const TrainOptions& options_;
  comm::Communicator& comm_;
  const RunData& data_;
  ModelReplica& replica_;
  nn::Workspace workspace_;  // the strategy has its own
};

}  // namespace antiphon::train
