// A second head on the layer below: hidden values pass through unchanged, and while training a small classifier learns
// another task from them (speaker, domain, noise type), with weight a in the loss.
//
// L = L_senones + a·L_task, L_task being averaged over the frames whose label is known (nn/side_targets.h). With
// `adversarial`, the classifier learns as without, but the layers below get its gradient reversed
// (nn/layers/gradient_reversal.cc): they unlearn what it looks for. When scoring the layer is nothing; a runtime leaves
// it out.
//
// The head is a hidden layer of `hidden-dim` units, or, with `layers`, a chain of its own that looks at one frame at a
// time and whose last layer takes the number of classes: the second output branch of chain models, whose targets are
// shares of classes (SideTarget::shares) instead of labels. Without `classes` there are as many as the network's
// outputs.
//
// The classifier's passes run in Backward, when the hidden values are known and everything above is done.
// Source: Caruana, Multitask learning, 1997; Ganin, Lempitsky, ICML 2015; algorithms reference 1.25, 1.26.
#include "nn/layers/side_task.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/toml_text.h"
#include "kernels/elementwise.h"
#include "kernels/parallel.h"
#include "kernels/softmax.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"
#include "nn/layers/inner_chain.h"
#include "nn/network.h"
#include "nn/side_targets.h"

namespace antiphon::nn {
namespace {

struct SideTaskOptions {
  std::string task;
  int classes = 0;
  SideHeadOptions head;
  template <class V>
  void Visit(V& v) {
    v("task", task, "whose labels it learns");
    v("classes", classes, Range{0, kLargestDim}, "number of different labels; 0: as many as the network has outputs");
    head.Visit(v);
  }
};

SideTaskOptions ReadSideTask(const LayerArgs& args) {
  auto options = ReadOptions<SideTaskOptions>(args.config, KeysBesideChain());
  if (options.classes == 0) options.classes = args.network_out_dim;
  if (options.classes == 0) {
    Throw<UsageError>("{}: `classes` is missing, the number of different labels", args.config.Where());
  }
  if (args.config.Has("layers") && (args.config.Has("hidden-dim") || options.head.adversarial)) {
    Throw<UsageError>("{}: `layers` describe the whole head: leave out hidden-dim and adversarial",
                      args.config.Where("layers"));
  }
  return options;
}

Network MakeOwnChain(const SideTaskOptions& o, const LayerArgs& args) {
  Config chain;
  chain.Set("layer", InlineTomlTables(args.config.Tables("layers")));
  Network own(Config::Parse(chain.ToToml(), args.config.Where("layers")), args.in_dim, o.classes, args.seed,
              args.random_values ? InitialValues::kRandom : InitialValues::kToBeSet);
  if (own.needs_sequences()) {
    Throw<UsageError>("{}: a side task's layers look at one frame at a time", args.config.Where("layers"));
  }
  return own;
}

Network MakeClassifier(const SideTaskOptions& o, const LayerArgs& args) {
  if (args.config.Has("layers")) return MakeOwnChain(o, args);
  // Reversal by −1 is none.
  std::string toml = fmt::format("[[layer]]\ntype = 'gradient-reversal'\nmost = {}\ngamma = {}\n",
                                 o.head.adversarial ? o.head.most : -1.0, o.head.adversarial ? o.head.gamma : 0.0);
  if (o.head.hidden_dim > 0) {
    toml += fmt::format("[[layer]]\ntype = 'affine'\ndim = {}\n[[layer]]\ntype = 'relu'\n", o.head.hidden_dim);
  }
  toml += fmt::format("[[layer]]\ntype = 'affine'\ndim = {}\n", o.classes);
  return Network(Config::Parse(toml, args.config.Where("type")), args.in_dim, o.classes, args.seed,
                 args.random_values ? InitialValues::kRandom : InitialValues::kToBeSet);
}

class SideTask : public Layer, public Constrained {
 public:
  SideTask(const LayerArgs& args, const SideTaskOptions& options)
      : Layer(args.in_dim, args.in_dim),
        options_(options),
        has_chain_(args.config.Has("layers")),
        index_(args.index),
        classifier_(MakeClassifier(options, args)) {
    if (options.task.empty()) Throw<UsageError>("{}: a side task needs a name, `task`", args.config.Where("type"));
  }
  Config ToConfig() const override {
    Config config = OptionsToConfig(options_);
    if (!has_chain_) return config;
    Config own;
    for (const char* key : {"task", "classes", "weight"}) own.Set(key, *config.AnyAsText(key));
    SetChain(classifier_, own);
    return own;
  }
  void SetContextAbove(const TimeContext& above) override {
    Layer::SetContextAbove(above);
    classifier_.SetContextAbove(above);
  }
  void AfterSteps(int64_t first, int64_t count) override { classifier_.AfterSteps(first, count); }
  std::span<Parameter* const> parameters() override { return classifier_.parameters(); }
  std::span<Parameter* const> buffers() override { return classifier_.buffers(); }
  LayerProperties properties() const override { return {.in_place = true}; }
  Constrained* constraint() override { return IsConstrained(classifier_) ? this : nullptr; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override { Scale(1, x, y); }

  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override {
    if (dx.data() != nullptr && dx.data() != dy.data()) Scale(1, dy, dx);
    SideTarget* target = ctx.training ? Find(ctx) : nullptr;
    if (target == nullptr || (dy.rows() == 0 && ctx.ranks == nullptr)) return;
    Workspace& own = ws.Child(0);
    const ExecContext inside = InsideChain(ctx, index_, 0);
    const MatrixView z = classifier_.Forward(inside, ws.x, own);
    // Without frames, for the other ranks' batch normalisation alone.
    if (dy.rows() > 0) {
      target->seen = target->shares.begin.empty() ? Derive(ctx, *target, z) : DeriveShares(ctx, *target, z);
    }
    const MatrixView side = classifier_.Backward(inside, z, own, sink, dx.data() != nullptr);
    if (dx.data() != nullptr) AddScaled(1, side, dx);
  }

 private:
  SideTarget* Find(const ExecContext& ctx) const {
    if (ctx.side_targets == nullptr) return nullptr;
    auto& tasks = ctx.side_targets->tasks;
    const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const auto& t) { return t.task == options_.task; });
    return found == tasks.end() ? nullptr : &*found;
  }

  // Overwrites the logits by the weighted loss's derivative.
  LossResult Derive(const ExecContext& ctx, const SideTarget& target, MatrixView z) {
    Spread<int32_t>(ctx, target.labels, z.rows(), SideTargets::kUnknown, labels_);
    if (target.weights.empty()) {
      weights_.assign(labels_.size(), 1);
    } else {
      Spread<float>(ctx, target.weights, z.rows(), 0, weights_);
    }
    for (size_t n = 0; n < labels_.size(); ++n) {
      if (labels_[n] != SideTargets::kUnknown) continue;
      labels_[n] = 0;
      weights_[n] = 0;
    }
    const LossResult result = SoftmaxCrossEntropy(z, {.pdf_ids = labels_, .frame_weights = weights_}, z);
    Scale(static_cast<float>(options_.head.weight * ctx.loss_share), z, z);
    return result;
  }

  // The same for shares of classes: with p those of an output and q the softmax, −Σ p·log q and q·Σp − p.
  LossResult DeriveShares(const ExecContext& ctx, const SideTarget& target, MatrixView z) {
    const size_t outputs = target.shares.begin.size() - 1;
    const auto streams = static_cast<size_t>(ctx.streams());
    const auto left = static_cast<size_t>(context_above().left), stride = static_cast<size_t>(context_above().stride);
    output_of_row_.assign(static_cast<size_t>(z.rows()), kNone);
    LossResult result;
    for (size_t n = 0; n < outputs; ++n) {
      output_of_row_[ctx.sequences == nullptr ? n : (left + n / streams * stride) * streams + n % streams] = n;
      for (const auto& [label, share] : target.shares.Of(n)) {
        result.weight_sum += static_cast<double>(share);
        CHECK(label >= 0 && label < options_.classes) << label;
      }
    }
    const double total = target.total_weight.value_or(result.weight_sum);
    const double share = target.total_weight ? 1 : ctx.loss_share;
    const double scale = total > 0 ? options_.head.weight * share / total : 0;
    row_losses_.assign(static_cast<size_t>(z.rows()), {});
    Softmax(true, z, z);
    ParallelItems(z.rows(), z.size(), [&](int64_t r) {
      const size_t n = output_of_row_[static_cast<size_t>(r)];
      const auto row = z.Row(r);
      const std::span shares = n == kNone ? std::span<const ClassShares::Share>() : target.shares.Of(n);
      if (shares.empty()) {
        std::ranges::fill(row, 0.0f);
        return;
      }
      row_losses_[static_cast<size_t>(r)] = DeriveRow(shares, scale, row);
    });
    for (const LossResult& of_row : row_losses_) {
      result.loss_sum += of_row.loss_sum;
      result.correct_sum += of_row.correct_sum;
    }
    return result;
  }

  // Overwrites log q by the derivative.
  static LossResult DeriveRow(std::span<const ClassShares::Share> shares, double scale, std::span<float> row) {
    LossResult result;
    double sum = 0;
    const auto best = static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
    for (const auto& [label, share] : shares) {
      sum += static_cast<double>(share);
      result.loss_sum -= static_cast<double>(share) * static_cast<double>(row[static_cast<size_t>(label)]);
      if (label == best) result.correct_sum += static_cast<double>(share);
    }
    const auto all = static_cast<float>(scale * sum);
    for (float& q : row) q = all * std::exp(q);
    for (const auto& [label, share] : shares) row[static_cast<size_t>(label)] -= static_cast<float>(scale) * share;
    return result;
  }

  // Of each of the network's outputs to each row here. In sequences that is the `stride` frames that an output stands
  // for; those around them belong to other outputs, or to none.
  template <class T>
  void Spread(const ExecContext& ctx, const std::vector<T>& of_outputs, int64_t rows, T none, std::vector<T>& of_rows) {
    if (ctx.sequences == nullptr) {
      of_rows = of_outputs;
      return;
    }
    of_rows.assign(static_cast<size_t>(rows), none);
    const auto streams = static_cast<size_t>(ctx.sequences->streams);
    const auto left = static_cast<size_t>(context_above().left), stride = static_cast<size_t>(context_above().stride);
    for (size_t n = 0; n < of_outputs.size(); ++n) {
      const size_t first = left + n / streams * stride;
      for (size_t k = 0; k < stride; ++k) of_rows[(first + k) * streams + n % streams] = of_outputs[n];
    }
  }

  static constexpr size_t kNone = static_cast<size_t>(-1);

  SideTaskOptions options_;
  bool has_chain_;
  uint64_t index_;
  Network classifier_;
  std::vector<int32_t> labels_;
  std::vector<float> weights_;
  std::vector<size_t> output_of_row_;
  std::vector<LossResult> row_losses_;
};

REGISTER_COMPONENT(LayerRegistry, "side-task",
                   [](const LayerArgs& args) { return std::make_unique<SideTask>(args, ReadSideTask(args)); });
REGISTER_COMPONENT(LayerTraitsRegistry, "side-task", Traits({.auxiliary = true}));

}  // namespace
}  // namespace antiphon::nn
