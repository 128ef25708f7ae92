// What a chain model learns from: chunks of one width with real frames around them, outputs at every third frame of a
// grid that moves from epoch to epoch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../data/store_fixture.h"
#include "data/minibatch_pool.h"
#include "feat/front_end.h"
#include "finite_differences.h"
#include "nn/loss.h"
#include "nn/network.h"

namespace antiphon::train {
namespace {

constexpr int kFeatDim = 6, kChainPdfs = 7;

nn::Network Chain(const std::string& norm, const std::string& activation = "relu") {
  const std::string f = "{type='" + activation + "'}";
  const auto factorised = [&](const std::string& stride) {
    return "{type='residual', scale=0.66, layers=[{type='splice', offsets=[-1, 0]}, {type='linear', dim=4, "
           "orthonormal=true}, {type='splice', offsets=[0, 1]" +
           stride + "}, {type='affine', dim=8}, " + f + "]},";
  };
  return {Config::Parse("layer = [{type='tdnn', dim=8, offsets=[-1, 0, 1]}, " + f + "," + norm +
                            factorised(", stride=3") + norm + factorised("") + "{type='affine'}]",
                        "net"),
          kFeatDim, kChainPdfs, 3};
}

class ChainChunksTest : public ::testing::Test {
 protected:
  ChainChunksTest() {
    data::MakeStore(folder_ / "store", 30, kFeatDim, kChainPdfs);
    store_ = std::make_shared<const data::FrameStore>(folder_ / "store");
    options_.minibatch = 120;
    options_.chunk_frames = 20;
    options_.other_chunk_frames = {14, 30};
    options_.left_context = options_.right_context = 0;
    options_.carry_state = false;
  }
  // Outputs for frames first, first + 3, … of an utterance, computed in one piece.
  Matrix Whole(const nn::Network& network, size_t utterance, int first, const nn::ExecContext& ctx) const {
    const TimeContext needed = network.time_context();
    const int frames = store_->utterances()[utterance].num_frames;
    const int64_t outputs = (frames - first + needed.stride - 1) / needed.stride;
    Matrix x(needed.InputFrames(outputs), kFeatDim), row(1, kFeatDim);
    for (int64_t r = 0; r < x.rows(); ++r) {
      store_->ReadFrames(utterance, std::clamp(first + static_cast<int>(r) - needed.left, 0, frames - 1), row);
      std::copy_n(row.data(), kFeatDim, x.Row(r).data());
    }
    nn::Workspace ws;
    return Matrix(ConstMatrixView(network.Forward(ctx, x, ws)));
  }

  ::antiphon::testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
  data::MinibatchOptions options_;
};

// In training too, where there are no batch statistics, which are the minibatch's own.
TEST_F(ChainChunksTest, GiveAtEveryShiftWhatTheWholeUtteranceGives) {
  for (const bool training : {false, true}) {
    const nn::Network network = Chain(training ? "" : "{type='batch-norm'},");
    ASSERT_EQ(network.time_context(), (TimeContext{5, 5, 3}));
    const auto pool = std::make_shared<const data::MinibatchPool>(store_, options_, 1, 1, std::vector<size_t>{},
                                                                  data::InputNormalisation{}, network.time_context());
    nn::ExecContext ctx;
    ctx.training = training;
    for (int epoch = 0; epoch < 3; ++epoch) {
      int64_t compared = 0;
      data::MinibatchStream stream(pool, 0, epoch);
      while (const data::Minibatch* m = stream.Next()) {
        nn::ExecContext of_minibatch = ctx;
        of_minibatch.sequences = m->sequences;
        nn::Workspace ws;
        const MatrixView y = network.Forward(of_minibatch, m->features, ws);
        const int streams = m->sequences->streams;
        ASSERT_EQ(y.rows(), int64_t{m->sequences->frames} * streams);
        for (int s = 0; s < streams; ++s) {
          const data::Chunk& chunk = m->chunks[static_cast<size_t>(s)];
          const int shift = chunk.first % 3;
          const Matrix whole = Whole(network, chunk.utterance, shift, ctx);
          for (int t = 0; t < (chunk.num_frames + 2) / 3; ++t) {
            for (int64_t k = 0; k < kChainPdfs; ++k, ++compared) {
              ASSERT_NEAR(y(int64_t{t} * streams + s, k), whole((chunk.first - shift) / 3 + t, k), 1e-5);
            }
          }
        }
      }
      EXPECT_GT(compared, 1000);
    }
  }
}

// Of the whole network, over chunks of which some are padded.
TEST_F(ChainChunksTest, DerivativesThroughChunksAndStridesAreThoseOfTheLoss) {
  nn::Network network = Chain("{type='batch-norm'},", "tanh");
  const data::MinibatchPool pool(store_, options_, 1, 1, {}, {}, network.time_context());
  data::MinibatchBuffer buffer;
  int64_t padded = 0;
  for (int64_t index = 0; padded == 0 && index < pool.num_minibatches(1); ++index) {
    pool.Fill(1, 0, index, buffer);
    padded = std::ssize(buffer.minibatch.frame_ids) - buffer.minibatch.num_frames;
  }
  ASSERT_GT(padded, 0);
  nn::ExecContext ctx;
  ctx.training = true;
  ctx.sequences = buffer.minibatch.sequences;
  const nn::LossTargets targets{.pdf_ids = buffer.minibatch.pdf_ids, .frame_weights = buffer.minibatch.weights};
  const auto loss = [&] {
    nn::Workspace ws;
    return nn::SoftmaxCrossEntropy(network.Forward(ctx, buffer.minibatch.features, ws), targets, {}).loss();
  };
  nn::Workspace ws;
  const MatrixView y = network.Forward(ctx, buffer.minibatch.features, ws);
  nn::SoftmaxCrossEntropy(y, targets, y);
  std::vector<float> gradient(network.num_values());
  nn::DenseGradientSink sink(gradient);
  network.Backward(ctx, y, ws, sink);
  int moved = 0;
  double wrong = 0, size = 0;
  testing::ForDifferences(network, 5, 2e-3f, loss, [&](const nn::Parameter& p, int64_t i, double expected) {
    const double found = static_cast<double>(gradient[static_cast<size_t>(p.offset + i)]);
    wrong += (found - expected) * (found - expected);
    size += expected * expected;
    moved += std::abs(expected) > 1e-4 ? 1 : 0;
  });
  EXPECT_GT(moved, 30);
  EXPECT_LT(wrong, 1e-5 * size);
}

TEST(InverseCosine, GivesTheFilterbankEnergiesThatCepstraWereMadeOf) {
  feat::FrontEndOptions bank;
  bank.kind = "fbank";
  bank.mel_bins = 23;
  bank.dither = 0;
  feat::FrontEndOptions cepstra = bank;
  cepstra.kind = "mfcc";
  cepstra.ceps = 23;
  std::vector<float> samples(16000);
  Rng rng(1);
  for (float& s : samples) s = static_cast<float>(1000 * rng.Normal());
  const Matrix energies = feat::FrontEnd(bank).Compute(samples), mfcc = feat::FrontEnd(cepstra).Compute(samples);
  Matrix x(mfcc.rows(), 26);  // with a vector behind
  for (int64_t r = 0; r < x.rows(); ++r) {
    std::copy_n(mfcc.Row(r).data(), 23, x.Row(r).data());
    for (int64_t c = 23; c < 26; ++c) x(r, c) = static_cast<float>(c);
  }
  const nn::Network net(Config::Parse("layer = [{type='inverse-cosine', cepstra=23}]", "net"), 26, 0, 1);
  nn::Workspace ws;
  const MatrixView y = net.Forward({}, x, ws);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < 23; ++c) ASSERT_NEAR(y(r, c), energies(r, c), 2e-3);
    for (int64_t c = 23; c < 26; ++c) EXPECT_EQ(y(r, c), static_cast<float>(c));
  }
  EXPECT_THROW(nn::Network(Config::Parse("layer = [{type='inverse-cosine', cepstra=24}]", "net"), 23, 0, 1),
               UsageError);
}

}  // namespace
}  // namespace antiphon::train
