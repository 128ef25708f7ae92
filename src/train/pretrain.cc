#include "train/pretrain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/finally.h"
#include "base/log.h"
#include "base/loss_text.h"
#include "base/random.h"
#include "comm/rank_threads.h"
#include "nn/layer_traits.h"
#include "optim/rbm.h"
#include "report/progress.h"
#include "train/data_share.h"
#include "train/random_streams.h"

namespace antiphon::train {
namespace {

// Layers of a network as tables, cut into blocks: [0] what stands below the first trainable layer, then the hidden
// blocks, then the output block.
struct Blocks {
  std::vector<Config> tables;
  std::vector<size_t> begin;  // first layer of each hidden block and of the output block; one more entry at the end

  explicit Blocks(nn::Network& network) : tables(Config::Parse(network.ToToml(), "network").Tables("layer")) {
    for (size_t i = 0; i < network.num_layers(); ++i) {
      const auto parameters = network.layer(i).parameters();
      const bool matrix =
          std::any_of(parameters.begin(), parameters.end(), [](const nn::Parameter* p) { return p->value.rows() > 1; });
      if (matrix) begin.push_back(i);
    }
    if (begin.empty()) throw UsageError("pretrain: the network has no layer that learns");
    begin.push_back(network.num_layers());
  }
  size_t num_hidden() const { return begin.size() - 2; }
  std::string Toml(size_t from, size_t to) const {
    std::string toml;
    for (size_t i = from; i < to; ++i) toml += "[[layer]]\n" + tables[i].ToToml() + "\n";
    return toml;
  }
};

void CopyByName(const nn::Network& from, nn::Network& to) {
  const auto copy = [](std::span<nn::Parameter* const> sources, std::span<nn::Parameter* const> targets) {
    for (nn::Parameter* target : targets) {
      for (const nn::Parameter* source : sources) {
        if (source->name != target->name || source->value.size() != target->value.size()) continue;
        std::copy_n(source->value.data(), source->value.size(), target->value.data());
        target->MarkChanged();
      }
    }
  };
  copy(from.parameters(), to.parameters());
  copy(from.buffers(), to.buffers());
}

// Walks through the minibatches of as many epochs as a stage takes.
class Frames {
 public:
  Frames(const Worker& worker, const comm::Communicator& comm, parallel::DataShare share, double epochs,
         const std::string& title, int64_t steps_done)
      : pool_(worker.run().data.pool),
        rank_(comm.rank()),
        share_(share),
        steps_(std::max<int64_t>(1, static_cast<int64_t>(std::llround(epochs * static_cast<double>(StepsOf(0)))))),
        done_(steps_done),
        progress_(title, steps_, "steps",
                  rank_ == 0 ? report::ProgressSink::Default() : report::ProgressSink::Silent()) {
    step_in_epoch_ = steps_done;
    for (; step_in_epoch_ >= StepsOf(epoch_); ++epoch_) step_in_epoch_ -= StepsOf(epoch_);
    stream_ = Open(step_in_epoch_);
    progress_.StartAt(steps_done);
  }

  data::Minibatch* Next() {
    if (done_ == steps_) return nullptr;
    data::Minibatch* minibatch = stream_->Next();
    while (minibatch == nullptr) {
      ++epoch_;
      step_in_epoch_ = 0;
      stream_ = Open(0);
      minibatch = stream_->Next();
    }
    progress_.Update(done_++);
    step_in_epoch_++;
    return minibatch;
  }
  /// Of the step of all workers whose minibatch Next gave.
  double step_fullness() const { return FullnessOfStep(*pool_, epoch_, step_in_epoch_ - 1, share_.count); }
  int64_t steps_done() const { return done_; }
  void Finish(const std::string& note) { progress_.Finish(note); }

 private:
  bool common() const { return pool_->options().distribution == Distribution::kPool; }
  int64_t StepsOf(int64_t epoch) const {
    if (!common()) return std::max<int64_t>(1, pool_->steps_per_epoch(epoch));
    return (pool_->num_minibatches(epoch) + share_.count - 1) / share_.count;
  }
  // Of epoch_, from a step on.
  std::unique_ptr<data::MinibatchStream> Open(int64_t step) const {
    if (!common()) return std::make_unique<data::MinibatchStream>(pool_, rank_, epoch_, step);
    return std::make_unique<data::MinibatchStream>(
        pool_, data::Stripe{epoch_, step * share_.count, share_.index, share_.count, {}});
  }

  std::shared_ptr<const data::MinibatchPool> pool_;
  int rank_;
  parallel::DataShare share_;
  int64_t steps_;
  int64_t done_;
  int64_t epoch_ = 0;
  int64_t step_in_epoch_ = 0;  // the next one
  std::unique_ptr<data::MinibatchStream> stream_;
  report::Progress progress_;
};

class Grower {
 public:
  Grower(const TrainingTask& task, const TrainOptions& options, comm::Communicator& comm, Worker& worker)
      : task_(task), options_(options), comm_(comm), worker_(worker), blocks_(worker.network()) {
    broken_ = worker.loader().TakePretraining();
    if (!broken_) return;
    const std::vector<int64_t> place = broken_->ReadInts("pretraining.place");
    first_stage_ = static_cast<size_t>(place.at(0));
    first_step_ = place.at(1);
    steps_before_ = place.at(2);
    log::Info("going on with pre-training, stage {}, step {}", first_stage_ + 1, first_step_);
  }

  uint64_t FreshSeed() const {
    return SeedOf(task_.seed, options_.side.any() ? RandomStream::kPretrainBesideSideTask : RandomStream::kPretrain);
  }

  void GrowByBackpropagation() {
    for (size_t stage = first_stage_; stage < blocks_.num_hidden(); ++stage) {
      const size_t hidden = stage + 1;
      const size_t output = blocks_.begin[blocks_.num_hidden()];
      const std::string toml = blocks_.Toml(0, blocks_.begin[hidden]) + blocks_.Toml(output, blocks_.tables.size());
      nn::Network network(Config::Parse(toml, "pre-training network"), worker_.network().in_dim(),
                          worker_.network().out_dim(), MixSeed(FreshSeed(), hidden));
      CopyHidden(hidden, network);
      if (options_.pretrain.method == PretrainMethod::kLayerWise) FreezeBelow(blocks_.begin[hidden - 1], network);
      TrainStage(hidden, network);
      // The top block's fresh output layer is kept: it fits the finished network.
      if (hidden < blocks_.num_hidden()) DropOutput(network);
      CopyByName(network, worker_.network());
    }
  }

  void GrowByRbms() {
    for (size_t stage = first_stage_; stage < blocks_.num_hidden(); ++stage) TrainRbm(stage);
  }

 private:
  // Values of the layers that earlier stages trained, and of the input's normalisation.
  void CopyHidden(size_t hidden, nn::Network& network) { CopyByName(LayersBelow(blocks_.begin[hidden - 1]), network); }
  // The finished network's first layers on their own.
  nn::Network LayersBelow(size_t end) {
    // An identity stands in where there are none.
    const std::string toml = end > 0 ? blocks_.Toml(0, end) : "[[layer]]\ntype = \"normalize\"\nname = \"nothing\"\n";
    nn::Network below(Config::Parse(toml, "network"), worker_.network().in_dim(), 0, 0);
    CopyByName(worker_.network(), below);
    return below;
  }
  void FreezeBelow(size_t first, nn::Network& network) {
    for (size_t i = 0; i < first; ++i) {
      for (nn::Parameter* p : network.layer(i).parameters()) p->learning_rate_factor = 0;
    }
  }
  void DropOutput(nn::Network& network) {
    size_t output = network.num_layers() - (blocks_.tables.size() - blocks_.begin[blocks_.num_hidden()]);
    network.Truncate(output);
  }

  // The step of a stage at which it begins; what was saved there is read by `load`.
  int64_t Begin(const std::function<void(const SafetensorsReader&)>& load) {
    if (!broken_) return 0;
    load(*broken_);
    broken_.reset();
    return first_step_;
  }

  // Between two steps: saves when it is time or when somebody asked to stop, and stops then.
  void SaveIfDue(size_t stage, const Frames& frames, const std::function<void(SafetensorsWriter&)>& add_state,
                 const std::function<bool(std::string_view)>& common) {
    const int64_t step = steps_before_ + frames.steps_done();
    const Rendezvous::Decision request = worker_.saver().rendezvous().InStep(step);
    if (!request.stop && !request.save) return;
    const auto add_all = [&](SafetensorsWriter& writer) {
      const int64_t place[] = {static_cast<int64_t>(stage), frames.steps_done(), steps_before_};
      writer.Add("pretraining.place", std::span<const int64_t>(place));
      add_state(writer);
    };
    worker_.saver().WritePretraining(step, add_all, common);
    if (request.stop) {
      worker_.saver().Finish();
      throw comm::AgreedToStop(worker_.saver().CancelledMessage(
          fmt::format("in pre-training, layer {} of {}, after {} steps", stage + 1, blocks_.num_hidden(), step)));
    }
  }

  void TrainStage(size_t hidden, nn::Network& network) {
    const auto values = parallel::DivideValues(task_.parallel, network, comm_);
    const auto optimizer =
        optim::MakeOptimizer(task_.optimizer, values ? values->stepped() : optim::SteppedValues(network));
    const auto strategy = parallel::MakeStrategy(task_.parallel, {.network = &network,
                                                                  .optimizer = optimizer.get(),
                                                                  .comm = &comm_,
                                                                  .plan = {options_.data.minibatch, 0, 0},
                                                                  .share = values.get()});
    if (strategy->rounds() != nullptr) {
      throw UsageError("pretrain: workers of this parallel.method have no lockstep; pre-train by another method");
    }
    nn::LossResult loss;
    strategy->Start();
    const int64_t first_step = Begin([&](const SafetensorsReader& reader) {
      LoadNetwork(reader, "pretraining.network.", network);
      optimizer->LoadState(reader, "pretraining.optimizer");
      if (parallel::Checkpointable* const state = strategy->state()) state->LoadState(reader, "pretraining.strategy");
      const std::vector<double> sums = reader.ReadDoubles("pretraining.loss");
      loss = {sums.at(0), sums.at(1), sums.at(2)};
    });
    const parallel::DataShare share = strategy->data_share();
    Frames frames(worker_, comm_, share, options_.pretrain.epochs_per_layer,
                  fmt::format("pre-training layer {} of {}", hidden, blocks_.num_hidden()), first_step);
    parallel::StepInput input;
    input.context.precision = ParsePrecision(options_.precision);
    input.context.training = true;
    input.context.seed = MixSeed(FreshSeed(), hidden);
    input.learning_rate =
        options_.pretrain.learning_rate > 0 ? options_.pretrain.learning_rate : options_.schedule.learning_rate;
    while (const data::Minibatch* minibatch = frames.Next()) {
      input.context.step = frames.steps_done() * share.count + share.index;
      input.step_fullness = frames.step_fullness();
      input.features = minibatch->features;
      input.targets = worker_.run().replica.targets().Make(*minibatch);
      parallel::CountAlike(minibatch->fullness, input);
      const parallel::StepOutput output = strategy->Step(input);
      if (!std::isfinite(output.loss.loss())) {
        Throw<DivergenceError>("pre-training layer {}: the loss is not finite; lower pretrain.learning-rate (now {})",
                               hidden, input.learning_rate);
      }
      loss += output.loss;
      const auto add_state = [&](SafetensorsWriter& writer) {
        SaveNetwork(writer, "pretraining.network.", network);
        optimizer->SaveState(writer, "pretraining.optimizer");
        if (parallel::Checkpointable* const state = strategy->state()) {
          state->SaveState(writer, "pretraining.strategy");
        }
        const double sums[] = {loss.loss_sum, loss.weight_sum, loss.correct_sum};
        writer.Add("pretraining.loss", std::span<const double>(sums));
      };
      SaveIfDue(hidden - 1, frames, add_state,
                [&](std::string_view name) { return IsCommon(name, network, *strategy); });
    }
    for (const parallel::StepOutput& output : strategy->Drain()) loss += output.loss;
    steps_before_ += frames.steps_done();
    strategy->AfterEpoch();
    strategy->Finish();
    frames.Finish("loss " + LossText(loss.loss()));
    worker_.log().Write(report::MetricsRecord("pretrain")
                            .Set("layer", hidden)
                            .Set("train_loss", loss.loss())
                            .Set("train_accuracy", loss.frame_accuracy()));
  }

  // Of the tensors of a stage that is trained by backpropagation.
  static bool IsCommon(std::string_view name, const nn::Network& network, parallel::Strategy& strategy) {
    parallel::Checkpointable* const state = strategy.state();
    if (state == nullptr) return false;
    const parallel::CommonState common = state->common_state();
    if (common.optimizer && name.starts_with("pretraining.optimizer")) return true;
    const auto any = [](const auto& all, const auto& is) { return std::any_of(all.begin(), all.end(), is); };
    const auto of_strategy = [&](const std::string& own) { return name == "pretraining.strategy" + own; };
    const auto of_values = [&](const nn::Parameter* p) { return name == "pretraining.network." + p->name; };
    return any(common.tensors, of_strategy) || (common.values && any(network.parameters(), of_values));
  }

  optim::Rbm MakeRbm(size_t hidden) {
    nn::Network& network = worker_.network();
    const size_t first = blocks_.begin[hidden];
    const bool sigmoid =
        first + 1 < network.num_layers() && network.layer(first + 1).properties().activation == Activation::kSigmoid;
    const bool affine = nn::TraitsOf(network, first).product == nn::LayerTraits::Product::kPlain &&
                        network.layer(first).parameters().size() == 2;  // weights and biases
    if (!affine || !sigmoid) {
      Throw<UsageError>(
          "pretrain.method 'rbm' needs hidden layers that are 'affine' followed by 'sigmoid'; '{}' is not",
          network.layer_name(first));
    }
    optim::RbmOptions rbm_options;
    rbm_options.learning_rate = options_.pretrain.rbm_learning_rate;
    rbm_options.gaussian_learning_rate = options_.pretrain.rbm_gaussian_learning_rate;
    const nn::Layer& layer = network.layer(first);
    return {layer.in_dim(), layer.out_dim(),
            hidden == 0 ? optim::VisibleUnits::kGaussian : optim::VisibleUnits::kBernoulli, rbm_options,
            MixSeed(SeedOf(task_.seed, RandomStream::kPretrainRbm), hidden)};
  }

  void TrainRbm(size_t hidden) {
    optim::Rbm rbm = MakeRbm(hidden);
    const bool gaussian = hidden == 0;
    double error = 0;
    const int64_t first_step = Begin([&](const SafetensorsReader& reader) {
      rbm.LoadState(reader, "pretraining.rbm");
      error = reader.ReadDoubles("pretraining.error").at(0);
    });
    // What the machine sees is the output of the layers below it.
    const nn::Network below = LayersBelow(blocks_.begin[hidden]);
    // Every worker trains the same machine on all data: none waits for another, and all end with the same bits.
    Frames frames(worker_, comm_, {0, 1},
                  options_.pretrain.epochs_per_layer * (gaussian ? options_.pretrain.gaussian_epochs_factor : 1),
                  fmt::format("RBM {} of {}", hidden + 1, blocks_.num_hidden()), first_step);
    nn::Workspace workspace;
    while (const data::Minibatch* minibatch = frames.Next()) {
      const MatrixView visible = below.Forward({}, minibatch->features, workspace);
      if (!gaussian && frames.steps_done() == 1) rbm.SetVisibleMean(ColumnMeans(visible));
      const optim::Rbm::StepReport report = rbm.Train(visible);
      if (report.guard_fired)
        log::Warn("RBM {}: the reconstruction exploded; weights shrunk, rate lowered", hidden + 1);
      error += 0.02 * (report.reconstruction_error - error);
      const auto add_state = [&](SafetensorsWriter& writer) {
        rbm.SaveState(writer, "pretraining.rbm");
        writer.Add("pretraining.error", std::span<const double>(&error, 1));
      };
      SaveIfDue(hidden, frames, add_state, [](std::string_view name) {
        return name.starts_with("pretraining.rbm") || name == "pretraining.error";
      });
    }
    steps_before_ += frames.steps_done();
    frames.Finish(fmt::format("reconstruction error {:.4g}", error));
    worker_.log().Write(report::MetricsRecord("pretrain").Set("layer", hidden + 1).Set("reconstruction_error", error));
    const auto parameters = worker_.network().layer(blocks_.begin[hidden]).parameters();
    std::copy_n(rbm.weight().data(), rbm.weight().size(), parameters[0]->value.data());
    std::copy(rbm.hidden_bias().begin(), rbm.hidden_bias().end(), parameters[1]->value.data());
    worker_.network().MarkChanged();
  }

  static std::vector<double> ColumnMeans(ConstMatrixView x) {
    std::vector<double> mean(static_cast<size_t>(x.cols()), 0.0);
    for (int64_t r = 0; r < x.rows(); ++r) {
      for (int64_t c = 0; c < x.cols(); ++c) mean[static_cast<size_t>(c)] += x(r, c);
    }
    for (double& m : mean) m /= static_cast<double>(std::max<int64_t>(1, x.rows()));
    return mean;
  }

  const TrainingTask& task_;
  const TrainOptions& options_;
  comm::Communicator& comm_;
  Worker& worker_;
  Blocks blocks_;
  std::optional<SafetensorsReader> broken_;  // until the stage that it belongs to has taken it over
  size_t first_stage_ = 0;
  int64_t first_step_ = 0;    // of the first stage
  int64_t steps_before_ = 0;  // in the stages that are done
};

}  // namespace

void Pretrain(const TrainingTask& task, const TrainOptions& options, comm::Communicator& comm, Worker& worker) {
  if (options.pretrain.method == PretrainMethod::kNone) return;
  if (worker.run().replica.parts() != nullptr) {
    Throw<UsageError>(
        "pretrain.method '{}' works on whole networks, but the ranks of this parallel.method hold parts of one: take "
        "pretrain.method 'none', or another parallel.method",
        NameOf(options.pretrain.method, kPretrainMethods));
  }
  Grower grower(task, options, comm, worker);
  // Its checkpoints are for as many workers: others wait until it is finished.
  worker.saver().requests().PutOff(true);
  const Finally looked_for_again([&] { worker.saver().requests().PutOff(false); });
  if (options.pretrain.method == PretrainMethod::kRbm) {
    if (comm.world_size() > 1 && options.data.distribution != Distribution::kPool) {
      throw UsageError(
          "pretrain.method 'rbm' with several workers needs data.distribution 'pool': each reads all data");
    }
    grower.GrowByRbms();
  } else {
    grower.GrowByBackpropagation();
  }
}

}  // namespace antiphon::train
