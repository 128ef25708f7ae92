#include "chain/chain_loss.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "toy_chain.h"

namespace antiphon::chain {
namespace {

// The toy's own graph is too large to enumerate; this one says a few sequences.
ChainData SmallData() {
  hmm::HmmModel model = testing::ToyModel();
  const std::vector<std::vector<int32_t>> sequences = {{1, 2, 3}, {2, 3, 1}, {1, 2, 2}};
  auto graph = DenominatorGraph::Build(model, hmm::EstimatePhoneNgrams(sequences, {4, 100}));
  std::map<std::string, Reference> references;
  for (size_t i = 0; i < sequences.size(); ++i) {
    references["utt" + std::to_string(i)] = testing::TimedReference(sequences[i], static_cast<int>(i));
  }
  return {std::move(model), std::move(graph), References(std::move(references)), 3};
}

std::shared_ptr<const ChainData> Share(ChainData data) { return std::make_shared<const ChainData>(std::move(data)); }

bool SameBits(const Matrix& a, const Matrix& b) {
  return a.rows() == b.rows() && a.cols() == b.cols() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(float)) == 0;
}

double SumOfRow(const ChainLoss& loss, int64_t row) {
  const nn::ClassShares& posteriors = loss.posteriors();
  double sum = 0;
  for (const auto& [pdf_id, share] : posteriors.Of(static_cast<size_t>(row))) sum += static_cast<double>(share);
  return sum;
}

TEST(ChainLoss, IsWhatTheDefinitionsSayAndSoIsItsDerivative) {
  const auto data = Share(SmallData());
  ChainLossOptions options;
  options.output_l2 = 0.01;
  ChainLoss loss(data, options);
  const std::vector<ChainChunk> chunks = {{0, {0, 4}, 1.0F}, {1, {4, 3}, 0.5F}, {2, {2, 2}, 2.0F}};
  const int64_t pdfs = data->model.num_pdfs(), lanes = 3;
  Matrix y = testing::RandomOutputs(4 * lanes, pdfs, 2.0, 1);
  y(1, 2) = 31.0F;
  const ContextPdfs context(data->model);
  // In doubles, with y(row, pdf) changed a little; of the chunk alone.
  const auto by_definition = [&](size_t b, int64_t row, int64_t pdf, double change) {
    const auto raw = [&](int t, int32_t p) {
      const int64_t r = t * lanes + static_cast<int64_t>(b);
      return static_cast<double>(y(r, p)) + (r == row && p == pdf ? change : 0.0);
    };
    const auto score = [&](int t, int32_t p) { return std::min(raw(t, p), 30.0); };
    const ChainChunk& chunk = chunks[b];
    std::vector<Occupancy> unused;
    const Numerator numerator(data->denominator, context, data->references[*chunk.utterance], chunk.times, {5, 3});
    double sum = testing::DenominatorByEnumeration(data->denominator, chunk.times.num_outputs,
                                                   static_cast<double>(0.1F), score) -
                 numerator.ForwardBackward(score, &unused);
    for (int t = 0; t < chunk.times.num_outputs; ++t) {
      for (int32_t p = 0; p < pdfs; ++p) {
        const double excess = std::max(raw(t, p) - 30.0, 0.0);
        sum += 0.5 * 0.01 * raw(t, p) * raw(t, p) + 0.5 * 0.01 * excess * excess;
      }
    }
    return static_cast<double>(chunk.weight) * sum;
  };
  Matrix derivative(y.rows(), y.cols());
  const ChainResult result = loss.Compute(chunks, y, derivative);
  double expected = 0;
  for (size_t b = 0; b < 3; ++b) expected += by_definition(b, -1, -1, 0);
  EXPECT_NEAR(result.loss_sum, expected, 1e-5 * std::abs(expected));
  EXPECT_DOUBLE_EQ(result.weight_sum, 4 + 1.5 + 4);
  EXPECT_LT(result.objective_sum, 0);
  EXPECT_EQ(result.left_out, 0);
  for (int64_t row = 0; row < y.rows(); ++row) {
    const auto b = static_cast<size_t>(row % lanes);
    const bool padding = row / lanes >= chunks[b].times.num_outputs;
    EXPECT_NEAR(SumOfRow(loss, row), padding ? 0.0 : static_cast<double>(chunks[b].weight), 1e-5);
    for (int64_t pdf = 0; pdf < pdfs; ++pdf) {
      if (padding) {
        EXPECT_EQ(derivative(row, pdf), 0.0F);
        continue;
      }
      // What exceeds the limit goes on as if it did not: its own derivative is that of the likelihood at the limit.
      if (y(row, pdf) > 30) continue;
      const double slope = (by_definition(b, row, pdf, 1e-4) - by_definition(b, row, pdf, -1e-4)) / 2e-4;
      EXPECT_NEAR(derivative(row, pdf), slope / result.weight_sum, 2e-6) << row << " " << pdf;
    }
  }
}

TEST(ChainLoss, IsNothingWhereTheGraphAllowsOneSequenceAlone) {
  // One phone and no other, entered at once: all that can be said was said.
  hmm::HmmModel model = testing::ToyModel();
  const ContextPdfs context(model);
  const int32_t entry = context.Entry(0, 2), stay = context.Loop(0, 2);
  DenominatorGraph graph({{0, -1, 1.0F}, {2, stay, 0.0F}}, {{0, 1, entry, 1.0F}}, model.num_pdfs());
  std::map<std::string, Reference> references = {{"a", {{2}, {15}}}};
  const auto data = Share({std::move(model), std::move(graph), References(std::move(references)), 3});
  ChainLossOptions options;
  options.leak = 0;
  ChainLoss loss(data, options);
  const std::vector<ChainChunk> chunks = {{0, {1, 5}, 1.0F}};
  const Matrix y = testing::RandomOutputs(5, data->model.num_pdfs(), 3.0, 2);
  Matrix derivative(y.rows(), y.cols());
  const ChainResult result = loss.Compute(chunks, y, derivative);
  EXPECT_NEAR(result.objective_sum, 0, 1e-5);
  for (int64_t i = 0; i < derivative.size(); ++i) EXPECT_NEAR(derivative.data()[i], 0, 1e-6);
}

// A minibatch of more than one block, of chunks of several lengths, one of which has no reference.
std::vector<ChainChunk> ManyChunks(const ChainData& data) {
  std::vector<ChainChunk> chunks;
  for (int i = 0; i < 37; ++i) {
    const auto u = static_cast<size_t>(i) % data.references.size();
    const int frames = data.references[u].num_frames();
    const int first = i % std::min(frames, 7);
    chunks.push_back({u, {first, std::min(NumOutputs(frames - first, 0, 3), 6)}, 1.0F + 0.1F * static_cast<float>(i)});
  }
  chunks[20].utterance.reset();
  return chunks;
}

TEST(ChainLoss, HasTheSameBitsWithAnyNumberOfThreadsAndInPlace) {
  const auto data = Share(testing::ToyData());
  const auto chunks = ManyChunks(*data);
  const Matrix y = testing::RandomOutputs(6 * 37, data->model.num_pdfs(), 4.0, 3);
  Matrix derivatives[2];
  nn::ClassShares posteriors[2];
  double sums[2];
  for (const int n : {0, 1}) {
    const ComputeThreadsScope threads(n == 0 ? 1 : 3);
    ChainLoss loss(data, {});
    derivatives[n].Resize(y.rows(), y.cols());
    sums[n] = loss.Compute(chunks, y, derivatives[n]).loss_sum;
    posteriors[n] = loss.posteriors();
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_TRUE(SameBits(derivatives[0], derivatives[1]));
  EXPECT_EQ(posteriors[0].begin, posteriors[1].begin);
  EXPECT_EQ(posteriors[0].shares, posteriors[1].shares);
  ChainLoss loss(data, {});
  Matrix in_place = y;
  EXPECT_EQ(loss.Compute(chunks, in_place, in_place).loss_sum, sums[0]);
  EXPECT_TRUE(SameBits(in_place, derivatives[0]));
  EXPECT_EQ(loss.Compute(chunks, y, {}).loss_sum, sums[0]) << "without derivative";
}

TEST(ChainLoss, PosteriorsAreTheNumeratorsShares) {
  const auto data = Share(testing::ToyData());
  const auto chunks = ManyChunks(*data);
  const Matrix y = testing::RandomOutputs(6 * 37, data->model.num_pdfs(), 4.0, 4);
  ChainLoss loss(data, {});
  const ChainResult result = loss.Compute(chunks, y, {});
  double correct = 0;
  for (int64_t row = 0; row < y.rows(); ++row) {
    const auto best = std::ranges::max_element(y.Row(row)) - y.Row(row).begin();
    for (const auto& [pdf_id, share] : loss.posteriors().Of(static_cast<size_t>(row))) {
      if (pdf_id == best) correct += static_cast<double>(share);
    }
    const ChainChunk& chunk = chunks[static_cast<size_t>(row % 37)];
    const bool counts = chunk.utterance && row / 37 < chunk.times.num_outputs;
    EXPECT_NEAR(SumOfRow(loss, row), counts ? static_cast<double>(chunk.weight) : 0.0, 1e-4) << row;
  }
  EXPECT_NEAR(result.correct_sum, correct, 1e-6);
  EXPECT_GT(correct, 0);
  // By row what the numerator says of its output.
  const ContextPdfs context(data->model);
  const Numerator numerator(data->denominator, context, data->references[*chunks[9].utterance], chunks[9].times, {});
  std::vector<Occupancy> expected;
  numerator.ForwardBackward([&](int t, int32_t pdf) { return static_cast<double>(y(t * 37 + 9, pdf)); }, &expected);
  for (const Occupancy& o : expected) {
    const nn::ClassShares::Share entry{o.pdf_id, chunks[9].weight * o.value};
    const auto row = static_cast<size_t>(o.output * 37 + 9);
    const auto shares = loss.posteriors().Of(row);
    EXPECT_NE(std::ranges::find(shares, entry), shares.end());
  }
}

TEST(ChainLoss, LeavesOutWhatCannotBeLearned) {
  ChainData toy = testing::ToyData();
  std::map<std::string, Reference> references;
  for (size_t i = 0; i < toy.references.size(); ++i) references[toy.references.Id(i)] = toy.references[i];
  references["unsaid"] = testing::TimedReference({1, 4, 4, 1}, 0);
  toy.references = References(std::move(references));
  const auto data = Share(std::move(toy));
  ChainLoss loss(data, {});
  const size_t said = *data->references.Find("utt0"), unsaid = *data->references.Find("unsaid");
  // The last lane is empty, as that of a minibatch whose chunks have run out.
  const std::vector<ChainChunk> chunks = {
      {said, {0, 6}, 1.0F}, {{}, {0, 6}, 1.0F}, {unsaid, {0, 6}, 1.0F}, {said, {28, 6}, 1.0F}, {{}, {0, 0}, 1.0F}};
  const Matrix y = testing::RandomOutputs(6 * 5, data->model.num_pdfs(), 2.0, 5);
  Matrix derivative(y.rows(), y.cols());
  const ChainResult result = loss.Compute(chunks, y, derivative);
  EXPECT_EQ(result.left_out, 3);
  EXPECT_EQ(data->left_out->num_utterances(), 3U);
  EXPECT_EQ(result.weight_sum, 6);
  for (int64_t row = 0; row < y.rows(); ++row) {
    bool any = false;
    for (const float v : derivative.Row(row)) any = any || v != 0;
    EXPECT_EQ(any, row % 5 == 0);
  }
  // The one that is left is learned from as if it were alone.
  Matrix alone_y(6, y.cols()), alone(6, y.cols());
  for (int64_t t = 0; t < 6; ++t) std::ranges::copy(y.Row(5 * t), alone_y.Row(t).begin());
  EXPECT_EQ(loss.Compute(std::span(chunks).first(1), alone_y, alone).loss_sum, result.loss_sum);
  for (int64_t t = 0; t < 6; ++t) EXPECT_TRUE(std::ranges::equal(alone.Row(t), derivative.Row(5 * t)));
}

TEST(ChainLoss, TellsOnceWhatIsLeftOut) {
  const auto data = Share(testing::ToyData());
  const std::vector<ChainChunk> chunks = {{{}, {0, 4}, 1.0F}};
  const Matrix y = testing::RandomOutputs(4, data->model.num_pdfs(), 2.0, 5);
  std::ostringstream said;
  log::SetLogger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(said)));
  for (int loss = 0; loss < 2; ++loss)
    ChainLoss(data, {}).Compute(chunks, y, MatrixView());  // as every evaluation does
  log::SetLogger(std::make_shared<spdlog::logger>("silent"));
  const size_t first = said.str().find("left out");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(said.str().find("left out", first + 1), std::string::npos) << said.str();
}

TEST(ChainLoss, TellsThatOutputsAreNotFinite) {
  const auto data = Share(testing::ToyData());
  ChainLoss loss(data, {});
  const std::vector<ChainChunk> chunks = {{0, {0, 4}, 1.0F}};
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    Matrix y = testing::RandomOutputs(4, data->model.num_pdfs(), 2.0, 5);
    y(2, 3) = bad;
    Matrix derivative(y.rows(), y.cols());
    EXPECT_TRUE(std::isnan(loss.Compute(chunks, y, derivative).loss_sum));
    for (int64_t i = 0; i < derivative.size(); ++i) EXPECT_EQ(derivative.data()[i], 0.0F);
  }
}

TEST(ChainLoss, RefusesOutputsThatDoNotGoWithTheChunks) {
  const auto data = Share(testing::ToyData());
  ChainLoss loss(data, {});
  const std::vector<ChainChunk> two = {{0, {0, 3}, 1.0F}, {0, {0, 2}, 1.0F}};
  const int64_t pdfs = data->model.num_pdfs();
  EXPECT_THROW(loss.Compute(two, Matrix(5, pdfs), {}), ShapeError);
  EXPECT_THROW(loss.Compute(two, Matrix(6, pdfs - 1), {}), ShapeError);
  EXPECT_THROW(loss.Compute(two, Matrix(4, pdfs), {}), ShapeError);
  EXPECT_NO_THROW(loss.Compute({}, Matrix(0, pdfs), {}));
}

TEST(ChainLoss, SaysTheSameInTheTrainersWayOfCalling) {
  const auto data = Share(testing::ToyData());
  const auto chunks = ManyChunks(*data);
  const Matrix y = testing::RandomOutputs(6 * 37, data->model.num_pdfs(), 4.0, 6);
  ChainLoss loss(data, {});
  Matrix direct(y.rows(), y.cols()), called(y.rows(), y.cols());
  const ChainResult expected = loss.Compute(chunks, y, direct, 1000.0);
  nn::LossTargets targets;
  targets.total_weight = 1000.0;
  loss.SetChunks(chunks);
  const nn::LossResult found = loss.Compute(y, targets, called);
  EXPECT_EQ(found.loss_sum, expected.loss_sum);
  EXPECT_EQ(found.weight_sum, expected.weight_sum);
  EXPECT_TRUE(SameBits(direct, called));
}

}  // namespace
}  // namespace antiphon::chain
