// What a network is to say of a minibatch's frames: the alignment's pdf-ids, of several frames for a network of several
// heads, and a teacher's posteriors.
//
// A teacher is another network, or the mean of several networks' posteriors, that sees the same frames; its posteriors
// are taken at the temperature of the loss. Its context may be narrower than the student's, and its features must be
// the same. Or its posteriors were stored (train/soft_targets.h): then it may see whatever it likes, be recurrent, and
// teach a recurrent network, and a network of several heads learns those of each head's frame. A store without
// alignment (FrameStore::labelled) takes a teacher alone. Shapes: as nn::LossTargets. Head k of the window around frame
// t is for frame t + first_offset + k; beyond an utterance's ends, its first or last frame's pdf-id is repeated, as
// features are. Threads: a TargetMaker belongs to one; teachers may be shared. Errors: UsageError for teachers that do
// not fit the student or the store. Source: Hinton, Vinyals, Dean 2015; Vanhoucke, Devin, Heigold, Multiframe deep
// neural networks for acoustic modeling, ICASSP 2013.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "data/minibatch_pool.h"
#include "nn/loss.h"
#include "nn/model.h"
#include "train/sequence_loss.h"
#include "train/train_options.h"

namespace antiphon::train {

struct Heads {
  int count = 1;
  int first_offset = 0;
};

class SoftTargets;

/// UsageError unless the teacher reads the store's features and knows its pdf-ids.
void RequireSameTask(const nn::Model& teacher, const data::FrameStore& store);

/// The utterance of a frame id (data::Minibatch::frame_ids).
size_t UtteranceOfFrame(const data::FrameStore& store, int64_t frame_id);

using Teachers = std::vector<std::shared_ptr<const nn::Model>>;

class TargetMaker {
 public:
  TargetMaker(std::shared_ptr<const data::FrameStore> store, const Heads& heads)
      : store_(std::move(store)), heads_(heads) {}
  /// `context` is the student's.
  TargetMaker(std::shared_ptr<const data::FrameStore> store, const Heads& heads, Teachers teachers,
              const TeacherOptions& options, data::Context context, Precision precision,
              std::unique_ptr<MinibatchLoss> sequence = nullptr);

  /// From now on whole utterances or chunks are learnt.
  void LearnBy(std::unique_ptr<MinibatchLoss> sequence) { sequence_ = std::move(sequence); }

  /// The criterion of LearnBy; null: frames.
  nn::SequenceLoss* sequence() { return sequence_.get(); }

  /// What branches of the network learn beside the criterion of LearnBy; null: nothing.
  nn::SideTargets* side_targets() { return sequence_ ? sequence_->side_targets() : nullptr; }

  /// Valid until the next call, and no longer than the minibatch. The minibatch's features must be as they came.
  nn::LossTargets Make(const data::Minibatch& minibatch);

 private:
  void FindHeadFrames(const data::Minibatch& minibatch);
  std::span<const int32_t> PdfIds(const data::Minibatch& minibatch);
  ConstMatrixView StoredPosteriors(const data::Minibatch& minibatch);
  ConstMatrixView Posteriors(const data::Minibatch& minibatch);

  std::shared_ptr<const data::FrameStore> store_;
  Heads heads_;
  Teachers teachers_;
  std::shared_ptr<const SoftTargets> stored_;
  TeacherOptions options_;
  data::Context context_;
  Precision precision_ = Precision::kFp32;
  std::unique_ptr<MinibatchLoss> sequence_;
  std::vector<int32_t> pdf_ids_;
  std::vector<int64_t> head_frames_;  // of the minibatch: frame ids, head after head for each row
  std::vector<nn::Workspace> workspaces_;
  Matrix narrow_;
  Matrix posteriors_;
};

}  // namespace antiphon::train
