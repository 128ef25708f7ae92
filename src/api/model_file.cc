#include "antiphon/model_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "base/options.h"
#include "feat/front_end.h"
#include "hmm/hmm_file.h"
#include "math/safetensors.h"
#include "nn/model.h"
#include "pipeline/bundle.h"

namespace antiphon {
namespace {

int DimOf(const std::string& front_end) {
  return feat::FrontEnd(ReadOptions<feat::FrontEndOptions>(Config::Parse(front_end, "(features)"))).dim();
}

// The network of a description, its values not yet set.
nn::Network NetworkOf(const ModelFile& file) {
  if (file.feature_dim < 1 || file.left_context < 0 || file.right_context < 0) {
    Throw<InputError>(
        "a model of {} features per frame with {} frames before and {} after: expected 1 or more, and 0 "
        "or more on each side",
        file.feature_dim, file.left_context, file.right_context);
  }
  const int64_t in_dim = int64_t{file.feature_dim} * (int64_t{file.left_context} + 1 + file.right_context);
  constexpr int64_t kMostInputs = 1 << 24;
  if (in_dim > kMostInputs) Throw<InputError>("{} inputs, more than {}", in_dim, kMostInputs);
  return nn::Network(Config::Parse(file.network, "(network)"), static_cast<int>(in_dim), 0, /*seed=*/0,
                     nn::InitialValues::kToBeSet);
}

// While it lives, a description may not ask for more memory than there are values.
nn::ScopedParameterLimit LimitOf(const ModelFile& file) {
  int64_t values = 0;
  for (const ModelTensor& tensor : file.tensors) values += std::ssize(tensor.values);
  return nn::ScopedParameterLimit(values);
}

void AddTensors(std::span<nn::Parameter* const> parameters, bool trained, std::vector<ModelTensor>& tensors) {
  for (const nn::Parameter* p : parameters) {
    tensors.push_back(
        {p->name, p->value.rows(), p->value.cols(), trained, {p->value.data(), p->value.data() + p->value.size()}});
  }
}

void SetTensor(const std::map<std::string, const ModelTensor*>& tensors, nn::Parameter& parameter) {
  const auto it = tensors.find(parameter.name);
  if (it == tensors.end()) Throw<InputError>("the network needs a tensor '{}', which is not there", parameter.name);
  const ModelTensor& tensor = *it->second;
  const MatrixView to = parameter.value;
  if (tensor.rows != to.rows() || tensor.cols != to.cols() || std::ssize(tensor.values) != to.size()) {
    Throw<ShapeError>("tensor '{}' is {} x {} with {} values; the network's is {} x {}", tensor.name, tensor.rows,
                      tensor.cols, tensor.values.size(), to.rows(), to.cols());
  }
  const auto bad =
      std::find_if_not(tensor.values.begin(), tensor.values.end(), [](float value) { return std::isfinite(value); });
  if (bad != tensor.values.end()) {
    Throw<InputError>("tensor '{}', value {}: {} is not a number that a model can have", tensor.name,
                      bad - tensor.values.begin(), *bad);
  }
  std::copy(tensor.values.begin(), tensor.values.end(), to.data());
  parameter.MarkChanged();
}

}  // namespace

ModelFile ModelFile::Read(const std::string& path) {
  nn::Model model = nn::Model::Load(pipeline::PartsAt(path).model);
  ModelFile file;
  file.network = model.network.ToToml();
  AddTensors(model.network.parameters(), true, file.tensors);
  AddTensors(model.network.buffers(), false, file.tensors);
  file.feature_dim = model.feature_dim;
  file.left_context = model.left_context;
  file.right_context = model.right_context;
  file.frames_per_forward = model.frames_per_forward;
  file.first_frame_offset = model.first_frame_offset;
  file.frame_subsampling = model.frame_subsampling;
  file.features = std::move(model.feature_config);
  file.hmm = std::move(model.hmm_json);
  file.log_priors = std::move(model.log_priors);
  file.descriptions = std::move(model.descriptions);
  file.speaker_model = std::move(model.speaker_model);
  file.ivector_extractor = std::move(model.ivector_extractor);
  return file;
}

void ModelFile::Write(const std::string& path) const {
  WithContext(
      [&] {
        const nn::ScopedParameterLimit limit = LimitOf(*this);
        std::map<std::string, const ModelTensor*> by_name;
        for (const ModelTensor& tensor : tensors) {
          if (!by_name.emplace(tensor.name, &tensor).second) Throw<InputError>("two tensors '{}'", tensor.name);
        }
        nn::Model model;
        model.network = NetworkOf(*this);
        // Masks are buffers, and say which of the parameters' values may be other than 0.
        for (const auto part : {model.network.buffers(), model.network.parameters()}) {
          for (nn::Parameter* parameter : part) {
            SetTensor(by_name, *parameter);
            by_name.erase(parameter->name);
          }
        }
        if (!by_name.empty()) Throw<InputError>("the network has no tensor '{}'", by_name.begin()->first);
        model.feature_config = features;
        model.feature_dim = feature_dim;
        model.left_context = left_context;
        model.right_context = right_context;
        model.frames_per_forward = frames_per_forward;
        model.first_frame_offset = first_frame_offset;
        model.frame_subsampling = frame_subsampling;
        model.hmm_json = hmm;
        model.log_priors = log_priors;
        model.descriptions = descriptions;
        model.speaker_model = speaker_model;
        model.ivector_extractor = ivector_extractor;
        model.Save(path);
      },
      [&] { return fmt::format("writing model '{}'", path); });
}

std::vector<ModelLayer> ModelFile::Layers() const {
  const nn::Network net = NetworkOf(*this);
  std::vector<ModelLayer> layers;
  for (size_t i = 0; i < net.num_layers(); ++i) {
    const nn::Layer& layer = net.layer(i);
    layers.push_back(
        {net.layer_name(i), net.layer_type(i), layer.in_dim(), layer.out_dim(), layer.ToConfig().ToToml()});
  }
  return layers;
}

int ModelFile::NumOutputs() const { return NetworkOf(*this).out_dim(); }

void ModelFile::TakeDescription(const std::string& model) {
  WithContext(
      [&] {
        const std::filesystem::path file = pipeline::PartsAt(model).model;
        if (hmm.empty()) hmm = hmm::LoadHmm(file).ToJson();
        if (file.extension() != ".safetensors") return;
        const std::string theirs = SafetensorsReader(file).MetadataOr("features", "");
        if (theirs.empty() || !features.empty()) return;
        if (feature_dim == 0 || DimOf(theirs) == feature_dim) features = theirs;
      },
      [&] { return fmt::format("reading the description of '{}'", model); });
}

}  // namespace antiphon
