#include "optim/rbm.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "math/gemm.h"

namespace antiphon::optim {
namespace {

constexpr double kWeightDeviation = 0.1;
constexpr double kExplosion = 2.0;  // reconstruction's deviation over the data's
constexpr double kRateAfterExplosion = 0.9;

double Deviation(ConstMatrixView x) {
  double sum = 0;
  double squares = 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (const float v : x.Row(r)) {
      sum += v;
      squares += double{v} * v;
    }
  }
  const double n = static_cast<double>(x.size());
  return std::sqrt(std::max(squares / n - (sum / n) * (sum / n), 0.0));
}

}  // namespace

Rbm::Rbm(int64_t visible, int64_t hidden, VisibleUnits units, const RbmOptions& options, uint64_t seed)
    : units_(units),
      options_(options),
      seed_(seed),
      rate_(units == VisibleUnits::kGaussian ? options.gaussian_learning_rate : options.learning_rate),
      weight_(hidden, visible),
      weight_velocity_(hidden, visible),
      hidden_bias_(static_cast<size_t>(hidden)),
      hidden_velocity_(static_cast<size_t>(hidden)),
      visible_bias_(static_cast<size_t>(visible)),
      visible_velocity_(static_cast<size_t>(visible)) {
  Rng rng(seed);
  for (int64_t i = 0; i < weight_.size(); ++i) weight_.data()[i] = static_cast<float>(kWeightDeviation * rng.Normal());
  for (float& b : hidden_bias_) b = static_cast<float>(rng.Uniform(-4.1, -3.9));
}

void Rbm::SetVisibleMean(std::span<const double> mean) {
  CHECK_EQ(mean.size(), visible_bias_.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    const double p = std::clamp(mean[i], 1e-4, 0.9999);
    visible_bias_[i] = static_cast<float>(std::log(p / (1 - p)));
  }
}

void Rbm::HiddenProbabilities(ConstMatrixView v, MatrixView h) const {
  GemmEpilogue epilogue;
  epilogue.bias = hidden_bias_.data();
  epilogue.activation = Activation::kSigmoid;
  Gemm(Transpose::kNo, v, Transpose::kYes, weight_, h, epilogue);
}

void Rbm::Reconstruct(ConstMatrixView h, MatrixView v) const {
  GemmEpilogue epilogue;
  epilogue.bias = visible_bias_.data();
  if (units_ == VisibleUnits::kBernoulli) epilogue.activation = Activation::kSigmoid;
  Gemm(Transpose::kNo, h, Transpose::kNo, weight_, v, epilogue);
}

void Rbm::SampleBernoulli(MatrixView probabilities, uint64_t draw) const {
  Rng rng(seed_, MixSeed(static_cast<uint64_t>(minibatches_), draw));
  for (int64_t r = 0; r < probabilities.rows(); ++r) {
    for (float& p : probabilities.Row(r)) p = static_cast<float>(rng.NextU32()) * 0x1.0p-32f < p ? 1.0f : 0.0f;
  }
}

void Rbm::SampleGaussian(MatrixView means, uint64_t draw) const {
  Rng rng(seed_, MixSeed(static_cast<uint64_t>(minibatches_), draw));
  for (int64_t r = 0; r < means.rows(); ++r) {
    for (float& m : means.Row(r)) m += static_cast<float>(rng.Normal());
  }
}

// Fills h⁺, v⁻ and h⁻. Statistics use probabilities; only what drives the chain is sampled.
void Rbm::RunChain(ConstMatrixView v) {
  const int64_t frames = v.rows();
  if (v.cols() != weight_.cols()) {
    Throw<ShapeError>("a Boltzmann machine with {} visible units got frames of {}", weight_.cols(), v.cols());
  }
  ++minibatches_;
  hidden_positive_.Resize(frames, weight_.rows());
  hidden_negative_.Resize(frames, weight_.rows());
  visible_negative_.Resize(frames, weight_.cols());
  HiddenProbabilities(v, hidden_positive_);
  hidden_sample_ = hidden_positive_;
  for (int step = 0; step < options_.gibbs_steps; ++step) {
    const auto draw = static_cast<uint64_t>(2 * step);
    SampleBernoulli(hidden_sample_, draw);
    Reconstruct(hidden_sample_, visible_negative_);
    if (step + 1 < options_.gibbs_steps) {
      if (units_ == VisibleUnits::kBernoulli) {
        SampleBernoulli(visible_negative_, draw + 1);
      } else {
        SampleGaussian(visible_negative_, draw + 1);
      }
      HiddenProbabilities(visible_negative_, hidden_sample_);
    }
  }
  HiddenProbabilities(visible_negative_, hidden_negative_);
}

Matrix Rbm::Gradient(ConstMatrixView v) {
  RunChain(v);
  Matrix gradient(weight_.rows(), weight_.cols());
  const float scale = 1.0f / static_cast<float>(v.rows());
  GemmScaled(Transpose::kYes, hidden_positive_, Transpose::kNo, v, scale, 0.0f, gradient);
  GemmScaled(Transpose::kYes, hidden_negative_, Transpose::kNo, visible_negative_, -scale, 1.0f, gradient);
  return gradient;
}

Rbm::StepReport Rbm::Train(ConstMatrixView v) {
  if (v.rows() == 0) return {};
  RunChain(v);
  StepReport report;
  report.reconstruction_error = ReconstructionError(v);
  if (!std::isfinite(report.reconstruction_error)) {
    throw DivergenceError("pre-training diverged: the reconstruction is not finite; lower its learning rate");
  }
  report.guard_fired = GuardAgainstExplosion(v);
  if (report.guard_fired) return report;

  const double risen = std::min(1.0, static_cast<double>(frames_seen_) / static_cast<double>(options_.momentum_frames));
  const double momentum = options_.initial_momentum + risen * (options_.final_momentum - options_.initial_momentum);
  const double rate = rate_ * (1 - momentum);
  const auto scale = static_cast<float>(rate / static_cast<double>(v.rows()));
  GemmScaled(Transpose::kYes, hidden_positive_, Transpose::kNo, v, scale, static_cast<float>(momentum),
             weight_velocity_);
  GemmScaled(Transpose::kYes, hidden_negative_, Transpose::kNo, visible_negative_, -scale, 1.0f, weight_velocity_);
  const auto decay = static_cast<float>(rate * options_.weight_cost);
  for (int64_t i = 0; i < weight_.size(); ++i) {
    float& velocity = weight_velocity_.data()[i];
    velocity -= decay * weight_.data()[i];
    weight_.data()[i] += velocity;
  }
  UpdateBias(hidden_bias_, hidden_velocity_, hidden_positive_, hidden_negative_, momentum, rate);
  UpdateBias(visible_bias_, visible_velocity_, v, visible_negative_, momentum, rate);
  frames_seen_ += v.rows();
  return report;
}

void Rbm::UpdateBias(std::vector<float>& bias, std::vector<float>& velocity, ConstMatrixView positive,
                     ConstMatrixView negative, double momentum, double rate) const {
  std::vector<double> sums(bias.size(), 0.0);
  for (int64_t r = 0; r < positive.rows(); ++r) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += positive.Row(r)[i] - negative.Row(r)[i];
  }
  const double scale = rate / static_cast<double>(positive.rows());
  for (size_t i = 0; i < sums.size(); ++i) {
    velocity[i] = static_cast<float>(momentum * velocity[i] + scale * sums[i]);
    bias[i] += velocity[i];
  }
}

double Rbm::ReconstructionError(ConstMatrixView v) const {
  double total = 0;
  for (int64_t r = 0; r < v.rows(); ++r) {
    for (int64_t c = 0; c < v.cols(); ++c) {
      const double target = v(r, c);
      const double found = visible_negative_(r, c);
      if (units_ == VisibleUnits::kGaussian) {
        total += (target - found) * (target - found);
      } else {
        const double p = std::clamp(found, 1e-10, 1 - 1e-10);
        total -= target * std::log(p) + (1 - target) * std::log(1 - p);
      }
    }
  }
  return total / static_cast<double>(v.size());
}

// With Gaussian units the weights can run away; they are shrunk as soon as the reconstruction is twice as wide as the
// data.
bool Rbm::GuardAgainstExplosion(ConstMatrixView v) {
  if (units_ != VisibleUnits::kGaussian) return false;
  const double data = Deviation(v);
  const double reconstruction = Deviation(visible_negative_);
  if (reconstruction <= kExplosion * data || reconstruction == 0) return false;
  const auto ratio = static_cast<float>(data / reconstruction);
  for (int64_t i = 0; i < weight_.size(); ++i) weight_.data()[i] *= ratio;
  for (float& b : hidden_bias_) b *= ratio;
  for (float& a : visible_bias_) a *= ratio;
  rate_ *= kRateAfterExplosion;
  weight_velocity_.SetZero();
  std::fill(hidden_velocity_.begin(), hidden_velocity_.end(), 0.0f);
  std::fill(visible_velocity_.begin(), visible_velocity_.end(), 0.0f);
  return true;
}

void Rbm::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  writer.Add(prefix + ".weight", ConstMatrixView(weight_));
  writer.Add(prefix + ".weight_velocity", ConstMatrixView(weight_velocity_));
  writer.Add(prefix + ".hidden_bias", std::span<const float>(hidden_bias_));
  writer.Add(prefix + ".hidden_velocity", std::span<const float>(hidden_velocity_));
  writer.Add(prefix + ".visible_bias", std::span<const float>(visible_bias_));
  writer.Add(prefix + ".visible_velocity", std::span<const float>(visible_velocity_));
  writer.Add(prefix + ".rate", std::span<const double>(&rate_, 1));
  const int64_t counts[] = {frames_seen_, minibatches_};
  writer.Add(prefix + ".counts", std::span<const int64_t>(counts));
}

void Rbm::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  const auto read = [&](const char* name, std::vector<float>& values) {
    std::vector<float> found = reader.ReadFloats(prefix + name);
    if (found.size() != values.size()) {
      Throw<InputError>("'{}': the Boltzmann machine's '{}' has {} values, expected {}", reader.path().string(), name,
                        found.size(), values.size());
    }
    values = std::move(found);
  };
  reader.ReadInto(prefix + ".weight", weight_);
  reader.ReadInto(prefix + ".weight_velocity", weight_velocity_);
  read(".hidden_bias", hidden_bias_);
  read(".hidden_velocity", hidden_velocity_);
  read(".visible_bias", visible_bias_);
  read(".visible_velocity", visible_velocity_);
  rate_ = reader.ReadDoubles(prefix + ".rate").at(0);
  const std::vector<int64_t> counts = reader.ReadInts(prefix + ".counts");
  frames_seen_ = counts.at(0);
  minibatches_ = counts.at(1);
}

}  // namespace antiphon::optim
