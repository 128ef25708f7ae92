// Speakers' profiles in the runtime: the same scores as a model of the speaker's own, several speakers in one batch,
// and what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "../compress/small_model.h"
#include "base/error.h"
#include "infer/nnet_scorer.h"
#include "infer/stream_pool.h"
#include "nn/network_parts.h"
#include "nn/speaker_profile.h"
#include "temporary_folder.h"

namespace antiphon::infer {
namespace {

using compress::kInputs;
using compress::kPdfs;
using compress::RandomMatrix;
using compress::SmallModel;

// A layer of `type` behind layer `place`, with values that are not neutral.
nn::Model With(const std::string& type, const std::string& options, size_t place, uint64_t seed) {
  nn::Model model = SmallModel();
  std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
  nn::LayerParts layer{"own", type, Config::Parse("type = '" + type + "'\nname = 'own'\n" + options, "own"), {}};
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(place), layer);
  model.network = nn::PutTogether(parts, kInputs);
  Rng rng(seed);
  for (nn::Parameter* p : model.network.parameters()) {
    if (!p->name.starts_with("own.")) continue;
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] += 0.4f * static_cast<float>(rng.Normal());
    p->MarkChanged();
  }
  return model;
}
nn::Model WithLhuc(uint64_t seed) { return With("lhuc", "", 3, seed); }
nn::Model WithLin(uint64_t seed) { return With("frame-affine", "dim = 24", 0, seed); }
nn::Model WithLhn(uint64_t seed) {
  nn::Model model = With("affine", "dim = 32", 7, seed);
  return model;
}

std::shared_ptr<const NnetModel> AdaptableModel(const std::string& precision = "fp32", bool adaptable = true) {
  NnetScorerOptions options;
  options.precision = precision;
  options.adaptable = adaptable;
  return std::make_shared<const NnetModel>(SmallModel(), options);
}

Matrix Scores(NnetScorer& scorer) {
  Matrix scores(scorer.num_frames_ready(), kPdfs);
  for (int t = 0; t < scores.rows(); ++t) {
    const auto row = scorer.DenseFrame(t);
    std::copy(row.begin(), row.end(), scores.Row(t).begin());
  }
  return scores;
}

void ExpectNear(const Matrix& a, const Matrix& b, double tolerance, const std::string& what) {
  EXPECT_LT(compress::LargestDifference(a, b), tolerance) << what;
}

TEST(SpeakerProfile, ScoresAsTheSpeakersOwnModelDoes) {
  const Matrix x = RandomMatrix(40, kInputs, 5);
  const auto shared = AdaptableModel();
  NnetScorer without(shared, x);
  for (const auto& [what, own] :
       {std::pair("lhuc", WithLhuc(3)), std::pair("lin", WithLin(3)), std::pair("lhn", WithLhn(3))}) {
    const nn::SpeakerProfile profile = nn::ExtractProfile(own, SmallModel());
    NnetScorer with(shared, x, shared->Bind(profile));
    NnetScorer alone(std::make_shared<const NnetModel>(own.Clone(), NnetScorerOptions()), x);
    ExpectNear(Scores(with), Scores(alone), 1e-4, what);
    EXPECT_GT(compress::LargestDifference(Scores(with), Scores(without)), 0.01) << what;
  }
}

TEST(SpeakerProfile, ServesAModelInEightBits) {
  const Matrix x = RandomMatrix(40, kInputs, 5);
  const auto shared = AdaptableModel("int8");
  const nn::Model own = WithLhuc(3);
  NnetScorer with(shared, x, shared->Bind(nn::ExtractProfile(own, SmallModel())));
  NnetScorerOptions options;
  options.precision = "int8";
  options.adaptable = true;
  NnetScorer alone(std::make_shared<const NnetModel>(own.Clone(), options), x);
  ExpectNear(Scores(with), Scores(alone), 1e-4, "int8");
}

// What a speaker needs is little beside the ones of the identity, of which eight bits would leave nothing.
TEST(SpeakerProfile, EightBitsKeepWhatAMatrixNearTheIdentityChanges) {
  nn::Model own = SmallModel();
  std::vector<nn::LayerParts> parts = nn::TakeApart(own.network);
  parts.insert(parts.begin() + 7,
               {"own", "affine", Config::Parse("type = 'affine'\nname = 'own'\ndim = 32", "own"), {}});
  own.network = nn::PutTogether(parts, kInputs);
  Rng rng(9);
  for (nn::Parameter* p : own.network.parameters()) {
    if (p->name != "own.weight") continue;
    for (int r = 0; r < 32; ++r) {
      for (int c = 0; c < 32; ++c) p->value(r, c) = (r == c ? 1.0f : 0.0f) + 0.001f * static_cast<float>(rng.Normal());
    }
    p->MarkChanged();
  }
  const Matrix x = RandomMatrix(40, kInputs, 5);
  Matrix changes[2];
  for (const auto& [precision, change] : {std::pair("fp32", &changes[0]), {"int8", &changes[1]}}) {
    const auto shared = AdaptableModel(precision);
    NnetScorer without(shared, x), with(shared, x, shared->Bind(nn::ExtractProfile(own, SmallModel())));
    const Matrix before = Scores(without);
    *change = Scores(with);
    for (int64_t i = 0; i < change->size(); ++i) change->data()[i] -= before.data()[i];
  }
  double along = 0, size = 0;
  for (int64_t i = 0; i < changes[0].size(); ++i) {
    along += static_cast<double>(changes[0].data()[i]) * changes[1].data()[i];
    size += static_cast<double>(changes[0].data()[i]) * changes[0].data()[i];
  }
  EXPECT_NEAR(along / size, 1, 0.15);
}

// With the ranges of inputs that calibration found, layers hand on bytes; a profile must not change who shares a batch.
TEST(SpeakerProfile, ChangesHiddenValuesBetweenCalibratedLayers) {
  nn::Model model = SmallModel();
  std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
  for (nn::LayerParts& layer : parts) {
    if (!nn::IsDense(layer)) continue;
    const Config options = Config::Parse(fmt::format("dim = {}", layer.weight().rows()), "test");
    nn::LayerParts rounded = nn::MakeLayer(layer, layer.name, "quantized-affine", options);
    for (auto& [name, tensor] : layer.tensors) rounded.tensors[name] = std::move(tensor);
    layer = std::move(rounded);
  }
  model.network = nn::PutTogether(parts, kInputs);
  for (nn::Parameter* p : model.network.buffers()) {
    if (p->name.ends_with("input_scale")) p->value(0, 0) = 0.05F;
    if (p->name.ends_with("input_zero")) p->value(0, 0) = 100;
  }
  NnetScorerOptions options;
  options.precision = "int8";
  options.adaptable = true;
  const auto shared = std::make_shared<const NnetModel>(model.Clone(), options);
  const auto bind = [&](const nn::Model& own) {
    nn::SpeakerProfile profile = nn::ExtractProfile(own, SmallModel());
    profile.model = shared->id();
    return shared->Bind(std::move(profile));
  };
  const auto anna = bind(WithLhuc(3)), ben = bind(WithLhn(4));
  const Matrix x = RandomMatrix(40, kInputs, 5);
  NnetScorer without(shared, x), by_factors(shared, x, anna), by_matrix(shared, x, ben);
  const Matrix plain = Scores(without);
  EXPECT_GT(compress::LargestDifference(plain, Scores(by_factors)), 0.01);
  StreamPool pool(shared, {.batch = 16});
  const std::vector<std::shared_ptr<const BoundProfile>> profiles = {anna, nullptr, ben};
  std::vector<int> streams;
  for (const auto& profile : profiles) streams.push_back(pool.Open(profile));
  for (const int s : streams) {
    pool.Accept(s, x, 0);
    pool.Finish(s);
  }
  while (pool.RunBatch(0) > 0) {
  }
  for (size_t s = 0; s < streams.size(); ++s) {
    Matrix scores(40, kPdfs);
    int t = 0;
    pool.Take(streams[s],
              [&](std::span<const float> row, double) { std::copy(row.begin(), row.end(), scores.Row(t++).begin()); });
    NnetScorer alone(shared, x, profiles[s]);
    EXPECT_EQ(compress::LargestDifference(scores, Scores(alone)), 0) << "stream " << s;
  }
}

TEST(SpeakerProfile, AnAdaptableModelWithoutOneScoresTheSame) {
  const Matrix x = RandomMatrix(40, kInputs, 5);
  for (const char* precision : {"fp32", "int8"}) {
    NnetScorer a(AdaptableModel(precision, true), x), b(AdaptableModel(precision, false), x);
    ExpectNear(Scores(a), Scores(b), 1e-6, precision);
  }
}

TEST(SpeakerProfile, SeveralSpeakersShareABatch) {
  for (const char* precision : {"fp32", "int8"}) {
    const auto shared = AdaptableModel(precision);
    const auto anna = shared->Bind(nn::ExtractProfile(WithLhuc(3), SmallModel()));
    const auto ben = shared->Bind(nn::ExtractProfile(WithLin(4), SmallModel()));
    const std::vector<std::shared_ptr<const BoundProfile>> profiles = {anna, nullptr, ben, anna};
    StreamPool pool(shared, {.batch = 16});
    std::vector<int> streams;
    for (const auto& profile : profiles) streams.push_back(pool.Open(profile));
    for (size_t s = 0; s < streams.size(); ++s) {
      pool.Accept(streams[s], RandomMatrix(20, kInputs, 10 + s), 0);
      pool.Finish(streams[s]);
    }
    while (pool.RunBatch(0) > 0) {
    }
    for (size_t s = 0; s < streams.size(); ++s) {
      Matrix scores(20, kPdfs);
      int t = 0;
      pool.Take(streams[s], [&](std::span<const float> row, double) {
        std::copy(row.begin(), row.end(), scores.Row(t++).begin());
      });
      ASSERT_EQ(t, 20);
      NnetScorer alone(shared, RandomMatrix(20, kInputs, 10 + s), profiles[s]);
      EXPECT_EQ(compress::LargestDifference(scores, Scores(alone)), 0) << precision << " stream " << s;
    }
  }
}

// Who overflows is refused alone; the others' batches go on.
TEST(SpeakerProfile, FeaturesThatAProfileMakesInfiniteStopNobodyElse) {
  const auto shared = AdaptableModel();
  nn::SpeakerProfile profile = nn::ExtractProfile(WithLin(3), SmallModel());
  for (int64_t i = 0; i < profile.parts[0].matrix.size(); ++i) profile.parts[0].matrix.data()[i] *= 1e30F;
  StreamPool pool(shared, {.batch = 16});
  const int huge = pool.Open(shared->Bind(profile)), other = pool.Open();
  Matrix frames = RandomMatrix(20, kInputs, 5);
  for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] *= 1e20F;
  EXPECT_THROW(pool.Accept(huge, frames, 0), InputError);
  pool.Accept(other, RandomMatrix(20, kInputs, 6), 0);
  pool.Finish(other);
  while (pool.RunBatch(0) > 0) {
  }
  EXPECT_EQ(pool.Take(other, [](std::span<const float>, double) {}), 20);
}

TEST(SpeakerProfile, IsAFewKilobytesAndLoadsAsItWasSaved) {
  const testing::TemporaryFolder folder;
  nn::SpeakerProfile profile = nn::ExtractProfile(WithLhuc(3), SmallModel());
  profile.speaker = "anna";
  profile.Save(folder / "p.safetensors");
  EXPECT_LT(std::filesystem::file_size(folder / "p.safetensors"), 4096u);
  const nn::SpeakerProfile loaded = nn::SpeakerProfile::Load(folder / "p.safetensors");
  EXPECT_EQ(loaded.model, profile.model);
  EXPECT_EQ(loaded.speaker, "anna");
  ASSERT_EQ(loaded.parts.size(), 1u);
  EXPECT_EQ(loaded.parts[0].after, "relu1");
  for (int c = 0; c < 32; ++c) {
    EXPECT_EQ(loaded.parts[0].scale(0, c), profile.parts[0].scale(0, c));
    EXPECT_GT(loaded.parts[0].scale(0, c), 0);
    EXPECT_LT(loaded.parts[0].scale(0, c), 2);
  }
  SmallModel().Save(folder / "m.safetensors");
  EXPECT_THROW(nn::SpeakerProfile::Load(folder / "m.safetensors"), InputError);
}

TEST(SpeakerProfile, RefusesOtherModelsAndOnesThatAreNotAdaptable) {
  const nn::SpeakerProfile profile = nn::ExtractProfile(WithLhuc(3), SmallModel());
  EXPECT_THROW(AdaptableModel("fp32", false)->Bind(profile), UsageError);
  NnetScorerOptions adaptable;
  adaptable.adaptable = true;
  const auto other = std::make_shared<const NnetModel>(SmallModel("sigmoid"), adaptable);
  nn::SpeakerProfile foreign = profile;
  foreign.model = "0123456789abcdef";
  EXPECT_THROW(AdaptableModel()->Bind(foreign), InputError);
  nn::SpeakerProfile misplaced = profile;
  misplaced.parts[0].after = "relu9";
  EXPECT_THROW(AdaptableModel()->Bind(misplaced), InputError);
  nn::SpeakerProfile wide = profile;
  wide.parts[0].scale = Matrix(1, 7);
  EXPECT_THROW(AdaptableModel()->Bind(wide), InputError);
  // A model whose shared part was trained too fits no profile.
  nn::Model changed = WithLhuc(3);
  changed.network.parameters()[0]->value(0, 0) += 1;
  EXPECT_THROW(nn::ExtractProfile(changed, SmallModel()), InputError);
}

}  // namespace
}  // namespace antiphon::infer
