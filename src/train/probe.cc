#include "train/probe.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "nn/loss.h"
#include "optim/optimizer.h"

namespace antiphon::train {
namespace {

constexpr int kMinibatch = 512;   // of all kinds together
constexpr int kLeastFrames = 16;  // of a kind, else it is left out
constexpr int kProbeChunkOutputs = 32;

// The part of the network that is looked at.
struct Below {
  nn::LayerRange layers;
  bool in_sequence = false;
  TimeContext needed = {};

  Below(const nn::Network& network, size_t top) : layers{0, top + 1} {
    for (size_t i = 0; i <= top; ++i) {
      needed = Compose(needed, network.layer(i).time_context());
      in_sequence = in_sequence || network.layer(i).recurrent();
    }
    in_sequence = in_sequence || !needed.one_to_one();
  }
};

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

// Endless minibatches of so many frames of some utterances, as the layers below see them.
class Kind {
 public:
  Kind(const EvaluationData& data, const std::vector<size_t>& utterances, int frames, const Below& below,
       uint64_t seed) {
    data::MinibatchOptions options;
    options.minibatch = frames;
    options.left_context = data.context.left;
    options.right_context = data.context.right;
    options.chunk_frames = below.in_sequence ? kProbeChunkOutputs * below.needed.stride : 0;
    options.carry_state = false;
    pool_ = std::make_unique<data::MinibatchPool>(data.store, options, seed, 1, utterances, data::InputNormalisation(),
                                                  below.needed);
    minibatches_ = below.in_sequence ? pool_->num_minibatches(0) : pool_->num_frames() / frames;
  }
  int64_t minibatches() const { return minibatches_; }
  /// Valid until the next call.
  const data::Minibatch& Get(int64_t index) {
    const int64_t epoch = index / minibatches_;
    pool_->Fill(epoch, 0, index % minibatches_ % pool_->num_minibatches(epoch), buffer_);
    return buffer_.minibatch;
  }

 private:
  std::unique_ptr<data::MinibatchPool> pool_;
  int64_t minibatches_ = 0;
  data::MinibatchBuffer buffer_;
};

class Classifier {
 public:
  Classifier(const nn::Network& network, const Below& below, int kinds, const ProbeOptions& options, uint64_t seed)
      : network_(network),
        below_(below),
        head_(Config::Parse(fmt::format("[[layer]]\ntype = 'affine'\ndim = {}\n[[layer]]\ntype = 'relu'\n"
                                        "[[layer]]\ntype = 'affine'\n",
                                        options.hidden_dim),
                            "probe"),
              network.layer(below.layers.last - 1).out_dim(), kinds, seed),
        optimizer_(optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.9\n", "probe"), head_)) {}

  nn::LossResult Step(std::vector<Kind>& kinds, int64_t index, double rate) {
    labels_.clear();
    weights_.clear();
    for (size_t k = 0; k < kinds.size(); ++k) {
      const size_t before = labels_.size();
      Look(kinds[k].Get(index), static_cast<int32_t>(k));
      weights_.resize(labels_.size(), 1 / static_cast<float>(std::max<size_t>(labels_.size() - before, 1)));
    }
    const nn::ExecContext context{.training = rate > 0};
    const MatrixView z = head_.Forward(context, hidden_.view().Rows(0, std::ssize(labels_)), own_);
    const nn::LossResult result =
        nn::SoftmaxCrossEntropy(z, {.pdf_ids = labels_, .frame_weights = weights_}, rate > 0 ? z : MatrixView());
    if (rate == 0) return result;
    optimizer_->BeginStep(rate);
    head_.Backward(context, z, own_, *optimizer_);
    optimizer_->EndStep();
    return result;
  }

 private:
  // Adds what the layer says of a minibatch.
  void Look(const data::Minibatch& minibatch, int32_t kind) {
    const MatrixView y =
        network_.Forward({.sequences = minibatch.sequences}, minibatch.features, below_.layers, workspace_);
    const int64_t first = std::ssize(labels_);
    if (hidden_.rows() < first + y.rows() || hidden_.cols() != y.cols()) {
      Matrix larger(2 * (first + y.rows()), y.cols());
      for (int64_t n = 0; n < first; ++n) std::ranges::copy(hidden_.Row(n), larger.Row(n).begin());
      hidden_ = std::move(larger);
    }
    for (int64_t n = 0; n < y.rows(); ++n) {
      if (minibatch.frame_ids[static_cast<size_t>(n)] < 0) continue;  // padding
      std::ranges::copy(y.Row(n), hidden_.Row(std::ssize(labels_)).begin());
      labels_.push_back(kind);
    }
  }

  const nn::Network& network_;
  Below below_;
  nn::Network head_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  nn::Workspace workspace_, own_;
  Matrix hidden_;
  std::vector<int32_t> labels_;
  std::vector<float> weights_;
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
    const int64_t frames = std::min(kind.store->CountFrames(split.training), kind.store->CountFrames(split.trial));
    if (frames < kLeastFrames) continue;
    used.push_back(std::move(split));
    fewest = std::min(fewest, frames);
  }
  if (used.size() < 2) {
    return {.missing = fmt::format("{} of {} kinds of speech have {} frames in every fifth utterance, to be tried on, "
                                   "and as many in the others, to learn from; two are needed",
                                   used.size(), kinds.size(), kLeastFrames)};
  }
  const Below below(network, LayerOf(network, layer));
  // A minibatch has as much of each.
  const auto frames = static_cast<int>(std::clamp<int64_t>(kMinibatch / std::ssize(used), 1, fewest));
  std::vector<Kind> training, trial;
  int64_t trials = 0;
  for (const Split& split : used) {
    training.emplace_back(*split.data, split.training, frames, below, seed);
    trial.emplace_back(*split.data, split.trial, frames, below, seed);
    trials = std::clamp<int64_t>(trial.back().minibatches(), trials, 50);
  }
  const auto count = static_cast<int>(trial.size());
  Classifier classifier(network, below, count, options, seed);
  for (int step = 0; step < options.steps; ++step) {
    classifier.Step(training, step, options.learning_rate * (1 - static_cast<double>(step) / options.steps));
  }
  nn::LossResult result;
  for (int64_t i = 0; i < trials; ++i) result += classifier.Step(trial, i, 0);
  return {result.frame_accuracy(), count, {}};
}

}  // namespace antiphon::train
