#include "antiphon/model.h"

#include "base/error.h"
#include "infer/nnet_scorer.h"
#include "nn/model.h"

namespace antiphon {

struct Model::Impl {
  std::shared_ptr<const infer::NnetModel> model;
};

Model::Model(const std::string& file)
    : impl_(new Impl{std::make_shared<const infer::NnetModel>(nn::Model::Load(file), infer::NnetScorerOptions())}) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

int Model::feature_dim() const { return impl_->model->model().feature_dim; }
int Model::left_context() const { return impl_->model->model().left_context; }
int Model::right_context() const { return impl_->model->model().right_context; }
int Model::num_outputs() const { return impl_->model->num_pdfs(); }
int64_t Model::num_parameters() const { return impl_->model->model().network.num_parameters(); }
std::string Model::network() const { return impl_->model->model().network.ToToml(); }
std::string Model::features() const { return impl_->model->model().feature_config; }

std::vector<float> Model::LogLikelihoods(std::span<const float> features) const {
  const auto dim = static_cast<size_t>(feature_dim());
  if (dim == 0 || features.size() % dim != 0) {
    Throw<ShapeError>("{} values are no whole number of frames of {} values", features.size(), dim);
  }
  const auto num_frames = static_cast<int64_t>(features.size() / dim);
  infer::NnetScorer scorer(impl_->model, Matrix(ConstMatrixView(features.data(), num_frames, feature_dim())));
  std::vector<float> scores;
  scores.reserve(static_cast<size_t>(num_frames * num_outputs()));
  for (int frame = 0; frame < num_frames; ++frame) {
    const std::span<const float> row = scorer.DenseFrame(frame);
    scores.insert(scores.end(), row.begin(), row.end());
  }
  return scores;
}

}  // namespace antiphon
