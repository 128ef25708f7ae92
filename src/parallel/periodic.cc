#include "parallel/periodic.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace antiphon::parallel {
namespace {

int PeriodInSteps(const PeriodOptions& options, const Plan& plan) {
  int64_t period = options.sync_period;
  if (options.sync_frames > 0) {
    if (plan.minibatch_frames == 0) throw UsageError("sync-frames needs a known minibatch size; give sync-period");
    period = std::max<int64_t>(1, (options.sync_frames + plan.minibatch_frames / 2) / plan.minibatch_frames);
  }
  const int64_t run = plan.steps_per_epoch * plan.epochs;
  if (run > 0 && period > run) {
    Throw<UsageError>(
        "a period of {} steps does not fit into the run, in which each worker takes {} steps: take a shorter period, "
        "fewer workers or a smaller data.minibatch; 0 means one exchange at the end",
        period, run);
  }
  return static_cast<int>(std::min<int64_t>(period, 1 << 30));
}

}  // namespace

PeriodicStrategy::PeriodicStrategy(const PeriodOptions& period, const RateScalingOptions& scaling,
                                   const Replica& replica)
    : Strategy(replica),
      scaling_options_(scaling),
      scaling_(scaling, replica.comm->world_size(), replica.plan),
      outlier_factor_(period.outlier_factor),
      period_(PeriodInSteps(period, replica.plan)),
      center_(replica.network->values().begin(), replica.network->values().end()) {}

void PeriodicStrategy::Start() {
  Strategy::Start();
  std::copy(network().values().begin(), network().values().end(), center_.begin());
}

StepOutput PeriodicStrategy::Step(const StepInput& input) {
  Unpark();
  loaded_ = false;
  StepInput mine = input;
  mine.learning_rate *= scaling_.Factor(steps_) * rate_share();
  ++steps_;
  return LearnOn(mine);
}

optim::StepReport PeriodicStrategy::AfterStep(const StepInput& input) {
  const optim::StepReport report = optimizer().EndStep();
  CountStep(input);
  return report;
}

void PeriodicStrategy::CountStep(const StepInput& input) {
  frame_weight_ += FrameWeight(input);
  ++since_exchange_;
  if (period_ > 0 && since_exchange_ >= period_) RunExchange();
}

// What optimiser and recurrent layers remember of a model that was left out would lead the others' astray.
void PeriodicStrategy::RunExchange() {
  left_out_ = !usable_;
  exchanging_ = true;
  Exchanging([this] { Exchange(); });
  exchanging_ = through_ = false;
  if (left_out_ && comm().world_size() > 1) {
    optimizer().ResetState();
    ForgetStreams();
  }
  network().MarkChanged();
  since_exchange_ = 0;
  frame_weight_ = 0;
  usable_ = true;
}

void PeriodicStrategy::AfterEpoch() {
  loaded_ = false;  // what is in the network from here on, the best model perhaps, is sound
  if (!parked_.empty()) return;
  if (exchanges_at_epoch_end() && period_ > 0 && since_exchange_ > 0) RunExchange();
  std::vector<float> model(network().values().begin(), network().values().end());
  bool another = false;
  Exchanging([&] { another = EvaluationModel(model); });
  if (!another) return;
  parked_.assign(network().values().begin(), network().values().end());
  std::copy(model.begin(), model.end(), network().values().begin());
  network().MarkChanged();
}

void PeriodicStrategy::Unpark() {
  if (parked_.empty()) return;
  std::copy(parked_.begin(), parked_.end(), network().values().begin());
  network().MarkChanged();
  parked_.clear();
}

AverageReport PeriodicStrategy::Average(std::span<float> values, bool equally) {
  const double weight = equally ? 1.0 : frame_weight_;
  AverageReport report;
  bool left_out = false;  // by the numbers that ranks have in the body
  comm().Together(values, [&] {
    report = AverageReplicas(comm(), weight, usable_, outlier_factor_, center_, values);
    left_out = report.LeavesOut(comm().rank());
  });
  Heed(report, left_out);
  return report;
}

void PeriodicStrategy::Heed(const AverageReport& report, bool left_out) {
  hopeless_ = report.hopeless;
  if (left_out) NoteLeftOut();
  if (comm().rank() == 0 && !report.left_out.empty()) {
    log::Warn("step {}: {} of {} replicas left out of the exchange (rank {}{}){}", steps_, report.left_out.size(),
              comm().world_size(), report.left_out.front(), report.left_out.size() > 1 ? " …" : "",
              hopeless_ ? ": too many" : "");
  }
}

bool PeriodicStrategy::LeaveOut() {
  if (comm().world_size() == 1 || hopeless_ || period_ == 0) return false;
  usable_ = false;
  return true;
}

// The rate is meant for those that are left.
int64_t PeriodicStrategy::AfterLoss(const Loss& loss) {
  through_ = exchanging_ && !loss.again;
  scaling_ = RateScaling(scaling_options_, comm().world_size(), plan());
  return 0;
}

void PeriodicStrategy::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  const int64_t counts[] = {steps_, since_exchange_, usable_ ? 1 : 0, hopeless_ ? 1 : 0};
  writer.Add(prefix + ".counts", std::span<const int64_t>(counts));
  writer.Add(prefix + ".frame-weight", std::span<const double>(&frame_weight_, 1));
  writer.Add(prefix + ".center", std::span<const float>(center_));
  if (!parked_.empty()) writer.Add(prefix + ".parked", std::span<const float>(parked_));
}

// Workers that do not go in step count steps of their own, and so would not agree on what is common.
CommonState PeriodicStrategy::common_state() const {
  if (!synchronous() || hopeless_) return {};
  CommonState common;
  common.values = !parked_.empty() || (meets() && since_exchange_ == 0);
  common.tensors = {".center"};
  return common;
}

void PeriodicStrategy::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  const std::vector<int64_t> counts = reader.ReadInts(prefix + ".counts");
  steps_ = counts.at(0);
  since_exchange_ = static_cast<int>(counts.at(1));
  usable_ = counts.at(2) != 0;
  hopeless_ = counts.at(3) != 0;
  frame_weight_ = reader.ReadDoubles(prefix + ".frame-weight").at(0);
  LoadValues(reader, prefix + ".center", center_);
  parked_.clear();
  loaded_ = true;
  if (!reader.Has(prefix + ".parked")) return;
  parked_.resize(center_.size());
  LoadValues(reader, prefix + ".parked", parked_);
}

// Of any checkpoint: that of another method is refused elsewhere.
bool PeriodicStrategy::IsUsable(const SafetensorsReader& rank, const std::string& prefix) const {
  if (!rank.Has(prefix + ".counts")) return true;
  const std::vector<int64_t> counts = rank.ReadInts(prefix + ".counts");
  return counts.size() < 3 || counts[2] != 0;
}

void PeriodicStrategy::LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) {
  LoadState(ranks[0], prefix);
  steps_ = StepsAsFar(steps_, ranks.size(), comm().world_size());
  usable_ = true;
  frame_weight_ = 0;
  const auto is_usable = [&](const SafetensorsReader& rank) { return IsUsable(rank, prefix); };
  const auto usable = static_cast<float>(std::ranges::count_if(ranks, is_usable));
  CHECK(usable > 0) << "all " << ranks.size() << " replicas were to be left out";
  std::vector<float> sum(parked_.size(), 0.0f);
  std::vector<float> theirs(parked_.size());
  for (const SafetensorsReader& reader : ranks) {
    if (!is_usable(reader)) continue;
    frame_weight_ += reader.ReadDoubles(prefix + ".frame-weight").at(0) / comm().world_size();
    if (parked_.empty()) continue;
    LoadValues(reader, prefix + ".parked", theirs);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i] / usable;
  }
  parked_ = std::move(sum);
}

// Where the own values are parked, the network holds the model that was evaluated, which is sound. What recurrent
// layers carry of a broken replica is as broken.
void PeriodicStrategy::ReplaceLoaded() {
  float waiting = 0;
  comm().Together([&] {
    waiting = !usable_ && parked_.empty() ? 1 : 0;
    comm().AllReduce(std::span<float>(&waiting, 1));
  });
  if (!usable_) ForgetStreams();
  if (waiting == 0) return;
  std::copy(center_.begin(), center_.end(), network().values().begin());
  network().MarkChanged();
}

void PeriodicStrategy::ResetState() {
  if (std::exchange(loaded_, false) && comm().world_size() > 1) ReplaceLoaded();
  parked_.clear();
  since_exchange_ = 0;
  frame_weight_ = 0;
  usable_ = true;
  hopeless_ = false;
  exchanging_ = through_ = false;
  PeriodicStrategy::Start();
}

std::vector<std::string> PeriodicStrategy::Describe() const {
  const auto when = [this] {
    if (period_ == 0) return std::string("at the end alone");
    std::string text = fmt::format("every {} steps", period_);
    if (plan().minibatch_frames > 0) {
      text += fmt::format(" ({} frames of a worker)", int64_t{period_} * plan().minibatch_frames);
    }
    return exchanges_at_epoch_end() ? text + " and at epoch ends" : text;
  };
  return {fmt::format("{} workers exchange models {}", comm().world_size(), when()), scaling_.Describe()};
}

}  // namespace antiphon::parallel
