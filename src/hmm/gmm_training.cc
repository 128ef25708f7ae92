#include "hmm/gmm_training.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "hmm/gmm_kernels.h"

namespace antiphon::hmm {

GmmStats::GmmStats(const GmmSet& gmm)
    : occupancy_(static_cast<size_t>(gmm.num_gaussians())),
      sums_(gmm.num_gaussians(), static_cast<int64_t>(2) * gmm.dim()) {}

void GmmStats::SetZero() {
  std::fill(occupancy_.begin(), occupancy_.end(), 0.0);
  sums_.SetZero();
  log_likelihood_ = 0;
  num_frames_ = 0;
}

double GmmStats::Accumulate(const GmmSet& gmm, ConstMatrixView frames, const FrameBlocks& blocks,
                            std::span<const int32_t> pdfs) {
  CHECK_EQ(static_cast<int64_t>(pdfs.size()), frames.rows());
  CHECK_EQ(gmm.dim(), frames.cols());
  const int num_frames = blocks.num_frames();
  std::vector<FrameWeight> run;
  double total = 0;
  for (int begin = 0; begin < num_frames;) {
    const int32_t pdf = pdfs[static_cast<size_t>(begin)];
    const int block_end = std::min(num_frames, (begin / kFrameBlock + 1) * kFrameBlock);
    int end = begin;
    run.clear();
    for (; end < block_end && pdfs[static_cast<size_t>(end)] == pdf; ++end) run.push_back({end, 1.0});
    if (pdf >= 0) total += AddInBlock(gmm, frames, blocks, pdf, run);
    begin = end;
  }
  log_likelihood_ += total;
  return total;
}

double GmmStats::AccumulateWeighted(const GmmSet& gmm, ConstMatrixView frames, const FrameBlocks& blocks,
                                    int32_t pdf_id, std::span<const FrameWeight> weights) {
  CHECK_EQ(gmm.dim(), frames.cols());
  double total = 0;
  while (!weights.empty()) {
    const int block = weights[0].frame / kFrameBlock;
    size_t count = 1;
    while (count < weights.size() && weights[count].frame / kFrameBlock == block) ++count;
    total += AddInBlock(gmm, frames, blocks, pdf_id, weights.first(count));
    weights = weights.subspan(count);
  }
  log_likelihood_ += total;
  return total;
}

double GmmStats::AddInBlock(const GmmSet& gmm, ConstMatrixView frames, const FrameBlocks& blocks, int32_t pdf_id,
                            std::span<const FrameWeight> weights) {
  const auto dim = static_cast<size_t>(gmm.dim());
  scratch_.resize(std::max(scratch_.size(), static_cast<size_t>(gmm.NumGaussians(pdf_id)) * kFrameBlock));
  float log_sums[kFrameBlock];
  gmm.GaussianLogLikelihoods(pdf_id, blocks.Block(weights[0].frame / kFrameBlock), scratch_.data());
  PosteriorBlock(scratch_.data(), gmm.NumGaussians(pdf_id), log_sums);
  double total = 0;
  for (const auto& [frame, weight] : weights) {
    total += weight * static_cast<double>(log_sums[frame % kFrameBlock]);
    num_frames_ += weight;
  }
  const int first = gmm.FirstGaussian(pdf_id);
  for (int g = 0; g < gmm.NumGaussians(pdf_id); ++g) {
    double* sums = sums_.Row(first + g).data();
    double occupancy = 0;
    for (const auto& [frame, weight] : weights) {
      const double posterior =
          weight * static_cast<double>(scratch_[static_cast<size_t>(g * kFrameBlock + frame % kFrameBlock)]);
      const float* x = frames.Row(frame).data();
      occupancy += posterior;
      for (size_t d = 0; d < dim; ++d) {
        const double weighted = posterior * static_cast<double>(x[d]);
        sums[d] += weighted;
        sums[dim + d] += weighted * static_cast<double>(x[d]);
      }
    }
    occupancy_[static_cast<size_t>(first + g)] += occupancy;
  }
  return total;
}

void GmmStats::Add(const GmmStats& other) {
  CHECK_EQ(occupancy_.size(), other.occupancy_.size());
  for (size_t g = 0; g < occupancy_.size(); ++g) occupancy_[g] += other.occupancy_[g];
  for (int64_t i = 0; i < sums_.size(); ++i) sums_.data()[i] += other.sums_.data()[i];
  log_likelihood_ += other.log_likelihood_;
  num_frames_ += other.num_frames_;
}

double GmmStats::PdfOccupancy(const GmmSet& gmm, int32_t pdf_id) const {
  double sum = 0;
  for (int g = 0; g < gmm.NumGaussians(pdf_id); ++g) sum += Occupancy(gmm.FirstGaussian(pdf_id) + g);
  return sum;
}

namespace {

// Gathers Gaussians of one pdf-id after the other.
class StageBuilder {
 public:
  explicit StageBuilder(int dim) : dim_(static_cast<size_t>(dim)) {}
  void Add(float weight, std::span<const float> mean, std::span<const float> variance) {
    weights_.push_back(weight);
    means_.insert(means_.end(), mean.begin(), mean.end());
    variances_.insert(variances_.end(), variance.begin(), variance.end());
  }
  void EndPdf() {
    double sum = 0;
    for (size_t g = static_cast<size_t>(first_.back()); g < weights_.size(); ++g)
      sum += static_cast<double>(weights_[g]);
    for (size_t g = static_cast<size_t>(first_.back()); g < weights_.size(); ++g)
      weights_[g] = static_cast<float>(static_cast<double>(weights_[g]) / sum);
    first_.push_back(static_cast<int32_t>(weights_.size()));
  }
  GmmSet Finish() {
    const auto rows = static_cast<int64_t>(weights_.size());
    const auto cols = static_cast<int64_t>(dim_);
    return {std::move(first_), std::move(weights_), Matrix(ConstMatrixView(means_.data(), rows, cols)),
            Matrix(ConstMatrixView(variances_.data(), rows, cols))};
  }

 private:
  size_t dim_;
  std::vector<int32_t> first_ = {0};
  std::vector<float> weights_;
  std::vector<float> means_;
  std::vector<float> variances_;
};

}  // namespace

GmmSet Reestimate(const GmmSet& gmm, const GmmStats& stats, const GmmUpdateOptions& options) {
  const auto dim = static_cast<size_t>(gmm.dim());
  StageBuilder builder(gmm.dim());
  std::vector<float> mean(dim);
  std::vector<float> variance(dim);
  for (int32_t pdf = 0; pdf < gmm.num_pdfs(); ++pdf) {
    const int first = gmm.FirstGaussian(pdf);
    const int count = gmm.NumGaussians(pdf);
    const double total = stats.PdfOccupancy(gmm, pdf);
    int heaviest = first;
    for (int g = first; g < first + count; ++g) {
      if (stats.Occupancy(g) > stats.Occupancy(heaviest)) heaviest = g;
    }
    for (int g = first; g < first + count; ++g) {
      const double occupancy = stats.Occupancy(g);
      const bool enough =
          occupancy >= options.min_occupancy && occupancy > 0 && occupancy / total >= options.min_weight;
      if (!enough && g != heaviest) continue;
      const auto share = static_cast<float>(total > 0 ? std::max(occupancy / total, 1e-10) : 1.0);
      if (!enough) {
        builder.Add(share, gmm.means().Row(g), gmm.variances().Row(g));
        continue;
      }
      const double* sums = stats.sums().Row(g).data();
      for (size_t d = 0; d < dim; ++d) {
        const double m = sums[d] / occupancy;
        mean[d] = static_cast<float>(m);
        variance[d] = static_cast<float>(std::max(sums[dim + d] / occupancy - m * m, options.min_variance));
      }
      builder.Add(share, mean, variance);
    }
    builder.EndPdf();
  }
  return builder.Finish();
}

namespace {

// How many Gaussians each pdf-id shall have: the next one goes where occupancy^power per Gaussian is largest.
std::vector<int> ShareOut(const GmmSet& gmm, std::span<const double> occupancy, int target, double power,
                          double min_occupancy) {
  struct Entry {
    double value;
    int32_t pdf;
    bool operator<(const Entry& other) const { return std::tuple(value, -pdf) < std::tuple(other.value, -other.pdf); }
  };
  std::vector<int> counts;
  std::priority_queue<Entry> queue;
  int total = 0;
  for (int32_t pdf = 0; pdf < gmm.num_pdfs(); ++pdf) {
    counts.push_back(gmm.NumGaussians(pdf));
    total += counts.back();
    queue.push({std::pow(occupancy[static_cast<size_t>(pdf)], power) / counts.back(), pdf});
  }
  while (total < target && !queue.empty()) {
    const int32_t pdf = queue.top().pdf;
    queue.pop();
    int& count = counts[static_cast<size_t>(pdf)];
    if ((count + 1) * min_occupancy > occupancy[static_cast<size_t>(pdf)]) continue;
    ++count;
    ++total;
    queue.push({std::pow(occupancy[static_cast<size_t>(pdf)], power) / count, pdf});
  }
  return counts;
}

}  // namespace

GmmSet MixUp(const GmmSet& gmm, std::span<const double> pdf_occupancy, int target, double power, double min_occupancy,
             Rng& rng, double perturbation) {
  CHECK_EQ(pdf_occupancy.size(), static_cast<size_t>(gmm.num_pdfs()));
  const std::vector<int> counts = ShareOut(gmm, pdf_occupancy, target, power, min_occupancy);
  StageBuilder builder(gmm.dim());
  struct Gaussian {
    float weight;
    std::vector<float> mean;
    std::vector<float> variance;
  };
  for (int32_t pdf = 0; pdf < gmm.num_pdfs(); ++pdf) {
    std::vector<Gaussian> mixture;
    for (int g = gmm.FirstGaussian(pdf); g < gmm.FirstGaussian(pdf) + gmm.NumGaussians(pdf); ++g) {
      const auto mean = gmm.means().Row(g);
      const auto variance = gmm.variances().Row(g);
      mixture.push_back(
          {gmm.weights()[static_cast<size_t>(g)], {mean.begin(), mean.end()}, {variance.begin(), variance.end()}});
    }
    while (static_cast<int>(mixture.size()) < counts[static_cast<size_t>(pdf)]) {
      const auto heaviest = std::max_element(mixture.begin(), mixture.end(),
                                             [](const Gaussian& a, const Gaussian& b) { return a.weight < b.weight; });
      heaviest->weight /= 2;
      Gaussian twin = *heaviest;
      for (size_t d = 0; d < twin.mean.size(); ++d) {
        const auto step =
            static_cast<float>(perturbation * rng.Normal() * std::sqrt(static_cast<double>(twin.variance[d])));
        twin.mean[d] += step;
        heaviest->mean[d] -= step;
      }
      mixture.push_back(std::move(twin));
    }
    for (const Gaussian& g : mixture) builder.Add(g.weight, g.mean, g.variance);
    builder.EndPdf();
  }
  return builder.Finish();
}

}  // namespace antiphon::hmm
