// Adam: steps scaled by running means of the gradient and its square. `weight-decay` is decoupled (AdamW).
//
// Source: Kingma, Ba, ICLR 2015; Loshchilov, Hutter, ICLR 2019.
#include <cmath>
#include <string>
#include <vector>

#include "base/options.h"
#include "kernels/update.h"
#include "optim/optimizer.h"
#include "optim/row_blocks.h"

namespace antiphon::optim {
namespace {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  template <class V>
  void Visit(V& v) {
    v("beta1", beta1, Range{0, 0.99999}, "weight of the past in the mean of the gradient");
    v("beta2", beta2, Range{0, 0.9999999}, "weight of the past in the mean of its square");
    v("epsilon", epsilon, Range{1e-20, 1}, "added to the root of the mean square");
    v("weight-decay", weight_decay, Range{0, 1e3}, "pulls weights (not biases) towards 0, per unit of learning rate");
  }
};

class Adam : public Optimizer {
 public:
  Adam(const Config& config, const SteppedValues& values)
      : options_(ReadOptions<AdamOptions>(config, {"type"})),
        mean_(1, static_cast<int64_t>(values.num_values)),
        square_(1, static_cast<int64_t>(values.num_values)) {}

  void BeginStep(double learning_rate) override {
    rate_ = learning_rate;
    ++step_;
    ++mean_step_;
  }

  void TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) override {
    ForRowBlocks(weight, [&](int64_t first, MatrixView rows) {
      block_.Resize(rows.rows(), rows.cols());
      nn::FactorProduct(factors, first, 0.0f, block_);
      Step(weight, first, rows, block_.data());
    });
    if (bias == nullptr) return;
    block_.Resize(1, bias->value.cols());
    nn::BiasGradient(factors, 1.0f, 0.0f, block_);
    Step(*bias, 0, bias->value, block_.data());
    bias->MarkChanged();
  }

  void TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) override {
    const Matrix copy(gradient);
    Step(parameter, 0, parameter.value, copy.data());
    parameter.MarkChanged();
  }

  StepReport EndStep() override { return {}; }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    writer.AddView(prefix + "mean", mean_);
    writer.AddView(prefix + "square", square_);
    writer.Add(prefix + "step", std::span<const int64_t>(&step_, 1));
    writer.Add(prefix + "mean-step", std::span<const int64_t>(&mean_step_, 1));
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    reader.ReadInto(prefix + "mean", mean_);
    reader.ReadInto(prefix + "square", square_);
    step_ = reader.ReadInts(prefix + "step").at(0);
    mean_step_ = reader.ReadInts(prefix + "mean-step").at(0);
  }
  std::vector<std::string> state_of_values() const override { return {"mean", "square"}; }
  void ResetState() override {
    ResetMomentum();
    square_.SetZero();
    step_ = 0;
  }
  // How large gradients are stays true wherever the parameters go.
  void ResetMomentum() override {
    mean_.SetZero();
    mean_step_ = 0;
  }
  size_t state_bytes() const override { return static_cast<size_t>(mean_.size() + square_.size()) * sizeof(float); }

 private:
  void Step(const nn::Parameter& p, int64_t first, MatrixView rows, const float* gradient) {
    const double rate = rate_ * static_cast<double>(p.learning_rate_factor);
    AdamRates rates;
    rates.rate = static_cast<float>(rate);
    rates.beta1 = static_cast<float>(options_.beta1);
    rates.beta2 = static_cast<float>(options_.beta2);
    rates.epsilon = static_cast<float>(options_.epsilon);
    rates.correction1 = static_cast<float>(1 / (1 - std::pow(options_.beta1, static_cast<double>(mean_step_))));
    rates.correction2 = static_cast<float>(1 / (1 - std::pow(options_.beta2, static_cast<double>(step_))));
    rates.shrink = static_cast<float>(1 - rate * options_.weight_decay * static_cast<double>(p.decay_factor));
    const int64_t at = p.offset + first * rows.cols();
    AdamStep(rates, gradient, mean_.data() + at, square_.data() + at, rows.data(), rows.size());
  }

  AdamOptions options_;
  double rate_ = 0;
  int64_t step_ = 0;       // since the mean square began
  int64_t mean_step_ = 0;  // since the mean did
  Matrix mean_;
  Matrix square_;
  Matrix block_;
};

REGISTER_COMPONENT(OptimizerRegistry, "adam", [](const Config& config, const SteppedValues& values) {
  return std::make_unique<Adam>(config, values);
});

}  // namespace
}  // namespace antiphon::optim
