#include "decode/lattice_free.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/random.h"
#include "temporary_folder.h"

namespace antiphon::decode {
namespace {

constexpr int kFrames = 5;
constexpr int kPdfs = 4;

// Three states; some arcs share a pdf-id.
DenominatorGraph Toy() {
  return DenominatorGraph(3, 0,
                          {{0, 1, 0, 0.6f},
                           {0, 0, 1, 0.4f},
                           {1, 1, 0, 0.3f},
                           {1, 2, 2, 0.5f},
                           {1, 2, 3, 0.2f},
                           {2, 0, 1, 0.7f},
                           {2, 2, 2, 0.3f}});
}

Matrix RandomOutputs(uint64_t seed) {
  Rng rng(seed);
  Matrix y(kFrames, kPdfs);
  for (int64_t i = 0; i < y.size(); ++i) y.data()[i] = static_cast<float>(rng.Normal());
  return y;
}

const std::vector<int32_t> kReference = {0, 0, 2, 1, 0};

// log Σ over all ways through the graph, leaks being arcs of their own between frames, by walking each of them.
double Enumerated(const DenominatorGraph& graph, const Matrix& y, double leaky,
                  const std::function<bool(int, int32_t)>& allowed) {
  std::function<double(int, int32_t)> from;
  const auto step = [&](int t, int32_t state) {
    double sum = 0;
    for (const auto& arc : graph.arcs()) {
      if (arc.from != state || !allowed(t, arc.pdf_id)) continue;
      sum +=
          static_cast<double>(arc.probability) * std::exp(static_cast<double>(y(t, arc.pdf_id))) * from(t + 1, arc.to);
    }
    return sum;
  };
  from = [&](int t, int32_t state) {
    if (t == kFrames) return 1.0;
    double sum = step(t, state);
    for (int32_t s = 0; t > 0 && s < graph.num_states(); ++s) {
      sum += leaky * static_cast<double>(graph.initial()[static_cast<size_t>(s)]) * step(t, s);
    }
    return sum;
  };
  double total = 0;
  for (int32_t s = 0; s < graph.num_states(); ++s) {
    total += static_cast<double>(graph.initial()[static_cast<size_t>(s)]) * step(0, s);
  }
  return std::log(total);
}

TEST(LatticeFree, IsThatOfAllPathsEnumerated) {
  const DenominatorGraph graph = Toy();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (const int tolerance : {0, 1}) {
      const Matrix y = RandomOutputs(seed);
      const double leaky = 0.01 * static_cast<double>(seed + 1);
      const auto near = [&](int t, int32_t pdf) {
        for (int u = std::max(0, t - tolerance); u <= std::min(kFrames - 1, t + tolerance); ++u) {
          if (kReference[static_cast<size_t>(u)] == pdf) return true;
        }
        return false;
      };
      const double expected =
          Enumerated(graph, y, leaky, [](int, int32_t) { return true; }) - Enumerated(graph, y, leaky, near);
      EXPECT_NEAR(*LatticeFreeLoss(graph, kReference, y, {tolerance, leaky}, {}), expected, 1e-5);
      EXPECT_GE(expected, 0);
    }
  }
}

TEST(LatticeFree, HasTheGradientOfFiniteDifferences) {
  const DenominatorGraph graph = Toy();
  const LatticeFreeOptions options{1, 0.05};
  Matrix y = RandomOutputs(3);
  Matrix gradient(kFrames, kPdfs);
  LatticeFreeLoss(graph, kReference, y, options, gradient);
  constexpr float kStep = 1.0f / 64;
  for (int t = 0; t < kFrames; ++t) {
    double sum = 0;
    for (int k = 0; k < kPdfs; ++k) {
      const float at = y(t, k);
      y(t, k) = at + kStep;
      const double above = *LatticeFreeLoss(graph, kReference, y, options, {});
      y(t, k) = at - kStep;
      const double below = *LatticeFreeLoss(graph, kReference, y, options, {});
      y(t, k) = at;
      EXPECT_NEAR(gradient(t, k), (above - below) / (2.0 * static_cast<double>(kStep)), 2e-4) << t << " " << k;
      sum += static_cast<double>(gradient(t, k));
    }
    EXPECT_NEAR(sum, 0, 1e-5) << "frame " << t;
  }
}

TEST(LatticeFree, IsNothingIfAllIsNearTheReference) {
  Matrix gradient(kFrames, kPdfs);
  const std::vector<int32_t> everything = {0, 1, 2, 3, 0};
  EXPECT_NEAR(*LatticeFreeLoss(Toy(), everything, RandomOutputs(1), {kFrames, 0.1}, gradient), 0, 1e-6);
  for (int64_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient.data()[i], 0, 1e-6);
}

TEST(LatticeFree, RefusesWhatTheGraphCannotSay) {
  const DenominatorGraph without_1(1, 0, {{0, 0, 0, 0.5f}, {0, 0, 2, 0.3f}, {0, 0, 3, 0.2f}});
  Matrix gradient(kFrames, kPdfs);
  std::fill_n(gradient.data(), gradient.size(), 1.0f);
  EXPECT_FALSE(LatticeFreeLoss(without_1, std::vector<int32_t>(kFrames, 1), RandomOutputs(1), {0, 0.1}, gradient));
  for (int64_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(gradient.data()[i], 0);
  EXPECT_THROW(LatticeFreeLoss(Toy(), std::vector<int32_t>(kFrames, 7), RandomOutputs(1), {}, {}), InputError);
  EXPECT_THROW(LatticeFreeLoss(Toy(), std::vector<int32_t>{0, 0}, RandomOutputs(1), {}, {}), ShapeError);
}

// What training's guard against divergence goes by.
TEST(LatticeFree, ANetworkThatHasDivergedHasNoFiniteLoss) {
  Matrix y = RandomOutputs(1);
  y(2, 1) = std::nanf("");
  EXPECT_FALSE(std::isfinite(*LatticeFreeLoss(Toy(), kReference, y, {1, 0.1}, {})));
}

hmm::HmmModel TwoPhones() {
  const hmm::PhoneSet phones({"A", "B"}, {"SIL"}, false);
  hmm::TopologyOptions options;
  options.num_states = 2;
  options.num_silence_states = 1;
  const hmm::Topology topology(phones, options);
  return {phones, topology, hmm::ContextTree::Monophone(topology)};
}

// SIL A B SIL is all that was ever said: there is one order of states.
TEST(DenominatorGraph, HoldsTheSequencesThatWereSeenAlone) {
  const hmm::HmmModel model = TwoPhones();
  const int32_t sil = model.phones().Id("SIL"), a = model.phones().Id("A"), b = model.phones().Id("B");
  const DenominatorGraph graph = DenominatorGraph::Build(model, {{sil, a, b, sil}}, {});
  const auto pdf = [&](int32_t phone, int state) {
    return model.transitions().Pdf(
        model.transitions().TransitionId(model.TransitionState(std::vector<int32_t>{phone}, state), 0));
  };
  const std::vector<int32_t> said = {pdf(sil, 0), pdf(sil, 0), pdf(a, 0), pdf(a, 1), pdf(b, 0), pdf(b, 1), pdf(sil, 0)};
  const std::vector<int32_t> never = {pdf(sil, 0), pdf(b, 0),   pdf(b, 1),  pdf(a, 0),
                                      pdf(a, 1),   pdf(sil, 0), pdf(sil, 0)};
  const Matrix y(7, model.num_pdfs());
  EXPECT_LT(LatticeFreeLoss(graph, said, y, {0, 1e-12}, {}).value_or(100), 10);
  EXPECT_FALSE(LatticeFreeLoss(graph, never, y, {0, 1e-2}, {})) << "by leaks alone";
  double sum = 0;
  for (const float p : graph.initial()) sum += static_cast<double>(p);
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(DenominatorGraph, ComesBackFromItsFileAndRefusesOtherModels) {
  const hmm::HmmModel model = TwoPhones();
  const DenominatorGraph graph = DenominatorGraph::Build(model, {{1, 2, 3, 1}, {1, 3, 1}}, {});
  const testing::TemporaryFolder folder;
  graph.Save(folder / "den.safetensors", model);
  const DenominatorGraph again = DenominatorGraph::Load(folder / "den.safetensors", model);
  ASSERT_EQ(again.arcs().size(), graph.arcs().size());
  EXPECT_TRUE(std::ranges::equal(again.initial(), graph.initial()));
  const std::vector<int32_t> reference(6, graph.arcs()[0].pdf_id);
  Matrix y(6, model.num_pdfs());
  EXPECT_EQ(LatticeFreeLoss(again, reference, y, {5, 0.1}, {}), LatticeFreeLoss(graph, reference, y, {5, 0.1}, {}));

  const hmm::PhoneSet phones({"A", "B", "C"}, {"SIL"}, false);
  const hmm::Topology topology(phones, {});
  const hmm::HmmModel other(phones, topology, hmm::ContextTree::Monophone(topology));
  EXPECT_THROW(DenominatorGraph::Load(folder / "den.safetensors", other), InputError);
  EXPECT_THROW(DenominatorGraph::Build(model, {}, {}), InputError);
}

}  // namespace
}  // namespace antiphon::decode
