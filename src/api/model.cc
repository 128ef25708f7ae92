#include "antiphon/model.h"

#include <utility>

#include "api/alive.h"
#include "api/model_impl.h"
#include "api/speaker_profile.h"
#include "base/cancel.h"
#include "base/error.h"
#include "nn/model.h"
#include "pipeline/bundle.h"
#include "pipeline/load_profile.h"

namespace antiphon {
namespace {

constexpr char kModel[] = "Model";

}  // namespace

ConstMatrixView FramesOf(std::span<const float> features, const infer::NnetModel& network) {
  const int dim = network.model().feature_dim;
  if (dim == 0 || features.size() % static_cast<size_t>(dim) != 0) {
    Throw<ShapeError>("{} values are no whole number of frames of {} values", features.size(), dim);
  }
  return {features.data(), std::ssize(features) / dim, dim};
}

Model::Impl::Impl(const std::string& file) {
  nn::Model model = nn::Model::Load(pipeline::PartsAt(file).model);
  layers = model.network.ToToml();
  num_parameters = model.network.num_parameters();
  network = std::make_shared<const infer::NnetModel>(std::move(model), AdaptableOptions());
}

Model::Model(const std::string& file) : impl_(std::make_unique<const Impl>(file)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

int Model::feature_dim() const { return Alive(impl_, kModel).network->model().feature_dim; }
int Model::left_context() const { return Alive(impl_, kModel).network->model().left_context; }
int Model::right_context() const { return Alive(impl_, kModel).network->model().right_context; }
int Model::num_outputs() const { return Alive(impl_, kModel).network->num_pdfs(); }
int64_t Model::num_parameters() const { return Alive(impl_, kModel).num_parameters; }
std::string Model::network() const { return Alive(impl_, kModel).layers; }
std::string Model::features() const { return Alive(impl_, kModel).network->model().feature_config; }

SpeakerProfile Model::LoadProfile(const std::string& file) const {
  return SpeakerProfileAccess::Load(file, Alive(impl_, kModel).network);
}

std::vector<float> Model::LogLikelihoods(std::span<const float> features, const SpeakerProfile& profile) const {
  const std::shared_ptr<const infer::NnetModel>& network = Alive(impl_, kModel).network;
  const ConstMatrixView frames = FramesOf(features, *network);
  infer::NnetScorer scorer(network, Matrix(frames), SpeakerProfileAccess::Bound(profile, network.get()));
  const int scored = scorer.num_frames_ready();
  std::vector<float> scores;
  scores.reserve(static_cast<size_t>(scored) * static_cast<size_t>(network->num_pdfs()));
  for (int frame = 0; frame < scored; ++frame) {
    if (frame % 64 == 0) ThrowIfCancelled("scoring");
    const std::span<const float> row = scorer.DenseFrame(frame);
    scores.insert(scores.end(), row.begin(), row.end());
  }
  return scores;
}

}  // namespace antiphon
