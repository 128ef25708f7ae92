#include "hmm/tree_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "hmm/questions.h"

namespace antiphon::hmm {
namespace {

// Phones A … F with silence; the left neighbour moves a phone's frames, neighbours A and B alike, C and D alike.
class TreeBuilderTest : public ::testing::Test {
 protected:
  TreeBuilderTest() : phones_({"A", "B", "C", "D", "E", "F"}, {"SIL"}, false), topology_(phones_, TopologyOptions{}) {
    Rng rng(7);
    for (int32_t left = 0; left <= phones_.num_phones(); ++left) {
      for (int32_t centre = 1; centre <= phones_.num_phones(); ++centre) {
        if (phones_.Find("F") == centre) continue;  // never seen
        for (int c = 0; c < topology_.NumPdfClasses(centre); ++c) {
          for (int n = 0; n < 60; ++n) {
            std::vector<float> frame(4);
            for (float& v : frame) v = static_cast<float>(rng.Normal());
            frame[0] += static_cast<float>(3 * centre);
            frame[1] += phones_.IsSilence(centre) ? 0.0f : Shift(left);
            frame[2] += static_cast<float>(c);
            stats_[{{left, centre, 1 + n % 3}, c}].Accumulate(frame);
          }
        }
      }
    }
    questions_ = FindQuestions(stats_, phones_);
  }

  float Shift(int32_t left) const {
    if (left == phones_.Find("A") || left == phones_.Find("B")) return 4;
    if (left == phones_.Find("C") || left == phones_.Find("D")) return -4;
    return 0;
  }

  PhoneSet phones_;
  Topology topology_;
  TreeStats stats_;
  std::vector<std::vector<int32_t>> questions_;
};

TEST_F(TreeBuilderTest, AccountsForEveryGain) {
  TreeOptions options;
  options.num_leaves = 60;
  options.min_frames = 30;
  TreeReport report;
  const ContextTree tree = BuildTree(stats_, phones_, topology_, questions_, options, &report);
  EXPECT_GT(report.gain, 0);
  EXPECT_GE(report.tying_loss, 0);
  EXPECT_NEAR(report.final_log_likelihood, report.initial_log_likelihood + report.gain - report.tying_loss,
              1e-6 * std::abs(report.initial_log_likelihood));
  EXPECT_EQ(tree.num_pdfs(), report.num_leaves);
  EXPECT_LE(report.num_leaves, 60);
}

TEST_F(TreeBuilderTest, GivesEveryContextALeaf) {
  TreeOptions options;
  options.num_leaves = 80;
  options.min_frames = 30;
  const ContextTree tree = BuildTree(stats_, phones_, topology_, questions_, options);
  std::set<int32_t> used;
  for (int32_t left = 0; left <= phones_.num_phones(); ++left) {
    for (int32_t centre = 1; centre <= phones_.num_phones(); ++centre) {
      for (int32_t right = 0; right <= phones_.num_phones(); ++right) {
        for (int c = 0; c < topology_.NumPdfClasses(centre); ++c) {
          const int32_t window[] = {left, centre, right};
          const int32_t pdf = tree.Pdf(window, c);
          ASSERT_GE(pdf, 0);
          ASSERT_LT(pdf, tree.num_pdfs());
          used.insert(pdf);
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int>(used.size()), tree.num_pdfs());
}

TEST_F(TreeBuilderTest, FindsTheNeighboursThatMatter) {
  TreeOptions options;
  options.num_leaves = 1000;
  options.min_frames = 30;
  options.tie_leaves = true;
  const ContextTree tree = BuildTree(stats_, phones_, topology_, questions_, options);
  const int32_t e = phones_.Find("E");
  auto pdf = [&](const char* left) {
    const int32_t window[] = {phones_.Find(left), e, 1};
    return tree.Pdf(window, 0);
  };
  EXPECT_NE(pdf("A"), pdf("C"));
  EXPECT_NE(pdf("A"), pdf("E"));
  EXPECT_NE(pdf("C"), pdf("E"));
}

TEST_F(TreeBuilderTest, NeverSeparatesIdenticalContexts) {
  TreeStats same;
  GaussianStats gaussian;
  for (int n = 0; n < 200; ++n) {
    const float frame[] = {static_cast<float>(n % 7), static_cast<float>(n % 5)};
    gaussian.Accumulate(frame);
  }
  for (const auto& [context, stats] : stats_) same[context] = gaussian;
  TreeOptions options;
  options.num_leaves = 100000;
  TreeReport report;
  BuildTree(same, phones_, topology_, questions_, options, &report);
  EXPECT_EQ(report.num_splits, 0);
  EXPECT_EQ(report.gain, 0);
}

TEST_F(TreeBuilderTest, IsTheSameEveryTime) {
  TreeOptions options;
  options.num_leaves = 70;
  options.min_frames = 30;
  EXPECT_EQ(BuildTree(stats_, phones_, topology_, questions_, options),
            BuildTree(stats_, phones_, topology_, questions_, options));
}

TEST_F(TreeBuilderTest, SaysThatThereIsTooLittleSpeech) {
  TreeOptions options;
  options.min_frames = 1e8;
  EXPECT_THROW(BuildTree(stats_, phones_, topology_, questions_, options), InputError);
  EXPECT_THROW(BuildTree({}, phones_, topology_, questions_, TreeOptions{}), InputError);
}

TEST_F(TreeBuilderTest, AsksAboutClustersOfAlikePhones) {
  auto sorted_ids = [&](std::initializer_list<const char*> names) {
    std::vector<int32_t> ids;
    for (const char* name : names) ids.push_back(phones_.Find(name));
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  EXPECT_TRUE(std::is_sorted(questions_.begin(), questions_.end()));
  for (const char* name : {"A", "B", "C", "D", "E", "F", "SIL"}) {
    EXPECT_TRUE(std::binary_search(questions_.begin(), questions_.end(), sorted_ids({name}))) << name;
  }
  // Frames lie on a line in the order of the ids, so that neighbours are clustered.
  EXPECT_TRUE(std::binary_search(questions_.begin(), questions_.end(), sorted_ids({"A", "B"})) ||
              std::binary_search(questions_.begin(), questions_.end(), sorted_ids({"B", "C"})));
}

}  // namespace
}  // namespace antiphon::hmm
