#include "pipeline/ensemble.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/score_source.h"
#include "base/toml_text.h"
#include "data/feature_kind.h"
#include "hmm/hmm_model.h"
#include "train/warm_start.h"

namespace antiphon::pipeline {
namespace {

using nn::Model, nn::Network, nn::Parameter;

constexpr double kLeastWeight = 1e-6, kLargestWeight = 1e6;  // as the layer allows

void CheckWeights(size_t models, const std::vector<double>& weights) {
  if (models < 2) Throw<UsageError>("an ensemble is made of two models or more, found {}", models);
  if (!weights.empty() && weights.size() != models) {
    Throw<UsageError>("{} weights for {} models: give one for each, or none", weights.size(), models);
  }
  for (const double weight : weights) {
    if (!(weight >= kLeastWeight && weight <= kLargestWeight)) {
      Throw<UsageError>("weights are between {} and {}, found {}: leave out a model that is to count for nothing",
                        kLeastWeight, kLargestWeight, weight);
    }
  }
}

// Transition probabilities may differ: the search takes those of the first one.
bool HaveTheSameStates(const Model& a, const Model& b) {
  if (a.hmm_json == b.hmm_json) return true;
  if (a.hmm_json.empty() || b.hmm_json.empty()) return false;
  return hmm::HmmModel::FromJson(a.hmm_json).StructureChecksum() ==
         hmm::HmmModel::FromJson(b.hmm_json).StructureChecksum();
}

void CheckFits(const NamedModel& named, const NamedModel& reference) {
  const Model& a = reference.model;
  const Model& b = named.model;
  const auto fail = [&](const std::string& what) {
    Throw<InputError>("'{}' and '{}' cannot score together: {}", reference.name, named.name, what);
  };
  const auto same = [&](const char* what, auto of_a, auto of_b) {
    if (of_a != of_b) fail(fmt::format("the {} of the first one is {}, of the other one {}", what, of_a, of_b));
  };
  same("number of outputs", a.network.out_dim(), b.network.out_dim());
  same("number of values per frame", a.feature_dim, b.feature_dim);
  same("number of spliced frames before", a.left_context, b.left_context);
  same("number of spliced frames after", a.right_context, b.right_context);
  same("number of inputs", a.network.in_dim(), b.network.in_dim());
  same("stride", a.network.time_context().stride, b.network.time_context().stride);
  same("number of frames per output row", a.frames_per_forward, b.frames_per_forward);
  same("first of these frames", a.first_frame_offset, b.first_frame_offset);
  same("number of feature frames per frame of the HMM", a.frame_subsampling, b.frame_subsampling);
  if (!HaveTheSameStates(a, b)) fail("their states are not the same (trained with another tree or topology)");
  data::RequireFrontEnd(a.feature_config, "'" + reference.name + "'", b.feature_config, "'" + named.name + "'");
  same("normalisation by speaker", train::NormalisationTakenBy(a), train::NormalisationTakenBy(b));
  if (a.speaker_model != b.speaker_model) fail("their speakers' transforms come from other mixtures");
  if (a.ivector_extractor != b.ivector_extractor) fail("their i-vectors come from other extractors");
  if (a.log_priors.empty() != b.log_priors.empty()) fail("only one of them has priors");
}

double WeightOf(const std::vector<double>& weights, size_t k) { return weights.empty() ? 1.0 : weights[k]; }

Network NetworkOf(std::span<const NamedModel> models, const std::vector<double>& weights) {
  std::vector<Config> members;
  for (size_t k = 0; k < models.size(); ++k) {
    const Config network = Config::Parse(models[k].model.network.ToToml(), models[k].name);
    Config& member = members.emplace_back();
    member.Set("layers", InlineTomlTables(network.Tables("layer")));
    member.Set("weight", fmt::format("{}", WeightOf(weights, k)));
  }
  Config layer;
  layer.Set("type", TomlString("ensemble"));
  layer.Set("members", InlineTomlTables(members));
  Config config;
  config.Set("layer", InlineTomlTables({layer}));
  const Network& first = models.front().model.network;
  Network network(config, first.in_dim(), first.out_dim(), 0, nn::InitialValues::kToBeSet);
  // In the order of the members, each in its own order.
  const auto copy = [&](std::span<Parameter* const> to, auto of) {
    size_t next = 0;
    for (const NamedModel& named : models) {
      for (const Parameter* from : of(named.model.network)) {
        Parameter& p = *to[next++];
        CHECK_EQ(from->value.size(), p.value.size()) << p.name;
        std::copy_n(from->value.data(), from->value.size(), p.value.data());
        p.MarkChanged();
      }
    }
  };
  copy(network.parameters(), [](const Network& n) { return n.parameters(); });
  copy(network.buffers(), [](const Network& n) { return n.buffers(); });
  network.MarkChanged();
  return network;
}

double LogSum(const auto& logarithms) {
  double sum = 0;
  for (const double p : logarithms) sum += std::exp(p);
  return std::log(sum);
}

std::vector<float> PriorsOf(std::span<const NamedModel> models, const std::vector<double>& weights) {
  std::vector<double> mean(models.front().model.log_priors.size(), 0.0);
  double all = 0, log_sum = 0;
  for (size_t k = 0; k < models.size(); ++k) all += WeightOf(weights, k);
  for (size_t k = 0; k < models.size(); ++k) {
    const double share = WeightOf(weights, k) / all;
    const std::vector<float>& own = models[k].model.log_priors;
    log_sum += share * LogSum(own);
    for (size_t s = 0; s < mean.size(); ++s) {
      mean[s] += WasSeen(own[s]) ? share * static_cast<double>(own[s]) : -std::numeric_limits<double>::infinity();
    }
  }
  const double excess = LogSum(mean) - log_sum;
  std::vector<float> priors;
  for (const double p : mean) priors.push_back(static_cast<float>(std::min(0.0, p - excess)));
  return priors;
}

// Where all say the same.
std::map<std::string, std::string> DescriptionsOf(std::span<const NamedModel> models) {
  std::map<std::string, std::string> common = models.front().model.descriptions;
  std::erase_if(common, [&](const auto& said) {
    return std::any_of(models.begin(), models.end(), [&](const NamedModel& named) {
      const auto found = named.model.descriptions.find(said.first);
      return found == named.model.descriptions.end() || found->second != said.second;
    });
  });
  common["ensemble"] = fmt::format("{} networks", models.size());
  return common;
}

}  // namespace

Model EnsembleOf(std::span<const NamedModel> models, const std::vector<double>& weights) {
  CheckWeights(models.size(), weights);
  for (const NamedModel& named : models.subspan(1)) CheckFits(named, models.front());
  const Model& first = models.front().model;
  Model model;
  model.network = NetworkOf(models, weights);
  model.feature_config = first.feature_config;
  model.feature_dim = first.feature_dim;
  model.left_context = first.left_context;
  model.right_context = first.right_context;
  model.frames_per_forward = first.frames_per_forward;
  model.first_frame_offset = first.first_frame_offset;
  model.frame_subsampling = first.frame_subsampling;
  model.hmm_json = first.hmm_json;
  model.speaker_model = first.speaker_model;
  model.ivector_extractor = first.ivector_extractor;
  model.log_priors = PriorsOf(models, weights);
  model.descriptions = DescriptionsOf(models);
  model.Validate();
  return model;
}

}  // namespace antiphon::pipeline
