// Several networks as one: the layer, and models put together.
#include "pipeline/ensemble.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "nn/network_parts.h"
#include "temporary_folder.h"

namespace antiphon::pipeline {
namespace {

using nn::Model, nn::Network, nn::Parameter, nn::Workspace;

constexpr int kInputs = 4, kOutputs = 3;

Matrix Speech(int64_t rows) {
  Rng rng(8);
  Matrix x(rows, kInputs);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
  return x;
}

NamedModel MakeModel(const std::string& name, const std::string& layers, uint64_t seed) {
  NamedModel named{name, {}};
  Model& model = named.model;
  model.network = Network(Config::Parse("layer = [" + layers + "]", name), kInputs, kOutputs, seed);
  Rng rng(seed);
  for (Parameter* p : model.network.parameters()) {
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] = static_cast<float>(rng.Normal());
  }
  model.network.MarkChanged();
  model.feature_dim = kInputs;
  model.feature_config = "kind = \"mfcc\"\n";
  model.log_priors = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  return named;
}

const char* const kSmall = "{type = 'affine', dim = 3}";
const char* const kWide = "{type = 'tdnn', dim = 6, offsets = [-2, 0, 1]}, {type = 'tanh'}, {type = 'affine', dim = 3}";

// Outputs for the frames first … of x that the network sees.
Matrix Outputs(const Network& network, const Matrix& x, int64_t first, int64_t rows) {
  Workspace ws;
  return Matrix(ConstMatrixView(network.Forward({}, x.view().Rows(first, rows), ws)));
}

TEST(EnsembleOf, GivesTheMeanOfItsMembersForTheSameFrames) {
  std::vector<NamedModel> models;
  models.push_back(MakeModel("a", kSmall, 1));
  models.push_back(MakeModel("b", kWide, 2));
  const Model together = EnsembleOf(models, {3.0, 1.0});
  EXPECT_EQ(together.network.time_context(), (TimeContext{2, 1, 1}));
  const Matrix x = Speech(12);
  const Matrix found = Outputs(together.network, x, 0, 12);
  const Matrix a = Outputs(models[0].model.network, x, 2, 9);  // has no context: the frames that outputs stand for
  const Matrix b = Outputs(models[1].model.network, x, 0, 12);
  ASSERT_EQ(found.rows(), 9);
  for (int64_t r = 0; r < 9; ++r) {
    for (int64_t c = 0; c < kOutputs; ++c) EXPECT_NEAR(found(r, c), 0.75F * a(r, c) + 0.25F * b(r, c), 1e-5);
  }
}

TEST(EnsembleOf, IsWrittenAndReadAsAnyModel) {
  const ::antiphon::testing::TemporaryFolder folder;
  std::vector<NamedModel> models;
  for (const uint64_t seed : {1, 2, 3}) models.push_back(MakeModel("m", kWide, seed));
  const Model together = EnsembleOf(models);
  together.Save(folder / "model.safetensors");
  const Model read = Model::Load(folder / "model.safetensors");
  EXPECT_EQ(read.network.Hash(), together.network.Hash());
  EXPECT_EQ(read.network.num_parameters(), 3 * models[0].model.network.num_parameters());
  const Matrix x = Speech(9);
  const Matrix found = Outputs(read.network, x, 0, 9), expected = Outputs(together.network, x, 0, 9);
  EXPECT_TRUE(std::equal(found.data(), found.data() + found.size(), expected.data()));
}

// Masks, statistics and rounded weights are no parameters.
TEST(EnsembleOf, KeepsWhatIsNotTrained) {
  std::vector<NamedModel> models;
  for (const uint64_t seed : {1, 2}) {
    models.push_back(MakeModel(
        "m", "{type = 'batch-norm'}, {type = 'sparse-affine', dim = 8}, {type = 'quantized-affine', dim = 3}", seed));
    float value = static_cast<float>(seed);
    for (Parameter* p : models.back().model.network.buffers()) {
      for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] = value += 1;
      p->MarkChanged();
    }
  }
  const Model together = EnsembleOf(models);
  std::vector<const Parameter*> expected;
  for (const NamedModel& named : models) {
    for (const Parameter* p : named.model.network.buffers()) expected.push_back(p);
  }
  const auto found = together.network.buffers();
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GT(found.size(), 4U);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(
        std::equal(found[i]->value.data(), found[i]->value.data() + found[i]->value.size(), expected[i]->value.data()))
        << found[i]->name;
  }
}

TEST(EnsembleOf, SaysWhatAllSayOfThemselves) {
  std::vector<NamedModel> models;
  for (const uint64_t seed : {1, 2}) models.push_back(MakeModel("m", kSmall, seed));
  for (NamedModel& named : models) named.model.descriptions = {{"normalisation", "mean"}, {"held_out", "some"}};
  models[0].model.descriptions["seed"] = "1";
  models[1].model.descriptions["seed"] = "2";
  EXPECT_EQ(EnsembleOf(models).descriptions,
            (std::map<std::string, std::string>{
                {"normalisation", "mean"}, {"held_out", "some"}, {"ensemble", "2 networks"}}));
}

TEST(EnsembleOf, LeavesOutStatesThatAMemberHasNeverSeen) {
  std::vector<NamedModel> models;
  for (const uint64_t seed : {1, 2}) models.push_back(MakeModel("m", kSmall, seed));
  models[1].model.log_priors = {std::log(0.5F), std::log(0.5F), -40.0F};
  const Model together = EnsembleOf(models);
  EXPECT_EQ(together.log_priors[2], -std::numeric_limits<float>::infinity());
  EXPECT_GT(together.log_priors[0], -1.0F);
}

TEST(FirstMemberOf, KeepsItsNamesWhereTheyAreItsOwn) {
  std::vector<NamedModel> models;
  for (const uint64_t seed : {1, 2}) models.push_back(MakeModel("m", kWide, seed));
  const Model together = EnsembleOf(models);
  const Network first = nn::FirstMemberOf(together.network);
  EXPECT_EQ(first.ToToml(), models[0].model.network.ToToml());
  EXPECT_EQ(first.Hash(), models[0].model.network.Hash());
}

TEST(EnsembleOf, ScoresLessPriorsAreTheMeanOfTheMembers) {
  std::vector<NamedModel> models;
  models.push_back(MakeModel("a", kSmall, 1));
  models.push_back(MakeModel("b", kSmall, 2));
  models[1].model.log_priors = {std::log(0.1F), std::log(0.1F), std::log(0.8F)};
  const Model together = EnsembleOf(models);
  double sum = 0;
  for (const float p : together.log_priors) sum += std::exp(p);
  EXPECT_NEAR(sum, 1.0, 1e-6);
  // But for a number that is the same for all states.
  const auto mean = [&](size_t s) { return (models[0].model.log_priors[s] + models[1].model.log_priors[s]) / 2; };
  for (size_t s = 1; s < 3; ++s) {
    EXPECT_NEAR(together.log_priors[s] - together.log_priors[0], mean(s) - mean(0), 1e-5) << s;
  }
}

// Chain models' outputs are likelihoods already.
TEST(EnsembleOf, TakesNoPriorsOutWhereItsMembersTakeNone) {
  std::vector<NamedModel> models;
  for (const uint64_t seed : {1, 2, 3}) models.push_back(MakeModel("m", kSmall, seed));
  for (NamedModel& named : models) named.model.log_priors = {0, 0, 0};
  for (const float p : EnsembleOf(models).log_priors) EXPECT_NEAR(p, 0, 1e-6);
  for (NamedModel& named : models) named.model.log_priors.clear();
  EXPECT_TRUE(EnsembleOf(models).log_priors.empty());
}

TEST(EnsembleOf, RefusesModelsThatDoNotFitAndSaysWhy) {
  const auto refusal = [](const std::function<void(Model&)>& change) -> std::string {
    std::vector<NamedModel> models;
    models.push_back(MakeModel("one.safetensors", kSmall, 1));
    models.push_back(MakeModel("two.safetensors", kSmall, 2));
    change(models[1].model);
    try {
      EnsembleOf(models);
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("'one.safetensors' and 'two.safetensors'"), std::string::npos) << e.what();
      return e.what();
    }
    return "nothing refused";
  };
  const auto has = [](const std::string& text, const std::string& part) { return text.find(part) != text.npos; };
  EXPECT_PRED2(has, refusal([](Model& m) { m.hmm_json = "{}"; }), "states are not the same");
  EXPECT_PRED2(has, refusal([](Model& m) { m.descriptions["normalisation"] = "mean"; }), "normalisation by speaker");
  EXPECT_PRED2(has, refusal([](Model& m) { m.speaker_model = {std::byte{1}}; }), "mixtures");
  EXPECT_PRED2(has, refusal([](Model& m) { m.ivector_extractor = {std::byte{1}}; }), "i-vectors");
  EXPECT_PRED2(has, refusal([](Model& m) { m.log_priors.clear(); }), "priors");
  EXPECT_PRED2(has, refusal([](Model& m) { m.left_context = 1; }), "of the first one is 0, of the other one 1");
  EXPECT_PRED2(
      has, refusal([](Model& m) { m = MakeModel("", "{type = 'splice', stride = 2}, {type = 'affine'}", 3).model; }),
      "stride of the first one is 1, of the other one 2");
}

TEST(EnsembleOf, RefusesOtherFeatures) {
  std::vector<NamedModel> models;
  for (const uint64_t seed : {1, 2}) models.push_back(MakeModel("m" + std::to_string(seed), kSmall, seed));
  models[1].model.feature_config = "kind = \"plp\"\n";
  try {
    EnsembleOf(models);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("'m1' were computed with kind = mfcc, but 'm2' takes those with plp"),
              std::string::npos)
        << e.what();
  }
}

TEST(EnsembleOf, RefusesWeightsThatCannotBe) {
  std::vector<NamedModel> models;
  models.push_back(MakeModel("a", kSmall, 1));
  EXPECT_THROW(EnsembleOf(models), UsageError);
  models.push_back(MakeModel("b", kSmall, 2));
  EXPECT_THROW(EnsembleOf(models, {1.0}), UsageError);
  EXPECT_THROW(EnsembleOf(models, {1.0, 0.0}), UsageError);
  EXPECT_THROW(EnsembleOf(models, {1.0, -1.0}), UsageError);
  EXPECT_THROW(EnsembleOf(models, {1.0, 1e7}), UsageError);
}

TEST(Ensemble, RefusesMembersOfOtherSizesOrStrides) {
  const auto refusal = [](const std::string& members) -> std::string {
    try {
      Network(Config::Parse("layer = [{type = 'ensemble', members = [" + members + "]}]", "test"), kInputs, 0, 1);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "nothing refused";
  };
  EXPECT_NE(refusal("{layers = [{type = 'affine', dim = 3}]}, {layers = [{type = 'affine', dim = 5}]}")
                .find("member 1 has 3 and 1, member 2 has 5 and 1"),
            std::string::npos);
  EXPECT_NE(refusal("{layers = [{type = 'affine', dim = 12}]}, {layers = [{type = 'splice', stride = 3}]}")
                .find("member 2 has 12 and 3"),
            std::string::npos);
  EXPECT_NE(refusal("{layers = [{type = 'affine', dim = 3}], wieght = 1}").find("weight"), std::string::npos);
}

}  // namespace
}  // namespace antiphon::pipeline
