// A second head on the layer below: hidden values pass through unchanged, and while training a small classifier learns
// another task from them (speaker, domain, noise type), with weight a in the loss.
//
// L = L_senones + a·L_task, L_task being averaged over the frames whose label is known (nn/side_targets.h). With
// `adversarial`, the classifier learns as without, but the layers below get its gradient reversed
// (nn/layers/gradient_reversal.cc): they unlearn what it looks for. When scoring the layer is nothing; a runtime leaves
// it out.
//
// The classifier's passes run in Backward, when the hidden values are known and everything above is done.
// Source: Caruana, Multitask learning, 1997; Ganin, Lempitsky, ICML 2015; algorithms reference 1.25, 1.26.
#include "nn/layers/side_task.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "nn/layer.h"
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
    v("classes", classes, Range{1, kLargestDim}, "number of different labels");
    head.Visit(v);
  }
};

Network MakeClassifier(const SideTaskOptions& o, const LayerArgs& args) {
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

class SideTask : public Layer {
 public:
  SideTask(const LayerArgs& args, const SideTaskOptions& options)
      : Layer(args.in_dim, args.in_dim), options_(options), classifier_(MakeClassifier(options, args)) {
    if (options.task.empty()) Throw<UsageError>("{}: a side task needs a name, `task`", args.config.Where("type"));
  }
  Config ToConfig() const override { return OptionsToConfig(options_); }
  std::span<Parameter* const> parameters() override { return classifier_.parameters(); }
  std::span<Parameter* const> buffers() override { return classifier_.buffers(); }
  bool in_place() const override { return true; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView x, MatrixView y, Workspace&) const override { Scale(1, x, y); }

  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override {
    if (dx.data() != nullptr && dx.data() != dy.data()) Scale(1, dy, dx);
    SideTarget* target = ctx.training ? Find(ctx) : nullptr;
    if (target == nullptr || dy.rows() == 0) return;
    Workspace& own = ws.Child(0);
    const MatrixView z = classifier_.Forward(ctx, ws.x, own);
    target->seen = Derive(ctx, *target, z);
    const MatrixView side = classifier_.Backward(ctx, z, own, sink, dx.data() != nullptr);
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
    Scale(static_cast<float>(options_.head.weight), z, z);
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

  SideTaskOptions options_;
  Network classifier_;
  std::vector<int32_t> labels_;
  std::vector<float> weights_;
};

REGISTER_COMPONENT(LayerRegistry, "side-task", [](const LayerArgs& args) {
  return std::make_unique<SideTask>(args, ReadLayerOptions<SideTaskOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
