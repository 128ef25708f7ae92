// Natural-gradient SGD: every layer's gradient factors are preconditioned on their way to another optimizer.
//
// dL/dW = gᵀ·x becomes γ_x·γ_g·ĝᵀ·x̂, with x (extended by a 1 for the bias) and g multiplied by smoothed inverses of
// their own running covariances (optim/online_natural_gradient.h). The step itself is taken by the optimizer of the
// sub-table `step`, SGD by default; give it max-change, since the first steps of a covariance that is still being
// learned can be long. Gradients without factors pass through.
//
// Multiplying the factors costs 2·N·(rank_x·in + rank_g·out), multiplying the gradient 2·(rank_x + rank_g)·in·out:
// whichever is less is done. With the gradient, γ is that of the last minibatch that counted for the covariance. Each
// worker keeps its own covariances. Source: Povey, Zhang, Khudanpur, ICLR workshop
// 2015.
#include <map>
#include <memory>
#include <vector>

#include "kernels/elementwise.h"
#include "math/padded_matrix.h"
#include "optim/online_natural_gradient.h"
#include "optim/optimizer.h"

namespace antiphon::optim {
namespace {

class NaturalGradient : public Optimizer {
 public:
  NaturalGradient(const Config& config, const SteppedValues& values)
      : options_(ReadOptions<NaturalGradientOptions>(config, {"type", "step"})),
        step_(MakeOptimizer(config.Table("step"), values)),
        parameters_(values.network.parameters()) {}

  void BeginStep(double learning_rate) override { step_->BeginStep(learning_rate); }
  StepReport EndStep() override {
    OnlineNaturalGradient::Update(all_sides_);
    return step_->EndStep();
  }

  void TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) override {
    Sides& sides = SidesOf(weight.name, factors.x.cols() + (bias != nullptr ? 1 : 0), factors.g.cols());
    if (GradientIsCheaper(factors, sides)) return TakeGradient(weight, bias, factors, sides);
    const int64_t frames = factors.x.rows();
    derivative_.Resize(frames, sides.output.dim());
    const MatrixView x = ExtendedInput(factors, bias != nullptr);
    const MatrixView g = derivative_;
    Scale(1.0f, factors.g, g);
    const float gamma = sides.input.Precondition(x) * sides.output.Precondition(g, factors.g16);
    // The bias input is scaled with x, and x is the smaller factor of the large layers.
    if (gamma != 1.0f) Scale(gamma, x, x);

    nn::GradientFactors preconditioned;
    preconditioned.x = x.Cols(0, factors.x.cols());
    preconditioned.g = g;
    if (bias != nullptr) preconditioned.bias_input = BiasInput(x);
    if (!factors.x16.empty()) {
      input_half_.Resize(frames, factors.x.cols());
      derivative_half_.Resize(frames, g.cols());
      ConvertToBf16(1.0f, preconditioned.x, input_half_);
      ConvertToBf16(1.0f, g, derivative_half_);
      preconditioned.x16 = std::as_const(input_half_).view();
      preconditioned.g16 = std::as_const(derivative_half_).view();
    }
    next().TakeFactors(weight, bias, preconditioned);
  }

  void TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) override { next().TakeDense(parameter, gradient); }
  void PassFactorsTo(nn::GradientSink* sink) override { sink_ = sink; }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    step_->SaveState(writer, prefix + "step.");
    for (const auto& [name, sides] : sides_) {
      sides->input.SaveState(writer, prefix + name + ".input");
      sides->output.SaveState(writer, prefix + name + ".output");
    }
  }

  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    step_->LoadState(reader, prefix + "step.");
    all_sides_.clear();
    sides_.clear();
    for (const nn::Parameter* p : parameters_) {
      const std::string name = prefix + p->name;
      if (!reader.Has(name + ".input.shape")) continue;
      Sides& sides = SidesOf(p->name, StoredDim(reader, name + ".input"), StoredDim(reader, name + ".output"));
      sides.input.LoadState(reader, name + ".input");
      sides.output.LoadState(reader, name + ".output");
    }
  }

  std::vector<std::string> state_of_values() const override {
    std::vector<std::string> names = step_->state_of_values();
    for (std::string& name : names) name.insert(0, "step.");
    return names;
  }

  void ResetState() override {
    step_->ResetState();
    all_sides_.clear();
    sides_.clear();
  }
  // Of each side the basis, twice, and once in double.
  size_t state_bytes() const override {
    int64_t values = 0;
    for (const nn::Parameter* p : parameters_) {
      if (p->value.rows() <= 1) continue;
      values += options_.input_rank * (p->value.cols() + 1) + options_.output_rank * p->value.rows();
    }
    return step_->state_bytes() + static_cast<size_t>(values) * (2 * sizeof(float) + sizeof(double));
  }
  void ResetMomentum() override { step_->ResetMomentum(); }
  double momentum() const override { return step_->momentum(); }
  void ShareMaxChange(double share) override { step_->ShareMaxChange(share); }
  bool needs_factors() const override { return true; }

 private:
  nn::GradientSink& next() { return sink_ != nullptr ? *sink_ : *step_; }

  struct Sides {
    OnlineNaturalGradient input;
    OnlineNaturalGradient output;
  };

  static bool GradientIsCheaper(const nn::GradientFactors& factors, const Sides& sides) {
    const int64_t in = sides.input.dim(), out = sides.output.dim();
    const int64_t input_rank = sides.input.rank(), output_rank = sides.output.rank();
    return (input_rank + output_rank) * in * out < factors.x.rows() * (input_rank * in + output_rank * out);
  }

  // The bias is the gradient's last column.
  void TakeGradient(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors, Sides& sides) {
    const int64_t in = factors.x.cols();
    gradient_.Resize(factors.g.cols(), sides.input.dim());
    const MatrixView gradient = gradient_;
    nn::FactorProduct(factors, 0, 0.0f, gradient.Cols(0, in));
    if (bias != nullptr) {
      bias_gradient_.Resize(1, gradient.rows());
      nn::BiasGradient(factors, 1.0f, 0.0f, bias_gradient_);
      for (int64_t o = 0; o < gradient.rows(); ++o) gradient(o, in) = bias_gradient_(0, o);
    }
    if (sides.input.due()) {
      sides.input.Observe(ExtendedInput(factors, bias != nullptr));
    } else {
      sides.input.Skip();
    }
    if (sides.output.due()) {
      sides.output.Observe(factors.g, factors.g16);
    } else {
      sides.output.Skip();
    }
    sides.output.MultiplyRows(gradient);
    sides.input.MultiplyColumns(gradient);
    for (int64_t o = 0; bias != nullptr && o < gradient.rows(); ++o) bias_gradient_(0, o) = gradient(o, in);
    next().TakeDense(weight, gradient.Cols(0, in));
    if (bias != nullptr) next().TakeDense(*bias, bias_gradient_);
  }

  Sides& SidesOf(const std::string& name, int64_t in_dim, int64_t out_dim) {
    std::unique_ptr<Sides>& sides = sides_[name];
    if (!sides) {
      auto side = [&](int64_t dim, int rank) {
        return OnlineNaturalGradient(dim, rank, options_.alpha, options_.history_frames, options_.update_period);
      };
      sides = std::make_unique<Sides>(Sides{side(in_dim, options_.input_rank), side(out_dim, options_.output_rank)});
      all_sides_.insert(all_sides_.end(), {&sides->input, &sides->output});
    }
    return *sides;
  }

  static int64_t StoredDim(const SafetensorsReader& reader, const std::string& name) {
    const std::vector<int64_t> shape = reader.ReadInts(name + ".shape");
    if (shape.size() != 3 || shape[1] < 1) {
      Throw<InputError>("{}: '{}.shape' is not a natural-gradient state", reader.path().string(), name);
    }
    return shape[1];
  }

  // A copy of x, with the bias's input behind it if there is one.
  MatrixView ExtendedInput(const nn::GradientFactors& factors, bool with_bias) {
    const int64_t in = factors.x.cols();
    input_.Resize(factors.x.rows(), in + (with_bias ? 1 : 0));
    const MatrixView x = input_;
    Scale(1.0f, factors.x, x.Cols(0, in));
    for (int64_t n = 0; with_bias && n < x.rows(); ++n) {
      x(n, in) = factors.bias_input.empty() ? 1.0f : factors.bias_input[static_cast<size_t>(n)];
    }
    return x;
  }

  std::span<const float> BiasInput(ConstMatrixView x) {
    bias_input_.resize(static_cast<size_t>(x.rows()));
    for (int64_t n = 0; n < x.rows(); ++n) bias_input_[static_cast<size_t>(n)] = x(n, x.cols() - 1);
    return bias_input_;
  }

  NaturalGradientOptions options_;
  std::unique_ptr<Optimizer> step_;
  nn::GradientSink* sink_ = nullptr;  // in place of the step
  std::span<nn::Parameter* const> parameters_;
  std::map<std::string, std::unique_ptr<Sides>> sides_;
  std::vector<OnlineNaturalGradient*> all_sides_;  // of sides_
  PaddedMatrix<float> input_;
  PaddedMatrix<float> derivative_;
  PaddedMatrix<float> gradient_;
  Matrix bias_gradient_;
  Bf16Matrix input_half_;
  PaddedMatrix<Bf16> derivative_half_;
  std::vector<float> bias_input_;
};

REGISTER_COMPONENT(OptimizerRegistry, "natural-gradient", [](const Config& config, const SteppedValues& values) {
  return std::make_unique<NaturalGradient>(config, values);
});

}  // namespace
}  // namespace antiphon::optim
