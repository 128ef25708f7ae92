#include "train/training_step.h"

#include <utility>

#include "comm/fault_injection.h"
#include "train/random_streams.h"
#include "train/timed.h"

namespace antiphon::train {

void TrainingStep::Run(const data::Minibatch& minibatch, const StepPlace& place) {
  Position& at = run_.state.position;
  parallel::StepInput input;
  input.context.precision = ParsePrecision(run_.options.precision);
  input.context.training = true;
  input.context.seed = SeedOf(run_.task.seed, RandomStream::kMasks);
  input.context.step = place.mask_step;
  input.context.dropout_factor = dropout_.Factor(run_.Progress());
  input.context.sequences = minibatch.sequences;
  input.context.progress = run_.Progress();
  input.features = minibatch.features;
  const double rate = run_.LearningRate();
  input.learning_rate = rate;
  input.step_fullness = place.step_fullness;
  input.minibatch = place.minibatch;
  run_.comm.SetStep(at.step);
  comm::FaultPoint("step", run_.comm.rank(), at.step);
  const bool in_order = place.minibatch < 0;
  if (in_order) at.minibatch_in_epoch = place.next;
  const double begin = run_.comm.Now();
  TargetMaker& targets = run_.replica.targets();
  input.targets = targets.Make(minibatch);
  parallel::CountAlike(minibatch.fullness, input);
  nn::SideTargets* const branches = targets.side_targets();
  input.context.side_targets = branches;
  SideSpeech* const side = run_.replica.side();
  if (side != nullptr) side->Join(minibatch, place.mask_step, input);
  run_.state.times().BeginStep();
  const parallel::StepOutput output = run_.strategy().Step(input);
  run_.state.times().EndStep();
  if (branches != nullptr) run_.state.AddBranch(std::exchange(branches->tasks.front().seen, {}));
  KeepWithinLimits();
  const double seconds = run_.comm.Now() - begin;
  const Timed timed(at.other_seconds);
  at.communication_seconds += output.communication_seconds;
  at.arithmetic_seconds += seconds - output.communication_seconds;
  Account(output);
  // Of the speech, also where only every third has an output.
  run_.state.AddFrames(minibatch.num_frames * run_.replica.outline().time_context().stride);
  ++at.step;
  ++at.step_in_epoch;
  if (!in_order) at.minibatch_in_epoch = place.next;
  parallel::SurvivesLosses* const survival = run_.strategy().survival();
  run_.order.Settle(survival != nullptr ? survival->steps_at_risk() : 0);
  run_.kept.AverageStep(run_.network(), run_.Progress(), at);
  if (at.step % run_.options.log_steps == 0) {
    run_.state.LogSteps({run_.Progress(), rate, dropout_.Factor(run_.Progress())}, run_.strategy(), side);
  }
}

// Workers that take minibatches when they are free send what they changed to one model. One of them keeps that within
// limits, as if it took the steps of all, `count` for each of its own: as often as a layer's interval asks, but at most
// once after each of its own, as its model does not change in between. Corrections of the same error by all workers
// would add up.
void TrainingStep::KeepWithinLimits() {
  const int64_t step = run_.position().step;
  if (run_.strategy().rounds() == nullptr) return run_.network().AfterStep(step);
  const parallel::DataShare share = run_.strategy().data_share();
  if (share.index == 0) run_.network().AfterSteps(step * share.count, share.count);
}

void TrainingStep::Account(const parallel::StepOutput& output) {
  run_.guard.Look(output, run_.network().out_dim(), run_.strategy(), run_.state.position);
  run_.state.Add(output);
}

}  // namespace antiphon::train
