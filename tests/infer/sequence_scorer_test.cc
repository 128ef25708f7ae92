// Networks that look at several frames or carry a state: whole utterances, pieces and many streams give the same bits,
// and what training's pass gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "infer/stream_pool.h"
#include "nn/network_parts.h"
#include "nn/speaker_profile.h"
#include "temporary_folder.h"

namespace antiphon::infer {
namespace {

constexpr int kDim = 3, kNumPdfs = 5;

const std::vector<std::string>& Networks() {
  static const std::vector<std::string> networks = {
      "{type='tdnn', dim=8, offsets=[-2, 0, 1]}, {type='relu'}, {type='tdnn', dim=8, offsets=[-3, 3]}, {type='relu'}",
      "{type='lstm', dim=16, projection=8}",
      "{type='convolution', filters=4, offsets=[-1, 0, 1]}, {type='relu'}, {type='pooling', channels=4, window=2}, "
      "{type='convolution', channels=4, filters=3, stride=2}",
      "{type='tdnn', dim=8}, {type='tdnn-f', dim=8, bottleneck=4}, {type='tdnn-f', dim=8, bottleneck=4, "
      "time-stride=3}, {type='residual', scale=0.5, layers=[{type='lstm', dim=8}]}",
      "{type='lstm', dim=8, share-gates=true, peepholes=false}, {type='splice'}",
      "{type='gru', dim=16}, {type='affine', dim=6}, {type='batch-norm'}",
      "{type='tdnn', dim=8}, {type='lstm', dim=8}, {type='splice', offsets=[-1, 0, 1], stride=3}, {type='gru', dim=8}",
      "{type='tdnn', dim=8}, {type='tdnn-f', dim=8, bottleneck=4, stride=3, dropout=0.2}, {type='tdnn-f', dim=8, "
      "bottleneck=4, time-stride=0}, {type='tdnn-f', dim=8, bottleneck=4}, {type='prefinal', dim=8, bottleneck=4}",
      "{type='inverse-cosine', cepstra=4}, {type='tdnn', dim=8}",
      "{type='ensemble', members=[{layers=[{type='tdnn', dim=8, offsets=[-3, 0]}, {type='gru', dim=6}]}, {weight=2.0, "
      "layers=[{type='tdnn', dim=6, offsets=[-1, 0, 4]}]}, {layers=[{type='affine', dim=6}]}]}",
      "{type='tdnn', dim=8}, {type='ensemble', members=[{layers=[{type='tdnn-f', dim=8, bottleneck=4, stride=3}]}, "
      "{layers=[{type='splice', offsets=[-1, 1]}, {type='splice', offsets=[0, 2], stride=3}, {type='affine', "
      "dim=8}]}]}, {type='tdnn', dim=8}",
      "{type='bidirectional', right=4, layers=[{type='gru', dim=8}]}, {type='bidirectional', right=3, "
      "layers=[{type='lstm', "
      "dim=8, projection=4}]}",
      "{type='lstm', dim=8, peepholes=false}, {type='residual', layers=[{type='lstm', dim=16, projection=8}]}"};
  return networks;
}

std::shared_ptr<nn::Model> ModelOf(const std::string& layers) {
  auto model = std::make_shared<nn::Model>();
  model->feature_dim = kDim;
  model->left_context = 1;
  model->network =
      nn::Network(Config::Parse("layer = [" + layers + ", {type='affine'}]", "test"), 2 * kDim, kNumPdfs, 1);
  return model;
}

std::shared_ptr<const NnetModel> Shared(const nn::Model& model, const std::string& precision, int block = 16) {
  NnetScorerOptions options;
  options.prior_scale = 0;
  options.log_softmax = false;
  options.precision = precision;
  options.block_frames = block;
  return std::make_shared<const NnetModel>(model.Clone(), options);
}

Matrix RandomSpeech(int count, uint64_t seed) {
  Rng rng(seed);
  Matrix frames(count, kDim);
  for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] = static_cast<float>(rng.Normal());
  return frames;
}

Matrix Offline(const std::shared_ptr<const NnetModel>& model, const Matrix& frames) {
  NnetScorer scorer(model, frames);
  EXPECT_EQ(scorer.num_frames_ready(), frames.rows());
  Matrix scores(frames.rows(), kNumPdfs);
  for (int t = 0; t < frames.rows(); ++t) {
    for (int s = 0; s < kNumPdfs; ++s) scores(t, s) = scorer.LogLikelihood(t, s);
  }
  return scores;
}

// The training pass over the whole utterance.
Matrix Reference(const nn::Model& model, const Matrix& frames) {
  const TimeContext needed = model.network.time_context();
  const int64_t outputs = (frames.rows() + needed.stride - 1) / needed.stride;
  Matrix x(needed.InputFrames(outputs), 2 * kDim);
  for (int64_t r = 0; r < x.rows(); ++r) {
    const int64_t centre = std::clamp<int64_t>(r - needed.left, 0, frames.rows() - 1);
    const int64_t before = std::max<int64_t>(centre - 1, 0);
    std::copy_n(frames.Row(before).data(), kDim, x.Row(r).data());
    std::copy_n(frames.Row(centre).data(), kDim, x.Row(r).data() + kDim);
  }
  nn::Workspace ws;
  const MatrixView y = model.network.Forward({}, x, ws);
  Matrix all(frames.rows(), kNumPdfs);
  for (int64_t t = 0; t < frames.rows(); ++t) std::copy_n(y.Row(t / needed.stride).data(), kNumPdfs, all.Row(t).data());
  return all;
}

void ExpectSame(const Matrix& a, const Matrix& b, const std::string& what) {
  ASSERT_EQ(a.rows(), b.rows()) << what;
  for (int64_t i = 0; i < a.size(); ++i) ASSERT_EQ(a.data()[i], b.data()[i]) << what << " " << i;
}

TEST(SequenceScorer, GivesWhatTheTrainingPassGives) {
  for (const std::string& layers : Networks()) {
    const auto model = ModelOf(layers);
    for (const int length : {1, 2, 20, 50}) {
      const Matrix frames = RandomSpeech(length, 1);
      const Matrix expected = Reference(*model, frames);
      const std::pair<std::string, double> precisions[] = {{"fp32", 1e-5}, {"bf16", 0.05}, {"int8", 0.15}};
      for (const auto& [precision, tolerance] : precisions) {
        const Matrix scores = Offline(Shared(*model, precision), frames);
        for (int64_t i = 0; i < scores.size(); ++i) {
          ASSERT_NEAR(scores.data()[i], expected.data()[i], tolerance) << layers << " " << precision << " " << length;
        }
      }
    }
  }
}

// Two layers 'quantized-affine1', of which the inner one alone rounds its inputs to a range, much narrower than those
// of the outer one.
TEST(SequenceScorer, ALayerOfTheSameNameInAnotherKeepsItsRange) {
  const auto model = ModelOf(
      "{type='quantized-affine', dim=8, input-bits=0}, {type='residual', layers=[{type='quantized-affine', dim=8}]}");
  ASSERT_EQ(model->network.buffers().size(), 2u);
  for (nn::Parameter* p : model->network.buffers()) {
    ASSERT_TRUE(p->name.starts_with("residual1.quantized-affine1.")) << p->name;
    p->value(0, 0) = p->name.ends_with("input_scale") ? 0.001F : 128.0F;
    p->MarkChanged();
  }
  const Matrix frames = RandomSpeech(30, 7);
  const Matrix expected = Reference(*model, frames);
  const Matrix scores = Offline(Shared(*model, "int8"), frames);
  for (int64_t i = 0; i < scores.size(); ++i) ASSERT_NEAR(scores.data()[i], expected.data()[i], 0.15) << i;
}

TEST(SequenceScorer, PiecesAndBlocksDoNotChangeABit) {
  for (const std::string& layers : Networks()) {
    const auto model = ModelOf(layers);
    for (const std::string precision : {"fp32", "bf16", "int8"}) {
      const Matrix frames = RandomSpeech(41, 2);
      const Matrix whole = Offline(Shared(*model, precision, 64), frames);
      for (const int piece : {1, 3, 7, 41}) {
        NnetScorer scorer(Shared(*model, precision, 5));
        Matrix scores(41, kNumPdfs);
        int scored = 0;
        const auto take = [&] {
          for (; scored < scorer.num_frames_ready(); ++scored) {
            const auto row = scorer.DenseFrame(scored);
            std::copy(row.begin(), row.end(), scores.Row(scored).data());
          }
        };
        for (int at = 0; at < 41; at += piece) {
          scorer.Accept(frames.view().Rows(at, std::min(piece, 41 - at)));
          take();
        }
        scorer.Finish();
        take();
        ASSERT_EQ(scored, 41);
        ExpectSame(scores, whole, layers + " " + precision + " in pieces of " + std::to_string(piece));
      }
    }
  }
}

TEST(SequenceScorer, FramesOfAWholeUtteranceMayBeAskedForInAnyOrder) {
  const auto model = Shared(*ModelOf(Networks()[6]), "fp32", 4);
  const Matrix frames = RandomSpeech(20, 2);
  const Matrix whole = Offline(model, frames);
  NnetScorer scorer(model, frames);
  for (const int t : {19, 3, 4, 0, 12}) EXPECT_EQ(scorer.LogLikelihood(t, 1), whole(t, 1));
}

TEST(SequenceScorer, StreamsInOneBatchHaveTheScoresThatTheyHaveAlone) {
  for (const std::string& layers : Networks()) {
    for (const std::string precision : {"fp32", "int8"}) {
      const auto model = Shared(*ModelOf(layers), precision);
      StreamPool pool(model, {.max_streams = 5, .batch = 7, .deadline_s = 1e9});
      Rng rng(4);
      std::vector<Matrix> frames;
      std::vector<int> ids, at(5, 0);
      for (int i = 0; i < 5; ++i) {
        frames.push_back(RandomSpeech(1 + 9 * i, static_cast<uint64_t>(i)));
        ids.push_back(pool.Open());
      }
      for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < 5; ++i) {
          const int left = static_cast<int>(frames[i].rows()) - at[i];
          const int count = std::min(static_cast<int>(rng.Below(6)), left);
          if (count > 0) pool.Accept(ids[i], frames[i].view().Rows(at[i], count), at[i]);
          at[i] += count;
          if (count > 0 && count == left) pool.Finish(ids[i]);
          more = more || count < left;
        }
        pool.RunBatch(0.0);
      }
      while (pool.RunBatch(0.0) > 0) {
      }
      for (size_t i = 0; i < 5; ++i) {
        Matrix scores(frames[i].rows(), kNumPdfs);
        int64_t t = 0;
        pool.Take(ids[i], [&](std::span<const float> row, double) {
          ASSERT_LT(t, scores.rows());
          std::copy(row.begin(), row.end(), scores.Row(t++).data());
        });
        ASSERT_EQ(t, frames[i].rows()) << layers;
        ExpectSame(scores, Offline(model, frames[i]), layers + " " + precision);
      }
    }
  }
}

// What overflows inside is the stream's own: no features, and no error of a batch that holds others too.
TEST(SequenceScorer, HiddenValuesThatOverflowStopNobodyElse) {
  for (const std::string inside :
       {"{type='residual', layers=[{type='lstm', dim=8}]}",
        "{type='bidirectional', right=2, layers=[{type='gru', dim=8}]}",
        "{type='ensemble', members=[{layers=[{type='tdnn', dim=6}]}, {layers=[{type='affine', dim=6}]}]}",
        "{type='ensemble', members=[{layers=[{type='affine', dim=6}]}, {layers=[{type='affine', dim=6}]}]}"}) {
    SCOPED_TRACE(inside);
    const auto loud = ModelOf("{type='affine', dim=8}, " + inside);
    for (nn::Parameter* p : loud->network.parameters()) {
      if (!p->name.starts_with(loud->network.layer_name(0) + ".")) continue;
      for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] *= 1e4F;
      p->MarkChanged();
    }
    const auto model = Shared(*loud, "fp32");
    StreamPool pool(model, {.batch = 16});
    const int huge = pool.Open(), other = pool.Open();
    Matrix frames = RandomSpeech(20, 5);
    for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] *= 1e37F;
    const Matrix ordinary = RandomSpeech(20, 6);
    for (int64_t t = 0; t < 20; ++t) {
      pool.Accept(huge, frames.view().Rows(t, 1), 0);
      pool.Accept(other, ordinary.view().Rows(t, 1), 0);
      EXPECT_NO_THROW(pool.RunBatch(0));
    }
    pool.Finish(huge);
    pool.Finish(other);
    while (pool.RunBatch(0) > 0) {
    }
    EXPECT_EQ(pool.Take(huge, [](std::span<const float>, double) {}), 20);
    Matrix scores(20, kNumPdfs);
    int64_t t = 0;
    pool.Take(other, [&](std::span<const float> row, double) { std::ranges::copy(row, scores.Row(t++).begin()); });
    ASSERT_EQ(t, 20);
    ExpectSame(scores, Offline(model, ordinary), inside);
    EXPECT_EQ(NnetScorer(model, frames).DenseFrame(0).size(), static_cast<size_t>(kNumPdfs));
  }
}

nn::Network ChainNetwork(int frames_before_stride, int stride) {
  std::string layers =
      "{type='inverse-cosine', cepstra=40}, {type='tdnn', dim=768, offsets=[-1, 0, 1]}, {type='relu'},";
  for (int i = 0; i < 11; ++i) {
    layers +=
        "{type='tdnn-f', dim=768, bottleneck=96, stride=" + std::to_string(i == frames_before_stride ? stride : 1) +
        "},";
  }
  layers +=
      "{type='linear', dim=192}, {type='side-task', task='x', classes=5}, {type='prefinal', dim=768, "
      "bottleneck=192}, {type='affine'}";
  return {Config::Parse("layer = [" + layers + "]", "test"), 40, 2300, 1, nn::InitialValues::kToBeSet};
}

// What is above a stride is computed as much less often: a chain network costs less than half with outputs at every
// third frame, and less than two fifths if the lowest factorised layer has the stride.
TEST(SequenceScorer, OutputsAtEveryThirdFrameCostAThirdAboveTheStride) {
  const auto operations = [](const nn::Network& network) {
    const Plan plan(network, {});
    EXPECT_FALSE(plan.needs_network());
    return plan.OperationsPerFrame();
  };
  const double all = operations(ChainNetwork(0, 1));
  const double factorised = 2.0 * (1536 * 96 + 192 * 768);
  const double below = 2.0 * (40 * 40 + 120 * 768);
  const double above = 2.0 * (768 * 192 + 2 * 192 * 768 + 192 * 2300);
  EXPECT_NEAR(all, below + 11 * factorised + above, 0.02 * all);  // batch-norm, shortcuts
  EXPECT_NEAR(operations(ChainNetwork(2, 3)), below + 2.5 * factorised + (8.5 * factorised + above) / 3, 0.02 * all);
  EXPECT_GT(all / operations(ChainNetwork(2, 3)), 2.1);
  EXPECT_GT(all / operations(ChainNetwork(0, 3)), 2.5);
}

// A model whose HMM has a frame for every third one of the features gives the search these, whole or in streams.
TEST(SequenceScorer, AFrameOfTheSearchForEveryThirdOne) {
  const auto plain = ModelOf(Networks()[7]);
  auto sparse = std::make_shared<nn::Model>(plain->Clone());
  sparse->frame_subsampling = 3;
  ::antiphon::testing::TemporaryFolder folder;
  sparse->Save(folder / "model.safetensors");
  EXPECT_EQ(nn::Model::Load(folder / "model.safetensors").frame_subsampling, 3);
  for (const std::string precision : {"fp32", "int8"}) {
    const auto model = Shared(*sparse, precision, 7);
    for (const int length : {1, 2, 3, 40, 41}) {
      const Matrix frames = RandomSpeech(length, 1);
      const Matrix expected = Offline(Shared(*plain, precision), frames);
      NnetScorer scorer(model, frames);
      const int count = (length + 2) / 3;
      ASSERT_EQ(scorer.num_frames_ready(), count);
      StreamPool pool(model, {.batch = 7});
      const int id = pool.Open();
      for (int t = 0; t < length; ++t) {
        pool.Accept(id, frames.view().Rows(t, 1), t);
        pool.RunBatch(0);
      }
      pool.Finish(id);
      while (pool.RunBatch(0) > 0) {
      }
      EXPECT_EQ(pool.stats(id).frames, count);
      int taken = 0;
      pool.Take(id, [&](std::span<const float> row, double arrival) {
        ASSERT_LT(taken, count);
        EXPECT_EQ(arrival, 3.0 * taken);
        EXPECT_EQ(scorer.IsLastFrame(taken), taken + 1 == count);
        EXPECT_EQ(pool.IsLastFrame(id, taken), taken + 1 == count);
        for (int s = 0; s < kNumPdfs; ++s) {
          EXPECT_EQ(scorer.LogLikelihood(taken, s), expected(int64_t{3} * taken, s));
          EXPECT_EQ(row[static_cast<size_t>(s)], expected(int64_t{3} * taken, s));
        }
        ++taken;
      });
      EXPECT_EQ(taken, count);
    }
  }
  sparse->frame_subsampling = 2;
  EXPECT_THROW(Shared(*sparse, "fp32"), InputError);
}

TEST(SequenceScorer, RefusesWhatLeavesFramesOut) {
  const auto model = ModelOf(Networks()[0]);
  NnetScorerOptions options;
  options.prior_scale = 0;
  options.frame_skip = 2;
  EXPECT_THROW(NnetModel(model->Clone(), options), UsageError);
  options.frame_skip = 1;
  options.lazy = true;
  options.precision = "int8";
  EXPECT_THROW(NnetModel(model->Clone(), options), UsageError);
}

// The model with factors ("lhuc") or a layer of its own ("affine") behind layer `place`.
nn::Model WithOwn(const nn::Model& model, const std::string& type, size_t place) {
  nn::Model own = model.Clone();
  std::vector<nn::LayerParts> parts = nn::TakeApart(own.network);
  const int dim = own.network.layer(place).out_dim();
  const std::string options = type == "affine" ? "dim = " + std::to_string(dim) : "";
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1,
               {"own", type, Config::Parse("type = '" + type + "'\nname = 'own'\n" + options, "own"), {}});
  own.network = nn::PutTogether(parts, own.network.in_dim());
  Rng rng(place);
  for (nn::Parameter* p : own.network.parameters()) {
    if (!p->name.starts_with("own.")) continue;
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] += 0.4F * static_cast<float>(rng.Normal());
    p->MarkChanged();
  }
  return own;
}

std::shared_ptr<const NnetModel> Adaptable(const nn::Model& model, const std::string& precision) {
  NnetScorerOptions options;
  options.prior_scale = 0;
  options.log_softmax = false;
  options.precision = precision;
  options.block_frames = 50;
  options.adaptable = true;
  return std::make_shared<const NnetModel>(model.Clone(), options);
}

Matrix Scores(NnetScorer&& scorer) {
  Matrix scores(scorer.num_frames_ready(), kNumPdfs);
  for (int t = 0; t < scores.rows(); ++t) std::ranges::copy(scorer.DenseFrame(t), scores.Row(t).begin());
  return scores;
}

// What an adaptation put behind a layer, wherever that is, becomes a profile of the shared model.
TEST(SequenceScorer, AProfileScoresAsTheSpeakersOwnModelDoes) {
  const Matrix frames = RandomSpeech(37, 3);
  for (const std::string& layers : Networks()) {
    const auto model = ModelOf(layers);
    const auto shared = Adaptable(*model, "fp32");
    const Matrix plain = Scores({shared, frames});
    int bound = 0;
    for (size_t place = 0; place + 1 < model->network.num_layers(); ++place) {
      for (const std::string type : {"lhuc", "affine"}) {
        // What a layer absorbs, or a splice copies, has no place of its own.
        if (model->network.layer_type(place) == "splice" || model->network.absorbs_above(place)) continue;
        const nn::Model own = WithOwn(*model, type, place);
        const auto profile = shared->Bind(nn::ExtractProfile(own, *model));
        const Matrix with = Scores({shared, frames, profile}), alone = Scores({Shared(own, "fp32"), frames});
        double difference = 0, changed = 0;
        for (int64_t i = 0; i < with.size(); ++i) {
          difference = std::max<double>(difference, std::abs(with.data()[i] - alone.data()[i]));
          changed = std::max<double>(changed, std::abs(with.data()[i] - plain.data()[i]));
        }
        EXPECT_LT(difference, 1e-4) << type << " behind layer " << place << " of " << layers;
        EXPECT_GT(changed, 1e-3) << type << " behind layer " << place << " of " << layers;
        ++bound;
      }
    }
    EXPECT_GT(bound, 0) << layers;
  }
}

TEST(SequenceScorer, SpeakersShareABatchAndKeepTheirProfiles) {
  for (const std::string& layers : Networks()) {
    const auto model = ModelOf(layers);
    size_t place = 0;
    while (model->network.layer_type(place) == "splice" || model->network.absorbs_above(place)) ++place;
    for (const std::string precision : {"fp32", "int8"}) {
      const auto shared = Adaptable(*model, precision);
      const std::vector<std::shared_ptr<const BoundProfile>> profiles = {
          shared->Bind(nn::ExtractProfile(WithOwn(*model, "lhuc", place), *model)), nullptr,
          shared->Bind(nn::ExtractProfile(WithOwn(*model, "affine", place), *model))};
      StreamPool pool(shared, {.batch = 50});  // pieces of several streams, of which some lose rows on their way
      std::vector<int> streams;
      for (size_t s = 0; s < profiles.size(); ++s) {
        streams.push_back(pool.Open(profiles[s]));
        pool.Accept(streams[s], RandomSpeech(20, 10 + s), 0);
        pool.Finish(streams[s]);
      }
      while (pool.RunBatch(0) > 0) {
      }
      for (size_t s = 0; s < streams.size(); ++s) {
        Matrix scores(20, kNumPdfs);
        int t = 0;
        pool.Take(streams[s],
                  [&](std::span<const float> row, double) { std::ranges::copy(row, scores.Row(t++).begin()); });
        ASSERT_EQ(t, 20);
        ExpectSame(scores, Scores({shared, RandomSpeech(20, 10 + s), profiles[s]}), layers + " " + precision);
      }
    }
  }
}

}  // namespace
}  // namespace antiphon::infer
