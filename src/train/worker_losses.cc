// The part of Worker that goes on when other workers are lost.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "train/worker.h"

namespace antiphon::train {

// Data on a lost machine's own disk cannot be learned by others.
void Worker::GoOnWithoutLost() {
  parallel::SurvivesLosses* const survival = strategy_->survival();
  if (survival == nullptr || !survival->survives_losses()) return;
  if (distribution_ != Distribution::kPool || comm_.world_size() == 1) return;
  comm_.GoOn([this](const parallel::Loss& loss) { TakeLoss(loss); });
}

// Where the common order goes on behind the step that all workers take now.
int64_t Worker::TakeInStep() {
  if (distribution_ != Distribution::kPool) return position_.minibatch_in_epoch + active_workers_;
  return order_.Take(position_.epoch, position_.minibatch_in_epoch, pool_->num_minibatches(position_.epoch),
                     active_workers_);
}

void Worker::TakeLoss(const parallel::Loss& loss) {
  parallel::SurvivesLosses& survival = *strategy_->survival();
  int64_t given_back = survival.AfterLoss(loss);
  if (strategy_->rounds() == nullptr && !position_.finished) {
    given_back = order_.GiveBack(loss.ranks, survival.steps_at_risk());
  }
  checkpoints_ =
      CheckpointFolder(CheckpointPath(task_.folder), comm_.rank(), comm_.world_size(), options_.checkpoint.keep);
  position_.lost_workers += std::ssize(loss.ranks);
  position_.given_back += given_back;
  after_loss_ = true;
  log_->Loss(position_, loss.first_ranks, comm_.world_size(), given_back);
}

}  // namespace antiphon::train
