// What strategies share whose replicas learn on their own for some steps and then exchange models.
//
// A derived class says what an exchange does (Exchange) and which model is evaluated and kept at the ends of epochs
// (EvaluationModel); counting steps, leaving broken replicas out, holding the replica's own values while the common
// model is evaluated, and state are done here. Periods may be given in steps or in frames of one worker.
// Threads: one per rank. Errors: UsageError for periods that do not fit into the plan; PeerError.
#pragma once

#include <string>
#include <vector>

#include "parallel/rate_scaling.h"
#include "parallel/replica_average.h"
#include "parallel/strategy.h"

namespace antiphon::parallel {

struct PeriodOptions {
  int sync_period = 8;
  int64_t sync_frames = 0;
  double outlier_factor = 10;
  template <class V>
  void Visit(V& v) {
    v("sync-period", sync_period, Range{0, 1 << 30}, "steps of a worker between two exchanges; 0: at the end alone");
    v("sync-frames", sync_frames, Range{0, 1e15}, "the same in frames of a worker; 0: as sync-period says");
    v("outlier-factor", outlier_factor, Range{0, 1e9},
      "leave a replica out that moved this many times as far as the median one; 0: never");
  }
};

class PeriodicStrategy : public Strategy, public Checkpointable, public SurvivesLosses {
 public:
  PeriodicStrategy(const PeriodOptions& period, const RateScalingOptions& scaling, const Replica& replica);

  void Start() override;
  StepOutput Step(const StepInput& input) override;
  optim::StepReport AfterStep(const StepInput& input) override;
  void AfterEpoch() override;
  void Finish() override { AfterEpoch(); }
  Checkpointable* state() override { return this; }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override;
  bool IsUsable(const SafetensorsReader& rank, const std::string& prefix) const override;
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override;
  CommonState common_state() const override;
  /// All replicas become rank 0's. If the state of one was just loaded that waits to be replaced, no replica is
  /// trusted: they become the model that all agreed on last.
  void ResetState() override;
  bool LeaveOut() override;
  // Of those that offer it.
  int64_t steps_at_risk() const override { return through_ ? 0 : since_exchange_; }
  int64_t AfterLoss(const Loss& loss) override;
  /// The centre, and the model that is evaluated at an epoch's end.
  size_t copy_bytes() const override { return 2 * model_bytes(); }
  std::vector<std::string> Describe() const override;

 protected:
  /// Collective; network().values() is this replica's model, and becomes what it goes on from.
  virtual void Exchange() = 0;
  /// One step by the replica's own optimiser, at the rate that is meant for it.
  virtual StepOutput LearnOn(const StepInput& input) { return Strategy::Step(input); }
  /// Factor on the learning rate for the workers that are active.
  virtual double rate_share() const { return 1; }
  /// Exchange at epoch ends too, so that what is evaluated is as new as it can be.
  virtual bool exchanges_at_epoch_end() const { return true; }
  /// After an exchange all replicas go on from the same values.
  virtual bool meets() const { return true; }
  /// Writes the model to evaluate over `model`, which holds this replica's values; false: these are it already.
  /// Collective.
  virtual bool EvaluationModel(std::span<float> model) = 0;

  /// Counts a step that was taken, and exchanges when it is time.
  void CountStep(const StepInput& input);
  /// Mean of the replicas' `values`, weighted by frames unless they count equally; center() is where they started.
  AverageReport Average(std::span<float> values, bool equally = false);
  /// What a strategy with an exchange of its own makes of JudgeReplicas; Average does it itself. `left_out`: this
  /// replica's model is not used, and it gets the others'.
  void Heed(const AverageReport& report, bool left_out);
  /// The part of it that is the replica's own matter.
  void NoteLeftOut() { left_out_ = true; }
  /// The model that all replicas agreed on last.
  std::span<float> center() { return center_; }
  bool usable() const { return usable_; }
  double outlier_factor() const { return outlier_factor_; }
  size_t model_bytes() const { return center_.size() * sizeof(float); }
  double frame_weight() const { return frame_weight_; }
  int period() const { return period_; }
  int64_t steps() const { return steps_; }
  /// Steps since the last exchange: when Exchange is called, those of the block that ends.
  int since_exchange() const { return since_exchange_; }

 private:
  void RunExchange();
  void Unpark();
  void ReplaceLoaded();

  RateScalingOptions scaling_options_;
  RateScaling scaling_;
  double outlier_factor_;
  int period_;
  int64_t steps_ = 0;        // of the run
  int since_exchange_ = 0;   // steps
  double frame_weight_ = 0;  // since the last exchange
  bool usable_ = true;
  bool loaded_ = false;    // with the values in the network, and no step taken since
  bool left_out_ = false;  // of the exchange under way
  bool exchanging_ = false;
  bool through_ = false;  // the models of those that were lost in the exchange under way are in it
  bool hopeless_ = false;
  std::vector<float> center_;
  std::vector<float> parked_;  // this replica's own values while the evaluated model is in the network; else empty
};

}  // namespace antiphon::parallel
