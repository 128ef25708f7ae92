#include "chain/numerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "toy_chain.h"

namespace antiphon::chain {
namespace {

using ::testing::HasSubstr;

// A walk of the denominator: where it begins, then −1 for staying or the phone that is entered.
using Walk = std::vector<int32_t>;

// All walks that the reference allows in the chunk: every way to place its boundaries, cut to the chunk, from every
// state in which the reference may be there.
std::set<Walk> WalksOf(const ChainData& data, const Reference& reference, const ChunkTimes& chunk,
                       const NumeratorOptions& options) {
  const int shift = chunk.first_frame % options.step, first = chunk.first_frame / options.step;
  const int outputs = NumOutputs(reference.num_frames(), shift, options.step);
  const ContextPdfs pdfs(data.model);
  const auto n = reference.phones.size();
  const auto phone = [&](int64_t i) { return i < 0 ? 0 : reference.phones[static_cast<size_t>(i)]; };
  std::set<Walk> walks;
  std::vector<int> begins(n + 1, 0);  // output of each phone's beginning
  begins[n] = outputs;
  const std::function<void(size_t)> place = [&](size_t i) {
    if (i == n) {
      Walk steps;
      int64_t inside = -1;  // index of the phone before the chunk, or in its first output if that stays
      for (int u = first; u < first + chunk.num_outputs; ++u) {
        int64_t at = 0;
        while (begins[static_cast<size_t>(at) + 1] <= u) ++at;
        const bool enters = begins[static_cast<size_t>(at)] == u;
        if (u == first) inside = enters ? at - 1 : at;
        steps.push_back(enters ? phone(at) : -1);
      }
      for (const int32_t state :
           data.denominator.StatesOf(phone(inside), pdfs.Loop(phone(inside - 1), phone(inside)))) {
        Walk walk = {state};
        walk.insert(walk.end(), steps.begin(), steps.end());
        walks.insert(walk);
      }
      return;
    }
    for (int u = begins[i - 1] + 1; u < outputs; ++u) {
      const int boundary = reference.ends[i - 1];
      // The boundary lies between outputs u − 1 and u; it may move by the tolerance.
      const int earliest = OutputBehind(boundary - options.tolerance, shift, options.step);
      const int latest = OutputBehind(boundary + options.tolerance, shift, options.step);
      if (u < earliest || u > latest) continue;
      begins[i] = u;
      place(i + 1);
    }
  };
  place(1);
  return walks;
}

double SumOf(const ChainData& data, const std::set<Walk>& walks, const testing::Score& score) {
  double sum = 0;
  for (const Walk& walk : walks) {
    int32_t state = walk[0];
    double weight = static_cast<double>(data.denominator.states()[static_cast<size_t>(state)].initial);
    for (size_t k = 1; k < walk.size() && weight > 0; ++k) {
      const auto t = static_cast<int>(k) - 1;
      if (walk[k] < 0) {
        weight *= std::exp(score(t, data.denominator.states()[static_cast<size_t>(state)].loop_pdf));
        continue;
      }
      const auto* arc = data.denominator.Entering(state, walk[k]);
      weight *= arc == nullptr ? 0.0 : static_cast<double>(arc->probability) * std::exp(score(t, arc->pdf_id));
      if (arc != nullptr) state = arc->to;
    }
    sum += weight;
  }
  return sum;
}

struct Case {
  size_t utterance;
  ChunkTimes chunk;
};
std::vector<Case> AllChunks(const ChainData& data) {
  std::vector<Case> cases;
  for (size_t u = 0; u < data.references.size(); ++u) {
    const int frames = data.references[u].num_frames();
    for (int first = 0; first < frames; ++first) {
      const int most = NumOutputs(frames - first, 0, data.step);
      for (const int outputs : {1, 2, 5, most}) {
        if (outputs <= most) cases.push_back({u, {first, outputs}});
      }
    }
  }
  return cases;
}

TEST(Numerator, IsTheSumOverAllPlacesOfTheBoundaries) {
  const ChainData data = testing::ToyData();
  const ContextPdfs pdfs(data.model);
  size_t possible = 0;
  for (const int tolerance : {0, 2, 5}) {
    const NumeratorOptions options{tolerance, 3};
    for (const Case& c : AllChunks(data)) {
      const Reference& reference = data.references[c.utterance];
      const Matrix y = testing::RandomOutputs(c.chunk.num_outputs, data.model.num_pdfs(), 2.0, 17);
      const testing::Score score = [&](int t, int32_t pdf) { return static_cast<double>(y(t, pdf)); };
      const Numerator numerator(data.denominator, pdfs, reference, c.chunk, options);
      const double expected = SumOf(data, WalksOf(data, reference, c.chunk, options), score);
      ASSERT_EQ(numerator.problem().empty(), expected > 0) << numerator.problem();
      if (expected == 0) continue;
      ++possible;
      std::vector<Occupancy> occupancies;
      ASSERT_NEAR(numerator.ForwardBackward(score, &occupancies), std::log(expected), 1e-6)
          << data.references.Id(c.utterance) << " " << c.chunk.first_frame << " " << c.chunk.num_outputs;
    }
  }
  EXPECT_GT(possible, 500U);
}

TEST(Numerator, OccupanciesAreTheDerivatives) {
  const ChainData data = testing::ToyData();
  const ContextPdfs pdfs(data.model);
  const NumeratorOptions options{5, 3};
  for (const ChunkTimes chunk : {ChunkTimes{0, 6}, {7, 8}, {11, 5}}) {
    const Reference& reference = data.references[3];
    const Matrix y = testing::RandomOutputs(chunk.num_outputs, data.model.num_pdfs(), 2.0, 3);
    const Numerator numerator(data.denominator, pdfs, reference, chunk, options);
    ASSERT_EQ(numerator.problem(), "");
    std::vector<Occupancy> occupancies, scratch;
    numerator.ForwardBackward([&](int t, int32_t pdf) { return static_cast<double>(y(t, pdf)); }, &occupancies);
    Matrix dense(y.rows(), y.cols());
    std::set<std::pair<int32_t, int32_t>> seen;
    for (const Occupancy& o : occupancies) {
      EXPECT_TRUE(seen.emplace(o.output, o.pdf_id).second) << "twice";
      dense(o.output, o.pdf_id) = o.value;
    }
    for (int64_t t = 0; t < y.rows(); ++t) {
      for (int32_t pdf = 0; pdf < data.model.num_pdfs(); ++pdf) {
        const auto at = [&](double change) {
          return numerator.ForwardBackward(
              [&](int u, int32_t p) { return static_cast<double>(y(u, p)) + (u == t && p == pdf ? change : 0.0); },
              &scratch);
        };
        EXPECT_NEAR(dense(t, pdf), (at(1e-4) - at(-1e-4)) / 2e-4, 1e-6);
      }
    }
  }
}

TEST(Numerator, IsNeverMoreThanTheDenominator) {
  // References full of repetitions, among which a walk may stand for several places: each counts once.
  ChainData data = testing::ToyData();
  std::map<std::string, Reference> references;
  references["a"] = testing::TimedReference({2, 2, 2, 4}, 0);
  references["b"] = testing::TimedReference({2, 2, 2, 3, 3, 1}, 3);
  references["c"] = testing::TimedReference({1}, 1);
  data.references = References(std::move(references));
  const ContextPdfs pdfs(data.model);
  for (const Case& c : AllChunks(data)) {
    if (c.chunk.num_outputs > 5) continue;
    const Matrix y = testing::RandomOutputs(c.chunk.num_outputs, data.model.num_pdfs(), 4.0, 23);
    const testing::Score score = [&](int t, int32_t pdf) { return static_cast<double>(y(t, pdf)); };
    const Numerator numerator(data.denominator, pdfs, data.references[c.utterance], c.chunk, {30, 3});
    ASSERT_EQ(numerator.problem(), "");
    std::vector<Occupancy> occupancies;
    EXPECT_LE(numerator.ForwardBackward(score, &occupancies),
              testing::DenominatorByEnumeration(data.denominator, c.chunk.num_outputs, 0.0, score) + 1e-9);
  }
}

// Where the initial probability has come to 0 so far from the beginning, a chunk has paths, but of weight 0.
TEST(Numerator, NeedsAPathThatIsPossible) {
  ChainData data = testing::ToyData();
  std::vector<DenominatorGraph::State> states(data.denominator.states().begin(), data.denominator.states().end());
  for (size_t s = 1; s < states.size(); ++s) states[s].initial = 0;
  const auto arcs = data.denominator.arcs();
  data.denominator = DenominatorGraph(std::move(states), {arcs.begin(), arcs.end()}, data.model.num_pdfs());
  const ContextPdfs pdfs(data.model);
  const Reference reference = testing::TimedReference({1, 2, 3, 4, 1}, 0);
  EXPECT_EQ(Numerator(data.denominator, pdfs, reference, {0, 5}, {}).problem(), "");
  EXPECT_THAT(Numerator(data.denominator, pdfs, reference, {12, 5}, {}).problem(), HasSubstr("where it begins"));
}

TEST(Numerator, SaysWhatIsWrong) {
  const ChainData data = testing::ToyData();
  const ContextPdfs pdfs(data.model);
  const auto problem = [&](const Reference& reference, const ChunkTimes& chunk) {
    return Numerator(data.denominator, pdfs, reference, chunk, {}).problem();
  };
  const Reference one = testing::TimedReference({1, 2, 3, 4, 1}, 0);
  EXPECT_EQ(problem(one, {0, 3}), "");
  EXPECT_THAT(problem(one, {0, 1000}), HasSubstr("do not lie in its 30 frames"));
  EXPECT_THAT(problem(one, {28, 2}), HasSubstr("do not lie"));
  EXPECT_EQ(problem(one, {28, 1}), "");
  EXPECT_THAT(problem(one, {-1, 2}), HasSubstr("do not lie"));
  EXPECT_THAT(problem(one, {0, 0}), HasSubstr("do not lie"));
  EXPECT_THAT(problem({}, {0, 1}), HasSubstr("do not lie in its 0 frames"));
  EXPECT_THAT(problem({{1, 2, 3, 4, 1}, {1, 2, 3, 4, 5}}, {0, 1}), HasSubstr("too close together"));
  // 4 behind 4 was never said.
  EXPECT_THAT(problem(testing::TimedReference({1, 4, 4, 1}, 0), {0, 6}), HasSubstr("as nowhere"));
}

}  // namespace
}  // namespace antiphon::chain
