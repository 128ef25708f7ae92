#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "hmm/hmm_model.h"

namespace antiphon::hmm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Of phone 2, entering asks whether the left phone is 1, staying whether it is 3; phone 1 and 3 ask nothing.
HmmModel Model() {
  const PhoneSet phones({"A", "B"}, {"SIL"}, false);
  const auto leaf = [](int32_t pdf) {
    TreeNode node;
    node.pdf_id = pdf;
    return node;
  };
  const auto question = [](int32_t phone, int32_t yes) {
    TreeNode node;
    node.phones = {phone};
    node.yes = yes;
    node.no = yes + 1;
    return node;
  };
  std::vector<TreeNode> nodes = {leaf(0), leaf(1), question(1, 6), question(3, 8), leaf(6),
                                 leaf(7), leaf(2), leaf(3),        leaf(4),        leaf(5)};
  return {phones, Topology::Chain(phones), ContextTree(2, nodes, {{}, {0, 1}, {2, 3}, {4, 5}})};
}

TEST(ChainTopology, HasATransitionStateForEachPairThatAContextGives) {
  const HmmModel model = Model();
  EXPECT_TRUE(model.topology().IsChain());
  EXPECT_THAT(model.tree().PdfPairsOf(1, 0, 1), ElementsAre(Pair(0, 1)));
  // No left phone is 1 and 3 at once.
  EXPECT_THAT(model.tree().PdfPairsOf(2, 0, 1), ElementsAre(Pair(2, 5), Pair(3, 4), Pair(3, 5)));
  EXPECT_THAT(model.tree().PdfsOf(2, 1), ElementsAre(4, 5));
  EXPECT_EQ(model.transitions().num_transition_states(), 5);
  EXPECT_EQ(model.num_pdfs(), 8);
}

TEST(ChainTopology, EmitsOtherwiseWhenEnteringThanWhenStaying) {
  const HmmModel model = Model();
  const TransitionModel& transitions = model.transitions();
  const int32_t windows[][2] = {{1, 2}, {3, 2}, {0, 2}, {2, 2}};
  const int32_t pdfs[][2] = {{2, 5}, {3, 4}, {3, 5}, {3, 5}};
  for (size_t i = 0; i < 4; ++i) {
    const int32_t state = model.TransitionState(windows[i], 0);
    const int32_t loop = transitions.SelfLoopOf(state);
    ASSERT_NE(loop, 0);
    EXPECT_EQ(transitions.EntryPdf(state), pdfs[i][0]);
    EXPECT_EQ(transitions.Pdf(loop), pdfs[i][1]);
    for (int t = 0; t < transitions.NumTransitions(state); ++t) {
      const int32_t id = transitions.TransitionId(state, t);
      EXPECT_EQ(transitions.Pdf(id), transitions.IsSelfLoop(id) ? pdfs[i][1] : pdfs[i][0]);
      EXPECT_NE(transitions.IsSelfLoop(id), transitions.IsFinal(id));
    }
  }
}

TEST(ChainTopology, IsKeptInTheDescription) {
  const HmmModel model = Model();
  EXPECT_EQ(HmmModel::FromJson(model.ToJson()), model);
  // Programs that know only the first format must not take it for theirs.
  EXPECT_THAT(model.ToJson(), HasSubstr("antiphon-hmm-2"));
  const Topology usual(model.phones(), {});
  EXPECT_THAT(HmmModel(model.phones(), usual, ContextTree::Monophone(usual)).ToJson(), HasSubstr("antiphon-hmm-1"));
  EXPECT_FALSE(usual.IsChain());
}

TEST(ChainTopology, RefusesAClassForStayingWhereNothingStays) {
  EXPECT_THROW(Topology({{{0, {{1, 1.0F}}, 1}, {}}}, {-1, 0}), InputError);
}

}  // namespace
}  // namespace antiphon::hmm
