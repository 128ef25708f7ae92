// Stochastic gradient descent: plain, with momentum, with Nesterov's look-ahead; weight decay; max-change.
//
// v ← μ·v + g, w ← w − ε·(1 − μ)·v: as in Kaldi's nnet3 the step is scaled by 1 − μ, so that μ leaves the effective
// rate alone; `classical-momentum` leaves that factor out. Nesterov: w ← w − ε·(1 − μ)·(g + μ·v), the usual form at the
// looked-ahead point. Weight decay λ: coupled adds λ·w to the gradient (and so enters the momentum), decoupled
// multiplies w by 1 − ε·λ. Without momentum both are the same. Max-change: the step of each weight and its bias
// together (Parameter::weight) is shortened to the layer's limit, then all of them to the global limit; a step that is
// not finite is skipped. Plain SGD without max-change goes straight into the weights, W −= ε·gᵀ·x as one accumulating
// product, without a gradient buffer. Source: Kaldi nnet3 (nnet-utils.cc UpdateNnetWithMaxChange); Sutskever et al.,
// ICML 2013.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/options.h"
#include "kernels/elementwise.h"
#include "kernels/reductions.h"
#include "kernels/update.h"
#include "math/gemm.h"
#include "math/padded_matrix.h"
#include "nn/shifted_product.h"
#include "optim/optimizer.h"
#include "optim/row_blocks.h"

namespace antiphon::optim {
namespace {

struct SgdOptions {
  double momentum = 0.0;
  bool nesterov = false;
  bool classical_momentum = false;
  double weight_decay = 0.0;
  bool decoupled_decay = true;
  bool decay_biases = false;
  double max_change = 0.0;
  double layer_max_change = 0.0;

  template <class V>
  void Visit(V& v) {
    v("momentum", momentum, Range{0, 0.9999}, "weight of the last step");
    v("nesterov", nesterov, "look ahead along the momentum");
    v("classical-momentum", classical_momentum, "do not scale the step by 1 - momentum");
    v("weight-decay", weight_decay, Range{0, 1e3},
      "pulls weights (biases only with decay-biases) towards 0, per unit of learning rate");
    v("decoupled-decay", decoupled_decay, "decay acts on the weights directly instead of through the gradient");
    v("decay-biases", decay_biases,
      "biases decay as the weights do that they belong to: where what follows is normalised, biases would outgrow "
      "weights");
    v("max-change", max_change, Range{0, 1e9}, "limit of the norm of a whole step; 0: none (Kaldi: 2)");
    v("layer-max-change", layer_max_change, Range{0, 1e9},
      "limit of the norm of a layer's step; 0: none (Kaldi: 0.75, output 1.5)");
  }
};

class Sgd : public Optimizer {
 public:
  Sgd(const Config& config, const SteppedValues& values)
      : options_(ReadOptions<SgdOptions>(config, {"type"})), sum_over_ranks_(values.sum_over_ranks) {
    for (nn::Parameter* p : values.parameters) has_layer_limit_ = has_layer_limit_ || p->max_change > 0;
    limited_ = options_.max_change > 0 || options_.layer_max_change > 0 || has_layer_limit_;
    if (options_.momentum > 0) velocity_ = Matrix(1, static_cast<int64_t>(values.num_values));
    if (limited_) pending_ = Matrix(1, static_cast<int64_t>(values.num_values));
  }

  void BeginStep(double learning_rate) override {
    rate_ = learning_rate;
    steps_.clear();
  }

  void TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) override {
    if (limited_) {
      nn::FactorProduct(factors, 0, 0.0f, In(pending_, weight));
      steps_.push_back(&weight);
      if (bias == nullptr) return;
      nn::BiasGradient(factors, 1.0f, 0.0f, In(pending_, *bias));
      steps_.push_back(bias);
      return;
    }
    if (options_.momentum > 0) {
      ForRowBlocks(weight, [&](int64_t first, MatrixView rows) {
        const MatrixView gradient = Block(rows.rows(), rows.cols());
        nn::FactorProduct(factors, first, 0.0f, gradient);
        Step(weight, first, rows, gradient);
      });
    } else {
      FusedWeightStep(weight, factors);
    }
    if (bias == nullptr) return;
    const MatrixView gradient = Block(1, bias->value.cols());
    nn::BiasGradient(factors, 1.0f, 0.0f, gradient);
    Step(*bias, 0, bias->value, gradient);
    bias->MarkChanged();
  }

  void TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) override {
    if (limited_) {
      Scale(1.0f, gradient, In(pending_, parameter));
      steps_.push_back(&parameter);
      return;
    }
    Step(parameter, 0, parameter.value, gradient);
    parameter.MarkChanged();
  }

  StepReport EndStep() override { return limited_ ? LimitedStep() : StepReport{}; }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    if (!velocity_.empty()) writer.AddView(prefix + "velocity", velocity_);
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    if (!velocity_.empty()) reader.ReadInto(prefix + "velocity", velocity_);
  }
  std::vector<std::string> state_of_values() const override {
    return velocity_.empty() ? std::vector<std::string>() : std::vector<std::string>{"velocity"};
  }
  void ResetState() override { velocity_.SetZero(); }
  size_t state_bytes() const override {
    return static_cast<size_t>(velocity_.size() + pending_.size()) * sizeof(float);
  }
  double momentum() const override { return options_.momentum; }
  void ShareMaxChange(double share) override { max_change_share_ = share; }

 private:
  // Steps that have one limit together.
  struct LimitedTogether {
    double limit = 0;
    double squares = 0;
    double scale = 1;
  };

  static MatrixView In(Matrix& arena, const nn::Parameter& p) {
    return {arena.data() + p.offset, p.value.rows(), p.value.cols()};
  }
  MatrixView Block(int64_t rows, int64_t cols) {
    block_.Resize(rows, cols);
    return block_.view();
  }

  double Rate(const nn::Parameter& p) const { return rate_ * static_cast<double>(p.learning_rate_factor); }

  MomentumRates Rates(const nn::Parameter& p) const {
    MomentumRates rates;
    const nn::Parameter& decays = options_.decay_biases && p.weight != nullptr ? *p.weight : p;
    const double decay = options_.weight_decay * static_cast<double>(decays.decay_factor);
    rates.rate = static_cast<float>(Rate(p) * (options_.classical_momentum ? 1.0 : 1.0 - options_.momentum));
    rates.momentum = static_cast<float>(options_.momentum);
    rates.nesterov = options_.nesterov;
    if (options_.decoupled_decay) {
      rates.shrink = static_cast<float>(1.0 - Rate(p) * decay);
    } else {
      rates.decay = static_cast<float>(decay);
    }
    return rates;
  }

  // Rows first … of `parameter` take a step along `gradient`.
  void Step(nn::Parameter& parameter, int64_t first, MatrixView rows, ConstMatrixView gradient) {
    const MomentumRates rates = Rates(parameter);
    if (options_.momentum > 0) {
      float* velocity = velocity_.data() + parameter.offset + first * rows.cols();
      if (gradient.contiguous()) {
        MomentumStep(rates, gradient.data(), velocity, rows.data(), rows.size());
      } else {
        for (int64_t r = 0; r < rows.rows(); ++r) {
          MomentumStep(rates, gradient.Row(r).data(), velocity + r * rows.cols(), rows.Row(r).data(), rows.cols());
        }
      }
      return;
    }
    const float shrink = rates.shrink * (1 - rates.rate * rates.decay);
    if (shrink != 1) Scale(shrink, rows, rows);
    AddScaled(-rates.rate, gradient, rows);
  }

  // The rate goes into x, the smaller factor in most layers; then one accumulating product per block of rows, whose
  // other passes (decay, bf16 copy) find it in cache.
  void FusedWeightStep(nn::Parameter& weight, const nn::GradientFactors& factors) {
    const MomentumRates rates = Rates(weight);
    const float shrink = rates.shrink * (1 - rates.rate * rates.decay);
    const bool half = !factors.x16.empty();
    nn::GradientFactors scaled = factors;
    nn::ShiftedFactors shifted;
    if (factors.shifted != nullptr) {
      shifted = *factors.shifted;
      shifted.scale *= -rates.rate;
      scaled.shifted = &shifted;
    } else if (half) {
      scaled_half_.Resize(factors.x.rows(), factors.x.cols());
      ConvertToBf16(-rates.rate, factors.x, scaled_half_);
      scaled.x16 = std::as_const(scaled_half_).view();
    } else {
      scaled_.Resize(factors.x.rows(), factors.x.cols());
      Scale(-rates.rate, factors.x, scaled_);
      scaled.x = scaled_;
    }
    ForRowBlocks(weight, [&](int64_t first, MatrixView rows) {
      if (shrink != 1) Scale(shrink, rows, rows);
      nn::FactorProduct(scaled, first, 1.0f, rows);
    });
  }

  StepReport LimitedStep() {
    double total = 0;
    std::vector<size_t> group_of;
    std::vector<LimitedTogether> groups = GroupSteps(group_of);
    for (LimitedTogether& group : groups) {
      const double norm = std::sqrt(group.squares);
      if (group.limit > 0 && norm > group.limit) group.scale = group.limit / norm;
      total += group.scale * norm * group.scale * norm;
    }
    const double norm = std::sqrt(total);
    StepReport report{norm, 1.0};
    if (!std::isfinite(norm)) {
      report.max_change_scale = 0;
      return report;
    }
    const double most = options_.max_change * max_change_share_;
    if (most > 0 && norm > most) report.max_change_scale = most / norm;
    report.change_norm = norm * report.max_change_scale;
    double smallest = report.max_change_scale;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const double scale = report.max_change_scale * groups[group_of[i]].scale;
      smallest = std::min(smallest, scale);
      Apply(*steps_[i], scale);
    }
    report.max_change_scale = smallest;
    return report;
  }

  // A weight and its bias, however their gradients came. `group_of`: of each step.
  std::vector<LimitedTogether> GroupSteps(std::vector<size_t>& group_of) {
    const std::vector<double> squares = StepSquares();
    std::vector<LimitedTogether> groups;
    std::map<const nn::Parameter*, size_t> group_of_weight;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const nn::Parameter& p = *steps_[i];
      const auto [entry, fresh] = group_of_weight.try_emplace(p.weight != nullptr ? p.weight : &p, groups.size());
      if (fresh) {
        const auto limit = static_cast<double>(p.max_change);
        groups.push_back({.limit = limit < 0 ? options_.layer_max_change : limit, .squares = 0, .scale = 1});
      }
      groups[entry->second].squares += squares[i];
      group_of.push_back(entry->second);
    }
    return groups;
  }

  // Turns the pending gradient into the pending direction (momentum, coupled decay).
  MatrixView Direction(const nn::Parameter& p) {
    const MomentumRates rates = Rates(p);
    const MatrixView g = In(pending_, p);
    if (rates.decay != 0) AddScaled(rates.decay, p.value, g);
    if (options_.momentum == 0) return g;
    const MatrixView v = In(velocity_, p);
    Scale(rates.momentum, v, v);
    AddScaled(1.0f, g, v);
    if (rates.nesterov) {
      AddScaled(rates.momentum, v, g);
    } else {
      Scale(1.0f, v, g);
    }
    return g;
  }

  // Of each step its squared length. Rows are added up one by one, whoever steps them, so that the sums have the same
  // bits where ranks divide the rows.
  std::vector<double> StepSquares() {
    const bool divided = static_cast<bool>(sum_over_ranks_);
    const auto rows_of = [&](const nn::Parameter& p) { return divided ? p.whole.rows : p.value.rows(); };
    std::vector<double> rows;
    for (const nn::Parameter* p : steps_) {
      const size_t at = rows.size();
      rows.resize(at + static_cast<size_t>(rows_of(*p)));
      const int64_t first = divided && p->whole.cols > 0 ? p->whole.first / p->whole.cols : 0;
      RowSquares(Direction(*p), rows.data() + at + first);
    }
    if (divided) sum_over_ranks_(rows);
    std::vector<double> squares;
    const double* row = rows.data();
    for (const nn::Parameter* p : steps_) {
      const auto rate = static_cast<double>(Rates(*p).rate);
      squares.push_back(std::accumulate(row, row + rows_of(*p), 0.0) * rate * rate);
      row += rows_of(*p);
    }
    return squares;
  }

  void Apply(nn::Parameter& p, double scale) {
    const MomentumRates rates = Rates(p);
    if (rates.shrink != 1) Scale(rates.shrink, p.value, p.value);
    AddScaled(static_cast<float>(-scale * static_cast<double>(rates.rate)), In(pending_, p), p.value);
    p.MarkChanged();
  }

  SgdOptions options_;
  std::function<void(std::span<double>)> sum_over_ranks_;
  bool has_layer_limit_ = false;
  bool limited_ = false;
  double max_change_share_ = 1;
  double rate_ = 0;
  Matrix velocity_;                    // laid out as the network's values
  Matrix pending_;                     // gradients of this step, if it may have to be shortened as a whole
  std::vector<nn::Parameter*> steps_;  // parameters with a gradient in pending_
  Matrix block_;
  PaddedMatrix<float> scaled_;
  PaddedMatrix<Bf16> scaled_half_;
};

REGISTER_COMPONENT(OptimizerRegistry, "sgd", [](const Config& config, const SteppedValues& values) {
  return std::make_unique<Sgd>(config, values);
});

}  // namespace
}  // namespace antiphon::optim
