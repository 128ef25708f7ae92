#include "hmm/ivector.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "math/safetensors.h"

namespace antiphon::hmm {
namespace {

constexpr char kFormat[] = "antiphon-ivector-extractor";
constexpr char kVersion[] = "1";
constexpr char kTrainAgain[] = "train the extractor again";

void AddFrames(const GmmSet& gmm, ConstMatrixView frames, GmmStats& stats) {
  const std::vector<int32_t> one_mixture(static_cast<size_t>(frames.rows()), 0);
  stats.Accumulate(gmm, frames, FrameBlocks(frames), one_mixture);
}

GmmStats Pass(const GmmSet& gmm, const FrameReader& frames) {
  GmmStats stats(gmm);
  for (size_t i = 0; i < frames.count; ++i) AddFrames(gmm, frames.get(i), stats);
  return stats;
}

// One Gaussian for all frames.
GmmSet WholeSpeech(const FrameReader& frames) {
  if (frames.count == 0) throw InputError("there is no speech to train a background on");
  const Matrix first = frames.get(0);
  const std::vector<float> zeros(static_cast<size_t>(first.cols()), 0.0F), ones(zeros.size(), 1.0F);
  const GmmSet start(1, zeros, ones);
  return Reestimate(start, Pass(start, frames), {});
}

// a += factor · x xᵀ, or a + factor · b
void AddOuter(double factor, std::span<const double> x, DoubleMatrix& a) {
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t j = 0; j < a.cols(); ++j) a(i, j) += factor * x[static_cast<size_t>(i)] * x[static_cast<size_t>(j)];
  }
}

void AddScaled(double factor, const DoubleMatrix& x, DoubleMatrix& a) {
  for (int64_t i = 0; i < a.size(); ++i) a.data()[i] += factor * x.data()[i];
}

void CheckWeights(std::span<const float> weights) {
  double sum = 0;
  for (size_t g = 0; g < weights.size(); ++g) {
    if (!(weights[g] >= 0)) Throw<InputError>("Gaussian {} has weight {}: {}", g, weights[g], kTrainAgain);
    sum += static_cast<double>(weights[g]);
  }
  if (!(std::abs(sum - 1) < 1e-3)) Throw<InputError>("the weights add up to {}, not to 1: {}", sum, kTrainAgain);
}

// Those of a variability that has values which are not finite, or whose squares are not.
void CheckPrecisions(const std::vector<DoubleMatrix>& of_gaussians) {
  for (size_t g = 0; g < of_gaussians.size(); ++g) {
    const double* const first = of_gaussians[g].data();
    if (std::all_of(first, first + of_gaussians[g].size(), [](double v) { return std::isfinite(v); })) continue;
    Throw<InputError>("the variability of Gaussian {} is not finite, or too large: {}", g, kTrainAgain);
  }
}

}  // namespace

GmmSet TrainBackground(const FrameReader& frames, const BackgroundOptions& options, uint64_t seed) {
  GmmSet gmm = WholeSpeech(frames);
  Rng rng(seed);
  for (int size = 1;; size = std::min(2 * size, options.gaussians)) {
    GmmStats stats;
    for (int i = 0; i < options.iterations; ++i) {
      stats = Pass(gmm, frames);
      gmm = Reestimate(gmm, stats, {});
    }
    if (size == options.gaussians) return gmm;
    const int before = gmm.num_gaussians();
    const std::vector<double> occupancy = {stats.num_frames()};
    gmm = MixUp(gmm, occupancy, std::min(2 * size, options.gaussians), 1.0, 20, rng);
    if (gmm.num_gaussians() == before) return gmm;  // too little speech for more
  }
}

IvectorExtractor::IvectorExtractor(GmmSet background) : background_(std::move(background)) {
  if (background_.num_pdfs() != 1) {
    Throw<ShapeError>("a background is one mixture of Gaussians, found {}", background_.num_pdfs());
  }
}

IvectorExtractor::IvectorExtractor(GmmSet background, int dim, uint64_t seed)
    : IvectorExtractor(std::move(background)) {
  const int64_t d = background_.dim();
  DoubleMatrix start(background_.num_gaussians() * d, dim);
  Rng rng(seed);
  for (int64_t r = 0; r < start.rows(); ++r) {
    const double deviation = std::sqrt(static_cast<double>(background_.variances()(r / d, r % d)));
    for (int64_t c = 0; c < dim; ++c) start(r, c) = 0.1 * deviation * rng.Normal();
  }
  SetVariability(std::move(start));
}

void IvectorExtractor::SetVariability(DoubleMatrix variability) {
  const int64_t expected = int64_t{background_.num_gaussians()} * background_.dim();
  if (variability.rows() != expected || variability.cols() < 1) {
    Throw<ShapeError>("the variability of {} Gaussians of {} dimensions has {} rows, found [{}, {}]",
                      background_.num_gaussians(), background_.dim(), expected, variability.rows(), variability.cols());
  }
  variability_ = std::move(variability);
  Prepare();
}

void IvectorExtractor::Prepare() {
  const int64_t d = background_.dim();
  precisions_.assign(static_cast<size_t>(background_.num_gaussians()), DoubleMatrix(dim(), dim()));
  for (int64_t r = 0; r < variability_.rows(); ++r) {
    const auto precision = static_cast<double>(background_.inverse_variances()(r / d, r % d));
    AddOuter(precision, variability_.Row(r), precisions_[static_cast<size_t>(r / d)]);
  }
}

GmmStats IvectorExtractor::Collect(ConstMatrixView frames) const {
  if (frames.cols() != feature_dim()) {
    Throw<ShapeError>("the i-vector extractor is for {} features per frame, found {}", feature_dim(), frames.cols());
  }
  GmmStats stats(background_);
  AddFrames(background_, frames, stats);
  return stats;
}

std::vector<double> IvectorExtractor::Projected(const GmmStats& stats, double scale) const {
  const int64_t d = background_.dim();
  std::vector<double> result(static_cast<size_t>(dim()));
  for (int64_t r = 0; r < variability_.rows(); ++r) {
    const auto g = static_cast<int>(r / d);
    const double away =
        stats.sums()(g, r % d) - stats.Occupancy(g) * static_cast<double>(background_.means()(g, r % d));
    const double weight = scale * away * static_cast<double>(background_.inverse_variances()(g, r % d));
    for (int64_t c = 0; c < dim(); ++c) result[static_cast<size_t>(c)] += weight * variability_(r, c);
  }
  return result;
}

IvectorExtractor::Posterior IvectorExtractor::Infer(const GmmStats& stats, double scale) const {
  DoubleMatrix precision(dim(), dim());
  for (int i = 0; i < dim(); ++i) precision(i, i) = 1;
  for (int g = 0; g < background_.num_gaussians(); ++g) {
    AddScaled(scale * stats.Occupancy(g), precisions_[static_cast<size_t>(g)], precision);
  }
  const std::vector<double> projected = Projected(stats, scale);
  Posterior posterior;
  posterior.covariance = Inverse(precision);
  posterior.mean.assign(projected.size(), 0.0);
  for (int i = 0; i < dim(); ++i) {
    const auto row = static_cast<size_t>(i);
    for (int j = 0; j < dim(); ++j)
      posterior.mean[row] += posterior.covariance(i, j) * projected[static_cast<size_t>(j)];
    posterior.gain += 0.5 * posterior.mean[row] * projected[row];
  }
  posterior.gain -= 0.5 * LogDet(precision).log_abs;
  return posterior;
}

double IvectorExtractor::Improve(std::span<const GmmStats> speakers, double scale) {
  const int64_t d = background_.dim();
  const int gaussians = background_.num_gaussians();
  std::vector<DoubleMatrix> squares(static_cast<size_t>(gaussians), DoubleMatrix(dim(), dim()));
  DoubleMatrix products(variability_.rows(), dim());
  double gain = 0;
  for (const GmmStats& stats : speakers) {
    const Posterior posterior = Infer(stats, scale);
    gain += posterior.gain;
    DoubleMatrix square = posterior.covariance;
    AddOuter(1, posterior.mean, square);
    for (int g = 0; g < gaussians; ++g) {
      const double count = stats.Occupancy(g);
      AddScaled(scale * count, square, squares[static_cast<size_t>(g)]);
      for (int64_t k = 0; k < d; ++k) {
        const double away = scale * (stats.sums()(g, k) - count * static_cast<double>(background_.means()(g, k)));
        for (int64_t c = 0; c < dim(); ++c) products(g * d + k, c) += away * posterior.mean[static_cast<size_t>(c)];
      }
    }
  }
  DoubleMatrix better = variability_;
  for (int g = 0; g < gaussians; ++g) {
    // A Gaussian that hardly anybody uses keeps its row.
    DoubleMatrix& square = squares[static_cast<size_t>(g)];
    double trace = 0;
    for (int i = 0; i < dim(); ++i) trace += square(i, i);
    if (!(trace > 1e-3 * dim())) continue;
    const BasicMatrixView<double> rows = products.view().Rows(g * d, d);
    const DoubleMatrix solved = Transposed(Solve(square, Transposed(rows)));
    for (int64_t k = 0; k < d; ++k) std::copy_n(solved.Row(k).begin(), dim(), better.Row(g * d + k).begin());
  }
  SetVariability(std::move(better));
  return gain;
}

void IvectorExtractor::Save(const std::filesystem::path& path) const {
  SafetensorsWriter writer;
  writer.SetMetadata("format", kFormat);
  writer.SetMetadata("version", kVersion);
  writer.Add("weights", background_.weights());
  writer.Add("means", background_.means().view());
  writer.Add("variances", background_.variances().view());
  writer.Add("variability", BasicMatrixView<const double>(variability_));
  writer.Write(path);
}

IvectorExtractor IvectorExtractor::Load(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  return WithContext(
      [&] {
        if (reader.MetadataOr("format", "") != kFormat) {
          Throw<InputError>("this is no i-vector extractor (metadata 'format' is '{}', expected '{}')",
                            reader.MetadataOr("format", ""), kFormat);
        }
        if (reader.Metadata("version") != kVersion) {
          Throw<InputError>("the extractor has version {}, this program reads version {}", reader.Metadata("version"),
                            kVersion);
        }
        std::vector<float> weights = reader.ReadFloats("weights");
        if (!weights.empty()) CheckWeights(weights);
        std::vector<int32_t> first = {0, static_cast<int32_t>(weights.size())};
        IvectorExtractor extractor(
            GmmSet(std::move(first), std::move(weights), reader.ReadMatrix("means"), reader.ReadMatrix("variances")));
        extractor.SetVariability(reader.ReadDoubleMatrix("variability"));
        CheckPrecisions(extractor.precisions_);
        return extractor;
      },
      [&] { return fmt::format("reading i-vector extractor '{}'", path.string()); });
}

}  // namespace antiphon::hmm
