#include "train/run_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "train/agreement.h"
#include "train/experiment.h"

namespace antiphon::train {
namespace {

const optim::ScheduleOptions& Checked(const TrainingTask& task, const TrainOptions& options) {
  if (options.average.share > 0 && optim::Schedule(options.schedule).decides()) {
    throw UsageError(
        "average.share needs a run whose length is known, but schedule.type 'newbob' stops when it likes: "
        "leave one of the two out");
  }
  if (task.initial && options.pretrain.method != PretrainMethod::kNone) {
    throw UsageError("pretrain.method grows a new network: leave it out when an initial model goes on learning");
  }
  return options.schedule;
}

}  // namespace

RunParts::RunParts(const TrainingTask& its_task, const TrainOptions& its_options,
                   parallel::SurvivingCommunicator& its_comm)
    : task(its_task),
      options(its_options),
      comm(its_comm),
      schedule(Checked(task, options)),
      data(task, options),
      replica(task, options, comm, data.sequence.get()),
      guard(options.guard, comm),
      kept(options.average, schedule.decides()),
      state(task.folder, comm, task.on_metrics),
      counts(comm) {
  data.KeepThoseThatAreKnown(task);
  std::unique_ptr<parallel::ModelParts> parts = parallel::DivideModel(task.parallel, replica.outline(), comm);
  if (parts && data.distribution == Distribution::kShards) {
    throw UsageError("data.distribution must be 'pool' or 'shares' where ranks hold one replica together");
  }
  data.OpenPool(task, options, replica.outline(), comm.world_size() / (parts ? parts->ranks() : 1), comm);
  replica.Build(std::move(parts), data, schedule.decides());
  // Read once, and the same on all ranks, which decide by it together whether a checkpoint is of this experiment.
  inputs = FromRankZero(comm, comm.rank() == 0 ? DescribeInputs(options) : "");
}

double RunParts::Progress() const {
  const Position& at = position();
  const bool common = data.distribution == Distribution::kPool;
  const int64_t done = common ? at.minibatch_in_epoch : at.step_in_epoch;
  const int64_t all = common ? pool().num_minibatches(at.epoch) : pool().steps_per_epoch(at.epoch);
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, all));
  return std::min(1.0, (static_cast<double>(at.epoch) + share) / options.schedule.epochs);
}

int64_t RunParts::FramesOf(const data::MinibatchId& minibatch) const {
  return pool().Frames(minibatch.epoch, 0, minibatch.index) * replica.outline().time_context().stride;
}

report::Progress RunParts::ShowProgress(int64_t frames) const {
  return {fmt::format("epoch {} of {}", position().epoch + 1, options.schedule.epochs), frames, "frames",
          comm.rank() == 0 ? report::ProgressSink::Default() : report::ProgressSink::Silent()};
}

}  // namespace antiphon::train
