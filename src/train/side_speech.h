// What a side task (adapt/side_task.h) learns from each minibatch: labels of its frames, and for task 'domain' as many
// frames of other speech, or as many chunks, whose senones are not looked at unless the options ask for it.
//
// Which frames of the other speech join a minibatch depends on the minibatch's number in the run alone, so that a run
// that goes on takes the same. Threads: one per worker. Errors: UsageError for options that do not go together;
// InputError for stores and files that do not fit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapt/side_task.h"
#include "data/minibatch_pool.h"
#include "nn/side_targets.h"
#include "parallel/strategy.h"
#include "train/evaluate.h"
#include "train/joined_minibatch.h"

namespace antiphon::train {

/// UsageError for keys that the chosen task, 'none' included, does not take or lacks.
void CheckSideTask(const adapt::SideTaskOptions& options);

class SideSpeech {
 public:
  /// `data` and `seed` as those of the training minibatches, `needed` what an output of the network needs; null phones:
  /// each pdf-id counts as one.
  SideSpeech(const adapt::SideTaskOptions& options, std::shared_ptr<const data::FrameStore> store,
             const data::MinibatchOptions& data, const PhoneMap* phones, uint64_t seed, const TimeContext& needed = {});

  int classes() const { return classes_; }
  /// Minibatches become twice as large.
  bool joins_speech() const { return other_ != nullptr; }
  /// InputError if fewer than two of them are said in `training`, the utterances that are learnt from; empty: all.
  void RequireClassesIn(const std::vector<size_t>& training) const;
  /// Utterances that teach the head nothing.
  int64_t unlabelled() const;
  /// A line for the log: which speech has which labels.
  std::string Describe() const;
  /// What joins is behind the minibatch's own frames or streams; its weight in the senones' loss is `learn`. What
  /// `input` then points to is valid until the next call. `step` counts minibatches over the run and all workers.
  void Join(const data::Minibatch& minibatch, int64_t step, parallel::StepInput& input);
  /// The features and their layout alone, as Join leaves them: for batch statistics.
  ConstMatrixView JoinFeatures(const data::Minibatch& minibatch, int64_t step, nn::ExecContext& context);
  /// What the head tells apart: the speech of each class that it knows, as Probe wants it.
  std::vector<EvaluationData> Kinds() const;
  /// Loss and accuracy of the head in the steps since the last call.
  nn::LossResult TakeSeen();

 private:
  void OpenOther(const data::MinibatchOptions& data, uint64_t seed);
  void RequirePdfIds(const data::FrameStore& other) const;
  void Balance(const data::FrameStore& other, const PhoneMap* phones);
  void ReadLabels(const std::string& file);
  void JoinPdfIds(const data::Minibatch& minibatch, parallel::StepInput& input);
  void LeaveOut(int64_t step);
  void WeighAlike();
  int32_t LabelOf(int64_t frame_id) const;

  adapt::SideTaskOptions options_;
  uint64_t seed_;
  data::Context context_;
  TimeContext needed_;
  std::shared_ptr<const data::FrameStore> store_;
  std::shared_ptr<const data::FrameStore> other_store_;  // null: no other speech
  std::unique_ptr<const data::MinibatchPool> other_;
  data::MinibatchBuffer buffer_;
  JoinedMinibatch joined_;
  int classes_ = 0;
  // Of each pdf-id, the share of its frames that the head sees: of the training speech, of the other. Empty: all.
  std::vector<double> seen_of_own_, seen_of_other_;
  std::vector<int32_t> label_of_utterance_;
  nn::SideTargets targets_;
  nn::LossResult seen_;
  std::vector<int32_t> pdf_ids_;
  std::vector<float> weights_;
};

}  // namespace antiphon::train
