#include "train/probe.h"

#include <numeric>

#include "base/error.h"
#include "nn/loss.h"
#include "optim/optimizer.h"

namespace antiphon::train {
namespace {

constexpr int kMinibatch = 256;  // of each kind

// Training and trial utterances of one kind, as endless minibatches.
class Side {
 public:
  Side(const EvaluationData& data, uint64_t seed, bool trial) {
    std::vector<size_t> all = data.utterances;
    if (all.empty()) {
      all.resize(data.store->utterances().size());
      std::iota(all.begin(), all.end(), size_t{0});
    }
    std::vector<size_t> chosen;
    for (size_t i = 0; i < all.size(); ++i) {
      if ((i % 5 == 4) == trial) chosen.push_back(all[i]);
    }
    if (chosen.empty()) return;
    data::MinibatchOptions options;
    options.minibatch = kMinibatch;
    options.left_context = data.context.left;
    options.right_context = data.context.right;
    pool_ = std::make_unique<data::MinibatchPool>(data.store, options, seed, 1, chosen);
  }
  int64_t minibatches() const { return pool_ ? pool_->num_frames() / kMinibatch : 0; }
  const data::Minibatch& Get(int64_t index) {
    pool_->Fill(index / minibatches(), 0, index % minibatches(), buffer_);
    return buffer_.minibatch;
  }

 private:
  std::unique_ptr<data::MinibatchPool> pool_;
  data::MinibatchBuffer buffer_;
};

class Probe {
 public:
  Probe(const nn::Network& network, size_t layer, const ProbeOptions& options, uint64_t seed)
      : network_(network),
        below_{0, layer + 1},
        head_(Config::Parse(fmt::format("[[layer]]\ntype = 'affine'\ndim = {}\n[[layer]]\ntype = 'relu'\n"
                                        "[[layer]]\ntype = 'affine'\n",
                                        options.hidden_dim),
                            "probe"),
              network.layer(layer).out_dim(), 2, seed),
        optimizer_(optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.9\n", "probe"), head_)) {}

  nn::LossResult Step(const data::Minibatch& a, const data::Minibatch& b, double rate) {
    Matrix x(a.features.rows() + b.features.rows(), a.features.cols());
    std::vector<int32_t> labels;
    for (int64_t n = 0; n < x.rows(); ++n) {
      const bool second = n >= a.features.rows();
      const auto from = second ? b.features.Row(n - a.features.rows()) : a.features.Row(n);
      std::copy(from.begin(), from.end(), x.Row(n).begin());
      labels.push_back(second ? 1 : 0);
    }
    const MatrixView hidden = network_.Forward({}, x, below_, hidden_);
    const nn::ExecContext context{.training = rate > 0};
    const MatrixView z = head_.Forward(context, hidden, own_);
    const nn::LossResult result = nn::SoftmaxCrossEntropy(z, {.pdf_ids = labels}, rate > 0 ? z : MatrixView());
    if (rate == 0) return result;
    optimizer_->BeginStep(rate);
    head_.Backward(context, z, own_, *optimizer_);
    optimizer_->EndStep();
    return result;
  }

 private:
  const nn::Network& network_;
  nn::LayerRange below_;
  nn::Network head_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  nn::Workspace hidden_, own_;
};

size_t LayerOf(const nn::Network& network, const std::string& name) {
  for (size_t i = 0; i < network.num_layers(); ++i) {
    if (network.layer_name(i) == name) return i;
  }
  Throw<UsageError>("the network has no layer '{}' to look at", name);
}

}  // namespace

double ProbeDomains(const nn::Network& network, const std::string& layer, const EvaluationData& a,
                    const EvaluationData& b, uint64_t seed, const ProbeOptions& options) {
  Side train_a(a, seed, false), train_b(b, seed, false), trial_a(a, seed, true), trial_b(b, seed, true);
  for (const Side* side : {&train_a, &train_b, &trial_a, &trial_b}) {
    if (side->minibatches() == 0) return 0;
  }
  Probe probe(network, LayerOf(network, layer), options, seed);
  for (int step = 0; step < options.steps; ++step) {
    probe.Step(train_a.Get(step), train_b.Get(step),
               options.learning_rate * (1 - static_cast<double>(step) / options.steps));
  }
  nn::LossResult result;
  const int64_t trials = std::min<int64_t>(std::max(trial_a.minibatches(), trial_b.minibatches()), 50);
  for (int64_t i = 0; i < trials; ++i) result += probe.Step(trial_a.Get(i), trial_b.Get(i), 0);
  return result.frame_accuracy();
}

}  // namespace antiphon::train
