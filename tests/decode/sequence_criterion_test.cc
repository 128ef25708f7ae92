#include "decode/sequence/sequence_criterion.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::decode {
namespace {

constexpr int kNumFrames = 5;
constexpr int kNumPdfs = 4;

// Transition-id i+1 has pdf-id i; the last two pdf-ids are states of one phone.
SequenceCriterion Criterion(const std::string& name, double boost = 0) {
  SequenceCriterionOptions options;
  options.criterion = name;
  options.acoustic_scale = 0.7;
  options.boost = boost;
  TransitionClasses transitions{{-1, 0, 1, 2, 3}, {-1, 0, 1, 2, 3}};
  if (name == "mpfe") transitions.classes = {-1, 0, 1, 2, 2};
  return SequenceCriterion(std::move(transitions), options);
}

LatticeArc Arc(Lattice& lattice, int32_t next, double graph, const std::vector<int32_t>& alignment) {
  return {next, 0, {graph, 0.0}, lattice.AddAlignment(alignment)};
}

const std::vector<int32_t> kSpoken = {1, 1, 2, 3, 4};

// Three states in a row with arcs of several lengths, and an end in two states.
Lattice CriterionLattice() {
  Lattice lattice;
  lattice.states.resize(4);
  lattice.states[0].arcs = {Arc(lattice, 1, 0.3, {1, 1}), Arc(lattice, 1, 1.1, {2, 2}),
                            Arc(lattice, 2, 0.9, {1, 3, 3})};
  lattice.states[1].arcs = {Arc(lattice, 2, 0.2, {2}), Arc(lattice, 3, 0.8, {2, 3, 4})};
  lattice.states[2].arcs = {Arc(lattice, 3, 0.1, {3, 4}), Arc(lattice, 3, 0.5, {4, 4})};
  lattice.states[3].is_final = true;
  lattice.states[3].final_cost.graph = 0.4;
  lattice.states[2].is_final = true;
  lattice.states[2].final_alignment = lattice.AddAlignment(std::vector<int32_t>{1, 2});
  lattice.states[2].final_cost.graph = 1.3;
  return lattice;
}

Matrix RandomScores(uint64_t seed) {
  Rng rng(seed);
  Matrix scores(kNumFrames, kNumPdfs);
  for (int64_t i = 0; i < scores.size(); ++i) scores.data()[i] = static_cast<float>(rng.Normal());
  return scores;
}

struct Path {
  std::vector<int32_t> alignment;
  double graph = 0;
};

std::vector<Path> EveryPath(const Lattice& lattice) {
  std::vector<Path> paths;
  const std::function<void(int32_t, Path)> walk = [&](int32_t s, const Path& before) {
    const auto extended = [&](AlignmentRange range, double graph) {
      Path path = before;
      const auto ids = lattice.Alignment(range);
      path.alignment.insert(path.alignment.end(), ids.begin(), ids.end());
      path.graph += graph;
      return path;
    };
    const LatticeState& state = lattice.states[static_cast<size_t>(s)];
    if (state.is_final) paths.push_back(extended(state.final_alignment, state.final_cost.graph));
    for (const LatticeArc& arc : state.arcs) walk(arc.next_state, extended(arc.alignment, arc.cost.graph));
  };
  walk(0, {});
  return paths;
}

// By the definition, path by path.
double Enumerated(const Lattice& lattice, const Matrix& scores, const std::string& name, double boost) {
  double all = 0, of_reference = 0, right_sum = 0;
  for (const Path& path : EveryPath(lattice)) {
    double log_weight = -path.graph, right = 0;
    for (int t = 0; t < kNumFrames; ++t) {
      const int32_t id = path.alignment[static_cast<size_t>(t)], wanted = kSpoken[static_cast<size_t>(t)];
      log_weight += 0.7 * static_cast<double>(scores(t, id - 1));
      right += id == wanted || (name == "mpfe" && id >= 3 && wanted >= 3) ? 1 : 0;
    }
    const double weight = std::exp(log_weight - (name == "mmi" ? boost * right : 0));
    all += weight;
    right_sum += weight * right;
    if (path.alignment == kSpoken) of_reference += weight;
  }
  return name == "mmi" ? -std::log(of_reference / all) : kNumFrames - right_sum / all;
}

class SequenceCriteria : public ::testing::TestWithParam<std::string> {};

TEST_P(SequenceCriteria, IsThatOfAllPathsEnumerated) {
  const Lattice lattice = CriterionLattice();
  ASSERT_EQ(EveryPath(lattice).size(), 11U);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Matrix scores = RandomScores(seed);
    const double boost = GetParam() == "mmi" ? 0.1 * static_cast<double>(seed) : 0;
    EXPECT_NEAR(Criterion(GetParam(), boost).Loss(lattice, kSpoken, scores, {}),
                Enumerated(lattice, scores, GetParam(), boost), 1e-9);
  }
}

TEST_P(SequenceCriteria, HasTheGradientOfFiniteDifferences) {
  const Lattice lattice = CriterionLattice();
  const SequenceCriterion criterion = Criterion(GetParam(), 0.3);
  Matrix scores = RandomScores(7);
  Matrix gradient(kNumFrames, kNumPdfs);
  criterion.Loss(lattice, kSpoken, scores, gradient);
  constexpr float kStep = 1.0f / 256;
  for (int t = 0; t < kNumFrames; ++t) {
    double sum = 0;
    for (int k = 0; k < kNumPdfs; ++k) {
      const float at = scores(t, k);
      scores(t, k) = at + kStep;
      const double above = criterion.Loss(lattice, kSpoken, scores, {});
      scores(t, k) = at - kStep;
      const double below = criterion.Loss(lattice, kSpoken, scores, {});
      scores(t, k) = at;
      EXPECT_NEAR(gradient(t, k), (above - below) / (2.0 * static_cast<double>(kStep)), 1e-4) << t << " " << k;
      sum += static_cast<double>(gradient(t, k));
    }
    EXPECT_NEAR(sum, 0, 1e-6) << "frame " << t;
  }
}

TEST_P(SequenceCriteria, IsNothingIfTheReferenceIsAlone) {
  Lattice lattice;
  AddReference(kSpoken, {3.0, 0.0}, &lattice);
  Matrix gradient(kNumFrames, kNumPdfs);
  EXPECT_NEAR(Criterion(GetParam()).Loss(lattice, kSpoken, RandomScores(1), gradient), 0, 1e-12);
  for (int64_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient.data()[i], 0, 1e-7);
}

TEST_P(SequenceCriteria, DoesNotHeedWhatAllScoresOfAFrameShare) {
  Matrix scores = RandomScores(3);
  const double before = Criterion(GetParam()).Loss(CriterionLattice(), kSpoken, scores, {});
  for (int k = 0; k < kNumPdfs; ++k) scores(2, k) += 5;
  EXPECT_NEAR(Criterion(GetParam()).Loss(CriterionLattice(), kSpoken, scores, {}), before, 1e-6);
}

TEST_P(SequenceCriteria, RefusesWhatDoesNotBelongTogether) {
  const SequenceCriterion criterion = Criterion(GetParam());
  const Matrix scores = RandomScores(3);
  EXPECT_THROW(criterion.Loss(CriterionLattice(), std::vector<int32_t>{1, 1, 2}, scores, {}), InputError);
  EXPECT_THROW(criterion.Loss(CriterionLattice(), kSpoken, scores.view().Rows(0, 4), {}), InputError);
  EXPECT_THROW(criterion.Loss(CriterionLattice(), std::vector<int32_t>{1, 1, 2, 3, 9}, scores, {}), InputError);
  EXPECT_THROW(criterion.Loss({}, kSpoken, scores, {}), InputError);
}

INSTANTIATE_TEST_SUITE_P(All, SequenceCriteria, ::testing::Values("mmi", "smbr", "mpfe"));

TEST(SequenceCriterion, MmiIsNeverNegativeAndNeedsTheReference) {
  const std::vector<int32_t> other = {4, 4, 4, 4, 4};
  EXPECT_THROW(Criterion("mmi").Loss(CriterionLattice(), other, RandomScores(1), {}), InputError);
  Lattice lattice = CriterionLattice();
  const size_t arcs = lattice.NumArcs();
  AddReference(other, {2.0, 0.0}, &lattice);
  EXPECT_EQ(lattice.NumArcs(), arcs + 1);
  AddReference(kSpoken, {2.0, 0.0}, &lattice);  // it is there
  EXPECT_EQ(lattice.NumArcs(), arcs + 1);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_GE(Criterion("mmi").Loss(lattice, other, RandomScores(seed), {}), 0);
  }
}

}  // namespace
}  // namespace antiphon::decode
