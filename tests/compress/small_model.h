// A small network with values like a trained one's, and frames for it.
#pragma once

#include <cmath>
#include <string>

#include "compress/method.h"
#include "nn/model.h"
#include "random_matrix.h"

namespace antiphon::compress {

using testing::RandomMatrix;

/// The same few batches again and again.
class FixedFrames : public InputFrames {
 public:
  explicit FixedFrames(int64_t dim, int64_t rows = 64)
      : batches_{RandomMatrix(rows, dim, 11), RandomMatrix(17, dim, 12)} {}
  void Rewind() override { next_ = 0; }
  nn::NetworkInput Next() override {
    return next_ < 2 ? nn::NetworkInput{batches_[next_++].view()} : nn::NetworkInput{};
  }
  const Matrix& first() const { return batches_[0]; }

 private:
  Matrix batches_[2];
  size_t next_ = 0;
};

constexpr int kInputs = 24;
constexpr int kPdfs = 16;

/// Of kInputs features and kPdfs outputs, with the statistics of random frames.
inline nn::Model ModelOf(const std::string& layers) {
  nn::Model model;
  model.network = nn::Network(Config::Parse("layer = [" + layers + "]", "net"), kInputs, kPdfs, 5);
  FixedFrames frames(kInputs);
  nn::Workspace ws;
  model.network.RecomputeStatistics(
      {}, [&] { return frames.Next(); }, ws);
  model.feature_dim = kInputs;
  model.log_priors.assign(kPdfs, static_cast<float>(-std::log(kPdfs)));
  return model;
}

/// relu or sigmoid; weights of falling singular values, batch normalisation with statistics.
inline nn::Model SmallModel(const std::string& function = "relu") {
  return ModelOf("{type = 'normalize'}, {type = 'affine', dim = 32}, {type = '" + function +
                 "'}, {type = 'batch-norm'}, {type = 'dropout', proportion = 0.1}, {type = 'affine', dim = 32}, "
                 "{type = '" +
                 function + "'}, {type = 'batch-norm'}, {type = 'affine'}");
}

inline Matrix Output(const nn::Network& network, const Matrix& x) {
  nn::Workspace ws;
  return Matrix(ConstMatrixView(network.Forward({}, x, ws)));
}

inline double LargestDifference(const Matrix& a, const Matrix& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return HUGE_VAL;
  double largest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a.data()[i]) - static_cast<double>(b.data()[i])));
  }
  return largest;
}

inline Changes Apply(const std::string& method, const std::string& keys, nn::Model& model,
                     InputFrames* frames = nullptr) {
  return MethodRegistry::Get().Create(method, Config::Parse(keys, method))->Apply(model, {frames, 1});
}

}  // namespace antiphon::compress
