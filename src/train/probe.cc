#include "train/probe.h"

#include <numeric>

#include "base/error.h"
#include "nn/loss.h"
#include "optim/optimizer.h"

namespace antiphon::train {
namespace {

constexpr int kMinibatch = 512;   // of all kinds together
constexpr int kLeastFrames = 16;  // of a kind, else it is left out

// Utterances of a kind: every fifth for trying, the others for learning.
std::vector<size_t> Chosen(const EvaluationData& data, bool trial) {
  std::vector<size_t> all = data.utterances, chosen;
  if (all.empty()) {
    all.resize(data.store->utterances().size());
    std::iota(all.begin(), all.end(), size_t{0});
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if ((i % 5 == 4) == trial) chosen.push_back(all[i]);
  }
  return chosen;
}

int64_t Frames(const data::FrameStore& store, const std::vector<size_t>& utterances) {
  int64_t frames = 0;
  for (const size_t u : utterances) frames += store.utterances()[u].num_frames;
  return frames;
}

// Endless minibatches of so many frames of some utterances.
class Kind {
 public:
  Kind(const EvaluationData& data, const std::vector<size_t>& utterances, int frames, uint64_t seed) {
    data::MinibatchOptions options;
    options.minibatch = frames;
    options.left_context = data.context.left;
    options.right_context = data.context.right;
    pool_ = std::make_unique<data::MinibatchPool>(data.store, options, seed, 1, utterances);
    minibatches_ = pool_->num_frames() / frames;
  }
  int64_t minibatches() const { return minibatches_; }
  const data::Minibatch& Get(int64_t index) {
    if (index != filled_) pool_->Fill(index / minibatches_, 0, index % minibatches_, buffer_);
    filled_ = index;
    return buffer_.minibatch;
  }

 private:
  std::unique_ptr<data::MinibatchPool> pool_;
  int64_t minibatches_ = 0;
  data::MinibatchBuffer buffer_;
  int64_t filled_ = -1;
};

class Classifier {
 public:
  Classifier(const nn::Network& network, size_t layer, int kinds, const ProbeOptions& options, uint64_t seed)
      : network_(network),
        below_{0, layer + 1},
        head_(Config::Parse(fmt::format("[[layer]]\ntype = 'affine'\ndim = {}\n[[layer]]\ntype = 'relu'\n"
                                        "[[layer]]\ntype = 'affine'\n",
                                        options.hidden_dim),
                            "probe"),
              network.layer(layer).out_dim(), kinds, seed),
        optimizer_(optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.9\n", "probe"), head_)) {}

  nn::LossResult Step(std::vector<Kind>& kinds, int64_t index, double rate) {
    int64_t rows = 0;
    for (Kind& kind : kinds) rows += kind.Get(index).features.rows();
    x_.Resize(rows, kinds.front().Get(index).features.cols());
    labels_.clear();
    for (size_t k = 0; k < kinds.size(); ++k) {
      const ConstMatrixView features = kinds[k].Get(index).features;
      for (int64_t n = 0; n < features.rows(); ++n) {
        std::copy(features.Row(n).begin(), features.Row(n).end(), x_.Row(std::ssize(labels_)).begin());
        labels_.push_back(static_cast<int32_t>(k));
      }
    }
    const MatrixView hidden = network_.Forward({}, x_, below_, hidden_);
    const nn::ExecContext context{.training = rate > 0};
    const MatrixView z = head_.Forward(context, hidden, own_);
    const nn::LossResult result = nn::SoftmaxCrossEntropy(z, {.pdf_ids = labels_}, rate > 0 ? z : MatrixView());
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
  Matrix x_;
  std::vector<int32_t> labels_;
};

size_t LayerOf(const nn::Network& network, const std::string& name) {
  for (size_t i = 0; i < network.num_layers(); ++i) {
    if (network.layer_name(i) == name) return i;
  }
  Throw<UsageError>("the network has no layer '{}' to look at", name);
}

}  // namespace

ProbeResult Probe(const nn::Network& network, const std::string& layer, const std::vector<EvaluationData>& kinds,
                  uint64_t seed, const ProbeOptions& options) {
  struct Split {
    const EvaluationData* data;
    std::vector<size_t> training, trial;
  };
  std::vector<Split> used;
  int64_t fewest = kMinibatch;
  for (const EvaluationData& kind : kinds) {
    Split split{&kind, Chosen(kind, false), Chosen(kind, true)};
    const int64_t frames = std::min(Frames(*kind.store, split.training), Frames(*kind.store, split.trial));
    if (frames < kLeastFrames) continue;
    used.push_back(std::move(split));
    fewest = std::min(fewest, frames);
  }
  if (used.size() < 2) {
    return {.missing = fmt::format("{} of {} kinds of speech have {} frames in every fifth utterance, to be tried on, "
                                   "and as many in the others, to learn from; two are needed",
                                   used.size(), kinds.size(), kLeastFrames)};
  }
  // A minibatch has as much of each.
  const auto frames = static_cast<int>(std::clamp<int64_t>(kMinibatch / std::ssize(used), 1, fewest));
  std::vector<Kind> training, trial;
  int64_t trials = 0;
  for (const Split& split : used) {
    training.emplace_back(*split.data, split.training, frames, seed);
    trial.emplace_back(*split.data, split.trial, frames, seed);
    trials = std::clamp<int64_t>(trial.back().minibatches(), trials, 50);
  }
  const auto count = static_cast<int>(trial.size());
  Classifier classifier(network, LayerOf(network, layer), count, options, seed);
  for (int step = 0; step < options.steps; ++step) {
    classifier.Step(training, step, options.learning_rate * (1 - static_cast<double>(step) / options.steps));
  }
  nn::LossResult result;
  for (int64_t i = 0; i < trials; ++i) result += classifier.Step(trial, i, 0);
  return {result.frame_accuracy(), count, {}};
}

}  // namespace antiphon::train
