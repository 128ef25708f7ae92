// Hessian-free second-order training: large steps from Gauss–Newton products and conjugate gradients, one master, the
// workers holding their data.
//
// Exchanged, per outer step: the gradient once (reduced to rank 0, 8·P bytes), per product of the curvature matrix a
// vector to all ranks and the sum of theirs back (4·P and 8·P), per loss a model to all ranks. When: every
// `gradient-minibatches` minibatches of a worker, or at the end of the epoch. Rank 0 runs conjugate gradients, damping,
// backtracking and line search; the others answer its requests on the minibatches that they kept: the first
// `curvature-minibatches` for products (the same throughout one outer step), the next `check-minibatches` for losses.
// Staleness: none. Determinism: same bits for the same number of workers; other numbers differ by rounding in double.
// Learning rate and optimizer are not used: the method finds the length of its steps itself. Passes run without
// dropout; batch normalisation uses its statistics as they are. Frames count by their weights, padding for nothing.
// Sequence criteria: gradient and losses are the criterion's, products those of the frames' softmax, diag(y) − y·yᵀ, as
// the criterion's own second derivative is not positive semi-definite; damping adapts to its scale.
// Recurrent networks: each pass over a kept minibatch begins with the states that its first pass found there, constants
// of which nothing is differentiated, as in the gradient.
// Source: Martens, ICML 2010; Kingsbury et al., Interspeech 2012; Chung et al., ISCA 2014 (Blue Gene/Q); algorithms
// reference 1.19.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "optim/conjugate_gradient.h"
#include "optim/gauss_newton.h"
#include "optim/lbfgs.h"
#include "optim/squared_gradient.h"
#include "optim/value_decay.h"
#include "parallel/curvature_samples.h"
#include "parallel/step_cost.h"
#include "parallel/strategy.h"
#include "parallel/strategy_traits.h"

namespace antiphon::parallel {
namespace {

struct HessianFreeOptions {
  int64_t gradient_minibatches = 0;
  int64_t curvature_minibatches = 4;
  int64_t check_minibatches = 4;
  int cg_iterations = 250;
  double cg_tolerance = 5e-4;
  double cg_decay = 0.95;
  double damping = 1;
  std::string preconditioner = "diagonal";
  double preconditioner_exponent = 0.75;
  int lbfgs_pairs = 16;
  double weight_decay = 0;
  template <class V>
  void Visit(V& v) {
    v("gradient-minibatches", gradient_minibatches, Range{0, 1e12},
      "minibatches of a worker in a gradient; 0: the whole epoch");
    v("curvature-minibatches", curvature_minibatches, Range{1, 1e9}, "of them, kept for products of the curvature");
    v("check-minibatches", check_minibatches, Range{1, 1e9}, "of them, kept to judge steps by");
    v("cg-iterations", cg_iterations, Range{1, 1e6}, "of conjugate gradients per step, at most");
    v("cg-tolerance", cg_tolerance, Range{0, 1}, "relative progress per iteration below which these stop");
    v("cg-decay", cg_decay, Range{0, 1}, "they start from this times the last step");
    v("damping", damping, Range{0, 1e12},
      "initial multiple of the identity added to the curvature of the mean loss per frame");
    v("preconditioner", preconditioner, OneOf{{"diagonal", "lbfgs", "none"}},
      "of conjugate gradients: squared gradients of single frames plus damping, or the last run's steps and products");
    v("preconditioner-exponent", preconditioner_exponent, Range{0, 1}, "of the diagonal one");
    v("lbfgs-pairs", lbfgs_pairs, Range{1, 1000},
      "of steps and products, each two vectors of a model's size in double");
    v("weight-decay", weight_decay, Range{0, 1e3}, "pulls weights towards 0");
  }
};

enum class Request : int32_t { kProduct, kLoss, kAccept };

class HessianFree : public Strategy, public Checkpointable {
 public:
  HessianFree(const Config& config, const Replica& replica)
      : Strategy(replica),
        options_(ReadOptions<HessianFreeOptions>(config, kCommonStrategyKeys)),
        sequence_(replica.sequence),
        gauss_newton_(network()),
        samples_(options_.curvature_minibatches, options_.check_minibatches),
        damping_(options_.damping),
        lbfgs_(options_.lbfgs_pairs) {
    const int64_t kept = samples_.most();
    const int64_t batch = options_.gradient_minibatches > 0 ? options_.gradient_minibatches : plan().steps_per_epoch;
    if (batch > 0 && batch < kept) {
      Throw<UsageError>(
          "{}: a gradient is made of {} minibatches per worker, but curvature-minibatches and check-minibatches need "
          "{} of them",
          config.Where("method"), batch, kept);
    }
    gradient_.assign(network().num_values(), 0.0);
    squares_.assign(network().num_values(), 0.0);
    scratch_.resize(network().num_values());
  }

  StepOutput Step(const StepInput& input) override {
    CurvatureSamples::RequireTargets(input.targets, sequence_);
    StepOutput output;
    precision_ = input.context.precision;
    nn::ExecContext context{.precision = precision_, .sequences = input.context.sequences};
    samples_.Keep(input, workspace());  // before the forward pass takes the streams' states further
    const MatrixView logits = network().Forward(context, input.features, workspace());
    CountForward(input.features.rows());
    output.loss = nn::SoftmaxCrossEntropy(logits, input.targets, logits);
    context = nn::WithLoss(context, input.targets, output.loss);
    std::fill(scratch_.begin(), scratch_.end(), 0.0f);
    nn::DenseGradientSink sink(scratch_);
    const auto count = [&](size_t layer) { CountBackward(layer, input.features.rows()); };
    const double weight = input.targets.total_weight.value_or(output.loss.weight_sum);
    if (options_.preconditioner == "diagonal") {
      scratch_squares_.assign(scratch_.size(), 0.0f);
      optim::SquaredGradientSink squares(scratch_squares_);
      optim::BothSinks both(sink, squares);
      network().Backward(context, logits, workspace(), both, false, count);
      // Derivatives are of the mean over the minibatch: times its weight, those of a frame.
      for (size_t i = 0; i < scratch_.size(); ++i) {
        squares_[i] += weight * weight * static_cast<double>(scratch_squares_[i]);
      }
    } else {
      network().Backward(context, logits, workspace(), sink, false, count);
    }
    for (size_t i = 0; i < scratch_.size(); ++i) gradient_[i] += weight * static_cast<double>(scratch_[i]);
    weight_ += output.loss.weight_sum;
    if (++minibatches_ == options_.gradient_minibatches) OuterStep();
    output.communication_seconds = TakeCommunication();
    return output;
  }

  void AfterEpoch() override { OuterStep(); }

  void ResetState() override {
    damping_ = options_.damping;
    last_step_.clear();
    lbfgs_.Reset();
    ForgetBatch();
  }

  Checkpointable* state() override { return this; }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override;
  CommonState common_state() const override {
    return {.values = true, .values_always = true, .optimizer = false, .tensors = {}};
  }
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override;

  size_t copy_bytes() const override;
  // That of the gradient, and a product's with its derivative along the direction.
  int minibatches_under_way() const override { return 3; }

  std::vector<std::string> Describe() const override {
    return {
        fmt::format("hessian-free: a step per {} of {} workers, up to {} conjugate-gradient iterations on {} "
                    "minibatches each; schedule and optimizer are not used",
                    options_.gradient_minibatches > 0 ? fmt::format("{} minibatches", options_.gradient_minibatches)
                                                      : std::string("epoch"),
                    comm().world_size(), options_.cg_iterations, options_.curvature_minibatches)};
  }

 private:
  bool master() const { return comm().rank() == 0; }
  double decay(size_t i) const { return decay_.empty() ? 0.0 : decay_[i]; }

  // A pass over a kept minibatch begins where its first one did, in a workspace of its own: training's streams go on
  // as if there had been none.
  nn::ExecContext Enter(const KeptMinibatch& kept) {
    sample_workspace_.SetStates(kept.states);
    nn::ExecContext context;
    context.precision = precision_;
    context.sequences = kept.sequences();
    return context;
  }
  void ForgetBatch() {
    std::fill(gradient_.begin(), gradient_.end(), 0.0);
    std::fill(squares_.begin(), squares_.end(), 0.0);
    weight_ = 0;
    minibatches_ = 0;
    samples_.Replace({});
  }

  // Over all ranks.
  void Sum(std::span<double> values) {
    Exchanging([&] { comm().AllReduce(values); });
  }
  void FromMaster(std::span<std::byte> bytes) {
    Exchanging([&] { comm().Broadcast(0, bytes); });
  }

  void OuterStep() {
    Sum({&weight_, 1});
    if (weight_ == 0) return ForgetBatch();
    Sum(gradient_);
    Sum(squares_);
    theta_.assign(network().values().begin(), network().values().end());
    decay_ = optim::ValueDecays(network(), options_.weight_decay);
    for (size_t i = 0; i < gradient_.size(); ++i) {
      gradient_[i] = gradient_[i] / weight_ + decay(i) * static_cast<double>(theta_[i]);
      squares_[i] /= weight_;
    }
    master() ? Lead() : Follow();
    ForgetBatch();
  }

  // What the master asks for; the others answer until a model is accepted.
  void Follow() {
    std::vector<double> product(theta_.size());
    for (;;) {
      Request request{};
      FromMaster(std::as_writable_bytes(std::span(&request, 1)));
      if (request == Request::kProduct) Product(product);
      if (request == Request::kLoss) Loss(0);
      if (request == Request::kAccept) return SetModel(0);
    }
  }
  void Ask(Request request) { FromMaster(std::as_writable_bytes(std::span(&request, 1))); }

  // direction_ → the sum of all ranks' curvature products, averaged over frames. Collective.
  void Product(std::span<double> product) {
    direction_.resize(theta_.size());
    FromMaster(std::as_writable_bytes(std::span(direction_)));
    std::fill(product.begin(), product.end(), 0.0);
    double frames = 0;
    for (const KeptMinibatch& kept : samples_.curvature()) {
      gauss_newton_.Product(Enter(kept), kept.features, kept.weights, direction_, scratch_, sample_workspace_);
      CountProduct(kept.features.rows());
      const double weight = kept.weight();
      for (size_t i = 0; i < product.size(); ++i) product[i] += weight * static_cast<double>(scratch_[i]);
      frames += weight;
    }
    Sum(product);
    Sum({&frames, 1});
    for (double& v : product) v /= std::max(frames, 1e-300);
  }

  // Forward, the derivative along the direction, and backward.
  void CountProduct(int64_t frames) const {
    if (comm().time_is_virtual())
      comm().ComputeFlops(StepCost(network()).curvature_flops() * static_cast<double>(frames));
  }

  // Loss on the check samples of θ + step·p. Collective.
  double Loss(double step) {
    SetModel(step);
    nn::LossResult loss;
    for (const KeptMinibatch& kept : samples_.check()) {
      const MatrixView logits = network().Forward(Enter(kept), kept.features, sample_workspace_);
      loss += nn::SoftmaxCrossEntropy(logits, kept.targets(sequence_), {});
      CountForward(kept.features.rows());
    }
    double sums[] = {loss.loss_sum, loss.weight_sum};
    Sum(sums);
    return sums[0] / std::max(sums[1], 1e-300);
  }

  // θ + step·p on all ranks. Collective.
  void SetModel(double step) {
    const std::span<float> values = network().values();
    if (master()) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(static_cast<double>(theta_[i]) + (step == 0 ? 0.0 : step * step_[i]));
      }
    }
    FromMaster(std::as_writable_bytes(values));
    network().MarkChanged();
  }

  double AskLoss(double step) {
    Ask(Request::kLoss);
    double loss = Loss(step);
    const std::span<const float> v = network().values();
    for (size_t i = 0; i < decay_.size(); ++i) loss += 0.5 * decay_[i] * double{v[i]} * double{v[i]};
    return loss;
  }
  void AskProduct(std::span<const double> v, std::span<double> product) {
    direction_.resize(v.size());
    for (size_t i = 0; i < v.size(); ++i) direction_[i] = static_cast<float>(v[i]);
    Ask(Request::kProduct);
    Product(product);
  }

  optim::ConjugateGradientOptions CgOptions() const {
    return {options_.cg_iterations, options_.cg_tolerance, 1.3, options_.preconditioner == "lbfgs"};
  }

  void Lead() {
    const size_t n = theta_.size();
    std::vector<double> diagonal;
    optim::VectorFunction preconditioner;
    const bool by_pairs = options_.preconditioner == "lbfgs";
    if (options_.preconditioner == "diagonal") {
      for (size_t i = 0; i < n; ++i) {
        diagonal.push_back(std::pow(squares_[i] + damping_ + decay(i) + 1e-12, options_.preconditioner_exponent));
      }
      preconditioner = optim::DiagonalPreconditioner(diagonal);
    } else if (by_pairs) {
      lbfgs_.Advance();
      preconditioner = [this](std::span<const double> r, std::span<double> y) { lbfgs_.Apply(r, y); };
    }
    std::vector<double> start(n, 0.0);
    for (size_t i = 0; i < last_step_.size(); ++i) start[i] = options_.cg_decay * last_step_[i];
    const auto damped = [&](std::span<const double> v, std::span<double> bv) {
      AskProduct(v, bv);
      for (size_t i = 0; i < n; ++i) bv[i] += (damping_ + decay(i)) * v[i];
    };
    const auto offer = [this](std::span<const double> s, std::span<const double> bs) { lbfgs_.Offer(s, bs); };
    const optim::ConjugateGradientOptions cg_options = CgOptions();
    const optim::ConjugateGradientResult cg =
        by_pairs ? optim::ConjugateGradient(damped, gradient_, preconditioner, start, cg_options, offer)
                 : optim::ConjugateGradient(damped, gradient_, preconditioner, start, cg_options);
    last_step_ = cg.iterates.back();
    Choose(cg);
  }

  // Walks back along the iterates while that lowers the loss, adapts the damping, and shortens the step until it helps.
  void Choose(const optim::ConjugateGradientResult& cg) {
    const double before = AskLoss(0);
    size_t chosen = cg.iterates.size() - 1;
    step_ = cg.iterates[chosen];
    double loss = AskLoss(1);
    while (chosen > 0) {
      step_ = cg.iterates[chosen - 1];
      const double earlier = AskLoss(1);
      if (earlier >= loss && std::isfinite(loss)) break;
      loss = earlier;
      --chosen;
    }
    step_ = cg.iterates[chosen];
    double slope = 0, model = 0;
    std::vector<double> product(step_.size());
    AskProduct(step_, product);
    for (size_t i = 0; i < step_.size(); ++i) {
      slope += gradient_[i] * step_[i];
      model += step_[i] * (0.5 * (product[i] + decay(i) * step_[i]) + gradient_[i]);
    }
    const double ratio = model < 0 ? (loss - before) / model : 0;
    if (ratio < 0.25 || !std::isfinite(loss)) damping_ *= 1.5;
    if (ratio > 0.75 && std::isfinite(loss)) damping_ /= 1.5;

    double length = 1;
    constexpr int kShortenings = 60;
    constexpr double kSufficient = 1e-2;
    for (int i = 0; !(loss <= before + kSufficient * length * std::min(slope, 0.0)) && length > 0; ++i) {
      length = i < kShortenings ? 0.8 * length : 0;
      loss = length > 0 ? AskLoss(length) : before;
    }
    if (length == 0) last_step_.clear();
    Ask(Request::kAccept);
    SetModel(length);
    log::Info("hessian-free: {} iterations, iterate {} of {}, loss {:.5f} → {:.5f}, step × {:.3g}, damping {:.4g}",
              cg.iterations, chosen + 1, cg.iterates.size(), before, loss, length, damping_);
  }

  HessianFreeOptions options_;
  nn::SequenceLoss* sequence_;  // null: frames
  optim::GaussNewton gauss_newton_;
  nn::Workspace sample_workspace_;
  Precision precision_ = Precision::kFp32;

  // The gradient under way.
  std::vector<double> gradient_;  // sum over frames, then mean
  std::vector<double> squares_;   // of single frames' gradients, likewise
  double weight_ = 0;
  int64_t minibatches_ = 0;
  CurvatureSamples samples_;

  double damping_;
  optim::LbfgsPreconditioner lbfgs_;              // of the master, as is
  std::vector<double> last_step_, step_, decay_;  // decay of each value; empty: none
  std::vector<float> theta_, direction_;
  std::vector<float> scratch_, scratch_squares_;
};

// In double, decay as well, and θ, direction and gradients of a minibatch in single precision. Rank 0 runs conjugate
// gradients: a dozen vectors, the iterates that it may go back to, and the pairs of a preconditioner made of them.
size_t HessianFree::copy_bytes() const {
  const size_t doubles = options_.weight_decay > 0 ? 4 : 3;  // gradient, squares, product, decay
  constexpr size_t kFloats = 4, kOfMaster = 12;
  const size_t values = network().num_values();
  const auto minibatches = static_cast<size_t>(samples_.most());
  size_t bytes = values * (doubles * sizeof(double) + kFloats * sizeof(float)) +
                 minibatches * static_cast<size_t>(plan().minibatch_frames * network().in_dim()) * sizeof(float);
  if (!master()) return bytes;
  size_t vectors = kOfMaster + optim::KeptIterates(CgOptions());
  if (options_.preconditioner == "lbfgs") vectors += 4 * static_cast<size_t>(options_.lbfgs_pairs);
  return bytes + vectors * values * sizeof(double);
}

void HessianFree::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  const std::vector<double> numbers = {damping_, weight_, static_cast<double>(minibatches_),
                                       static_cast<double>(samples_.all().size()), static_cast<double>(precision_)};
  writer.Add(prefix + ".hessian_free", std::span<const double>(numbers));
  writer.Add(prefix + ".gradient", std::span<const double>(gradient_));
  writer.Add(prefix + ".squares", std::span<const double>(squares_));
  if (!last_step_.empty()) writer.Add(prefix + ".last_step", std::span<const double>(last_step_));
  lbfgs_.SaveState(writer, prefix + ".lbfgs");
  samples_.Save(writer, prefix);
}

void HessianFree::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  const std::vector<double> numbers = reader.ReadDoubles(prefix + ".hessian_free");
  damping_ = numbers.at(0);
  weight_ = numbers.at(1);
  minibatches_ = static_cast<int64_t>(numbers.at(2));
  precision_ = static_cast<Precision>(static_cast<int>(numbers.at(4)));
  gradient_ = reader.ReadDoubles(prefix + ".gradient");
  squares_ = reader.ReadDoubles(prefix + ".squares");
  if (gradient_.size() != network().num_values() || squares_.size() != gradient_.size()) {
    Throw<InputError>("'{}': the stored gradient has {} values, expected {}", reader.path().string(), gradient_.size(),
                      network().num_values());
  }
  lbfgs_.LoadState(reader, prefix + ".lbfgs");
  last_step_.clear();
  if (reader.Has(prefix + ".last_step")) last_step_ = reader.ReadDoubles(prefix + ".last_step");
  samples_.Load(reader, prefix, static_cast<size_t>(numbers.at(3)));
}

// Sums go to the first rank, samples round robin.
void HessianFree::LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) {
  std::vector<double> gradient(gradient_.size(), 0.0);
  std::vector<double> squares(gradient_.size(), 0.0);
  std::vector<KeptMinibatch> kept;
  double weight = 0;
  const auto workers = static_cast<size_t>(comm().world_size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    LoadState(ranks[r], prefix);
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] += gradient_[i];
      squares[i] += squares_[i];
    }
    weight += weight_;
    if (r % workers != static_cast<size_t>(comm().rank())) continue;
    for (KeptMinibatch& k : samples_.Take()) kept.push_back(std::move(k));
  }
  LoadState(ranks[0], prefix);
  gradient_.assign(gradient.size(), 0.0);
  squares_.assign(gradient.size(), 0.0);
  weight_ = 0;
  samples_.Replace(std::move(kept));
  if (!master()) return;
  gradient_ = std::move(gradient);
  squares_ = std::move(squares);
  weight_ = weight;
}

REGISTER_COMPONENT(StrategyRegistry, "hessian-free", [](const Config& config, const Replica& replica) {
  return std::make_unique<HessianFree>(config, replica);
});
REGISTER_COMPONENT(StrategyTraitsRegistry, "hessian-free", Traits({.keeps_minibatches = true}));

}  // namespace
}  // namespace antiphon::parallel
