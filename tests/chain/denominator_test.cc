#include "chain/denominator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "temporary_folder.h"
#include "toy_chain.h"

namespace antiphon::chain {
namespace {

using Pdfs = std::vector<int32_t>;
using Weights = std::map<Pdfs, double>;

// Weights of all walks of so many outputs from the beginning, by their pdf-ids: as the graph says.
Weights ByGraph(const DenominatorGraph& graph, size_t outputs) {
  Weights weights;
  const std::function<void(int32_t, Pdfs, double)> walk = [&](int32_t state, Pdfs pdfs, double weight) {
    if (pdfs.size() == outputs) {
      weights[pdfs] += weight;
      return;
    }
    const auto go = [&](int32_t to, int32_t pdf, double factor) {
      Pdfs more = pdfs;
      more.push_back(pdf);
      walk(to, more, weight * factor);
    };
    const int32_t loop = graph.states()[static_cast<size_t>(state)].loop_pdf;
    if (loop >= 0) go(state, loop, 1.0);
    for (const DenominatorGraph::Arc& a : graph.ArcsFrom(state)) go(a.to, a.pdf_id, a.probability);
  };
  walk(0, {}, 1.0);
  return weights;
}

// … and as n-grams, tree and topology define it.
Weights ByDefinition(const hmm::HmmModel& model, const hmm::PhoneNgrams& lm, size_t outputs) {
  Weights weights;
  const std::function<void(size_t, std::vector<int32_t>, Pdfs, double)> walk =
      [&](size_t state, std::vector<int32_t> phones, Pdfs pdfs, double weight) {
        if (pdfs.size() == outputs) {
          weights[pdfs] += weight;
          return;
        }
        const auto window = [&](const std::vector<int32_t>& said) {
          return std::vector<int32_t>{said.size() > 1 ? said[said.size() - 2] : 0, said.back()};
        };
        if (!phones.empty()) {
          Pdfs more = pdfs;
          more.push_back(model.tree().Pdf(window(phones), 1));
          walk(state, phones, more, weight);
        }
        for (const hmm::PhoneNgrams::Arc& arc : lm.states[state].arcs) {
          std::vector<int32_t> said = phones;
          said.push_back(arc.phone);
          Pdfs more = pdfs;
          more.push_back(model.tree().Pdf(window(said), 0));
          walk(static_cast<size_t>(arc.to), said, more, weight * arc.probability);
        }
      };
  walk(0, {}, {}, 1.0);
  return weights;
}

TEST(Denominator, SaysWhatNgramsTreeAndTopologySay) {
  const hmm::HmmModel model = testing::ToyModel();
  for (const hmm::PhoneNgramOptions options : {hmm::PhoneNgramOptions{2, 0}, {3, 0}, {4, 3}, {4, 1000}}) {
    const hmm::PhoneNgrams lm = hmm::EstimatePhoneNgrams(testing::ToySequences(), options);
    const auto graph = DenominatorGraph::Build(model, lm);
    const Weights expected = ByDefinition(model, lm, 6), found = ByGraph(graph, 6);
    ASSERT_EQ(found.size(), expected.size());
    for (auto x = expected.begin(), y = found.begin(); x != expected.end(); ++x, ++y) {
      ASSERT_EQ(x->first, y->first);
      ASSERT_NEAR(x->second, y->second, 1e-6);
    }
  }
}

TEST(Denominator, MakesStatesWithEqualFuturesOne) {
  // Behind 2 and behind 3, said at the beginning, everything goes on alike, but for what 4's context tells apart.
  const hmm::HmmModel model = testing::ToyModel();
  const std::vector<std::vector<int32_t>> sequences = {{2, 1, 4, 1}, {3, 1, 4, 1}};
  const hmm::PhoneNgrams lm = hmm::EstimatePhoneNgrams(sequences, {4, 1000});
  const auto graph = DenominatorGraph::Build(model, lm);
  EXPECT_EQ(lm.states.size(), 8U);
  // Beginning; 2; 3; 1 behind either; 4; 1 at the end.
  EXPECT_EQ(graph.states().size(), 6U);
  double sum = 0;
  for (const auto& state : graph.states()) sum += static_cast<double>(state.initial);
  EXPECT_NEAR(sum, 1.0, 1e-6);
}

TEST(Denominator, BeginsWhereAWalkIsOnAverage) {
  // One phone, said once: it stays with half of what does not end, and an end is shared out among the rest.
  const hmm::HmmModel model = testing::ToyModel();
  const std::vector<std::vector<int32_t>> sequences = {{2}};
  const auto graph = DenominatorGraph::Build(model, hmm::EstimatePhoneNgrams(sequences, {4, 0}));
  ASSERT_EQ(graph.states().size(), 2U);
  EXPECT_NEAR(graph.states()[0].initial, 0.01, 1e-6);
  EXPECT_NEAR(graph.states()[1].initial, 0.99, 1e-6);
  // Two phones in turn for ever: of 1, which goes on to 2 for sure, one frame in two goes on; of 2 as well.
  std::vector<int32_t> turns;
  for (int i = 0; i < 20000; ++i) turns.push_back(1 + i % 2);
  const std::vector<std::vector<int32_t>> long_one = {turns};
  const auto both = DenominatorGraph::Build(model, hmm::EstimatePhoneNgrams(long_one, {2, 0}));
  double phone_1 = 0;
  for (const auto& state : both.states()) phone_1 += state.phone == 1 ? static_cast<double>(state.initial) : 0.0;
  EXPECT_NEAR(phone_1, 0.5, 0.01);
}

TEST(Denominator, ComesBackFromItsFile) {
  const ChainData data = testing::ToyData();
  const antiphon::testing::TemporaryFolder folder;
  data.denominator.Save(folder.path() / "den", data.model);
  const auto graph = DenominatorGraph::Load(folder.path() / "den", data.model);
  EXPECT_TRUE(std::ranges::equal(graph.states(), data.denominator.states()));
  EXPECT_TRUE(std::ranges::equal(graph.arcs(), data.denominator.arcs()));
  const hmm::HmmModel other(data.model.phones(), data.model.topology(),
                            hmm::ContextTree::Monophone(data.model.topology()));
  EXPECT_THROW(DenominatorGraph::Load(folder.path() / "den", other), InputError);
  const hmm::Topology usual(data.model.phones(), {});
  EXPECT_THROW(
      DenominatorGraph::Load(folder.path() / "den", {data.model.phones(), usual, hmm::ContextTree::Monophone(usual)}),
      InputError);
}

}  // namespace
}  // namespace antiphon::chain
