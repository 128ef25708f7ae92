// Natural-gradient SGD with periodic parameter averaging and combination of the last models, as Kaldi trains nnet3.
//
// Each worker takes `sync-period` steps of natural-gradient SGD (optimizer.type "natural-gradient", with max-change in
// its `step` table); then all go on from the frame-weighted mean of the parameters, at a rate that is multiplied by the
// number of workers. Covariances and momentum stay with the worker. The first exchange, when models still differ too
// much to be averaged, takes the worker with the least loss instead (`best-first`); until then each minibatch is
// learned in two halves, of half a step each, with max-change / √2 (`small-first-steps`): half its frames, or half its
// streams of chunks; whole where recurrent states go on from chunk to chunk, and with labels of a side task. At the end
// the mean of the last n = 1, 2, … averaged models is tried on each worker's first minibatches, one after the other as
// in training, and the best n is kept (`combine`; not with one worker, which is plain training). With
// `initial-workers`, training begins with fewer workers, and takes on the others one by one as the data go by, at rates
// to match; those that are not in yet do nothing. Exchanged: models, one AllReduce per exchange. Bytes per exchange and
// rank: 2 · 4 · parameters; at the end `combine` times a model. Memory: `combine` models, spread over the ranks.
// Staleness: none. Determinism: the same bits wherever the workers run. Source: Povey, Zhang, Khudanpur, ICLR workshop
// 2015; Kaldi's steps/nnet3/train_dnn.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/finally.h"
#include "base/log.h"
#include "base/loss_text.h"
#include "math/finite.h"
#include "nn/side_targets.h"
#include "parallel/kept_minibatch.h"
#include "parallel/part_of_minibatch.h"
#include "parallel/periodic.h"
#include "parallel/strategy_traits.h"

namespace antiphon::parallel {
namespace {

struct NaturalGradientAveragingOptions {
  PeriodOptions period;
  // Linear for any number of workers: max-change keeps long steps in bounds.
  RateScalingOptions scaling = {.rate_scaling = "linear"};
  int initial_workers = 0;
  bool best_first = true;
  bool small_first_steps = true;
  int combine = 10;
  int combine_frames = 1024;
  template <class V>
  void Visit(V& v) {
    period.Visit(v);
    scaling.Visit(v);
    v("initial-workers", initial_workers, Range{0, 4096}, "workers in the beginning; 0: all");
    v("best-first", best_first, "the first exchange takes the best worker's model instead of the mean");
    v("small-first-steps", small_first_steps,
      "until the first exchange, with best-first: half the minibatch per step, unless streams go on, and max-change / "
      "√2");
    v("combine", combine, Range{0, 1000}, "most averaged models that the final one may be the mean of; 0: the last");
    v("combine-frames", combine_frames, Range{1, 1e8}, "training frames of each worker that decide on how many");
  }
};

class NaturalGradientAveraging : public PeriodicStrategy {
 public:
  NaturalGradientAveraging(const NaturalGradientAveragingOptions& options, const Replica& replica)
      : PeriodicStrategy(options.period, options.scaling, replica), options_(options), sequence_(replica.sequence) {
    const int64_t steps = replica.plan.steps_per_epoch * replica.plan.epochs;
    first_kept_ = period() > 0 ? steps / period() / 2 : 0;
    const int workers = replica.comm->world_size();
    if (options.initial_workers > workers) {
      Throw<UsageError>("initial-workers = {}, but there are {} workers", options.initial_workers, workers);
    }
    active_ = options.initial_workers > 0 ? options.initial_workers : workers;
    if (active_ < workers && (steps == 0 || period() == 0)) {
      throw UsageError("initial-workers needs a sync-period and a run whose length is known");
    }
    minibatches_of_run_ = steps * workers;
  }

  DataShare data_share() const override { return {comm().rank(), active_}; }

  StepOutput Step(const StepInput& input) override {
    if (Combines() && subset_frames_ < options_.combine_frames) Keep(input);
    return PeriodicStrategy::Step(input);
  }

  optim::StepReport AfterStep(const StepInput& input) override {
    period_loss_ += last_loss();
    if (first_half_) return optimizer().EndStep();
    minibatches_ += active_;
    return PeriodicStrategy::AfterStep(whole_ != nullptr ? *whole_ : input);
  }

  void Finish() override {
    PeriodicStrategy::Finish();
    if (Combines() && models_.size() > 1) Combine();
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    PeriodicStrategy::SaveState(writer, prefix);
    const double numbers[] = {static_cast<double>(exchanges_),
                              period_loss_.loss_sum,
                              period_loss_.weight_sum,
                              period_loss_.correct_sum,
                              static_cast<double>(models_.size()),
                              static_cast<double>(minibatches_),
                              static_cast<double>(active_)};
    writer.Add(prefix + ".exchanges", std::span<const double>(numbers));
    for (size_t i = 0; i < models_.size(); ++i) {
      writer.Add(fmt::format("{}.model{}", prefix, i), std::span<const float>(models_[i]));
    }
    const int64_t kept = std::ssize(subset_);
    writer.Add(prefix + ".subset", std::span<const int64_t>(&kept, 1));
    for (size_t k = 0; k < subset_.size(); ++k) subset_[k].Save(writer, fmt::format("{}.subset.{}.", prefix, k));
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    PeriodicStrategy::LoadState(reader, prefix);
    const std::vector<double> numbers = reader.ReadDoubles(prefix + ".exchanges");
    exchanges_ = static_cast<int64_t>(numbers.at(0));
    period_loss_ = {numbers.at(1), numbers.at(2), numbers.at(3)};
    models_.clear();
    for (size_t i = 0; i < static_cast<size_t>(numbers.at(4)); ++i) {
      models_.push_back(reader.ReadFloats(fmt::format("{}.model{}", prefix, i)));
    }
    minibatches_ = static_cast<int64_t>(numbers.at(5));
    active_ = static_cast<int>(numbers.at(6));
    ForgetSubset();
    const int64_t kept = reader.Has(prefix + ".subset") ? reader.ReadInts(prefix + ".subset").at(0) : 0;
    for (int64_t k = 0; k < kept; ++k) {
      subset_.emplace_back(reader, fmt::format("{}.subset.{}.", prefix, k));
      subset_frames_ += subset_.back().num_targets();
    }
  }
  // Models and frames to combine are gathered anew; the number of workers that learn grows from where it was.
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    PeriodicStrategy::LoadFolded(ranks, prefix);
    models_.clear();
    ForgetSubset();
    active_ = options_.initial_workers == 0 ? comm().world_size() : std::min(active_, comm().world_size());
  }
  void ResetState() override {
    PeriodicStrategy::ResetState();
    period_loss_ = {};
    models_.clear();
  }

  // Parts of the models that may be combined, their best mean, and the frames that decide.
  size_t copy_bytes() const override {
    if (!Combines()) return PeriodicStrategy::copy_bytes();
    const auto workers = static_cast<size_t>(comm().world_size());
    const size_t parts = (static_cast<size_t>(options_.combine) + 2) * model_bytes() / workers;
    const size_t frames = static_cast<size_t>(options_.combine_frames) * static_cast<size_t>(network().in_dim());
    return PeriodicStrategy::copy_bytes() + parts + model_bytes() + frames * sizeof(float);
  }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = PeriodicStrategy::Describe();
    if (!optimizer().needs_factors()) {
      lines.emplace_back("optimizer.type is not 'natural-gradient', without which averaging at this rate does badly");
    }
    if (Combines()) lines.push_back(fmt::format("the last 1 … {} averaged models are combined", options_.combine));
    return lines;
  }

 protected:
  void Exchange() override {
    if (comm().world_size() == 1) return;
    if (!(exchanges_++ == 0 && options_.best_first && TakeBest())) Average(network().values());
    period_loss_ = {};
    std::copy(network().values().begin(), network().values().end(), center().begin());
    if (Combines() && exchanges_ > first_kept_) KeepModel();
    Grow();
  }

  bool EvaluationModel(std::span<float> model) override {
    if (period() > 0 || comm().world_size() == 1) return false;
    Average(model);
    return true;
  }

  // The rate is meant for all workers.
  double rate_share() const override {
    const std::string& scaling = options_.scaling.rate_scaling;
    return RateFactor(scaling, active_, plan()) / RateFactor(scaling, comm().world_size(), plan());
  }

 private:
  // Models change fast in the beginning, and what is exchanged first is one worker's.
  StepOutput LearnOn(const StepInput& input) override {
    const bool first = comm().world_size() > 1 && exchanges_ == 0 && options_.best_first && options_.small_first_steps;
    optimizer().ShareMaxChange(first ? std::sqrt(0.5) : 1.0);
    const int64_t pieces = PartOfMinibatch::Pieces(input);
    const bool streams_go_on = input.context.sequences != nullptr && !plan().chunks_stand_alone;
    if (!first || pieces < 2 || streams_go_on || HasLabels(input)) return PeriodicStrategy::LearnOn(input);
    const PartOfMinibatch halves[] = {{input, 0, pieces / 2}, {input, pieces / 2, pieces}};
    whole_ = &input;
    const Finally done([this] {
      whole_ = nullptr;
      first_half_ = false;
    });
    first_half_ = true;
    StepOutput output = Strategy::Step(halves[0].Begin());
    // Branches tell of their last pass alone.
    std::vector<nn::LossResult> seen;
    if (input.context.side_targets != nullptr) {
      for (const nn::SideTarget& branch : input.context.side_targets->tasks) seen.push_back(branch.seen);
    }
    first_half_ = false;
    const StepOutput second = Strategy::Step(halves[1].Begin());
    for (size_t b = 0; b < seen.size(); ++b) input.context.side_targets->tasks[b].seen += seen[b];
    output.loss += second.loss;
    output.report = second.report;
    output.communication_seconds += second.communication_seconds;
    return output;
  }
  // Side tasks' labels are those of the whole minibatch.
  static bool HasLabels(const StepInput& input) {
    if (input.context.side_targets == nullptr) return false;
    return std::ranges::any_of(input.context.side_targets->tasks,
                               [](const auto& task) { return !task.labels.empty(); });
  }
  // As many more workers as the part of the data that was seen.
  void Grow() {
    const int workers = comm().world_size();
    if (options_.initial_workers == 0 || active_ == workers) return;
    const double seen = static_cast<double>(minibatches_) / static_cast<double>(minibatches_of_run_);
    const double wanted = options_.initial_workers + (workers - options_.initial_workers) * seen;
    active_ = std::clamp(static_cast<int>(std::lround(wanted)), active_, workers);
  }

  bool Combines() const { return options_.combine > 1 && comm().world_size() > 1; }

  void Keep(const StepInput& input) {
    if (input.features.rows() == 0) return;
    subset_.emplace_back(input);
    subset_frames_ += subset_.back().num_targets();
  }
  void ForgetSubset() {
    subset_.clear();
    subset_frames_ = 0;
  }

  // Everybody takes the model of the worker with the least loss of the period; false if no loss is worth anything.
  bool TakeBest() {
    double mine = usable() && period_loss_.weight_sum > 0 ? period_loss_.loss() : INFINITY;
    if (!std::isfinite(mine) || !AllFinite(network().values())) {
      mine = INFINITY;
      NoteLeftOut();
    }
    const std::vector<std::byte> bytes = comm().AllGather(std::as_bytes(std::span(&mine, 1)));
    std::vector<double> all(static_cast<size_t>(comm().world_size()));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    const auto best = std::min_element(all.begin(), all.end());
    if (!std::isfinite(*best)) return false;
    comm().Broadcast(static_cast<int>(best - all.begin()), network().values());
    return true;
  }

  // This rank's part of the model; the others keep theirs.
  void KeepModel() {
    const std::span<const float> values = network().values();
    const size_t first = comm().Part(comm().rank(), values.size());
    const auto mine = values.subspan(first, comm().Part(comm().rank() + 1, values.size()) - first);
    models_.emplace_back(mine.begin(), mine.end());
    if (std::ssize(models_) > options_.combine) models_.pop_front();
  }

  void Combine() {
    const std::span<float> values = network().values();
    const size_t first = comm().Part(comm().rank(), values.size());
    std::vector<double> sum(models_.back().size(), 0.0);
    std::vector<float> best;
    double best_loss = INFINITY;
    size_t best_count = 0;
    for (size_t n = 1; n <= models_.size(); ++n) {
      const std::vector<float>& model = models_[models_.size() - n];
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += static_cast<double>(model[i]);
        values[first + i] = static_cast<float>(sum[i] / static_cast<double>(n));
      }
      comm().AllGatherParts(values);
      network().MarkChanged();
      const double loss = SubsetLoss();
      if (!(loss < best_loss)) continue;
      best_loss = loss;
      best_count = n;
      best.assign(values.begin(), values.end());
    }
    if (!best.empty()) std::copy(best.begin(), best.end(), values.begin());
    network().MarkChanged();
    if (comm().rank() == 0) {
      log::Info("final model: mean of the last {} of {} averaged models, loss {} on training frames", best_count,
                models_.size(), LossText(best_loss));
    }
  }

  // Of all ranks' subsets. Statistics of batch normalisation are those of the minibatches: the running ones fit no
  // mean. These follow one another as they did in training, so that streams that go on do so here, with the model's own
  // states.
  double SubsetLoss() {
    nn::ExecContext context;
    context.training = true;
    context.dropout_factor = 0;
    nn::Workspace ws;
    nn::LossResult loss;
    for (const KeptMinibatch& kept : subset_) {
      context.sequences = kept.sequences();
      loss += nn::SoftmaxCrossEntropy(network().Forward(context, kept.features, ws), kept.targets(sequence_), {});
    }
    double sums[] = {loss.loss_sum, loss.weight_sum};
    comm().AllReduce(std::span<double>(sums));
    return sums[1] > 0 ? sums[0] / sums[1] : INFINITY;
  }

  NaturalGradientAveragingOptions options_;
  nn::SequenceLoss* sequence_;  // null: frames
  int64_t first_kept_ = 0;
  int64_t minibatches_of_run_ = 0;
  int64_t minibatches_ = 0;  // of all workers so far
  int active_ = 1;
  int64_t exchanges_ = 0;
  nn::LossResult period_loss_;
  const StepInput* whole_ = nullptr;  // of the halves that are being learned
  bool first_half_ = false;
  std::deque<std::vector<float>> models_;  // this rank's parts, oldest first
  std::vector<KeptMinibatch> subset_;      // of this worker, that models are compared on
  int64_t subset_frames_ = 0;
};

REGISTER_COMPONENT(StrategyRegistry, "natural-gradient-averaging", [](const Config& config, const Replica& replica) {
  return std::make_unique<NaturalGradientAveraging>(
      ReadOptions<NaturalGradientAveragingOptions>(config, kCommonStrategyKeys), replica);
});
REGISTER_COMPONENT(StrategyTraitsRegistry, "natural-gradient-averaging", Traits({.keeps_minibatches = true}));

}  // namespace
}  // namespace antiphon::parallel
